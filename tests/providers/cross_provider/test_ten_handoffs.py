"""A coordinator and a researcher hand over and back ten times, with reasoning and calls in every reply (stories 1, 2 and 44; C1-C5).

In every memory mode both agents get the same whole conversation, and requests name only history that the provider confirmed to store.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import Reasoning
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import FORMATS, EmulatorHarness, find_replies, format_body, run_emulator

HANDOFF_COUNT = 10
TASK = "Find out all there is to know about teapots, from every century, and write it down for my grandmother."

SCRIPT: list[Any] = []
for _round in range(HANDOFF_COUNT):
    SCRIPT.append(
        [ReplyThought(f"plan {_round}"), ReplyCall("note", json.dumps({"what": f"round {_round}"})), ReplyCall("handoff_to_researcher")]
    )
    SCRIPT.append(
        [
            ReplyThought(f"search {_round}"),
            ReplyText(f"Looking, {_round}."),
            ReplyCall("search", json.dumps({"query": f"teapots {_round}"})),
        ]
    )
    SCRIPT.append([ReplyThought(f"back {_round}"), ReplyCall("handoff_to_coordinator", '{"reason": "found it"}')])
SCRIPT.append([ReplyThought("done"), ReplyText("Here is all about teapots.")])

ITEM_ID = re.compile(r"\b(rs|fc|msg|ws)_[0-9a-f]{20,}")


@tool
def note(what: str) -> str:
    """Write something down."""
    return f"noted: {what}"


@tool
def search(query: str) -> str:
    """Search the library."""
    return f"a book about {query}"


def make_team(model: Any) -> Workflow:
    coordinator = Agent("coordinator", instructions="You plan, and hand to the researcher.", model=model, tools=[note])
    researcher = Agent("researcher", instructions="You search, and hand back.", model=model, tools=[search])
    builder = HandoffBuilder("team", [coordinator, researcher]).with_start_agent(coordinator)
    return builder.add_handoff(coordinator, [researcher]).add_handoff(researcher, [coordinator]).build()


async def ten_times(harness: EmulatorHarness, name: str, store: Store | None = None) -> Session:
    session = make_team(harness.make_model(name)).session("s", store=store)
    result = await session.run(TASK)
    assert (result.error, result.text) == ("", "Here is all about teapots.")
    assert len(find_replies(session)) == 3 * HANDOFF_COUNT + 1
    return session


@pytest.mark.parametrize("name", FORMATS)
async def test_both_agents_get_the_whole_conversation(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT) as harness:
        session = await ten_times(harness, name, store)
        await harness.check_sessions(session)
        assert len(await harness.read_exchanges()) == 3 * HANDOFF_COUNT + 1
        raw, numbers = await harness.read_traffic()
        for fact in find_replies(session):
            assert raw.read_contents(numbers[fact.response_id]).count(("user", TASK)) == 1
        for exchange in await harness.read_exchanges():
            assert ITEM_ID.findall(format_body(exchange)) == []


# -- inline: nothing is stored, reasoning is sent by value -------------------------------------------------------------


def reasoning(exchange: Exchange) -> list[dict[str, Any]]:
    return [item for item in exchange.request_body["input"] if item.get("type") == "reasoning"]


async def test_reasoning_is_replayed_to_the_same_model(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = await ten_times(harness, "responses inline")
        sealed: list[str] = []
        for exchange, fact in zip(await harness.read_exchanges(), find_replies(session), strict=True):
            assert exchange.request_body["store"] is False
            assert not exchange.request_body.keys() & {"previous_response_id", "conversation"}
            assert [item["encrypted_content"] for item in reasoning(exchange)] == sealed
            assert all("id" not in item for item in reasoning(exchange))
            sealed += [item.encrypted for item in fact.items if isinstance(item, Reasoning)]
        assert len(sealed) == 3 * HANDOFF_COUNT + 1
        assert session.losses == []


async def test_reasoning_is_not_sent_if_replay_is_off() -> None:
    async with run_emulator(True, SCRIPT) as harness:
        session = make_team(harness.make_model("responses inline", replay_reasoning=False)).session("s")
        await session.run(TASK)
        assert [reasoning(exchange) for exchange in await harness.read_exchanges()] == [[]] * (3 * HANDOFF_COUNT + 1)
        await harness.check_sessions(session)


# -- chained: stored history is not sent again, and no stored call is left open -----------------------------------------


async def test_chained_requests_continue_the_previous_reply(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = await ten_times(harness, "responses chained")
        first, *later = exchanges = await harness.read_exchanges()
        assert "previous_response_id" not in first.request_body
        assert first.request_body["input"] == [{"role": "user", "content": TASK}]
        for before, exchange in zip(exchanges, later, strict=False):
            assert before.reply_body is not None
            assert exchange.request_body["previous_response_id"] == before.reply_body["id"]
            open_calls = [item["call_id"] for item in before.reply_body["output"] if item["type"] == "function_call"]
            assert [(item["type"], item["call_id"]) for item in exchange.request_body["input"]] == [
                ("function_call_output", call) for call in open_calls
            ]
        assert session.losses == []  # the provider stores its reasoning


async def test_both_agents_use_one_provider_conversation(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = await ten_times(harness, "responses conversation")
        exchanges = await harness.read_exchanges()
        assert len({exchange.request_body["conversation"] for exchange in exchanges}) == 1
        assert {item["type"] for exchange in exchanges[1:] for item in exchange.request_body["input"]} == {"function_call_output"}
        assert session.losses == []


# -- Anthropic: thinking is bound to the content before it -------------------------------------------------------------


async def test_bound_thinking_returns_with_its_agent(stream: bool) -> None:
    """A handoff changes `system` and `tools`: the other agent's thinking is left out, and the agent's own thinking fits again."""
    async with run_emulator(stream, SCRIPT) as harness:
        session = await ten_times(harness, "anthropic")
        thought_by: dict[str, list[str]] = {"coordinator": [], "researcher": []}
        for exchange, fact in zip(await harness.read_exchanges(), find_replies(session), strict=True):
            blocks = [block for message in exchange.request_body["messages"] for block in message["content"]]
            assert [block["thinking"] for block in blocks if block["type"] == "thinking"] == thought_by[fact.agent]
            thought_by[fact.agent] += [item.text for item in fact.items if isinstance(item, Reasoning)]
        assert sorted(loss.partition(":")[0] for loss in session.losses) == ["reasoning of coordinator", "reasoning of researcher"]
