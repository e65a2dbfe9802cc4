"""The cost of replies: the provider's usage, to the token, times a price that users may override."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Limits, Usage, Workflow
from legato.core.codec import decode_fact, encode_fact
from legato.core.facts import MAX_COUNT, ModelReplied
from legato.core.view import ModelRequest
from legato.emulator import serve
from legato.emulator.model_catalogue import KNOWN_MODELS
from legato.errors import BadInput, BuildError
from legato.models import Anthropic, AzureOpenAIResponses, FallbackModel, OpenAIChat, OpenAIResponses, Price
from legato.models.model import Emit, ModelReply
from legato.models.prices import compute_cost, compute_published_cost
from legato.testing import ScriptedModel
from tests.models.fake_providers import ScriptedProvider


async def test_session_cost_is_usage_times_price() -> None:
    async with serve() as emulator:
        model = OpenAIResponses("gpt-4.1", base_url=emulator.openai_url, api_key="any", prices={"gpt-4.1": Price(3.0, 7.0, cached=1.0)})
        agent = Agent("a", model=model)
        session = agent._as_workflow().session("s")
        for message in ("Hello", "And again"):
            await session.run(message)
        usages = [exchange.reply_body["usage"] for exchange in emulator.exchanges if exchange.reply_body]
        await model.close()
    assert session.usage.input == sum(usage["input_tokens"] for usage in usages)
    assert session.usage.output == sum(usage["output_tokens"] for usage in usages)
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    assert session.usage.cost == (session.usage.input - cached) * 3000 + cached * 1000 + session.usage.output * 7000


async def test_usage_of_a_late_refusal_is_counted() -> None:
    """The provider read its own reasoning before it refused it, and the request was sent again without it."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
    }
    refusal = {"code": "invalid_encrypted_content", "message": "The encrypted content could not be verified."}
    provider = ScriptedProvider(
        {"id": "r1", "status": "completed", "output": [thought, message], "usage": {"input_tokens": 1, "output_tokens": 1}},
        {"id": "r2", "status": "failed", "error": refusal, "output": [], "usage": {"input_tokens": 50, "output_tokens": 0}},
        {"id": "r3", "status": "completed", "output": [message], "usage": {"input_tokens": 7, "output_tokens": 2}},
    )
    session = Agent("a", model=provider.make_responses_model(prices={"gpt-5": Price(1.0, 10.0)}))._as_workflow().session("s")
    await session.run("Hello")
    await session.run("And again")
    assert [any(item.get("type") == "reasoning" for item in request["input"]) for request in provider.requests] == [False, True, False]
    replies = [fact.usage for fact in session.facts if isinstance(fact, ModelReplied)]
    assert [(usage.input, usage.output, usage.cost) for usage in replies] == [(1, 1, 11_000), (57, 2, 77_000)]


async def test_unknown_price_is_recorded_as_unknown() -> None:
    async with serve() as emulator:
        model = OpenAIChat("gpt-9-unheard-of", base_url=emulator.openai_url, api_key="any")
        session = Agent("a", model=model)._as_workflow().session("s")
        result = await session.run("Hello")
        await model.close()
    (reply,) = (fact for fact in session.facts if isinstance(fact, ModelReplied))
    assert (reply.usage.cost, result.usage.cost, result.usage.dollars) == (None, None, None)
    assert result.usage.unpriced_tokens == result.usage.total > 0
    assert b"cost" not in encode_fact(reply)


async def test_free_model_is_recorded_with_cost_zero() -> None:
    async with serve() as emulator:
        model = OpenAIChat("gpt-9-unheard-of", base_url=emulator.openai_url, api_key="any", prices={"gpt-9-unheard-of": Price(0, 0)})
        session = Agent("a", model=model)._as_workflow().session("s")
        await session.run("Hello")
        await model.close()
    (reply,) = (fact for fact in session.facts if isinstance(fact, ModelReplied))
    assert (reply.usage.cost, session.usage.dollars, session.usage.unpriced_tokens) == (0, 0, 0)
    assert decode_fact(encode_fact(reply)) == reply


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
def test_sum_counts_unpriced_tokens_separately(parts: list[Usage], total: Usage) -> None:
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
    cost = compute_published_cost(usage, model, "anthropic" if model.startswith("claude") else "openai")
    assert cost == (None if dollars is None else round(dollars * 10**9))


