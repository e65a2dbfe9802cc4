"""What replies cost: the provider's usage, to the token, times a price that users may override."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Limits, Usage, Workflow
from legato.core.codec import decode, encode
from legato.core.facts import MAX_COUNT, ModelReplied
from legato.core.view import Request
from legato.emulator import serve
from legato.emulator.models import KNOWN
from legato.errors import BadInput, BuildError
from legato.models import Anthropic, AzureOpenAIResponses, FallbackModel, OpenAIChat, OpenAIResponses, Price
from legato.models.base import Emit, Reply
from legato.models.prices import cost_of, published_cost
from legato.testing import ScriptedModel
from tests.models.providers import Provider


async def test_the_cost_of_a_conversation_is_the_providers_usage_times_the_price() -> None:
    async with serve() as emulator:
        model = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any", prices={"gpt-4.1": Price(3.0, 7.0, cached=1.0)})
        agent = Agent("a", model=model)
        session = agent._workflow().session("s")
        for message in ("Hello", "And again"):
            await session.run(message)
        told = [exchange.reply["usage"] for exchange in emulator.exchanges if exchange.reply]
        await model.close()
    assert session.usage.input == sum(usage["input_tokens"] for usage in told)
    assert session.usage.output == sum(usage["output_tokens"] for usage in told)
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in told)
    assert session.usage.cost == (session.usage.input - cached) * 3000 + cached * 1000 + session.usage.output * 7000


async def test_a_try_that_was_refused_late_is_counted_with_the_reply() -> None:
    """The provider read its own reasoning before it refused it, and the same turn went again without."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}
    refusal = {"code": "invalid_encrypted_content", "message": "The encrypted content could not be verified."}
    provider = Provider(
        {"id": "r1", "status": "completed", "output": [thought, said], "usage": {"input_tokens": 1, "output_tokens": 1}},
        {"id": "r2", "status": "failed", "error": refusal, "output": [], "usage": {"input_tokens": 50, "output_tokens": 0}},
        {"id": "r3", "status": "completed", "output": [said], "usage": {"input_tokens": 7, "output_tokens": 2}},
    )
    session = Agent("a", model=provider.responses(prices={"gpt-5": Price(1.0, 10.0)}))._workflow().session("s")
    await session.run("Hello")
    await session.run("And again")
    assert [any(item.get("type") == "reasoning" for item in asked["input"]) for asked in provider.asked] == [False, True, False]
    replies = [fact.usage for fact in session.facts if isinstance(fact, ModelReplied)]
    assert [(usage.input, usage.output, usage.cost) for usage in replies] == [(1, 1, 11_000), (57, 2, 77_000)]


async def test_unknown_price_is_recorded_as_unknown() -> None:
    async with serve() as emulator:
        model = OpenAIChat("gpt-9-unheard-of", base_url=emulator.openai_url, api_key="any")
        session = Agent("a", model=model)._workflow().session("s")
        result = await session.run("Hello")
        await model.close()
    (reply,) = (fact for fact in session.facts if isinstance(fact, ModelReplied))
    assert (reply.usage.cost, result.usage.cost, result.usage.dollars) == (None, None, None)
    assert result.usage.unpriced_tokens == result.usage.total > 0
    assert b"cost" not in encode(reply)


async def test_free_model_is_recorded_with_cost_zero() -> None:
    async with serve() as emulator:
        model = OpenAIChat("gpt-9-unheard-of", base_url=emulator.openai_url, api_key="any", prices={"gpt-9-unheard-of": Price(0, 0)})
        session = Agent("a", model=model)._workflow().session("s")
        await session.run("Hello")
        await model.close()
    (reply,) = (fact for fact in session.facts if isinstance(fact, ModelReplied))
    assert (reply.usage.cost, session.usage.dollars, session.usage.unpriced_tokens) == (0, 0, 0)
    assert decode(encode(reply)) == reply


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([Usage(10, cost=5), Usage(20, 1)], Usage(30, 1, cost=5, unpriced=21)),
        ([Usage(10), Usage(20)], Usage(30)),
        ([Usage(), Usage(20, cost=0)], Usage(20, cost=0)),
        ([Usage(10), Usage(20, cost=0), Usage(5)], Usage(35, cost=0, unpriced=15)),
        ([Usage(MAX_COUNT), Usage(1, cost=MAX_COUNT), Usage(1, cost=1)], Usage(MAX_COUNT, cost=MAX_COUNT, unpriced=MAX_COUNT)),
    ],
    ids=["known and unknown", "unknown", "nothing and free", "unknown and free", "at the bound"],
)
def test_sum_says_how_much_of_it_has_no_price(parts: list[Usage], total: Usage) -> None:
    assert sum(parts, Usage()) == total
    assert sum(reversed(parts), Usage()) == total
    assert msgspec.json.decode(msgspec.json.encode(total), type=Usage) == total


