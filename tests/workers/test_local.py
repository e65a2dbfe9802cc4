"""The engine within one process: who is woken is advanced, one at a time, in order; what breaks is tried again, then set aside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.engines import Dead, LocalEngine, Pace, Worker
from legato.engines.pace import Step
from legato.errors import BadInput, ModelFailed, StoreUnavailable
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call


def desk(*script: Any, **more: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(list(script)), **more)]).build()


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    running = asyncio.ensure_future(worker.run(signals=False))
    try:
        yield
    finally:
        worker.stop()
        async with asyncio.timeout(60):
            await running


async def become(so: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not so():  # noqa: ASYNC110 - it looks at what was done so far
            await asyncio.sleep(0.002)


async def aside_of(engine: LocalEngine, before: Sequence[Dead] = ()) -> Sequence[Dead]:
    """What was set aside, once that is something else than before."""
    async with asyncio.timeout(60):
        while not (aside := await engine.dead()) or aside == before:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    return aside


class Steps:
    """In place of a worker's step: does as it is told, and remembers the order and how many ran at once."""

    def __init__(self, *steps: Step | Exception) -> None:
        self.made: list[tuple[str, int, int]] = []
        self.at_once = self.most = 0
        self.going = asyncio.Event()
        self.going.set()
        self._steps = list(steps)
        self._running: set[str] = set()

    async def __call__(self, session: str, failed: int, broken: int, stop: asyncio.Event) -> Step:
        assert session not in self._running, f"{session} is advanced twice at the same time"
        self._running.add(session)
        self.made.append((session, failed, broken))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.going.wait()
        finally:
            self.at_once -= 1
            self._running.discard(session)
        step = self._steps.pop(0) if self._steps else Step("waiting")
        if isinstance(step, Exception):
            raise step
        return step


@asynccontextmanager
async def served(engine: LocalEngine, steps: Steps, at_once: int = 20, grace: float = 5.0) -> AsyncIterator[asyncio.Event]:
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.ensure_future(engine.serve(steps, stop, ready.set, at_once, grace))
    await ready.wait()
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await serving


async def test_a_session_that_is_given_something_is_driven_here_and_its_handle_looks_on() -> None:
    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!", "Bye!")
    async with working(Worker(workflow, engine=engine, store=store)):
        session = engine.session(workflow, "s", store)
        async with asyncio.timeout(60):
            assert (await session.run("Hi")).text == "Hello!"
            assert (await session.run("Bye")).text == "Bye!"


async def test_words_come_in_pieces_to_whoever_follows_while_the_worker_drives() -> None:
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
    await become(lambda: store.live.listeners("s"))
    async with working(Worker(workflow, engine=engine, store=store)):
        await session.say("Hi")
        async with asyncio.timeout(60):
            await heard.wait()
    await listening
    assert "".join(pieces) == "Hello to you all!"
    assert len(pieces) > 1


async def test_what_was_given_before_the_process_died_is_taken_up_by_the_next_worker() -> None:
    store, workflow = MemoryStore(), desk("Hello!")
    await LocalEngine().session(workflow, "s", store).say("Hi")  # that engine dies with what it remembers
    session = workflow.session("s", store=store)
    async with working(Worker(workflow, engine=LocalEngine(), store=store)):
        async with asyncio.timeout(60):
            while (await session.refresh()).status != "waiting":
                await store.wait("s", session.state.length, 1)
    assert session.messages[-1].text == "Hello!"


async def test_one_session_is_advanced_by_one_step_at_a_time_and_once_more_if_it_is_woken_meanwhile() -> None:
    engine, steps = LocalEngine(), Steps()
    steps.going.clear()
    async with served(engine, steps):
        await engine.wake("s")
        await become(lambda: steps.made)
        await engine.wake("s")
        await engine.wake("s")
        steps.going.set()
        await become(lambda: len(steps.made) == 2 and not steps.at_once)
    assert len(steps.made) == 2


async def test_no_more_run_at_once_than_the_worker_says_and_the_first_in_priority_go_first() -> None:
    engine, steps = LocalEngine(), Steps()
    steps.going.clear()
    for number in range(6):
        await engine.wake(f"usual-{number}")
    await engine.wake("last", 5)
    await engine.wake("first", 1)
    async with served(engine, steps, at_once=2):
        await become(lambda: steps.at_once == 2)
        steps.going.set()
        await become(lambda: len(steps.made) == 8)
    assert [session for session, _, _ in steps.made] == ["first", *(f"usual-{number}" for number in range(6)), "last"]
    assert steps.most == 2


