"""A provider that will not take its own reasoning back: the turn goes on without it, and the loss is told once (story 1; C4, C5)."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.emulator import serve
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Thought, Use, Words
from tests.providers.crossing.test_ten_handoffs import ASKED, SCRIPT, TIMES, team
from tests.providers.failures.wires import Line, answers, attempts, events_of, line, shown

REPLIES: list[Any] = [
    [Thought("one"), Words("One.")],
    [Thought("two"), Words("Two.")],
    [Thought("three"), Words("Three.")],
    [Thought("four"), Words("Four.")],
]


def one(model: Any) -> Workflow:
    return HandoffBuilder("one", [Agent("thinker", instructions="You think.", model=model)]).build()


def reasoning(exchange: Exchange) -> int:
    """How much reasoning a request sends back."""
    if exchange.api == "anthropic":
        return sum(block["type"] == "thinking" for message in exchange.request["messages"] for block in message["content"])
    return sum(item.get("type") == "reasoning" for item in exchange.request["input"])


async def reseeded(wire: Line, mind: Any, seed: int) -> Line:
    """The same address, where the provider can no longer read what it sealed before."""
    port = int(wire.emulator.url.rpartition(":")[2])
    await wire.close()
    wire.emulator.stop()
    return Line(serve(mind=mind, seed=seed, port=port).start(), wire.stream)


@pytest.mark.parametrize("name", ["responses inline", "anthropic"])
async def test_the_same_turn_goes_again_without_and_what_is_made_afterwards_goes_back_again(name: str, stream: bool) -> None:
    async with line(stream, REPLIES, seed=1) as before:
        session = one(before.model(name)).session("s")
        await session.run("Hello")
        wire = await reseeded(before, REPLIES, 2)
        session = one(wire.model(name)).session("s", store=session.store)
        try:
            events = await events_of(session.run("Go on", stream=True))
            assert shown(events) == ["Two."]  # nothing is shown twice, and nothing is withdrawn
            assert not [event for event in events if event.type in ("model_failed", "output_reset")]
            for words in ("Three.", "Four."):
                assert (await session.run("Go on")).text == words
            assert attempts(session) == []
            exchanges = await wire.exchanges()
            assert [(exchange.status, reasoning(exchange)) for exchange in exchanges] == [(400, 1), (200, 0), (200, 1), (200, 2)]
            assert session.losses == ["reasoning of thinker: the provider would not take it back"]
        finally:
            await wire.close()
            wire.emulator.stop()


async def test_reasoning_of_another_account_is_left_out(stream: bool) -> None:
    async with line(stream, REPLIES) as wire:
        session = one(wire.model("responses inline")).session("s")
        await session.run("Hello")
        session = one(wire.model("responses inline", key="sk-of-somebody-else")).session("s", store=session.store)
        assert (await session.run("Go on")).text == "Two."
        assert (await session.run("Go on")).text == "Three."
        assert session.losses == ["reasoning of thinker: the provider would not take it back"]
        await wire.check(session, refusals=1)


async def test_a_provider_that_refuses_it_twice_is_not_asked_a_third_time(stream: bool) -> None:
    """Else every one of ten handoffs and back would cost a refused request, and tell the same loss again."""
    async with line(stream, SCRIPT, switches={"responses.blobs_need_ids": True}) as wire:
        session = team(wire.model("responses inline")).session("s")
        assert (await session.run(ASKED)).error == ""
        assert len(answers(session)) == 3 * TIMES + 1
        await wire.check(session, refusals=2)
        assert [reasoning(exchange) for exchange in await wire.exchanges()][4:] == [0] * (3 * TIMES - 1)
        assert session.losses == [f"reasoning of {agent}: the provider would not take it back" for agent in ("coordinator", "researcher")]


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure"])
async def test_reasoning_that_has_to_go_by_value_and_is_refused_is_left_out_in_the_same_turn(name: str, stream: bool) -> None:
    """The provider forgot the chain, so all goes by value; it cannot read its reasoning either, so that goes without."""
    async with line(stream, REPLIES, seed=1) as before:
        session = one(before.model(name)).session("s")
        await session.run("Hello")
        wire = await reseeded(before, REPLIES, 2)
        session = one(wire.model(name)).session("s", store=session.store)
        try:
            assert (await session.run("Go on")).text == "Two."
            assert [exchange.status for exchange in await wire.exchanges()][-3:] in ([400, 400, 200], [404, 400, 200])
            assert (await session.run("Go on")).text == "Three."
            assert (await wire.exchanges())[-1].status == 200
            assert session.losses == ["reasoning of thinker: the provider would not take it back"]
            assert attempts(session) == []
            if name != "responses conversation":
                first, second = answers(session)[-2:]
                assert second.base == first.response_id  # and the chain holds again from there
        finally:
            await wire.close()
            wire.emulator.stop()


async def test_reasoning_that_was_cut_off_before_anything_followed_it_is_not_sent_and_that_is_told(stream: bool) -> None:
    replies = {"Hello": [Thought("Hm, let me see.")], "Go on": [Thought("So."), Words("Fine.")], "And?": [Words("Yes.")]}
    async with line(stream, lambda prompt: replies[prompt.said]) as wire:
        wire.emulator.fault("incomplete")
        session = one(wire.model("responses inline")).session("s")
        await session.run("Hello")
        await session.run("Go on")
        assert [len(fact.items) for fact in answers(session)] == [1, 2]
        assert session.losses == ["reasoning of thinker: nothing followed it, and the provider takes none that stands last"]
        assert await wire.refused() == []
        await session.run("And?")
        assert len(session.losses) == 1
        assert [reasoning(exchange) for exchange in await wire.exchanges()] == [0, 0, 1]


async def test_a_call_survives_the_reasoning_that_led_to_it(stream: bool) -> None:
    """Without reasoning, a call and its output still stand together in the request."""
    async with line(stream, SCRIPT, switches={"responses.blobs_need_ids": True}) as wire:
        session = team(wire.model("responses inline")).session("s")
        await session.run(ASKED)
        last = (await wire.exchanges())[-1].request["input"]
        calls = [item["call_id"] for item in last if item.get("type") == "function_call"]
        assert [item["call_id"] for item in last if item.get("type") == "function_call_output"] == calls
        assert len(calls) == sum(isinstance(item, Use) for reply in SCRIPT for item in reply)
