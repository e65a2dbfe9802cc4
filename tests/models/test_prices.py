"""What replies cost: the provider's usage, to the token, times a price that users may override."""

from __future__ import annotations

from legato import Agent
from legato.emulator import serve
from legato.models import OpenAIChat, OpenAIResponses, Price


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

