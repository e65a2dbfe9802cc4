"""The engine within one process: the order of woken sessions, retries, and parked sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.engines import LocalEngine, ParkedSession, RetryPolicy, Worker
from legato.engines.retry_policy import NextStep
from legato.errors import BadInput, ModelFailed, StoreUnavailable
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call


def desk(*script: Any, **more: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


@asynccontextmanager
async def run_worker(worker: Worker) -> AsyncIterator[None]:
    running = asyncio.ensure_future(worker.run(signals=False))
    try:
        yield
    finally:
        worker.stop()
        async with asyncio.timeout(60):
            await running


async def wait_until(is_true: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)


async def wait_for_parked(engine: LocalEngine, before: Sequence[ParkedSession] = ()) -> Sequence[ParkedSession]:
    """Return the parked sessions, once they differ from `before`."""
    async with asyncio.timeout(60):
        while not (parked := await engine.list_parked()) or parked == before:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
    return parked


class ScriptedSteps:
    """A step function with scripted results, which records its calls and how many ran at once."""

    def __init__(self, *steps: NextStep | Exception) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.running_count = self.max_running = 0
        self.may_finish = asyncio.Event()
        self.may_finish.set()
        self._steps = list(steps)
        self._running: set[str] = set()

    async def __call__(self, session: str, failed: int, broken: int, stop: asyncio.Event) -> NextStep:
        assert session not in self._running, f"{session} is advanced twice at the same time"
        self._running.add(session)
        self.calls.append((session, failed, broken))
        self.running_count += 1
        self.max_running = max(self.max_running, self.running_count)
        try:
            await self.may_finish.wait()
        finally:
            self.running_count -= 1
            self._running.discard(session)
        step = self._steps.pop(0) if self._steps else NextStep("waiting")
        if isinstance(step, Exception):
            raise step
        return step


@asynccontextmanager
async def serve_steps(engine: LocalEngine, steps: ScriptedSteps, at_once: int = 20, grace: float = 5.0) -> AsyncIterator[asyncio.Event]:
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.ensure_future(engine.serve(steps, stop, ready.set, at_once, grace))
    await ready.wait()
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await serving


async def test_session_handle_follows_local_worker() -> None:
    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!", "Bye!")
    async with run_worker(Worker(workflow, engine=engine, store=store)):
        session = engine.session(workflow, "s", store)
        async with asyncio.timeout(60):
            assert (await session.run("Hi")).text == "Hello!"
            assert (await session.run("Bye")).text == "Bye!"


async def test_followers_get_deltas_of_the_worker() -> None:
    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello to you all!")
    session = engine.session(workflow, "s", store)
    await session.open()
    pieces: list[str] = []
    heard = asyncio.Event()

    async def listen() -> None:
        async for event in workflow.session("s", store=store).follow():
            if event.type == "output" and event.data.delta:
                pieces.append(event.data.text)
            if event.type == "status":
                heard.set()
                return

    listening = asyncio.ensure_future(listen())
    await wait_until(lambda: store.delta_channel.subscriber_version("s"))
    async with run_worker(Worker(workflow, engine=engine, store=store)):
        await session.say("Hi")
        async with asyncio.timeout(60):
            await heard.wait()
    await listening
    assert "".join(pieces) == "Hello to you all!"
    assert len(pieces) > 1


async def test_next_worker_finds_input_of_dead_process() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await LocalEngine().session(workflow, "s", store).say("Hi")  # the first engine and its memory are gone
    session = workflow.session("s", store=store)
    async with run_worker(Worker(workflow, engine=LocalEngine(), store=store)):
        async with asyncio.timeout(60):
            while (await session.refresh()).status != "waiting":
                await store.wait("s", session.state.length, 1)
    assert session.messages[-1].text == "Hello!"


async def test_session_has_one_step_at_a_time() -> None:
    """A session that is woken during its step gets one more step afterwards."""
    engine, steps = LocalEngine(), ScriptedSteps()
    steps.may_finish.clear()
    async with serve_steps(engine, steps):
        await engine.wake("s")
        await wait_until(lambda: steps.calls)
        await engine.wake("s")
        await engine.wake("s")
        steps.may_finish.set()
        await wait_until(lambda: len(steps.calls) == 2 and not steps.running_count)
    assert len(steps.calls) == 2


async def test_concurrency_and_priority_order_steps() -> None:
    engine, steps = LocalEngine(), ScriptedSteps()
    steps.may_finish.clear()
    for number in range(6):
        await engine.wake(f"usual-{number}")
    await engine.wake("last", 5)
    await engine.wake("first", 1)
    async with serve_steps(engine, steps, at_once=2):
        await wait_until(lambda: steps.running_count == 2)
        steps.may_finish.set()
        await wait_until(lambda: len(steps.calls) == 8)
    assert [session for session, _, _ in steps.calls] == ["first", *(f"usual-{number}" for number in range(6)), "last"]
    assert steps.max_running == 2


async def test_failed_session_retries_by_timer_or_wake() -> None:
    """The step gets the number of failures before, and a wake comes before the timer."""
    engine = LocalEngine()
    steps = ScriptedSteps(NextStep("failed", wait=0.01, failed=1), NextStep("failed", wait=3600.0, failed=2), NextStep("waiting"))
    async with serve_steps(engine, steps):
        await engine.wake("s")
        await wait_until(lambda: len(steps.calls) == 2)
        await engine.wake("s")
        await wait_until(lambda: len(steps.calls) == 3)
    assert steps.calls == [("s", 0, 0), ("s", 1, 0), ("s", 2, 0)]


async def test_step_is_repeated_after_store_error() -> None:
    engine, steps = LocalEngine(), ScriptedSteps(StoreUnavailable("it is away"), NextStep("waiting"))
    async with serve_steps(engine, steps):
        await engine.wake("s")
        await wait_until(lambda: len(steps.calls) == 2)


async def test_parked_session_resumes_only_by_retry() -> None:
    def raises(turn: object) -> str:
        raise ValueError("words of the conversation")

    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!", context_providers=[raises])
    session = engine.session(workflow, "s", store)
    async with run_worker(Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(error_delays=(0.0,)))):
        await session.say("Hi")
        parked = await wait_for_parked(engine)
        assert (parked[0].session, parked[0].error.partition(" ")[0], parked[0].parked_at > 0) == ("s", "ValueError", True)
        assert "words" not in parked[0].error
        await session.say("Are you there?")
        assert "to be driven" in repr(engine)
        assert [each.session for each in await engine.list_parked()] == ["s"]
        await engine.retry("s")
        assert (await wait_for_parked(engine, parked))[0].parked_at >= parked[0].parked_at


async def test_stop_finishes_running_work_only() -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def pay() -> str:
        """Pay."""
        running.set()
        await go_on.wait()
        return "paid"

    engine, store, workflow = LocalEngine(), MemoryStore(), desk(call("pay"), "It is paid.", tools=[pay])
    worker = Worker(workflow, engine=engine, store=store)
    session = engine.session(workflow, "s", store)
    async with run_worker(worker):
        await session.say("Pay it")
        await running.wait()
        worker.stop()
        go_on.set()
    await session.refresh()
    assert [type(fact).__name__ for fact in session.facts][-1] == "CallReturned"
    assert (session.status, len(session.messages)) == ("running", 1)
    async with run_worker(Worker(workflow, engine=LocalEngine(), store=store)):
        async with asyncio.timeout(60):
            while (await session.refresh()).status != "waiting":
                await store.wait("s", session.state.length, 1)
    assert session.messages[-1].text == "It is paid."


async def test_steps_beyond_grace_are_cancelled() -> None:
    engine, steps = LocalEngine(), ScriptedSteps()
    steps.may_finish.clear()
    async with serve_steps(engine, steps, grace=0.01) as stop:
        await engine.wake("s")
        await wait_until(lambda: steps.running_count == 1)
        stop.set()
    assert steps.running_count == 0


async def test_wake_works_from_another_thread() -> None:
    engine, steps = LocalEngine(), ScriptedSteps()
    async with serve_steps(engine, steps):
        thread = threading.Thread(target=lambda: asyncio.run(engine.wake("s")))
        thread.start()
        await wait_until(lambda: steps.calls)
        await asyncio.to_thread(thread.join)


async def test_second_worker_of_engine_is_refused() -> None:
    engine = LocalEngine()
    async with serve_steps(engine, ScriptedSteps()):
        with pytest.raises(BadInput, match="a worker serves this engine already"):
            await engine.serve(ScriptedSteps(), asyncio.Event(), lambda: None, 1, 1)


async def test_queued_session_keeps_its_place() -> None:
    engine, steps = LocalEngine(), ScriptedSteps()
    for name in ("first", "second", "third"):
        await engine.wake(name)
    for _ in range(1000):
        await engine.wake("first")
    await engine.wake("third", 1)  # a higher priority moves it forward
    await engine.wake("third", 5)
    assert len(engine._ready) == 4
    async with serve_steps(engine, steps, at_once=1):
        await wait_until(lambda: len(steps.calls) == 3 and not steps.running_count)
    assert [session for session, _, _ in steps.calls] == ["third", "first", "second"]


async def test_worker_ends_despite_uncancellable_step(caplog: pytest.LogCaptureFixture) -> None:
    engine, begun, end = LocalEngine(), asyncio.Event(), asyncio.Event()

    async def step_without_cancellation(session: str, failed: int, broken: int, stop: asyncio.Event) -> NextStep:
        begun.set()
        while not end.is_set():
            with suppress(asyncio.CancelledError):  # like a model's client that swallows all exceptions
                await end.wait()
        return NextStep("waiting")

    stop = asyncio.Event()
    serving = asyncio.ensure_future(engine.serve(step_without_cancellation, stop, lambda: None, 1, 0.01))
    await engine.wake("s")
    await begun.wait()
    stop.set()
    async with asyncio.timeout(60):
        await serving
    assert "1 steps ignore their cancellation" in caplog.text
    end.set()
    await wait_until(lambda: not engine._uncancelled_tasks)


async def test_retry_of_unparked_session_is_refused() -> None:
    engine = LocalEngine()
    with pytest.raises(BadInput, match="session 'nosuch' was not set aside"):
        await engine.retry("nosuch")
    assert "0 to be driven" in repr(engine)


@pytest.mark.parametrize("opened", [False, True])
async def test_resume_of_empty_session_returns_at_once(opened: bool) -> None:
    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!")
    session = engine.session(workflow, "nosuch", store)
    if opened:
        await session.open()
    async with asyncio.timeout(60):
        assert (await session.resume()).status == "new"
        assert [event.type async for event in session.resume()] == [event.type async for event in workflow.session("s").resume()]
    assert opened or "0 to be driven" in repr(engine)


async def wait_for_messages(store: MemoryStore, workflow: Workflow, until: str = "waiting") -> list[str]:
    session = workflow.session("s", store=store)
    async with asyncio.timeout(60):
        while (await session.refresh()).status != until:
            await store.wait("s", session.state.length, 0.1)
    return [message.text for message in session.messages]


async def test_next_process_retries_failed_session() -> None:
    store, healthy = MemoryStore(), False

    def reply(seen: object) -> str:
        if not healthy:
            raise ModelFailed("overloaded", retryable=True, status=529)
        return "Hello!"

    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).with_model_attempts(1).build()
    policy = RetryPolicy(failure_delays=(3600.0,))
    engine = LocalEngine()
    async with run_worker(Worker(workflow, engine=engine, store=store, retry_policy=policy)):
        await engine.session(workflow, "s", store).say("Hi")
        await wait_for_messages(store, workflow, "failed")
    engine = LocalEngine()
    worker = Worker(
        workflow, engine=engine, store=store, retry_policy=policy, sweep_interval=0.02
    )  # here it fails once more, and waits again
    async with run_worker(worker):
        await wait_until(lambda: engine._delayed)
        length = len(await store.read("s"))
        sweeps = record_sweeps(worker)
        await wait_until(lambda: len(sweeps) > 3)
        assert len(await store.read("s")) == length, "a sweep has driven it before its time"
        healthy = True
        await workflow.session("s", store=store).say("Are you there?")  # without waking the engine
        assert (await wait_for_messages(store, workflow))[-1] == "Hello!"
    assert await store.list_runnable() == []


async def test_session_without_retries_left_is_idle() -> None:
    def reply(seen: object) -> str:
        raise ModelFailed("overloaded", retryable=True, status=529)

    store, engine = MemoryStore(), LocalEngine()
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).with_model_attempts(1).build()
    async with run_worker(Worker(workflow, engine=engine, store=store, retry_policy=RetryPolicy(failure_delays=(0.01,)))):
        await engine.session(workflow, "s", store).say("Hi")
        await wait_until(lambda: not engine._sessions)
        assert await store.list_runnable() == []


async def test_next_process_retries_parked_session() -> None:
    """The next process drives a parked session again, and parks it again if it still breaks."""
    store, broken = MemoryStore(), True

    def context(session: str) -> None:
        if broken:
            raise ValueError("a bug of this deploy")

    workflow, policy, engine = desk("Hello!"), RetryPolicy(error_delays=(0.0,)), LocalEngine()
    async with run_worker(Worker(workflow, engine=engine, store=store, retry_policy=policy, context=context)):
        await engine.session(workflow, "s", store).say("Hi")
        await wait_for_parked(engine)
    engine = LocalEngine()
    worker = Worker(workflow, engine=engine, store=store, retry_policy=policy, context=context, sweep_interval=0.02)
    async with run_worker(worker):
        parked = await wait_for_parked(engine)
        assert [each.session for each in parked] == ["s"]
        sweeps = record_sweeps(worker)
        await wait_until(lambda: len(sweeps) > 3)
        assert await engine.list_parked() == parked, "a sweep has driven it again"
    broken = False
    async with run_worker(Worker(workflow, engine=LocalEngine(), store=store, retry_policy=policy, context=context)):
        assert await wait_for_messages(store, workflow) == ["Hi", "Hello!"]


def record_sweeps(worker: Worker) -> list[float]:
    """Return a list to which each sweep of a worker is added from now on."""
    sweeps, sweep_once = [], worker._sweep_once

    async def sweep_and_record(before: float) -> None:
        sweeps.append(before)
        await sweep_once(before)

    worker._sweep_once = sweep_and_record  # type: ignore[method-assign]
    return sweeps