@pytest.mark.parametrize("more", [Usage(7), Usage(7, cost=0), Usage(7, 1, cost=3), Usage(7, 1, cost=3, unpriced=2), Usage()])
@pytest.mark.parametrize("before", [Usage(), Usage(5), Usage(5, cost=2), Usage(5, 9, cost=2, unpriced=3)])
def test_difference_of_sums_keeps_unknown_part(before: Usage, more: Usage) -> None:
    assert (before + more).increase_over(before) == more


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("gpt-5.1-2025-11-13", Usage(1000, 100, cached=400), 0.6 * 0.00125 + 0.4 * 0.000125 + 0.001),
        ("gpt-5.4", Usage(272_000, 1000), 0.272 * 2.5 + 0.001 * 15),
        ("gpt-5.4", Usage(272_001, 1000), 0.272001 * 5 + 0.001 * 22.5),
        ("gpt-5.2", Usage(1_000_000), 1.75),
        ("claude-opus-5", Usage(100_000), 0.5),
        ("claude-mythos-5", Usage(1000), None),
    ],
    ids=["dated", "short", "long", "of the catalogue", "of Anthropic", "unknown"],
)
def test_published_price_follows_the_tokens_of_a_request(model: str, usage: Usage, dollars: float | None) -> None:
    found = published_cost(usage, model, "anthropic" if model.startswith("claude") else "openai")
    assert found == (None if dollars is None else round(dollars * 10**9))


def test_models_of_the_emulator_have_published_prices() -> None:
    lacking = {model.name for model in KNOWN if published_cost(Usage(1000), model.answers_as, model.vendor) is None}
    assert lacking <= {"claude-mythos-5", "claude-mythos-5-1"}, "these have none in genai-prices"


@pytest.mark.parametrize(
    ("provider", "address", "known"),
    [
        ("openai", "https://gateway.example/v1", True),
        ("", "https://gateway.example/v1", False),
        ("", "https://api.openai.com/v1", True),
        ("openai", "https://api.mistral.ai/v1", False),
        ("azure", "https://desk.openai.azure.com/openai/v1", True),
    ],
    ids=["gateway", "compatible server", "OpenAI by its address", "another provider", "Azure"],
)
def test_address_says_whose_prices_hold(provider: str, address: str, known: bool) -> None:
    assert (published_cost(Usage(1000), "gpt-5.1", provider, address) is not None) is known


def test_without_the_price_package_prices_are_unknown() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from legato.core.facts import Usage\n"
        "from legato.models.prices import published_cost\n"
        "print(published_cost(Usage(1000), 'gpt-5.1', 'openai'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_cost_limit_needs_known_prices_when_built() -> None:
    def built(model: object) -> Workflow:
        return HandoffBuilder("desk", [Agent("clerk", model=model)]).with_limits(Limits(cost=1.0)).build()

    unknown = OpenAIResponses("gpt-9-unheard-of", api_key="any")
    with pytest.raises(BuildError, match=r"the price of 'gpt-9-unheard-of', which 'clerk' uses, is not known.*pass prices="):
        built(FallbackModel(OpenAIResponses("gpt-5.1", api_key="any"), unknown))
    with pytest.raises(BuildError, match="which 'helper' uses"):
        HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel([]), tools=[Agent("helper", model=unknown).as_tool()])]).with_limits(
            Limits(cost=1.0)
        ).build()
    assert built(OpenAIResponses("gpt-9-unheard-of", api_key="any", prices={"gpt-9-unheard-of": Price(1, 2)}))
    assert built(AzureOpenAIResponses("our-deployment", endpoint="https://desk.openai.azure.com", api_key="any"))


