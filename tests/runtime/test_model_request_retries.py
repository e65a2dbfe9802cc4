"""Retries of failed model requests: they are made at the recorded time, whichever process drives by then. Time is virtual."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import ModelReplied, ModelRequestFailed
from legato.core.planner import RequestModel, make_plan
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.runtime.clock import monotonic, now_ms, random_fraction
from legato.runtime.model_requests import MAX_BACKOFF_S, MAX_RETRY_AFTER_S, MAX_RETRY_WAIT_S, seconds_until_retry
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call
from legato.testing.simulated_event_loop import SimulatedLoop, Timeline


def in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop(Timeline(1))
    loop.run_until_complete(play())
    assert not loop.timeline.errors


class Limited:
    """A workflow whose provider fails a number of times and asks to wait, and the times of its requests."""

    def __init__(self, failures: int, retry_after: float | None = 60.0) -> None:
        self.requested: list[float] = []
        self._failures = failures
        self._retry_after = retry_after
        self.workflow: Workflow = HandoffBuilder("limited", [Agent("clerk", model=ScriptedModel(self._reply))]).build()
        self.store = MemoryStore()

    def _reply(self, request: ModelRequest) -> str:
        self.requested.append(monotonic())
        if len(self.requested) <= self._failures:
            raise ModelFailed("slow down", retryable=True, retry_after=self._retry_after)
        return "Hello!"

    def session(self) -> Session:
        return self.workflow.session("s", store=self.store)

    def attempts(self, session: Session) -> list[tuple[int, bool]]:
        return [(fact.attempt, fact.final) for fact in session.facts if isinstance(fact, ModelRequestFailed)]

    async def stop_after_attempts(self, attempts: int) -> None:
        """Drive until so many attempts have failed, and stop like a process that ends."""
        running = asyncio.ensure_future(_start_or_resume(self.session()))
        while len(self.requested) < attempts:  # noqa: ASYNC110 - requests have no notification
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running})


async def _start_or_resume(session: Session) -> None:
    await session.refresh()
    await (session.run("Hello") if not session.facts else session.resume())


def test_new_process_waits_until_recorded_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        await limited.stop_after_attempts(1)
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
            await limited.stop_after_attempts(attempts)
        session = limited.session()
        assert (await session.resume()).status == "failed"
        assert limited.attempts(session) == [(1, False), (2, False), (3, False), (4, True)]
        assert len(limited.requested) == 4

    in_virtual_time(play)


def test_backoff_is_recorded_without_retry_after() -> None:
    async def play() -> None:
        limited = Limited(failures=3, retry_after=None)
        session = limited.session()
        await session.run("Hello")
        waits = [fact.retry_at - fact.at for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert [maximum // 2 <= wait <= maximum for wait, maximum in zip(waits, (500, 1000, 2000), strict=True)] == [True] * 3
        (answered,) = [fact for fact in session.facts if isinstance(fact, ModelReplied)]
        assert answered.at == pytest.approx(session.facts[0].at + sum(waits), abs=100)

    in_virtual_time(play)


@pytest.mark.parametrize("retry_after", [float("nan"), -1.0])
def test_invalid_retry_after_is_replaced_by_backoff(retry_after: float) -> None:
    async def play() -> None:
        limited = Limited(failures=1, retry_after=retry_after)
        session = limited.session()
        assert (await session.run("Hello")).text == "Hello!"
        assert [250 <= fact.retry_at - fact.at <= 500 for fact in session.facts if isinstance(fact, ModelRequestFailed)] == [True]

    in_virtual_time(play)


async def waits_of_many(retry_after: float | None) -> list[int]:
    """Return the recorded waits in milliseconds of 50 sessions whose requests fail at the same time."""
    together = asyncio.Barrier(50)

    async def fail(request: ModelRequest) -> str:
        if request.attempt > 1:
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


def test_retry_after_is_the_minimum_wait() -> None:
    async def play() -> None:
        waits = await waits_of_many(60.0)
        assert (len(waits), min(waits) >= 60_000, max(waits) <= 60_250) == (50, True, True)
        assert len(set(waits)) > 40
        assert await waits_of_many(0.0) == [0] * 50

    in_virtual_time(play)


def test_jitter_on_longest_retry_after_is_waited_for() -> None:
    async def play() -> None:
        waits = await waits_of_many(MAX_RETRY_AFTER_S)
        assert max(waits) > MAX_RETRY_AFTER_S * 1000
        assert seconds_until_retry(now_ms() + max(waits)) > MAX_RETRY_AFTER_S
        assert seconds_until_retry(now_ms() + int(MAX_RETRY_WAIT_S * 1000)) == pytest.approx(
            MAX_RETRY_AFTER_S + max(MAX_BACKOFF_S) / 2, abs=0.1
        )

    in_virtual_time(play)


def test_jitter_repeats_with_the_seed_alone() -> None:
    def waits(seed: int) -> list[int]:
        return SimulatedLoop(Timeline(seed)).run_until_complete(waits_of_many(None))

    assert waits(1) == waits(1) != waits(2)
    random.seed(1)
    first = random_fraction()
    random.seed(1)
    assert random_fraction() != first  # the real clock does not use the program's `random`


@pytest.mark.parametrize("retry_after", [MAX_RETRY_AFTER_S + 1, 86_400.0])
def test_too_long_retry_after_pauses_session(retry_after: float) -> None:
    async def play() -> None:
        limited = Limited(failures=1, retry_after=retry_after)
        session = limited.session()
        assert (await session.run("Hello")).status == "failed"
        (failed,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert (failed.final, failed.retry_at - failed.at) == (True, retry_after * 1000)
        assert (await session.resume()).text == "Hello!"

    in_virtual_time(play)


class LeasedLate(MemoryStore):
    """A store in which the first driver gets its lease only after `first` has run."""

    first: Callable[[], Coroutine[Any, Any, object]] | None = None

    async def lease(self, session: str) -> Any:
        first, self.first = self.first, None
        if first is not None:
            await first()
        return await super().lease(session)


async def test_request_given_up_elsewhere_is_not_repeated() -> None:
    """A run that began before the last attempt failed ends with that failure, whichever driver made the attempt."""
    requested: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        requested.append(request)
        raise ModelFailed("no such key")

    workflow = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(reply))]).build()
    store = LeasedLate()
    await workflow.session("s", store=store).say("Hello")
    store.first = workflow.session("s", store=store).resume()._complete
    assert (await workflow.session("s", store=store).resume()).status == "failed"
    assert len(requested) == 1
    assert (await workflow.session("s", store=store).resume()).status == "failed"
    assert len(requested) == 2


async def test_permanent_failure_has_no_retry_time() -> None:
    model = ScriptedModel([ModelFailed("no such key", status=401), ModelFailed("full", retryable=True), ValueError("a bug")])
    session = HandoffBuilder("desk", [Agent("clerk", model=model)]).with_model_attempts(1).build().session()
    await session.run("Hello")
    await session.resume()
    await session.resume()
    failed = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
    assert [(fact.final, fact.retry_at == fact.at) for fact in failed] == [(True, False), (True, True), (True, False)]
    assert [fact.cause for fact in failed] == ["ModelFailed (model_failed, HTTP:401)", "ModelFailed (model_failed)", "ValueError"]


def test_plan_has_time_of_next_attempt() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        await limited.stop_after_attempts(1)
        session = await limited.session().refresh()
        (failed,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        plan = make_plan(session.state, limited.workflow.definition.graph)
        assert plan.not_before == {RequestModel("clerk", 0): failed.retry_at}
        await session.say("Are you there?")  # a message supersedes the failure
        assert make_plan(session.state, limited.workflow.definition.graph).retry_at == 0

    in_virtual_time(play)


def test_message_ends_wait_for_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        running = asyncio.ensure_future(_start_or_resume(limited.session()))
        await asyncio.sleep(5)
        assert (await limited.session().run("Are you there?")).text == "Hello!"
        await running
        assert limited.requested[-1] - limited.requested[0] == pytest.approx(5, abs=0.5)

    in_virtual_time(play)


def test_drain_ends_wait_for_retry() -> None:
    async def play() -> None:
        limited = Limited(failures=1)
        run = limited.session().run("Hello")

        async def driven() -> None:
            await run

        driving = asyncio.ensure_future(driven())
        await asyncio.sleep(5)
        began = monotonic()
        run.drain()
        await driving
        assert (monotonic() - began < 0.1, len(limited.requested)) == (True, 1)

    in_virtual_time(play)


def test_retry_time_of_other_clock_is_ignored() -> None:
    """A recorded time further ahead than any wait was written by another clock, or before the clock was set back."""

    async def play() -> None:
        assert seconds_until_retry(now_ms() + 1000) == pytest.approx(1, abs=0.1)
        assert [seconds_until_retry(time) for time in (0, now_ms() - 1, now_ms() + 86_400_000, 10**400)] == [0.0] * 4

    in_virtual_time(play)


def test_child_session_waits_in_place() -> None:
    """Without worker slots, an agent as a tool waits for its provider within its call."""

    async def play() -> None:
        limited = Limited(failures=1)
        helper = limited.workflow.definition.agents["clerk"]
        agent = Agent("helper", model=helper.model)

        def boss(request: ModelRequest) -> Any:
            return call("helper", task="help") if request.messages[-1].role == "user" else "It is done."

        team = HandoffBuilder("team", [Agent("boss", model=ScriptedModel(boss), tools=[agent.as_tool("helper", "Helps.")])]).build()
        session = team.session("s", store=limited.store)
        assert (await session.run("Hello")).text == "It is done."
        assert 60 <= limited.requested[1] - limited.requested[0] <= 60.5
        assert [type(fact).__name__ for fact in session.facts].count("CallStarted") == 1

    in_virtual_time(play)
