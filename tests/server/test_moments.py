"""Runs as moments, for every story: live and from the ledger alone they are the same, except for deltas."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from legato.core.facts import SOURCE_IMPORT, SOURCE_STANDING_APPROVAL, Decided, HandedOff, MessageReceived
from legato.core.planner import derive_status_and_requests
from legato.core.state import fold
from legato.runtime.driver import IDLE_STATUSES
from legato.runtime.session import Session
from legato.server.agui.conversation_messages import build_messages
from legato.server.agui.event_encoder import RunEventEncoder
from legato.server.moments import (
    Called,
    Ended,
    HandedOver,
    Heard,
    Moment,
    Piece,
    Rested,
    Spoke,
    Withdrawn,
    first_rest,
    is_input,
    moments,
    usage_of,
)
from legato.server.moments import recorded as read_recorded_moments
from legato.stores import MemoryStore
from legato.testing import Story, World
from tests.server.agui.agui_client import FrontEndState
from tests.stories.all_stories import STORIES


async def read_moments(session: Session) -> list[Moment]:
    return await read_recorded_moments(session, 0, session.state.length)


async def run_story(story: Story, stream: bool = False) -> Session:
    return await (await story.run(MemoryStore(), stream)).session.refresh()


@pytest.mark.parametrize("name", STORIES)
async def test_ledger_yields_each_moment_once(name: str) -> None:
    """Every message, call, output and handoff."""
    session = await run_story(STORIES[name])
    told, facts = await read_moments(session), session.facts
    spoken = [(moment.position, moment.agent, moment.text) for moment in told if isinstance(moment, Spoke)]
    messages = [(each.position, each.author_name, each.text) for each in session.messages if each.role == "assistant"]
    assert sorted(spoken) == sorted(messages)
    heard = [moment.position for moment in told if isinstance(moment, Heard)]
    assert heard == [at for at, fact in enumerate(facts) if isinstance(fact, MessageReceived)]
    calls = [call.ref for group in session.state.groups for call in group.calls]
    assert [moment.call for moment in told if isinstance(moment, Called)] == sorted(calls)
    ended = [moment.called.call for moment in told if isinstance(moment, Ended)]
    answered = [call.ref for group in session.state.groups for call in group.calls if call.output is not None]
    assert sorted(ended) == sorted(answered)
    handed = [moment.position for moment in told if isinstance(moment, HandedOver)]
    assert handed == [at for at, fact in enumerate(facts) if isinstance(fact, HandedOff)]
    assert usage_of(session.state, 0, len(facts)) == session.usage
    rests = [moment for moment in told if isinstance(moment, Rested)]
    assert [(rest.status, rest.pending, rest.length) for rest in rests] == [(session.status, tuple(session.pending), len(facts))]


@pytest.mark.parametrize("name", STORIES)
async def test_following_from_start_matches_the_ledger(name: str) -> None:
    session = await run_story(STORIES[name], stream=True)
    async with aclosing(moments(session, 0, session.state.length)) as told:
        assert [moment async for moment in told] == await read_moments(session)


@pytest.mark.parametrize("name", STORIES)
async def test_live_pieces_form_replies_or_are_retracted(name: str) -> None:
    story, store = STORIES[name], MemoryStore()
    told: list[Moment] = []

    async def look_on(session: Session) -> None:
        async with aclosing(moments(session, 0, 10**9)) as live:
            async for moment in live:
                told.append(moment)

    watching = await story.build(store, World()).session("story", store=store).refresh()
    looking = asyncio.ensure_future(look_on(watching))
    session = await (await story.run(store, stream=True)).session.refresh()
    said = [moment for moment in await read_moments(session) if isinstance(moment, Spoke)]
    async with asyncio.timeout(60):
        while [moment for moment in told if isinstance(moment, Spoke)] != said:  # noqa: ASYNC110 - nobody tells when it has caught up
            await asyncio.sleep(0.001)
    looking.cancel()
    await asyncio.wait([looking])
    saying = ""
    for moment in told:
        match moment:
            case Piece(text=text):
                saying += text
            case Withdrawn():
                saying = ""
            case Spoke(text=text):
                assert text.startswith(saying)
                saying = ""
    assert saying == ""


@pytest.mark.parametrize("name", STORIES)
async def test_first_rest_is_first_idle_position_after_message(name: str) -> None:
    session = await run_story(STORIES[name])
    graph, facts = session.workflow.definition.graph, session.facts
    for position in [at for at, fact in enumerate(facts) if isinstance(fact, MessageReceived)]:
        rests = [
            length
            for length in range(position + 1, len(facts) + 1)
            if derive_status_and_requests(fold(facts[:length], session.id), graph)[0] in IDLE_STATUSES
        ]
        assert await first_rest(session, position) == (rests[0] if rests else 0)


@pytest.mark.parametrize(("source", "outside"), [("", True), ("ann", True), (SOURCE_STANDING_APPROVAL, False), (SOURCE_IMPORT, False)])
def test_only_callers_decisions_are_input(source: str, outside: bool) -> None:
    assert is_input(Decided(at=1, kind="result", verdict="answer", source=source)) == outside


@pytest.mark.parametrize("name", STORIES)
async def test_agui_events_add_up_to_snapshot(name: str) -> None:
    session = await run_story(STORIES[name])
    graph, state = session.workflow.definition.graph, session.state
    shown, writer = FrontEndState(), RunEventEncoder(session, "run", 0, [])
    for moment in await read_moments(session):
        for event in writer.encode(moment):
            shown.apply(event)
    whole = {each.id: each.model_dump(by_alias=True) for each in build_messages(state, graph, state.length)}
    by_events = {each["id"]: each for each in shown.messages}
    assert by_events.keys() == whole.keys()
    for id, message in by_events.items():
        assert (message.get("content") or None, message.get("toolCalls")) == (whole[id].get("content"), whole[id].get("toolCalls")), id
