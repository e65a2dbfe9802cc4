"""How a conversation stood at every point."""

from __future__ import annotations

from legato import Agent, HandoffBuilder
from legato.core.state import fold
from legato.inspection.course import course_of
from legato.inspection.listing import facts_page
from legato.testing import ScriptedModel
from tests.inspection.desk import desk, refunding


async def test_every_prefix_is_told_as_a_fork_of_it_would_stand() -> None:
    session = refunding().session("s")
    await session.run("I want my money back")
    await session.approve(session.pending[0])
    await session.resume()
    course = (await course_of(session)).course
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
    return any(call.output is None and (call.running or call.approved) for call in batch)


async def test_a_session_that_nobody_spoke_in_is_new_and_one_that_was_stopped_is_cancelled() -> None:
    session = await desk("Hello!").session("s").refresh()
    assert [each.status for each in (await course_of(session)).course] == ["new"]
    waiting = refunding().session("t")
    await waiting.run("I want my money back")
    await waiting.cancel()
    assert (await course_of(await waiting.refresh())).course[-1].status == "cancelled"


async def test_events_go_on_after_a_page_of_facts_where_its_cursor_says() -> None:
    session = refunding().session("s")
    await session.run("I want my money back")
    page = facts_page(session, 0, 4)
    told = [event.position async for event in session.follow(page.cursor, until_rest=True)]
    assert told[0] == 4
    whole = facts_page(session)
    told = [event.type async for event in session.follow(whole.cursor, until_rest=True)]
    assert told == ["request_info", "status"], "nothing that was read as facts is told again"
    assert facts_page(session, 10_000).cursor == whole.cursor


async def test_a_verdict_has_its_own_position_and_that_of_what_it_judged() -> None:
    model = ScriptedModel(["Hello!"])
    ends = HandoffBuilder("desk", [Agent("triage", "Route.", model)]).with_termination_condition(lambda messages: True).build()
    session = ends.session("s")
    await session.run("Hi")
    judged = next(fact for fact in facts_page(session).facts if fact["fact"] == "guardrail_judged")
    assert (judged["position"], judged["about"]) == (3, 2)
