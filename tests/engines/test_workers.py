"""Conversations over real engines, with workers that are processes, which are killed, stopped and drained."""

from __future__ import annotations

import asyncio
import signal
from itertools import pairwise

import pytest

from legato.core.facts import CallLost, CallStarted
from legato.errors import BadInput
from tests.engines import server_state
from tests.engines.conftest import EngineSetup
from tests.engines.desk import CANARY, desk
from tests.engines.servers import wait_until
from tests.engines.waits import wait_for_deeds, wait_for_status, wait_until_true


async def test_whole_conversation_runs_over_two_workers(setup: EngineSetup) -> None:
    """D4, with an ordinary session handle: this process sends messages and decides, and never drives."""
    workers = [setup.start_worker(), setup.start_worker()]
    session = setup.engine.session(desk, "customer-7/ü", setup.store)
    result = await asyncio.wait_for(session.run("refund order 7", key="m1"), 20)
    assert (result.status, [each.tool for each in result.pending]) == ("pending", ["refund", "ship"])
    await session.say("refund order 7", key="m1")  # delivered twice, recorded once
    await session.approve(result.pending[0])
    await session.answer(result.pending[1], "shipped")
    await wait_for_status(session, "waiting")
    assert session.messages[-1].text == f"Refunded, {CANARY}."
    assert [message.text for message in session.messages if message.role == "user"] == ["refund order 7"]
    found = await wait_for_deeds(setup.folder, "look_up", "refund")
    assert {int(deed[0]) for deed in found} <= {worker.pid for worker in workers}


async def test_session_waiting_for_people_holds_nothing(setup: EngineSetup) -> None:
    setup.start_worker()
    result = await asyncio.wait_for(setup.engine.session(desk, "s", setup.store).run("refund it"), 20)
    assert result.status == "pending"
    await wait_until_true(lambda: server_state.has_no_open_runs(setup.engine))
    lease = await setup.store.lease("s")
    assert lease is not None
    await setup.store.release(lease)


async def test_killed_non_idempotent_tool_asks_for_outcome(setup: EngineSetup) -> None:
    """D2 over an engine: the next worker asks for the outcome."""
    first = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    first.kill()
    setup.start_worker()
    await wait_for_status(session, "pending")
    (request,) = session.pending
    assert request.kind == "outcome"
    await session.answer(request, "it had worked")
    await wait_for_status(session, "waiting")
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 1
    await wait_for_deeds(setup.folder, "slow-begun")


async def test_killed_idempotent_tool_runs_again_elsewhere(setup: EngineSetup) -> None:
    first = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("again please")
    await wait_for_deeds(setup.folder, "again-begun")
    second = setup.start_worker()
    first.kill()
    await wait_for_deeds(setup.folder, "again-begun", "again-begun")
    (setup.folder / "go").touch()
    await wait_for_status(session, "waiting")
    found = await wait_for_deeds(setup.folder, "again-begun", "again-begun", "again")
    assert [int(deed[0]) for deed in found] == [first.pid, second.pid, second.pid]
    assert [deed[3] for deed in found] == ["1", "2", "2"]


async def test_hanging_worker_is_replaced_and_fenced(setup: EngineSetup) -> None:
    """D3, whatever the engine assumes: the outcome of the resumed worker is recorded as late; it starts nothing, and works again."""
    zombie = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    zombie.signal(signal.SIGSTOP)
    other = setup.start_worker()
    await wait_for_status(session, "pending", seconds=90)
    await session.answer(session.pending[0], "it had worked")
    await wait_for_status(session, "waiting", seconds=90)
    texts = [message.text for message in session.messages]
    (setup.folder / "go").touch()
    zombie.signal(signal.SIGCONT)
    await wait_for_deeds(setup.folder, "slow-begun", "slow")

    async def late() -> bool:
        return bool((await session.refresh()).late_outcomes)

    await wait_until_true(late)
    other.kill()
    await session.say("hello")
    await wait_for_status(session, "waiting", seconds=90)
    assert [message.text for message in session.messages] == [*texts, "hello", "You said hello"]
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 1
    assert len(session.late_outcomes) == 1


