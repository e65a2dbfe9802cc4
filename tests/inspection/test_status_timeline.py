"""The status after each fact of a session."""

from __future__ import annotations

from legato import Agent, HandoffBuilder
from legato.core.state import fold
from legato.inspection.session_summaries import build_facts_page
from legato.inspection.status_timeline import build_status_timeline
from legato.testing import ScriptedModel
from tests.inspection.support_desk import build_desk, build_refund_desk


async def test_status_matches_a_fork_at_every_position() -> None:
    session = build_refund_desk().session("s")
    await session.run("I want my money back")
    await session.approve(session.pending[0])
    await session.resume()
    course = (await build_status_timeline(session)).spans
    assert [(each.status, each.agent) for each in course] == [
        ("new", "triage"),
        ("running", "triage"),
        ("running", "refunds"),
        ("pending", "refunds"),
        ("running", "refunds"),
        ("waiting", "refunds"),
    ]
    for length in range(1, len(session.facts) + 1):
        told = [each for each in course if each.start <= length][-1]
        fork = await session.fork(length)
        standing = "running" if _has_permitted_call(session, length) else fork.status  # a fork asks again
        assert told.status == standing, f"after {length} facts"


def _has_permitted_call(session, length: int) -> bool:
    batch = fold(session.facts[:length], "s").batch
    return any(call.output is None and (call.open_attempt or call.approved) for call in batch)


async def test_unused_session_is_new_stopped_is_cancelled() -> None:
    session = await build_desk("Hello!").session("s").refresh()
    assert [each.status for each in (await build_status_timeline(session)).spans] == ["new"]
    waiting = build_refund_desk().session("t")
    await waiting.run("I want my money back")
    await waiting.cancel()
    assert (await build_status_timeline(await waiting.refresh())).spans[-1].status == "cancelled"


async def test_events_continue_after_facts_page_cursor() -> None:
    session = build_refund_desk().session("s")
    await session.run("I want my money back")
    page = build_facts_page(session, 0, 4)
    told = [event.position async for event in session.follow(page.cursor, until_idle=True)]
    assert told[0] == 4
    whole = build_facts_page(session)
    told = [event.type async for event in session.follow(whole.cursor, until_idle=True)]
    assert told == ["request_info", "status"], "facts that were read do not come again as events"
    assert build_facts_page(session, 10_000).cursor == whole.cursor


async def test_verdict_has_own_and_judged_position() -> None:
    model = ScriptedModel(["Hello!"])
    ends = HandoffBuilder("desk", [Agent("triage", "Route.", model)]).with_termination_condition(lambda messages: True).build()
    session = ends.session("s")
    await session.run("Hi")
    judged = next(fact for fact in build_facts_page(session).facts if fact["fact"] == "termination_judged")
    assert (judged["position"], judged["about"]) == (3, 2)
