"""A failed model request is made again at the time that its fact says, whoever drives by then. Time is virtual."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.planner import CallModel, plan
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.runtime.clock import now_ms, random_fraction, seconds
from legato.runtime.model_requests import BACK_OFF, LONGEST_RETRY_WAIT, LONGEST_WAIT, seconds_until
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call
from legato.testing.loop import SimulatedLoop, Timeline


def in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop(Timeline(1))
    loop.run_until_complete(play())
    assert not loop.timeline.errors


class Limited:
    """A workflow whose provider fails so often, and asks to wait; and when it was requested."""

    def __init__(self, failures: int, retry_after: float | None = 60.0) -> None:
        self.requested: list[float] = []
        self._failures = failures
        self._retry_after = retry_after
        self.workflow: Workflow = HandoffBuilder("limited", [Agent("clerk", model=ScriptedModel(self._reply))]).build()
        self.store = MemoryStore()

    def _reply(self, seen: Request) -> str:
        self.requested.append(seconds())
        if len(self.requested) <= self._failures:
            raise ModelFailed("slow down", retryable=True, retry_after=self._retry_after)
        return "Hello!"

    def session(self) -> Session:
        return self.workflow.session("s", store=self.store)

    def attempts(self, session: Session) -> list[tuple[int, bool]]:
        return [(fact.number, fact.final) for fact in session.facts if isinstance(fact, ModelRequestFailed)]

    async def left_after(self, attempts: int) -> None:
        """Drive until so many attempts have failed, and stop as a process does that ends."""
        running = asyncio.ensure_future(_awaited(self.session()))
        while len(self.requested) < attempts:  # noqa: ASYNC110 - it looks at what the driver has done so far
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running})


async def _awaited(session: Session) -> None:
    await session.refresh()
    await (session.run("Hello") if not session.facts else session.resume())


def test_new_process_waits_until_recorded_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        await limited.left_after(1)
        await asyncio.sleep(20)
        session = limited.session()
        assert (await session.resume()).text == "Hello!"
        first, second = limited.requested
        assert 60 <= second - first <= 60.5

    in_virtual_time(play)


def test_attempts_count_across_processes() -> None:
    async def play() -> None:
        limited = Limited(failures=9)
        for attempts in (1, 2, 3):
            await limited.left_after(attempts)
        session = limited.session()
        assert (await session.resume()).status == "failed"
        assert limited.attempts(session) == [(1, False), (2, False), (3, False), (4, True)]
        assert len(limited.requested) == 4

    in_virtual_time(play)


def test_back_off_is_recorded_where_provider_says_nothing() -> None:
    async def play() -> None:
        limited = Limited(failures=3, retry_after=None)
        session = limited.session()
        await session.run("Hello")
        waits = [fact.retry_at - fact.at for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert [longest // 2 <= wait <= longest for wait, longest in zip(waits, (500, 1000, 2000), strict=True)] == [True] * 3
        (answered,) = [fact for fact in session.facts if isinstance(fact, ModelReplied)]
        assert answered.at == pytest.approx(session.facts[0].at + sum(waits), abs=100)

    in_virtual_time(play)


@pytest.mark.parametrize("retry_after", [float("nan"), -1.0])
def test_unusable_retry_after_waits_as_without(retry_after: float) -> None:
    async def play() -> None:
        limited = Limited(failures=1, retry_after=retry_after)
        session = limited.session()
        assert (await session.run("Hello")).text == "Hello!"
        assert [250 <= fact.retry_at - fact.at <= 500 for fact in session.facts if isinstance(fact, ModelRequestFailed)] == [True]

    in_virtual_time(play)


async def waits_of_many(retry_after: float | None) -> list[int]:
    """The recorded waits of 50 sessions whose requests fail at the same time, in milliseconds."""
    together = asyncio.Barrier(50)

    async def fail(seen: Request) -> str:
        if seen.attempt > 1:
            return "Hello!"
        await together.wait()
        raise ModelFailed("slow down", retryable=True, retry_after=retry_after)

    workflow = HandoffBuilder("many", [Agent("clerk", model=ScriptedModel(fail))]).build()
    sessions = [workflow.session(f"s-{number}", store=MemoryStore()) for number in range(50)]
    await asyncio.gather(*(session.run("Hello") for session in sessions))
    facts = [fact for session in sessions for fact in session.facts]
    return [fact.retry_at - fact.at for fact in facts if isinstance(fact, ModelRequestFailed)]


def test_sessions_that_fail_together_retry_apart() -> None:
    async def play() -> None:
        waits = await waits_of_many(None)
        assert (len(waits), min(waits) >= 250, max(waits) <= 500) == (50, True, True)
        assert len(set(waits)) > 40

    in_virtual_time(play)


def test_retry_after_is_the_least_wait() -> None:
    async def play() -> None:
        waits = await waits_of_many(60.0)
        assert (len(waits), min(waits) >= 60_000, max(waits) <= 60_250) == (50, True, True)
        assert len(set(waits)) > 40
        assert await waits_of_many(0.0) == [0] * 50

    in_virtual_time(play)


def test_jitter_on_longest_retry_after_is_waited_for() -> None:
    async def play() -> None:
        waits = await waits_of_many(LONGEST_WAIT)
        assert max(waits) > LONGEST_WAIT * 1000
        assert seconds_until(now_ms() + max(waits)) > LONGEST_WAIT
        assert seconds_until(now_ms() + int(LONGEST_RETRY_WAIT * 1000)) == pytest.approx(LONGEST_WAIT + max(BACK_OFF) / 2, abs=0.1)

    in_virtual_time(play)


def test_jitter_repeats_with_the_seed_alone() -> None:
    def waits(seed: int) -> list[int]:
        return SimulatedLoop(Timeline(seed)).run_until_complete(waits_of_many(None))

    assert waits(1) == waits(1) != waits(2)
    random.seed(1)
    first = random_fraction()
    random.seed(1)
    assert random_fraction() != first  # the real one is not the program's `random`


@pytest.mark.parametrize("retry_after", [LONGEST_WAIT + 1, 86_400.0])
def test_too_long_retry_after_pauses_session(retry_after: float) -> None:
    async def play() -> None:
        limited = Limited(failures=1, retry_after=retry_after)
        session = limited.session()
        assert (await session.run("Hello")).status == "failed"
        (attempted,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert (attempted.final, attempted.retry_at - attempted.at) == (True, retry_after * 1000)
        assert (await session.resume()).text == "Hello!"

    in_virtual_time(play)


class LeasedLate(MemoryStore):
    """A store in which the first driver gets its lease only when `first` is done."""

    first: Callable[[], Coroutine[Any, Any, object]] | None = None

    async def lease(self, session: str) -> Any:
        first, self.first = self.first, None
        if first is not None:
            await first()
        return await super().lease(session)


async def test_request_that_another_driver_gave_up_is_not_repeated() -> None:
    """A run that began before the last attempt failed ends with that failure, whichever driver made the attempt."""
    requested: list[Request] = []

    def reply(seen: Request) -> str:
        requested.append(seen)
        raise ModelFailed("no such key")

    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).build()
    store = LeasedLate()
    await workflow.session("s", store=store).say("Hello")
    store.first = workflow.session("s", store=store).resume()._complete
    assert (await workflow.session("s", store=store).resume()).status == "failed"
    assert len(requested) == 1
    assert (await workflow.session("s", store=store).resume()).status == "failed"
    assert len(requested) == 2


async def test_failure_that_stays_has_no_retry_time() -> None:
    model = ScriptedModel([ModelFailed("no such key", status=401), ModelFailed("full", retryable=True), ValueError("a bug")])
    session = HandoffBuilder("desk", [Agent("clerk", model=model)]).with_model_attempts(1).build().session()
    await session.run("Hello")
    await session.resume()
    await session.resume()
    failed = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
    assert [(fact.final, fact.retry_at == fact.at) for fact in failed] == [(True, False), (True, True), (True, False)]
    assert [fact.cause for fact in failed] == ["ModelFailed (model_failed, HTTP:401)", "ModelFailed (model_failed)", "ValueError"]


def test_plan_says_when_request_is_made_again() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        await limited.left_after(1)
        session = await limited.session().refresh()
        (attempted,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        now = plan(session.state, limited.workflow.definition.graph)
        assert now.not_before == {CallModel("clerk", 0): attempted.retry_at}
        await session.say("Are you there?")  # the user overtakes the failure
        assert plan(session.state, limited.workflow.definition.graph).retry_at == 0

    in_virtual_time(play)


def test_message_ends_wait_for_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        running = asyncio.ensure_future(_awaited(limited.session()))
        await asyncio.sleep(5)
        assert (await limited.session().run("Are you there?")).text == "Hello!"
        await running
        assert limited.requested[-1] - limited.requested[0] == pytest.approx(5, abs=0.5)

    in_virtual_time(play)


def test_leaving_ends_wait_for_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        run = limited.session().run("Hello")

        async def driven() -> None:
            await run

        driving = asyncio.ensure_future(driven())
        await asyncio.sleep(5)
        began = seconds()
        run.leave()
        await driving
        assert (seconds() - began < 0.1, len(limited.requested)) == (True, 1)

    in_virtual_time(play)


def test_time_of_other_clock_is_not_waited_for() -> None:
    """A recorded time further ahead than any wait was written before the clock was set back, or by nobody who waits."""

    async def play() -> None:
        assert seconds_until(now_ms() + 1000) == pytest.approx(1, abs=0.1)
        assert [seconds_until(time) for time in (0, now_ms() - 1, now_ms() + 86_400_000, 10**400)] == [0.0] * 4

    in_virtual_time(play)


def test_child_session_waits_in_place() -> None:
    """Where no worker counts slots, an agent as a tool waits for its provider within its call."""

    async def play() -> None:
        limited = Limited(failures=1)
        helper = limited.workflow.definition.agents["clerk"]
        agent = Agent("helper", model=helper.model)

        def boss(seen: Request) -> Any:
            return call("helper", task="help") if seen.messages[-1].role == "user" else "It is done."

        team = HandoffBuilder("team", [Agent("boss", model=ScriptedModel(boss), tools=[agent.as_tool("helper", "Helps.")])]).build()
        session = team.session("s", store=limited.store)
        assert (await session.run("Hello")).text == "It is done."
        assert 60 <= limited.requested[1] - limited.requested[0] <= 60.5
        assert [type(fact).__name__ for fact in session.facts].count("CallStarted") == 1

    in_virtual_time(play)