async def test_sigterm_finishes_and_records_running_work(setup: EngineSetup) -> None:
    first = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    second = setup.start_worker()
    first.signal(signal.SIGTERM)
    wait_until(lambda: "stopping; 1 running" in first.output)
    await asyncio.sleep(0.3)
    assert first.exit_code is None
    (setup.folder / "go").touch()
    assert first.wait(15) == 0
    await wait_for_status(session, "waiting")
    assert [int(deed[0]) for deed in await wait_for_deeds(setup.folder, "slow-begun", "slow")] == [first.pid, first.pid]
    assert "is interrupted" in first.output
    wait_until(lambda: "is waiting" in second.output)
    assert not any(isinstance(fact, CallLost) for fact in session.facts)


async def test_call_beyond_grace_has_unknown_outcome(setup: EngineSetup) -> None:
    first = setup.start_worker("--grace", "1")
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    assert first.stop(10) == 0
    setup.start_worker()
    await wait_for_status(session, "pending")
    assert [request.kind for request in session.pending] == ["outcome"]


async def test_repeated_signal_ends_worker_at_once(setup: EngineSetup) -> None:
    first = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")

    async def ended() -> bool:
        first.signal(signal.SIGTERM)
        return first.exit_code is not None

    await wait_until_true(ended, what=lambda: first.output)
    assert (first.exit_code, "SIGTERM again: ending at once" in first.output) == (1, True)


async def test_simultaneous_signals_count_as_one(setup: EngineSetup) -> None:
    """A terminal signals all processes of a group, and a shell or a supervisor among them may pass the signal on."""
    first = setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    first.signal(signal.SIGINT)
    first.signal(signal.SIGTERM)
    wait_until(lambda: "stopping; 1 running" in first.output)
    (setup.folder / "go").touch()
    assert first.wait() == 0, first.output
    await wait_for_deeds(setup.folder, "slow-begun", "slow")


async def test_workers_find_input_of_dead_client(setup: EngineSetup) -> None:
    """The client dies between its append and its wake; the ledger has the input."""
    setup.start_worker("--sweep", "0.5")
    await desk.session("s", store=setup.store).say("hello")
    session = await wait_for_status(setup.engine.session(desk, "s", setup.store), "waiting")
    assert session.messages[-1].text == "You said hello"


async def test_starting_worker_finds_earlier_input(setup: EngineSetup) -> None:
    await desk.session("s", store=setup.store).say("hello")
    setup.start_worker("--sweep", "600")
    await wait_for_status(setup.engine.session(desk, "s", setup.store), "waiting")


async def test_raising_session_is_parked_until_retried(setup: EngineSetup) -> None:
    broken = setup.folder / "broken"
    broken.touch()
    setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("hello")
    await wait_until_true(setup.engine.list_parked)
    (parked,) = await setup.engine.list_parked()
    assert parked.session == "s"
    assert "ValueError at desk.py" in parked.error
    assert parked.parked_at > 1_700_000_000_000
    before = len((await session.refresh()).facts)
    broken.unlink()
    await session.say("hello again")  # a message does not resume it: only a retry does
    await asyncio.sleep(1.5)
    assert len((await session.refresh()).facts) == before + 1
    for other in ("nosuch", "no'such"):
        with pytest.raises(BadInput, match="was not set aside"):
            await setup.engine.retry(other)
    await setup.engine.retry("s")
    await wait_for_status(session, "waiting")
    assert session.messages[-1].text == "You said hello again"
    with pytest.raises(BadInput, match="was not set aside"):
        await setup.engine.retry("s")
    await wait_until_true(lambda: server_state.has_no_parked_sessions(setup.engine))


