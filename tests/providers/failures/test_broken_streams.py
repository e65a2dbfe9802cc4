"""A stream that breaks leaves an attempt and no words; the retry is legal; what was shown is withdrawn first (story 38; D1, C6).

Every stream is broken at every one of its events: in the middle of words, of arguments, between items, before the first and the last.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import Call, Words
from legato.emulator.minds.base import Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.runtime.events import Event
from tests.providers.failures.wires import WIRES, Line, answers, attempts, conversations, events_of, line, shown

FIRST, LAST = "I look both up now.", "Two teapots."
ORDERS = ("A-17 of the blue shelf", "B-2")
EACH_API = ("responses inline", "chat", "anthropic")
"""Their streams are broken at every event; those of the others, which are the same streams, at every third."""

MIND: list[Any] = [
    [Thought("Two orders."), Told(FIRST), *(Use("look_up", json.dumps({"order": order})) for order in ORDERS)],
    [Thought("Both found."), Told(LAST)],
    "You are welcome.",
]


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def desk(model: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", instructions="You look orders up.", model=model, tools=[look_up])]).build()


async def whole_events(wire: Line, name: str) -> int:
    """How many events the first reply has."""
    await desk(wire.model(name)).session("undisturbed").run("Where are A-17 and B-2?")
    return (await wire.exchanges())[0].events


def check_record(session: Session, conversation: bool) -> None:
    """One attempt, no words of it, and one whole reply."""
    (attempt,) = attempts(session)
    assert (attempt.number, attempt.final, attempt.agent) == (1, False, "clerk")
    first, last = answers(session)
    assert [item.text for item in first.items if isinstance(item, Words)] == [FIRST]
    assert [json.loads(item.arguments)["order"] for item in first.items if isinstance(item, Call)] == list(ORDERS)
    assert [item.text for item in last.items if isinstance(item, Words)] == [LAST]
    assert [message.text for message in session.messages] == ["Where are A-17 and B-2?", FIRST, LAST]
    asked = conversations(session)
    assert len(asked) == (3 if conversation else 0)
    if conversation:
        assert asked[0] not in asked[1:]  # nobody knows what it holds
        assert asked[1] == asked[2]


def check_shown(events: list[Event]) -> bool:
    """Whoever streams has each message once; what came of the broken attempt was withdrawn, before anything came again.

    True if there was anything to withdraw.
    """
    assert shown(events) == [FIRST, LAST]
    failures = [index for index, event in enumerate(events) if event.type == "model_failed"]
    resets = [index for index, event in enumerate(events) if event.type == "output_reset"]
    pieces = [index for index, event in enumerate(events) if event.type == "output" and event.data.delta]
    assert len(failures) == 1
    before = [index for index in pieces if index < failures[0]]
    assert {events[index].data.attempt for index in before} <= {1}
    assert len(resets) == (1 if before else 0)
    again = [index for index in pieces if index > failures[0]]
    assert events[again[0]].data.attempt == 2
    assert all(before[-1] < reset < again[0] for reset in resets)
    return bool(before)


async def broken(wire: Line, name: str, faults: list[str]) -> list[bool]:
    """A conversation for each fault, which strikes at its first reply. Whether anything had been shown before it did."""
    model = wire.model(name)
    sessions: list[Session] = []
    withdrawn: list[bool] = []
    for number, fault in enumerate(faults):
        session = desk(model).session(f"broken {number}")
        wire.emulator.fault(fault)
        events = await events_of(session.run("Where are A-17 and B-2?", stream=True))
        check_record(session, name == "responses conversation")
        withdrawn.append(check_shown(events))
        sessions.append(session)
    await wire.check(*sessions)
    return withdrawn


def check_places(withdrawn: list[bool]) -> None:
    """It broke before the first word was shown, and after it, and once after, always after."""
    assert withdrawn == sorted(withdrawn)
    assert {*withdrawn} == {False, True}


@pytest.mark.parametrize("name", WIRES)
async def test_a_connection_that_breaks_before_any_of_the_events_leaves_an_attempt_and_the_retry_is_whole(name: str, at_once: None) -> None:
    async with line(True, MIND) as wire:
        total = await whole_events(wire, name)
        step = 1 if name in EACH_API else 3
        check_places(await broken(wire, name, [f"cut event={event}" for event in range(0, total, step)]))


@pytest.mark.parametrize(
    ("name", "form"),
    [("responses inline", "nested"), ("responses inline", "flat"), ("responses conversation", "nested"), ("chat", ""), ("anthropic", "")],
)
async def test_an_error_event_after_any_of_the_events_leaves_an_attempt_and_the_retry_is_whole(name: str, form: str, at_once: None) -> None:
    async with line(True, MIND) as wire:
        total = await whole_events(wire, name)
        faults = [f"error_event after={event} {f'form={form}' if form else ''}" for event in range(0, total, 3)]
        check_places(await broken(wire, name, faults))


@pytest.mark.parametrize("name", WIRES)
async def test_a_connection_that_breaks_within_an_event_leaves_an_attempt_and_the_retry_is_whole(name: str, at_once: None) -> None:
    async with line(True, MIND) as wire:
        await broken(wire, name, [f"cut byte={byte}" for byte in (0, 1, 40, 333, 1500, 2600)])


@pytest.mark.parametrize("name", WIRES)
async def test_an_answer_in_one_piece_that_breaks_off_leaves_an_attempt_and_the_retry_is_whole(name: str, at_once: None) -> None:
    async with line(False, MIND) as wire:
        assert set(await broken(wire, name, [f"cut byte={byte}" for byte in (0, 1, 200, 600)])) == {False}


@pytest.mark.parametrize("name", WIRES)
async def test_a_stream_that_breaks_in_a_later_turn_breaks_nothing_that_was_said_before(name: str, at_once: None) -> None:
    async with line(True, MIND) as wire:
        session = desk(wire.model(name)).session("s")
        await session.run("Where are A-17 and B-2?")
        for fault in ("cut event=2", "cut event=4", "error_event after=3"):
            wire.emulator.fault(fault)
        result = await session.run("Thank you!")
        assert (result.status, result.text, len(attempts(session))) == ("waiting", "You are welcome.", 3)
        assert [attempt.number for attempt in attempts(session)] == [1, 2, 3]
        await wire.check(session)


# -- what the error is about -------------------------------------------------------------------------------------------------

PASSES = ["server_error", "rate_limit", "overloaded", "timeout"]
STAYS = ["quota", "context_length", "content_filter"]


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure", "chat", "chat compatible", "anthropic"])
async def test_an_error_within_a_stream_is_tried_again_if_it_may_pass_and_pauses_if_not(name: str, at_once: None) -> None:
    async with line(True, MIND) as wire:
        model = wire.model(name)
        sessions = []
        for kind in (*PASSES, *STAYS):
            session = desk(model).session(kind)
            wire.emulator.fault(f"error_event after=9 kind={kind}")
            events = await events_of(session.run("Where are A-17 and B-2?", stream=True))
            (attempt,) = attempts(session)
            assert (kind, attempt.final, session.status) == (kind, kind in STAYS, "failed" if kind in STAYS else "waiting")
            if kind in STAYS:
                assert shown(events) == []  # what had been shown is withdrawn, also where nothing comes after it
                assert session.error
                await session.resume()
            assert session.messages[-1].text == LAST
            sessions.append(session)
        await wire.check(*sessions)
