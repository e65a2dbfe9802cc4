"""Conversations over real engines, with workers that are processes: what they survive, and what nobody may see twice."""

from __future__ import annotations

import asyncio
import signal
from itertools import pairwise

import pytest

from legato.core.facts import CallLost, CallStarted
from legato.errors import BadInput
from tests.engines import looking
from tests.engines.conftest import Place
from tests.engines.desk import CANARY, desk
from tests.engines.servers import until
from tests.engines.waiting import done, eventually, rests


async def test_a_conversation_with_handoff_tool_approval_and_deferred_tool_runs_to_its_end_over_two_workers(place: Place) -> None:
    """D4, and the same handle as anywhere: this process says and decides, and never drives."""
    workers = [place.worker(), place.worker()]
    session = place.engine.session(desk, "customer-7/ü", place.store)
    result = await asyncio.wait_for(session.run("refund order 7", key="m1"), 20)
    assert (result.status, [each.tool for each in result.pending]) == ("pending", ["refund", "ship"])
    await session.say("refund order 7", key="m1")  # delivered twice, recorded once
    await session.approve(result.pending[0])
    await session.answer(result.pending[1], "shipped")
    await rests(session, "waiting")
    assert session.messages[-1].text == f"Refunded, {CANARY}."
    assert [message.text for message in session.messages if message.role == "user"] == ["refund order 7"]
    found = await done(place.folder, "look_up", "refund")
    assert {int(deed[0]) for deed in found} <= {worker.pid for worker in workers}


async def test_while_a_session_waits_for_people_nothing_runs_and_nobody_holds_its_lease(place: Place) -> None:
    place.worker()
    result = await asyncio.wait_for(place.engine.session(desk, "s", place.store).run("refund it"), 20)
    assert result.status == "pending"
    await eventually(lambda: looking.nothing_open(place.engine))
    lease = await place.store.lease("s")
    assert lease is not None
    await place.store.release(lease)


async def test_a_worker_killed_in_a_tool_that_may_not_run_twice_makes_the_next_one_ask(place: Place) -> None:
    """D2 over an engine."""
    first = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    first.kill()
    place.worker()
    await rests(session, "pending")
    (request,) = session.pending
    assert request.kind == "outcome"
    await session.answer(request, "it had worked")
    await rests(session, "waiting")
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 1
    await done(place.folder, "slow-begun")


async def test_a_worker_killed_in_a_tool_that_may_run_twice_has_it_run_again_elsewhere(place: Place) -> None:
    first = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("again please")
    await done(place.folder, "again-begun")
    second = place.worker()
    first.kill()
    await done(place.folder, "again-begun", "again-begun")
    (place.folder / "go").touch()
    await rests(session, "waiting")
    found = await done(place.folder, "again-begun", "again-begun", "again")
    assert [int(deed[0]) for deed in found] == [first.pid, second.pid, second.pid]
    assert [deed[3] for deed in found] == ["1", "2", "2"]


async def test_a_worker_that_hangs_is_replaced_and_refused_by_the_ledger_when_it_comes_back(place: Place) -> None:
    """D3: whatever the engine believed. What the zombie did is kept as late; it starts nothing, and works on as an ordinary worker."""
    zombie = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    zombie.signal(signal.SIGSTOP)
    other = place.worker()
    await rests(session, "pending", seconds=90)
    await session.answer(session.pending[0], "it had worked")
    await rests(session, "waiting", seconds=90)
    said = [message.text for message in session.messages]
    (place.folder / "go").touch()
    zombie.signal(signal.SIGCONT)
    await done(place.folder, "slow-begun", "slow")

    async def late() -> bool:
        return bool((await session.refresh()).late_outcomes)

    await eventually(late)
    other.kill()
    await session.say("hello")
    await rests(session, "waiting", seconds=90)
    assert [message.text for message in session.messages] == [*said, "hello", "You said hello"]
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 1
    assert len(session.late_outcomes) == 1


async def test_on_sigterm_a_worker_finishes_and_records_what_runs_and_another_goes_on(place: Place) -> None:
    first = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    second = place.worker()
    first.signal(signal.SIGTERM)
    until(lambda: "taking no more; 1 running" in first.said)
    await asyncio.sleep(0.3)
    assert first.code is None
    (place.folder / "go").touch()
    assert first.wait(15) == 0
    await rests(session, "waiting")
    assert [int(deed[0]) for deed in await done(place.folder, "slow-begun", "slow")] == [first.pid, first.pid]
    assert "is left" in first.said
    until(lambda: "is waiting" in second.said)
    assert not any(isinstance(fact, CallLost) for fact in session.facts)


async def test_what_is_not_finished_within_the_grace_is_left_to_be_asked_about(place: Place) -> None:
    first = place.worker("--grace", "1")
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    assert first.stop(10) == 0
    place.worker()
    await rests(session, "pending")
    assert [request.kind for request in session.pending] == ["outcome"]


async def test_a_signal_that_comes_again_ends_a_worker_at_once(place: Place) -> None:
    first = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")

    async def ended() -> bool:
        first.signal(signal.SIGTERM)
        return first.code is not None

    await eventually(ended, what=lambda: first.said)
    assert (first.code, "SIGTERM again: ending at once" in first.said) == (1, True)


async def test_signals_that_come_in_the_same_instant_are_one_wish(place: Place) -> None:
    """A terminal tells all processes of a group, and a shell or a supervisor among them may pass it on."""
    first = place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    first.signal(signal.SIGINT)
    first.signal(signal.SIGTERM)
    until(lambda: "taking no more; 1 running" in first.said)
    (place.folder / "go").touch()
    assert first.wait() == 0, first.said
    await done(place.folder, "slow-begun", "slow")