async def test_engine_timer_retries_failed_model(setup: EngineSetup) -> None:
    down = setup.folder / "down"
    down.touch()
    worker = setup.start_worker("--retry-failed", "1,1,1,1", "--sweep", "600")
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("hello")
    await wait_for_status(session, "failed")
    wait_until(lambda: "; again in 1 s" in worker.output)
    down.unlink()
    await wait_for_status(session, "waiting", seconds=10)


async def test_model_retries_are_bounded(setup: EngineSetup) -> None:
    (setup.folder / "down").touch()
    worker = setup.start_worker("--retry-failed", "0.1,0.1")
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("hello")
    wait_until(lambda: "WARNING session 's' is failed: scripted, the model of 'triage': ModelFailed (overloaded)" in worker.output)
    await asyncio.sleep(1)
    assert worker.output.count("'s' is failed") == 3
    assert CANARY not in worker.output
    assert await setup.engine.list_parked() == []
    (setup.folder / "down").unlink()
    await session.wake()
    await wait_for_status(session, "waiting")


async def test_many_wakes_are_harmless(setup: EngineSetup) -> None:
    setup.start_worker()
    session = setup.engine.session(desk, "s", setup.store)
    await session.say("slow please")
    await wait_for_deeds(setup.folder, "slow-begun")
    await asyncio.gather(*(session.wake() for _ in range(60)))
    (setup.folder / "go").touch()
    await wait_for_status(session, "waiting")
    await wait_until_true(lambda: server_state.has_no_open_runs(setup.engine))
    await wait_for_deeds(setup.folder, "slow-begun", "slow")


@pytest.mark.parametrize("with_error_text", [False, True], ids=["by default", "except error texts on request"])
async def test_engine_gets_no_text_of_conversations(setup: EngineSetup, with_error_text: bool) -> None:
    """The engine gets ids, numbers and kinds of errors. The case with error texts shows that the search would find more."""
    setup.start_worker(*(["--errors-in-full"] if with_error_text else []))
    session = setup.engine.session(desk, "s", setup.store)
    result = await asyncio.wait_for(session.run(f"refund {CANARY}"), 20)
    await session.approve(result.pending[0])
    await session.answer(result.pending[1], CANARY)
    await wait_for_status(session, "waiting")
    (setup.folder / "down").touch()
    await session.say(f"hello {CANARY}")
    await wait_for_status(session, "failed")
    (setup.folder / "down").unlink()
    await wait_for_status(session, "waiting")
    (setup.folder / "broken").touch()
    await session.say(f"hello {CANARY}")
    await wait_until_true(setup.engine.list_parked)
    everything = await server_state.read_all_data(setup.engine)
    assert "ValueError at desk.py" in everything
    assert (CANARY in everything) == with_error_text


async def test_model_limits_hold_across_workers(setup: EngineSetup) -> None:
    limit = ["--limit", "scripted at_once=2 per_minute=480"]
    workers = [setup.start_worker(*limit, LEGATO_TEST_DELAY="0.3") for _ in range(2)]
    sessions = [setup.engine.session(desk, f"s{number}", setup.store) for number in range(16)]
    await asyncio.gather(*(session.say("hello") for session in sessions))
    for session in sessions:
        await wait_for_status(session, "waiting", seconds=90)
    calls = [line.split() for line in (setup.folder / "calls").read_text().splitlines()]
    assert {int(call[0]) for call in calls} == {worker.pid for worker in workers}
    starts = sorted(float(call[2]) for call in calls)
    edges = sorted([(float(call[2]), 1) for call in calls] + [(float(call[3]), -1) for call in calls])
    running = max_running = 0
    for _, step in edges:
        running += step
        max_running = max(max_running, running)
    assert max_running == 2
    assert min(after - before for before, after in pairwise(starts)) > 0.03  # 0.125 s apart when they begin; then a core may be busy