async def test_a_failed_session_is_tried_again_after_its_wait_with_the_number_of_tries_and_a_wake_comes_before_the_timer() -> None:
    engine = LocalEngine()
    steps = Steps(Step("failed", wait=0.01, failed=1), Step("failed", wait=3600.0, failed=2), Step("waiting"))
    async with served(engine, steps):
        await engine.wake("s")
        await become(lambda: len(steps.made) == 2)
        await engine.wake("s")
        await become(lambda: len(steps.made) == 3)
    assert steps.made == [("s", 0, 0), ("s", 1, 0), ("s", 2, 0)]


async def test_a_step_that_the_store_did_not_let_pass_is_made_again() -> None:
    engine, steps = LocalEngine(), Steps(StoreUnavailable("it is away"), Step("waiting"))
    async with served(engine, steps):
        await engine.wake("s")
        await become(lambda: len(steps.made) == 2)


async def test_what_cannot_be_advanced_is_set_aside_and_stirs_only_when_it_is_retried() -> None:
    def raises(turn: object) -> str:
        raise ValueError("words of the conversation")

    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!", context_providers=[raises])
    session = engine.session(workflow, "s", store)
    async with working(Worker(workflow, engine=engine, store=store, pace=Pace(raised=(0.0,)))):
        await session.say("Hi")
        aside = await aside_of(engine)
        assert (aside[0].session, aside[0].error.partition(" ")[0], aside[0].since > 0) == ("s", "ValueError", True)
        assert "words" not in aside[0].error
        await session.say("Are you there?")
        assert "to be advanced" in repr(engine)
        assert [each.session for each in await engine.dead()] == ["s"]
        await engine.retry("s")
        assert (await aside_of(engine, aside))[0].since >= aside[0].since


async def test_a_stop_finishes_and_records_what_runs_and_begins_nothing_more() -> None:
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
    async with working(worker):
        await session.say("Pay it")
        await running.wait()
        worker.stop()
        go_on.set()
    await session.refresh()
    assert [type(fact).__name__ for fact in session.facts][-1] == "CallReturned"
    assert (session.status, len(session.messages)) == ("running", 1)
    async with working(Worker(workflow, engine=LocalEngine(), store=store)):
        async with asyncio.timeout(60):
            while (await session.refresh()).status != "waiting":
                await store.wait("s", session.state.length, 1)
    assert session.messages[-1].text == "It is paid."


async def test_what_does_not_end_within_its_grace_is_broken_off() -> None:
    engine, steps = LocalEngine(), Steps()
    steps.going.clear()
    async with served(engine, steps, grace=0.01) as stop:
        await engine.wake("s")
        await become(lambda: steps.at_once == 1)
        stop.set()
    assert steps.at_once == 0


async def test_it_may_be_woken_from_another_thread() -> None:
    engine, steps = LocalEngine(), Steps()
    async with served(engine, steps):
        thread = threading.Thread(target=lambda: asyncio.run(engine.wake("s")))
        thread.start()
        await become(lambda: steps.made)
        await asyncio.to_thread(thread.join)


async def test_a_second_worker_of_one_engine_is_refused() -> None:
    engine = LocalEngine()
    async with served(engine, Steps()):
        with pytest.raises(BadInput, match="a worker serves this engine already"):
            await engine.serve(Steps(), asyncio.Event(), lambda: None, 1, 1)


async def test_whoever_is_woken_while_it_stands_in_line_keeps_its_place_and_takes_no_other() -> None:
    engine, steps = LocalEngine(), Steps()
    for name in ("first", "second", "third"):
        await engine.wake(name)
    for _ in range(1000):
        await engine.wake("first")
    await engine.wake("third", 1)  # it is more urgent by now: so it goes before
    await engine.wake("third", 5)
    assert len(engine._ready) == 4
    async with served(engine, steps, at_once=1):
        await become(lambda: len(steps.made) == 3 and not steps.at_once)
    assert [session for session, _, _ in steps.made] == ["third", "first", "second"]


async def test_a_worker_ends_although_a_step_does_not_let_itself_be_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    engine, begun, end = LocalEngine(), asyncio.Event(), asyncio.Event()

    async def stubborn(session: str, failed: int, broken: int, stop: asyncio.Event) -> Step:
        begun.set()
        while not end.is_set():
            with suppress(asyncio.CancelledError):  # as a model's client may that swallows everything
                await end.wait()
        return Step("waiting")

    stop = asyncio.Event()
    serving = asyncio.ensure_future(engine.serve(stubborn, stop, lambda: None, 1, 0.01))
    await engine.wake("s")
    await begun.wait()
    stop.set()
    async with asyncio.timeout(60):
        await serving
    assert "1 steps do not let themselves be broken off" in caplog.text
    end.set()
    await become(lambda: not engine._stubborn)