async def test_what_a_client_recorded_and_did_not_live_to_tell_the_engine_is_found_by_the_workers(place: Place) -> None:
    """A client that dies between its append and its wake: the ledger knows."""
    place.worker("--sweep", "0.5")
    await desk.session("s", store=place.store).say("hello")
    session = await rests(place.engine.session(desk, "s", place.store), "waiting")
    assert session.messages[-1].text == "You said hello"


async def test_a_worker_that_starts_finds_what_was_recorded_while_none_ran(place: Place) -> None:
    await desk.session("s", store=place.store).say("hello")
    place.worker("--sweep", "600")
    await rests(place.engine.session(desk, "s", place.store), "waiting")


async def test_a_session_that_keeps_raising_is_set_aside_and_taken_up_when_a_person_retries_it(place: Place) -> None:
    broken = place.folder / "broken"
    broken.touch()
    place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("hello")
    await eventually(place.engine.dead)
    (dead,) = await place.engine.dead()
    assert dead.session == "s"
    assert "ValueError at desk.py" in dead.error
    assert dead.since > 1_700_000_000_000
    before = len((await session.refresh()).facts)
    broken.unlink()
    await session.say("hello again")  # a message does not take it up: whoever looked at the error does
    await asyncio.sleep(1.5)
    assert len((await session.refresh()).facts) == before + 1
    for other in ("nosuch", "no'such"):
        with pytest.raises(BadInput, match="was not set aside"):
            await place.engine.retry(other)
    await place.engine.retry("s")
    await rests(session, "waiting")
    assert session.messages[-1].text == "You said hello again"
    with pytest.raises(BadInput, match="was not set aside"):
        await place.engine.retry("s")
    await eventually(lambda: looking.nothing_dead(place.engine))


async def test_a_model_that_is_down_is_asked_again_by_the_engines_timer_without_anybody_waking_it(place: Place) -> None:
    down = place.folder / "down"
    down.touch()
    worker = place.worker("--retry-failed", "1,1,1,1", "--sweep", "600")
    session = place.engine.session(desk, "s", place.store)
    await session.say("hello")
    await rests(session, "failed")
    until(lambda: "; again in 1 s" in worker.said)
    down.unlink()
    await rests(session, "waiting", seconds=10)


async def test_a_model_that_stays_down_is_asked_a_bounded_number_of_times_and_the_session_stays_failed(place: Place) -> None:
    (place.folder / "down").touch()
    worker = place.worker("--retry-failed", "0.1,0.1")
    session = place.engine.session(desk, "s", place.store)
    await session.say("hello")
    until(lambda: "WARNING session 's' is failed: scripted, the model of 'triage': ModelFailed (overloaded)" in worker.said)
    await asyncio.sleep(1)
    assert worker.said.count("'s' is failed") == 3
    assert CANARY not in worker.said
    assert await place.engine.dead() == []
    (place.folder / "down").unlink()
    await session.wake()
    await rests(session, "waiting")


async def test_many_wakes_are_harmless(place: Place) -> None:
    place.worker()
    session = place.engine.session(desk, "s", place.store)
    await session.say("slow please")
    await done(place.folder, "slow-begun")
    await asyncio.gather(*(session.wake() for _ in range(60)))
    (place.folder / "go").touch()
    await rests(session, "waiting")
    await eventually(lambda: looking.nothing_open(place.engine))
    await done(place.folder, "slow-begun", "slow")


@pytest.mark.parametrize("in_full", [False, True], ids=["nothing of it by default", "its errors if that was asked for"])
async def test_of_a_conversation_an_engine_is_told(place: Place, in_full: bool) -> None:
    """Ids, numbers and kinds of errors. That the search would find more is shown by the case in which there is more."""
    place.worker(*(["--errors-in-full"] if in_full else []))
    session = place.engine.session(desk, "s", place.store)
    result = await asyncio.wait_for(session.run(f"refund {CANARY}"), 20)
    await session.approve(result.pending[0])
    await session.answer(result.pending[1], CANARY)
    await rests(session, "waiting")
    (place.folder / "down").touch()
    await session.say(f"hello {CANARY}")
    await rests(session, "failed")
    (place.folder / "down").unlink()
    await rests(session, "waiting")
    (place.folder / "broken").touch()
    await session.say(f"hello {CANARY}")
    await eventually(place.engine.dead)
    everything = await looking.everything_told(place.engine)
    assert "ValueError at desk.py" in everything
    assert (CANARY in everything) == in_full


async def test_limits_of_a_model_hold_across_two_workers(place: Place) -> None:
    limit = ["--limit", "scripted at_once=2 per_minute=480"]
    workers = [place.worker(*limit, LEGATO_TEST_DELAY="0.3") for _ in range(2)]
    sessions = [place.engine.session(desk, f"s{number}", place.store) for number in range(16)]
    await asyncio.gather(*(session.say("hello") for session in sessions))
    for session in sessions:
        await rests(session, "waiting", seconds=90)
    calls = [line.split() for line in (place.folder / "calls").read_text().splitlines()]
    assert {int(call[0]) for call in calls} == {worker.pid for worker in workers}
    starts = sorted(float(call[2]) for call in calls)
    edges = sorted([(float(call[2]), 1) for call in calls] + [(float(call[3]), -1) for call in calls])
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    assert most == 2
    assert min(after - before for before, after in pairwise(starts)) > 0.03  # 0.125 when they are let begin; then a core may be busy
