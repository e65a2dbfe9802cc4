"""A provider that refuses its own reasoning: the turn continues without it, and the loss is reported once (story 1; C4, C5)."""

from __future__ import annotations

from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.emulator import serve
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.providers.cross_provider.test_ten_handoffs import HANDOFF_COUNT, SCRIPT, TASK, make_team
from tests.providers.failures.emulator_harness import (
    EmulatorHarness,
    collect_events,
    collect_shown_messages,
    find_failed_requests,
    find_replies,
    run_emulator,
)

REPLIES: list[Any] = [
    [ReplyThought("one"), ReplyText("One.")],
    [ReplyThought("two"), ReplyText("Two.")],
    [ReplyThought("three"), ReplyText("Three.")],
    [ReplyThought("four"), ReplyText("Four.")],
]


def make_thinker(model: Any) -> Workflow:
    return HandoffBuilder("one", [Agent("thinker", instructions="You think.", model=model)]).build()


def count_reasoning(exchange: Exchange) -> int:
    """Count the reasoning items that a request replays."""
    if exchange.api == "anthropic":
        return sum(block["type"] == "thinking" for message in exchange.request_body["messages"] for block in message["content"])
    return sum(item.get("type") == "reasoning" for item in exchange.request_body["input"])


async def restart_with_seed(harness: EmulatorHarness, fake_model: Any, seed: int) -> EmulatorHarness:
    """Restart the emulator at the same address with another seed: it can no longer read earlier encrypted reasoning."""
    port = int(harness.emulator.url.rpartition(":")[2])
    await harness.close()
    harness.emulator.stop()
    return EmulatorHarness(serve(fake_model=fake_model, seed=seed, port=port).start(), harness.stream)


@pytest.mark.parametrize("name", ["responses inline", "anthropic"])
async def test_refused_reasoning_is_omitted_within_the_turn(name: str, stream: bool) -> None:
    """Reasoning that is made afterwards is replayed again."""
    async with run_emulator(stream, REPLIES, seed=1) as before:
        session = make_thinker(before.make_model(name)).session("s")
        await session.run("Hello")
        harness = await restart_with_seed(before, REPLIES, 2)
        session = make_thinker(harness.make_model(name)).session("s", store=session.store)
        try:
            events = await collect_events(session.run("Go on", stream=True))
            assert collect_shown_messages(events) == ["Two."]  # nothing is shown twice or retracted
            assert not [event for event in events if event.type in ("model_failed", "output_reset")]
            for words in ("Three.", "Four."):
                assert (await session.run("Go on")).text == words
            assert find_failed_requests(session) == []
            exchanges = await harness.read_exchanges()
            assert [(exchange.status, count_reasoning(exchange)) for exchange in exchanges] == [(400, 1), (200, 0), (200, 1), (200, 2)]
            assert session.losses == ["reasoning of thinker: the provider refused it"]
        finally:
            await harness.close()
            harness.emulator.stop()


async def test_reasoning_of_another_account_is_omitted(stream: bool) -> None:
    async with run_emulator(stream, REPLIES) as harness:
        session = make_thinker(harness.make_model("responses inline")).session("s")
        await session.run("Hello")
        session = make_thinker(harness.make_model("responses inline", key="sk-of-somebody-else")).session("s", store=session.store)
        assert (await session.run("Go on")).text == "Two."
        assert (await session.run("Go on")).text == "Three."
        assert session.losses == ["reasoning of thinker: the provider refused it"]
        await harness.check_sessions(session, refusals=1)


async def test_reasoning_refused_twice_is_never_replayed(stream: bool) -> None:
    """Otherwise each of the ten handoffs would cost a refused request, and report the same loss again."""
    async with run_emulator(stream, SCRIPT, switches={"responses.blobs_need_ids": True}) as harness:
        session = make_team(harness.make_model("responses inline")).session("s")
        assert (await session.run(TASK)).error == ""
        assert len(find_replies(session)) == 3 * HANDOFF_COUNT + 1
        await harness.check_sessions(session, refusals=2)
        assert [count_reasoning(exchange) for exchange in await harness.read_exchanges()][4:] == [0] * (3 * HANDOFF_COUNT - 1)
        assert session.losses == [f"reasoning of {agent}: the provider refused it" for agent in ("coordinator", "researcher")]


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure"])
async def test_lost_chain_and_refused_reasoning_take_one_turn(name: str, stream: bool) -> None:
    """The provider lost the chain, so history is sent by value; it cannot read its reasoning, so that is left out."""
    async with run_emulator(stream, REPLIES, seed=1) as before:
        session = make_thinker(before.make_model(name)).session("s")
        await session.run("Hello")
        harness = await restart_with_seed(before, REPLIES, 2)
        session = make_thinker(harness.make_model(name)).session("s", store=session.store)
        try:
            assert (await session.run("Go on")).text == "Two."
            assert [exchange.status for exchange in await harness.read_exchanges()][-3:] in ([400, 400, 200], [404, 400, 200])
            assert (await session.run("Go on")).text == "Three."
            assert (await harness.read_exchanges())[-1].status == 200
            assert session.losses == ["reasoning of thinker: the provider refused it"]
            assert find_failed_requests(session) == []
            if name != "responses conversation":
                first, second = find_replies(session)[-2:]
                assert second.base == first.response_id  # the chain continues from there
        finally:
            await harness.close()
            harness.emulator.stop()


async def test_trailing_reasoning_is_omitted_and_reported(stream: bool) -> None:
    replies = {"Hello": [ReplyThought("Hm, let me see.")], "Go on": [ReplyThought("So."), ReplyText("Fine.")], "And?": [ReplyText("Yes.")]}
    async with run_emulator(stream, lambda prompt: replies[prompt.last_user_text]) as harness:
        harness.emulator.fault("incomplete")
        session = make_thinker(harness.make_model("responses inline")).session("s")
        await session.run("Hello")
        await session.run("Go on")
        assert [len(fact.items) for fact in find_replies(session)] == [1, 2]
        assert session.losses == ["reasoning of thinker: nothing follows it, and the provider refuses trailing reasoning"]
        assert await harness.find_refusals() == []
        await session.run("And?")
        assert len(session.losses) == 1
        assert [count_reasoning(exchange) for exchange in await harness.read_exchanges()] == [0, 0, 1]


async def test_call_is_sent_without_its_refused_reasoning(stream: bool) -> None:
    """Without reasoning, a call and its output are still both in the request."""
    async with run_emulator(stream, SCRIPT, switches={"responses.blobs_need_ids": True}) as harness:
        session = make_team(harness.make_model("responses inline")).session("s")
        await session.run(TASK)
        last = (await harness.read_exchanges())[-1].request_body["input"]
        calls = [item["call_id"] for item in last if item.get("type") == "function_call"]
        assert [item["call_id"] for item in last if item.get("type") == "function_call_output"] == calls
        assert len(calls) == sum(isinstance(item, ReplyCall) for reply in SCRIPT for item in reply)