def test_models_of_the_emulator_have_published_prices() -> None:
    lacking = {model.name for model in KNOWN_MODELS if compute_published_cost(Usage(1000), model.reply_name, model.vendor) is None}
    assert lacking <= {"claude-mythos-5", "claude-mythos-5-1"}, "these have none in genai-prices"


@pytest.mark.parametrize(
    ("provider", "address", "is_known"),
    [
        ("openai", "https://gateway.example/v1", True),
        ("", "https://gateway.example/v1", False),
        ("", "https://api.openai.com/v1", True),
        ("openai", "https://api.mistral.ai/v1", False),
        ("azure", "https://desk.openai.azure.com/openai/v1", True),
    ],
    ids=["gateway", "compatible server", "OpenAI by its address", "another provider", "Azure"],
)
def test_address_says_whose_prices_hold(provider: str, address: str, is_known: bool) -> None:
    assert (compute_published_cost(Usage(1000), "gpt-5.1", provider, address) is not None) is is_known


def test_without_the_price_package_prices_are_unknown() -> None:
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from legato.core.facts import Usage\n"
        "from legato.models.prices import compute_published_cost\n"
        "print(compute_published_cost(Usage(1000), 'gpt-5.1', 'openai'))"
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
    """A user's own model may report no cost with its reply."""

    class Unpriced(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
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
def test_cached_tokens_have_their_own_prices(usage: Usage, dollars: float) -> None:
    assert compute_cost(usage, Price(2.0, 10.0, cached=0.2, written=2.5)) == round(dollars * 10**9)


def test_long_request_costs_double_input_price() -> None:
    """Input beyond `long` tokens doubles the price of all input, and output costs one and a half times as much."""
    price = Price(2.0, 10.0, long=272_000)
    assert compute_cost(Usage(input=272_000, output=1000), price) == round((0.272 * 2 + 0.001 * 10) * 10**9)
    assert compute_cost(Usage(input=272_001, output=1000), price) == round((0.272001 * 4 + 0.001 * 15) * 10**9)


async def test_cache_writes_of_anthropic_are_counted() -> None:
    async with serve() as emulator:
        model = Anthropic("claude-sonnet-5", base_url=emulator.url, api_key="any")
        session = Agent("a", instructions="Be brief. " * 300, model=model)._as_workflow().session("s")
        for message in ("Hello", "And again"):
            await session.run(message)
        usages = [exchange.reply_body["usage"] for exchange in emulator.exchanges if exchange.reply_body]
        await model.close()
    wrote, read = (sum(usage[f"cache_{name}_input_tokens"] for usage in usages) for name in ("creation", "read"))
    fresh, output = (sum(usage[f"{name}_tokens"] for usage in usages) for name in ("input", "output"))
    assert (session.usage.written, session.usage.cached) == (wrote, read)
    assert session.usage.input == fresh + wrote + read
    assert session.usage.cost == fresh * 2000 + wrote * 2500 + read * 200 + output * 10_000


@pytest.mark.parametrize(
    "arguments",
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
def test_wrong_price_is_refused_when_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"dollars per million tokens|number of tokens"):
        Price(**arguments)


def test_cost_beyond_what_can_be_recorded_is_bounded() -> None:
    assert compute_cost(Usage(input=MAX_COUNT, output=MAX_COUNT), Price(1_000_000, 1_000_000)) == MAX_COUNT
    assert compute_published_cost(Usage(input=MAX_COUNT, output=MAX_COUNT), "gpt-4o", "openai") == MAX_COUNT
