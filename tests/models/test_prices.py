"""What replies cost: the provider's usage, to the token, times a price that users may override."""

from __future__ import annotations

import pytest

from legato import Agent, Usage
from legato.emulator import serve
from legato.models import Anthropic, OpenAIChat, OpenAIResponses, Price
from legato.models.prices import priced


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


async def test_a_model_of_unknown_price_costs_nothing() -> None:
    async with serve() as emulator:
        model = OpenAIChat("gpt-9-unheard-of", base_url=emulator.openai_url, api_key="any")
        result = await Agent("a", model=model).run("Hello")
        await model.close()
    assert (result.usage.cost, result.usage.output > 0) == (0, True)



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
    assert priced(usage, Price(2.0, 10.0, cached=0.2, written=2.5)).cost == round(dollars * 10**9)


def test_a_long_request_costs_twice_as_much_for_what_it_sends_and_half_as_much_again_for_what_it_gets() -> None:
    price = Price(2.0, 10.0, long=272_000)
    assert priced(Usage(input=272_000, output=1000), price).cost == round((0.272 * 2 + 0.001 * 10) * 10**9)
    assert priced(Usage(input=272_001, output=1000), price).cost == round((0.272001 * 4 + 0.001 * 15) * 10**9)


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