async def test_who_was_not_set_aside_is_not_retried_and_nobody_is_woken() -> None:
    engine = LocalEngine()
    with pytest.raises(BadInput, match="session 'nosuch' was not set aside"):
        await engine.retry("nosuch")
    assert "0 to be advanced" in repr(engine)


@pytest.mark.parametrize("opened", [False, True])
async def test_a_session_in_which_nothing_was_said_is_not_waited_for(opened: bool) -> None:
    engine, store, workflow = LocalEngine(), MemoryStore(), desk("Hello!")
    session = engine.session(workflow, "nosuch", store)
    if opened:
        await session.open()
    async with asyncio.timeout(60):
        assert (await session.resume()).status == "new"
        assert [event.type async for event in session.resume()] == [event.type async for event in workflow.session("s").resume()]
    assert opened or "0 to be advanced" in repr(engine)


async def answered(store: MemoryStore, workflow: Workflow, until: str = "waiting") -> list[str]:
    session = workflow.session("s", store=store)
    async with asyncio.timeout(60):
        while (await session.refresh()).status != until:
            await store.wait("s", session.state.length, 0.1)
    return [message.text for message in session.messages]


async def test_a_failure_that_may_pass_is_tried_again_by_the_process_that_starts_next() -> None:
    store, healthy = MemoryStore(), False

    def reply(seen: object) -> str:
        if not healthy:
            raise ModelFailed("overloaded", retryable=True, status=529)
        return "Hello!"

    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).with_model_attempts(1).build()
    pace = Pace(failed=(3600.0,))
    engine = LocalEngine()
    async with working(Worker(workflow, engine=engine, store=store, pace=pace)):
        await engine.session(workflow, "s", store).say("Hi")
        await answered(store, workflow, "failed")
    engine = LocalEngine()
    worker = Worker(workflow, engine=engine, store=store, pace=pace, sweep=0.02)  # here it fails once more, and waits again
    async with working(worker):
        await become(lambda: engine._later)
        length = len(await store.read("s"))
        looks = counted(worker)
        await become(lambda: len(looks) > 3)
        assert len(await store.read("s")) == length, "a look has hastened it"
        healthy = True
        await workflow.session("s", store=store).say("Are you there?")  # and nobody is told
        assert (await answered(store, workflow))[-1] == "Hello!"
    assert await store.unrested() == []


async def test_a_failure_whose_tries_are_used_up_rests() -> None:
    def reply(seen: object) -> str:
        raise ModelFailed("overloaded", retryable=True, status=529)

    store, engine = MemoryStore(), LocalEngine()
    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).with_model_attempts(1).build()
    async with working(Worker(workflow, engine=engine, store=store, pace=Pace(failed=(0.01,)))):
        await engine.session(workflow, "s", store).say("Hi")
        await become(lambda: not engine._sessions)
        assert await store.unrested() == []


async def test_what_was_set_aside_is_taken_up_by_the_process_that_starts_next_and_set_aside_again_if_it_still_breaks() -> None:
    store, broken = MemoryStore(), True

    def context(session: str) -> None:
        if broken:
            raise ValueError("a bug of this deploy")

    workflow, pace, engine = desk("Hello!"), Pace(raised=(0.0,)), LocalEngine()
    async with working(Worker(workflow, engine=engine, store=store, pace=pace, context=context)):
        await engine.session(workflow, "s", store).say("Hi")
        await aside_of(engine)
    engine = LocalEngine()
    worker = Worker(workflow, engine=engine, store=store, pace=pace, context=context, sweep=0.02)
    async with working(worker):
        aside = await aside_of(engine)
        assert [each.session for each in aside] == ["s"]
        looks = counted(worker)
        await become(lambda: len(looks) > 3)
        assert await engine.dead() == aside, "a look has taken it up"
    broken = False
    async with working(Worker(workflow, engine=LocalEngine(), store=store, pace=pace, context=context)):
        assert await answered(store, workflow) == ["Hi", "Hello!"]


def counted(worker: Worker) -> list[float]:
    """The looks that a worker begins from now on."""
    looks, swept = [], worker._swept

    async def look(before: float) -> None:
        looks.append(before)
        await swept(before)

    worker._swept = look  # type: ignore[method-assign]
    return looks
