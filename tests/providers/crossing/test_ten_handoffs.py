"""A coordinator and a researcher hand over and back ten times, with reasoning and calls in every reply (stories 1, 2 and 44; C1-C5).

Whoever keeps the conversation, the same one is heard by both, whole; nothing that the provider does not provably hold is named.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import Reasoning
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Thought, Use, Words
from legato.stores.contract import Store
from tests.providers.failures.wires import WIRES, Line, answers, body_text, line

TIMES = 10
ASKED = "Find out all there is to know about teapots, from every century, and write it down for my grandmother."

SCRIPT: list[Any] = []
for _round in range(TIMES):
    SCRIPT.append([Thought(f"plan {_round}"), Use("note", json.dumps({"what": f"round {_round}"})), Use("handoff_to_researcher")])
    SCRIPT.append([Thought(f"search {_round}"), Words(f"Looking, {_round}."), Use("search", json.dumps({"query": f"teapots {_round}"}))])
    SCRIPT.append([Thought(f"back {_round}"), Use("handoff_to_coordinator", '{"reason": "found it"}')])
SCRIPT.append([Thought("done"), Words("Here is all about teapots.")])

ITEM_ID = re.compile(r"\b(rs|fc|msg|ws)_[0-9a-f]{20,}")


@tool
def note(what: str) -> str:
    """Write something down."""
    return f"noted: {what}"


@tool
def search(query: str) -> str:
    """Search the library."""
    return f"a book about {query}"


def team(model: Any) -> Workflow:
    coordinator = Agent("coordinator", instructions="You plan, and hand to the researcher.", model=model, tools=[note])
    researcher = Agent("researcher", instructions="You search, and hand back.", model=model, tools=[search])
    builder = HandoffBuilder("team", [coordinator, researcher]).with_start_agent(coordinator)
    return builder.add_handoff(coordinator, [researcher]).add_handoff(researcher, [coordinator]).build()


async def ten_times(wire: Line, name: str, store: Store | None = None) -> Session:
    session = team(wire.model(name)).session("s", store=store)
    result = await session.run(ASKED)
    assert (result.error, result.text) == ("", "Here is all about teapots.")
    assert len(answers(session)) == 3 * TIMES + 1
    return session


@pytest.mark.parametrize("name", WIRES)
async def test_whoever_takes_over_hears_the_whole_conversation_and_nothing_is_refused(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, SCRIPT) as wire:
        session = await ten_times(wire, name, store)
        await wire.check(session)
        assert len(await wire.exchanges()) == 3 * TIMES + 1
        raw, numbers = await wire.raw()
        for fact in answers(session):
            assert raw.heard(numbers[fact.response_id]).count(("user", ASKED)) == 1
        for exchange in await wire.exchanges():
            assert ITEM_ID.findall(body_text(exchange)) == []


# -- inline: nothing is stored, reasoning goes by value -------------------------------------------------------------------


def reasoning(exchange: Exchange) -> list[dict[str, Any]]:
    return [item for item in exchange.request["input"] if item.get("type") == "reasoning"]


async def test_reasoning_goes_back_by_value_to_whoever_takes_over_on_the_same_model(stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = await ten_times(wire, "responses inline")
        made: list[str] = []
        for exchange, fact in zip(await wire.exchanges(), answers(session), strict=True):
            assert exchange.request["store"] is False
            assert not exchange.request.keys() & {"previous_response_id", "conversation"}
            assert [item["encrypted_content"] for item in reasoning(exchange)] == made
            assert all("id" not in item for item in reasoning(exchange))
            made += [item.encrypted for item in fact.items if isinstance(item, Reasoning)]
        assert len(made) == 3 * TIMES + 1
        assert session.losses == []


async def test_reasoning_that_is_not_to_be_replayed_is_not_sent() -> None:
    async with line(True, SCRIPT) as wire:
        session = team(wire.model("responses inline", replay_reasoning=False)).session("s")
        await session.run(ASKED)
        assert [reasoning(exchange) for exchange in await wire.exchanges()] == [[]] * (3 * TIMES + 1)
        await wire.check(session)


# -- chained: what the provider holds is not sent again, and no call in it is left open ---------------------------------------


async def test_a_request_is_chained_on_the_reply_before_it_and_answers_each_of_its_calls(stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = await ten_times(wire, "responses chained")
        first, *later = exchanges = await wire.exchanges()
        assert "previous_response_id" not in first.request
        assert first.request["input"] == [{"role": "user", "content": ASKED}]
        for before, exchange in zip(exchanges, later, strict=False):
            assert before.reply is not None
            assert exchange.request["previous_response_id"] == before.reply["id"]
            open_calls = [item["call_id"] for item in before.reply["output"] if item["type"] == "function_call"]
            assert [(item["type"], item["call_id"]) for item in exchange.request["input"]] == [
                ("function_call_output", call) for call in open_calls
            ]
        assert session.losses == []  # the provider holds its reasoning


async def test_a_conversation_of_the_providers_is_used_by_both_agents_for_what_is_new(stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = await ten_times(wire, "responses conversation")
        exchanges = await wire.exchanges()
        assert len({exchange.request["conversation"] for exchange in exchanges}) == 1
        assert {item["type"] for exchange in exchanges[1:] for item in exchange.request["input"]} == {"function_call_output"}
        assert session.losses == []


# -- Anthropic: thinking is bound to what stood before it ---------------------------------------------------------------------


async def test_bound_thinking_is_left_out_where_a_handoff_changed_the_frame_and_goes_again_on_the_way_back(stream: bool) -> None:
    """A handoff changes `system` and `tools`: the other's thinking is left out by law, and one's own fits again."""
    async with line(stream, SCRIPT) as wire:
        session = await ten_times(wire, "anthropic")
        thought_by: dict[str, list[str]] = {"coordinator": [], "researcher": []}
        for exchange, fact in zip(await wire.exchanges(), answers(session), strict=True):
            blocks = [block for message in exchange.request["messages"] for block in message["content"]]
            assert [block["thinking"] for block in blocks if block["type"] == "thinking"] == thought_by[fact.agent]
            thought_by[fact.agent] += [item.text for item in fact.items if isinstance(item, Reasoning)]
        assert sorted(loss.partition(":")[0] for loss in session.losses) == ["reasoning of coordinator", "reasoning of researcher"]
