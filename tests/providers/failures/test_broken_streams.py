"""A broken stream leaves a failed attempt and no text; shown text is retracted; the retry is legal (story 38; D1, C6).

Every stream is broken at each of its events: within text and arguments, between items, before the first and the last event.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, Workflow, tool
from legato.core.facts import Call, OutputText
from legato.emulator.fake_models.base import ReplyCall, ReplyThought
from legato.emulator.fake_models.base import ReplyText as Told
from legato.runtime.events import Event
from tests.providers.failures.emulator_harness import (
    FORMATS,
    EmulatorHarness,
    collect_events,
    collect_shown_messages,
    find_conversations,
    find_failed_requests,
    find_replies,
    run_emulator,
)

FIRST_TEXT, LAST_TEXT = "I look both up now.", "Two teapots."
ORDERS = ("A-17 of the blue shelf", "B-2")
FULLY_TESTED_FORMATS = ("responses inline", "chat", "anthropic")
"""The formats whose streams are broken at every event. The other formats have the same streams, which are broken at every third event."""

SCRIPT: list[Any] = [
    [ReplyThought("Two orders."), Told(FIRST_TEXT), *(ReplyCall("look_up", json.dumps({"order": order})) for order in ORDERS)],
    [ReplyThought("Both found."), Told(LAST_TEXT)],
    "You are welcome.",
]


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def make_desk(model: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", instructions="You look orders up.", model=model, tools=[look_up])]).build()


async def count_events(harness: EmulatorHarness, name: str) -> int:
    """Count the events of the first reply."""
    await make_desk(harness.make_model(name)).session("undisturbed").run("Where are A-17 and B-2?")
    return (await harness.read_exchanges())[0].event_count


def check_record(session: Session, conversation: bool) -> None:
    """Check that one failed attempt without text and one whole reply are recorded."""
    (attempt,) = find_failed_requests(session)
    assert (attempt.attempt, attempt.final, attempt.agent) == (1, False, "clerk")
    first, last = find_replies(session)
    assert [item.text for item in first.items if isinstance(item, OutputText)] == [FIRST_TEXT]
    assert [json.loads(item.arguments)["order"] for item in first.items if isinstance(item, Call)] == list(ORDERS)
    assert [item.text for item in last.items if isinstance(item, OutputText)] == [LAST_TEXT]
    assert [message.text for message in session.messages] == ["Where are A-17 and B-2?", FIRST_TEXT, LAST_TEXT]
    claimed = find_conversations(session)
    assert len(claimed) == (3 if conversation else 0)
    if conversation:
        assert claimed[0] not in claimed[1:]  # its contents are unknown
        assert claimed[1] == claimed[2]


def check_shown_once(events: list[Event]) -> bool:
    """Check that each message is shown once, and that the broken attempt's text is retracted before the retry's text.

    Returns True if there was text to retract.
    """
    assert collect_shown_messages(events) == [FIRST_TEXT, LAST_TEXT]
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


async def run_with_faults(harness: EmulatorHarness, name: str, faults: list[str]) -> list[bool]:
    """Run a conversation for each fault in its first reply. Returns for each whether text was shown before the fault."""
    model = harness.make_model(name)
    sessions: list[Session] = []
    withdrawn: list[bool] = []
    for number, fault in enumerate(faults):
        session = make_desk(model).session(f"broken {number}")
        harness.emulator.fault(fault)
        events = await collect_events(session.run("Where are A-17 and B-2?", stream=True))
        check_record(session, name == "responses conversation")
        withdrawn.append(check_shown_once(events))
        sessions.append(session)
    await harness.check_sessions(*sessions)
    return withdrawn


def check_both_sides_of_text(withdrawn: list[bool]) -> None:
    """Check that the stream broke both before and after the first text, in order."""
    assert withdrawn == sorted(withdrawn)
    assert {*withdrawn} == {False, True}


@pytest.mark.parametrize("name", FORMATS)
async def test_stream_cut_before_any_event_is_retried(name: str, without_backoff: None) -> None:
    """A failed attempt is recorded, and the retry is whole."""
    async with run_emulator(True, SCRIPT) as harness:
        total = await count_events(harness, name)
        step = 1 if name in FULLY_TESTED_FORMATS else 3
        check_both_sides_of_text(await run_with_faults(harness, name, [f"cut event={event}" for event in range(0, total, step)]))


@pytest.mark.parametrize(
    ("name", "form"),
    [("responses inline", "nested"), ("responses inline", "flat"), ("responses conversation", "nested"), ("chat", ""), ("anthropic", "")],
)
async def test_error_event_after_any_event_is_retried(name: str, form: str, without_backoff: None) -> None:
    """A failed attempt is recorded, and the retry is whole."""
    async with run_emulator(True, SCRIPT) as harness:
        total = await count_events(harness, name)
        faults = [f"error_event after={event} {f'form={form}' if form else ''}" for event in range(0, total, 3)]
        check_both_sides_of_text(await run_with_faults(harness, name, faults))


@pytest.mark.parametrize("name", FORMATS)
async def test_stream_cut_within_an_event_is_retried(name: str, without_backoff: None) -> None:
    """A failed attempt is recorded, and the retry is whole."""
    async with run_emulator(True, SCRIPT) as harness:
        await run_with_faults(harness, name, [f"cut byte={byte}" for byte in (0, 1, 40, 333, 1500, 2600)])


@pytest.mark.parametrize("name", FORMATS)
async def test_truncated_unstreamed_answer_is_retried(name: str, without_backoff: None) -> None:
    """A failed attempt is recorded, and the retry is whole."""
    async with run_emulator(False, SCRIPT) as harness:
        assert set(await run_with_faults(harness, name, [f"cut byte={byte}" for byte in (0, 1, 200, 600)])) == {False}


@pytest.mark.parametrize("name", FORMATS)
async def test_broken_stream_leaves_earlier_turns_intact(name: str, without_backoff: None) -> None:
    async with run_emulator(True, SCRIPT) as harness:
        session = make_desk(harness.make_model(name)).session("s")
        await session.run("Where are A-17 and B-2?")
        for fault in ("cut event=2", "cut event=4", "error_event after=3"):
            harness.emulator.fault(fault)
        result = await session.run("Thank you!")
        assert (result.status, result.text, len(find_failed_requests(session))) == ("waiting", "You are welcome.", 3)
        assert [attempt.attempt for attempt in find_failed_requests(session)] == [1, 2, 3]
        await harness.check_sessions(session)


# -- kinds of errors ---------------------------------------------------------------------------------------------------

TRANSIENT_ERRORS = ["server_error", "rate_limit", "overloaded", "timeout"]
PERMANENT_ERRORS = ["quota", "context_length", "content_filter"]


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure", "chat", "chat compatible", "anthropic"])
async def test_transient_stream_errors_are_retried_others_pause(name: str, without_backoff: None) -> None:
    async with run_emulator(True, SCRIPT) as harness:
        model = harness.make_model(name)
        sessions = []
        for kind in (*TRANSIENT_ERRORS, *PERMANENT_ERRORS):
            session = make_desk(model).session(kind)
            harness.emulator.fault(f"error_event after=9 kind={kind}")
            events = await collect_events(session.run("Where are A-17 and B-2?", stream=True))
            (attempt,) = find_failed_requests(session)
            assert (kind, attempt.final, session.status) == (
                kind,
                kind in PERMANENT_ERRORS,
                "failed" if kind in PERMANENT_ERRORS else "waiting",
            )
            if kind in PERMANENT_ERRORS:
                assert collect_shown_messages(events) == []  # shown text is retracted, even if no text follows
                assert session.error
                await session.resume()
            assert session.messages[-1].text == LAST_TEXT
            sessions.append(session)
        await harness.check_sessions(*sessions)