async def test_cost_limit_pauses_when_a_price_is_unknown() -> None:
    """A model of the user's own tells its price, or does not, with its reply."""

    class Unpriced(ScriptedModel):
        async def reply(self, request: Request, emit: Emit) -> Reply:
            return replace(await super().reply(request, emit), usage=Usage(10, 5))

    model = Unpriced(lambda seen: "So.")
    workflow = HandoffBuilder("desk", [Agent("clerk", model=model)]).with_limits(Limits(cost=1.0)).build()
    session = workflow.session("s")
    assert (await session.run("Hello")).status == "waiting"
    (request,) = (await session.run("And again")).pending
    assert (request.kind, request.limit, len(model.requests)) == ("limit", "cost", 1)
    assert "price of what clerk used is not known" in request.prompt
    await session.approve(request)
    assert (await session.resume()).text == "So."
    assert (await session.run("And again")).status == "waiting", "it was allowed to go on"


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(input=1_000_000), 2.0),
        (Usage(input=1_000_000, cached=1_000_000), 0.2),
        (Usage(input=1_000_000, written=1_000_000), 2.5),
        (Usage(output=1_000_000), 10.0),
        (Usage(input=100_000, cached=40_000, written=20_000, output=1000), 0.04 * 2.0 + 0.04 * 0.2 + 0.02 * 2.5 + 0.001 * 10),
    ],
    ids=["fresh", "read from the cache", "written to the cache", "said", "some of each"],
)
def test_what_goes_through_the_cache_has_a_price_of_its_own(usage: Usage, dollars: float) -> None:
    assert cost_of(usage, Price(2.0, 10.0, cached=0.2, written=2.5)) == round(dollars * 10**9)


def test_a_long_request_costs_twice_as_much_for_what_it_sends_and_half_as_much_again_for_what_it_gets() -> None:
    price = Price(2.0, 10.0, long=272_000)
    assert cost_of(Usage(input=272_000, output=1000), price) == round((0.272 * 2 + 0.001 * 10) * 10**9)
    assert cost_of(Usage(input=272_001, output=1000), price) == round((0.272001 * 4 + 0.001 * 15) * 10**9)


async def test_what_anthropic_writes_to_its_cache_is_counted_and_paid() -> None:
    async with serve() as emulator:
        model = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
        session = Agent("a", instructions="Be brief. " * 300, model=model)._workflow().session("s")
        for message in ("Hello", "And again"):
            await session.run(message)
        told = [exchange.reply["usage"] for exchange in emulator.exchanges if exchange.reply]
        await model.close()
    wrote, read = (sum(usage[f"cache_{name}_input_tokens"] for usage in told) for name in ("creation", "read"))
    fresh, said = (sum(usage[f"{name}_tokens"] for usage in told) for name in ("input", "output"))
    assert (session.usage.written, session.usage.cached) == (wrote, read)
    assert session.usage.input == fresh + wrote + read
    assert session.usage.cost == fresh * 2000 + wrote * 2500 + read * 200 + said * 10_000


@pytest.mark.parametrize(
    "given",
    [
        {"input": -1, "output": 1},
        {"input": float("nan"), "output": 1},
        {"input": 1, "output": float("inf")},
        {"input": 1e7, "output": 1},
        {"input": 1, "output": 1, "cached": -0.1},
        {"input": "1", "output": 1},
        {"input": 1, "output": 1, "long": -1},
    ],
    ids=str,
)
def test_wrong_price_is_refused_when_made(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"dollars per million tokens|number of tokens"):
        Price(**given)


def test_cost_beyond_what_can_be_recorded_is_bounded() -> None:
    assert cost_of(Usage(input=MAX_COUNT, output=MAX_COUNT), Price(1_000_000, 1_000_000)) == MAX_COUNT
    assert published_cost(Usage(input=MAX_COUNT, output=MAX_COUNT), "gpt-4o", "openai") == MAX_COUNT
