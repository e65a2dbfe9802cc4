"""Slots of a worker, in virtual time: waiting retries hold no slot, and a silent model blocks no other model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import CallPaused, ModelRequestFailed
from legato.core.view import ModelRequest
from legato.engines import LocalEngine, Worker
from legato.engines.model_slots import ModelSlots
from legato.engines.retry_policy import NextStep
from legato.engines.session_step import advance_session
from legato.errors import ModelFailed
from legato.models import FallbackModel, OpenAIResponses
from legato.runtime.clock import monotonic
from legato.stores import MemoryStore
from legato.stores.contract import Lease
from legato.testing import ScriptedModel, call, handoff
from legato.testing.simulated_event_loop import SimulatedLoop, Timeline

SLOTS = 20
MAX_IMMEDIATE_S = 1.0
"""The time in which a session without waits is answered."""


def run_in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop(Timeline(1))
    loop.run_until_complete(play())
    assert not loop.timeline.errors


class SlowModel(ScriptedModel):
    """A model that answers after some seconds, and counts its concurrent requests."""

    def __init__(self, silent_s: float, name: str = "slow") -> None:
        super().__init__(self._answer, name=name)
        self.running = self.max_running = 0
        self._silent_s = silent_s

    async def _answer(self, request: ModelRequest) -> str:
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        try:
            await asyncio.sleep(self._silent_s)
        finally:
            self.running -= 1
        return "At last."


def make_workflow(name: str, model: Any, **more: Any) -> Workflow:
    return HandoffBuilder(name, [Agent(f"{name}_clerk", model=model, **more)]).build()


def make_healthy_workflow() -> Workflow:
    return make_workflow("healthy", ScriptedModel(lambda seen: "Hello!", name="healthy"))


class WorkerHarness:
    """A worker of some workflows, running in this event loop."""

    def __init__(self, *workflows: Workflow, store: MemoryStore | None = None, slots: int = SLOTS, sweep: float = 15.0) -> None:
        self.store = store or MemoryStore()
        self.engine = LocalEngine()
        self.worker = Worker(workflows, engine=self.engine, store=self.store, concurrency=slots, grace=0.0, sweep_interval=sweep)
        self._working = asyncio.ensure_future(self.worker.run(signals=False))

    async def seconds_to_answer(self, workflow: Workflow, id: str) -> float:
        """Send a message, and return the seconds until the session is idle."""
        began = monotonic()
        async with asyncio.timeout(10_000):
            result = await self.engine.session(workflow, id, self.store).run("Hello")
        assert result.status == "waiting", result
        return monotonic() - began

    async def say(self, workflow: Workflow, count: int) -> list[asyncio.Task[float]]:
        """Send a message in `count` sessions, and let them start."""
        tasks = [asyncio.ensure_future(self.seconds_to_answer(workflow, f"{workflow.name}-{number}")) for number in range(count)]
        await asyncio.sleep(MAX_IMMEDIATE_S)
        return tasks

    async def stop(self, *tasks: asyncio.Task[float]) -> None:
        for task in tasks:
            task.cancel()
        self.worker.stop()
        await self._working


def make_rate_limited_model(retry_after: float, failures: int = 1) -> tuple[ScriptedModel, dict[str, list[float]]]:
    """Return a model whose provider asks to wait `failures` times in each session, and the request times of each session."""
    requested: dict[str, list[float]] = {}

    def reply(seen: ModelRequest) -> str:
        times = requested.setdefault(seen.session_id, [])
        times.append(monotonic())
        if len(times) <= failures:
            raise ModelFailed("slow down", retryable=True, retry_after=retry_after)
        return "Hello!"

    return ScriptedModel(reply, name="limited"), requested


def test_session_waiting_for_retry_holds_no_slot() -> None:
    async def play() -> None:
        model, requested = make_rate_limited_model(60)
        limited = make_workflow("limited", model)
        desk = WorkerHarness(limited, slots=2)
        waiting = await desk.say(limited, SLOTS)
        assert len(requested) == SLOTS  # each was requested, although there are two slots, and all wait
        assert all(60 <= took < 60 + MAX_IMMEDIATE_S for took in await asyncio.gather(*waiting))
        assert {len(times) for times in requested.values()} == {2}
        await desk.stop()

    run_in_virtual_time(play)


def test_retry_wait_leaves_slots_for_others() -> None:
    async def play() -> None:
        model, _ = make_rate_limited_model(60)
        limited, other = make_workflow("limited", model), make_healthy_workflow()
        desk = WorkerHarness(limited, other)
        waiting = await desk.say(limited, 2 * SLOTS)
        assert await desk.seconds_to_answer(other, "healthy") < MAX_IMMEDIATE_S
        await desk.stop(*waiting)

    run_in_virtual_time(play)


def test_ended_child_session_releases_its_slot() -> None:
    """While one child of a step waits for a silent model, the slot of another child that has answered is free."""

    async def play() -> None:
        quick = SlowModel(MAX_IMMEDIATE_S / 2, "quick")  # long enough that both children run at the same time
        children = [Agent("slow_child", model=SlowModel(3600)), Agent("quick_child", model=quick)]
        calls = [call("ask_slow_child", task="Go"), call("ask_quick_child", task="Go")]
        boss = make_workflow("boss", ScriptedModel(lambda seen: calls, name="boss"), tools=[each.as_tool() for each in children])
        other = make_workflow("other", quick)
        desk = WorkerHarness(boss, other)
        waiting = await desk.say(boss, SLOTS)
        assert await desk.seconds_to_answer(other, "other") < MAX_IMMEDIATE_S
        await desk.stop(*waiting)

    run_in_virtual_time(play)


@pytest.mark.parametrize("sessions", [SLOTS, 10 * SLOTS])
def test_silent_model_leaves_slots_for_others(sessions: int) -> None:
    async def play() -> None:
        model, other = SlowModel(3600), make_healthy_workflow()
        silent = make_workflow("silent", model)
        desk = WorkerHarness(silent, other)
        waiting = await desk.say(silent, sessions)
        assert model.max_running == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < MAX_IMMEDIATE_S
        await desk.stop(*waiting)

    run_in_virtual_time(play)


def test_freed_slots_go_to_waiting_sessions() -> None:
    async def play() -> None:
        model = SlowModel(10)
        slow = make_workflow("slow", model)
        desk = WorkerHarness(slow, make_healthy_workflow(), sweep=10_000)
        took = await asyncio.gather(*await desk.say(slow, 3 * SLOTS))
        assert (model.max_running, Counter(round(each, -1) for each in took)) == (SLOTS, {10: SLOTS, 20: SLOTS, 30: SLOTS})
        await desk.stop()

    run_in_virtual_time(play)


def test_handoff_to_silent_model_leaves_slots() -> None:
    """A step that continues with another model needs a slot of that model; without one it ends, and the session waits."""

    async def play() -> None:
        model = SlowModel(3600)
        triage = Agent("triage", model=ScriptedModel(lambda seen: handoff("expert"), name="triage"))
        expert = Agent("expert", model=model)
        team = HandoffBuilder("team", [triage, expert]).build()
        other = make_healthy_workflow()
        desk = WorkerHarness(team, other)
        waiting = await desk.say(team, 10 * SLOTS)
        assert model.max_running == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < MAX_IMMEDIATE_S
        await desk.stop(*waiting)

    run_in_virtual_time(play)


async def test_slot_freed_while_step_ends_is_used() -> None:
    """A slot may become free after a step was refused it, and before its session waits for it: no later event would report it."""
    expert = ScriptedModel(["At last."], name="expert")
    triage = Agent("triage", model=ScriptedModel([handoff("expert")], name="triage"))
    team = HandoffBuilder("team", [triage, Agent("expert", model=expert)]).build()
    slots = ModelSlots([team], 1, lambda _: None)
    taken = slots.acquire_step_slot(slots.slot_name(expert))
    assert taken is not None

    class Freeing(MemoryStore):
        async def release(self, lease: Lease, *, idle_at: int | None = None) -> None:
            taken.release()
            await super().release(lease, idle_at=idle_at)

    store = Freeing()
    await team.session("s", store=store).say("Hello")
    rests = [await advance_session({"team": team}, store, "s", asyncio.Event(), slots=slots) for _ in range(2)]
    assert [rest.status for rest in rests] == ["interrupted", "waiting"]


def make_team_with_helper(model: Any) -> Workflow:
    """Return a workflow with a boss that calls a helper as a tool."""

    def reply(seen: ModelRequest) -> Any:
        return call("helper", task="help") if seen.messages[-1].role == "user" else "It is done."

    helper = Agent("helper", model=model)
    boss = Agent("boss", model=ScriptedModel(reply, name="boss"), tools=[helper.as_tool("helper", "Helps.")])
    return HandoffBuilder("team", [boss]).build()


def test_child_waiting_for_retry_holds_no_slot() -> None:
    async def play() -> None:
        model, requested = make_rate_limited_model(60)
        team = make_team_with_helper(model)
        desk = WorkerHarness(team, slots=1)
        waiting = await desk.say(team, SLOTS)
        assert len(requested) == SLOTS
        session = await team.session("team-0", store=desk.store).refresh()
        assert (session.status, session.pending) == ("running", [])
        assert all(60 <= took < 60 + MAX_IMMEDIATE_S for took in await asyncio.gather(*waiting))
        assert {len(times) for times in requested.values()} == {2}
        await desk.stop()

    run_in_virtual_time(play)


def test_child_with_silent_model_leaves_slots() -> None:
    async def play() -> None:
        model, other = SlowModel(100), make_healthy_workflow()
        team = make_team_with_helper(model)
        desk = WorkerHarness(team, other)
        waiting = await desk.say(team, 3 * SLOTS)
        assert model.max_running == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < MAX_IMMEDIATE_S
        assert max(await asyncio.gather(*waiting)) < 3 * 100 + MAX_IMMEDIATE_S
        facts = await desk.store.read(f"team-{3 * SLOTS - 1}")
        assert len([fact for fact in facts if isinstance(fact, CallPaused)]) <= 1  # a session without a slot records nothing
        await desk.stop()

    run_in_virtual_time(play)


def test_restarted_worker_waits_for_recorded_retry() -> None:
    async def play() -> None:
        model, requested = make_rate_limited_model(60)
        limited = make_workflow("limited", model)
        first = WorkerHarness(limited)
        waiting = await first.say(limited, SLOTS)
        await first.stop(*waiting)
        second = WorkerHarness(limited, store=first.store, sweep=5.0)
        await asyncio.sleep(40)
        assert {len(times) for times in requested.values()} == {1}
        await asyncio.sleep(25)
        assert {tuple(round(time - times[0]) for time in times) for times in requested.values()} == {(0, 60)}
        await second.stop()

    run_in_virtual_time(play)


def test_next_worker_drives_sessions_waiting_for_slots() -> None:
    async def play() -> None:
        model, other = SlowModel(10), make_healthy_workflow()
        slow = make_workflow("slow", model)
        first = WorkerHarness(slow, other)
        waiting = await first.say(slow, 2 * SLOTS)
        await first.stop()
        worker = Worker([slow, other], engine=first.engine, store=first.store, concurrency=SLOTS, grace=0.0)
        working = asyncio.ensure_future(worker.run(signals=False))
        await asyncio.gather(*waiting)
        worker.stop()
        await working

    run_in_virtual_time(play)


def test_failed_attempts_count_across_steps() -> None:
    async def play() -> None:
        model, requested = make_rate_limited_model(10, failures=4)
        limited = make_workflow("limited", model)
        desk = WorkerHarness(limited)
        await desk.engine.session(limited, "s", desk.store).say("Hello")
        await asyncio.sleep(35)
        attempts = [fact for fact in await desk.store.read("s") if isinstance(fact, ModelRequestFailed)]
        assert [(fact.attempt, fact.final, bool(fact.retry_at)) for fact in attempts] == [
            (1, False, True),
            (2, False, True),
            (3, False, True),
            (4, True, True),
        ]
        waits = [later - time for time, later in pairwise(requested["s"])]
        assert [10 <= wait <= 11.5 for wait in waits] == [True] * 3
        await desk.stop()

    run_in_virtual_time(play)


def test_message_during_retry_wait_is_answered_at_once() -> None:
    async def play() -> None:
        model, _ = make_rate_limited_model(60)
        limited = make_workflow("limited", model)
        desk = WorkerHarness(limited)
        waiting = await desk.say(limited, 1)
        assert await desk.seconds_to_answer(limited, "limited-0") < MAX_IMMEDIATE_S
        await desk.stop(*waiting)

    run_in_virtual_time(play)


def test_models_share_slots_by_name_and_address() -> None:
    def named(**more: Any) -> OpenAIResponses:
        return OpenAIResponses("gpt-5.1", api_key="any", **more)

    local = {"base_url": "http://127.0.0.1:1/v1"}
    models = [named(), named(), named(**local), ScriptedModel([]), ScriptedModel([])]
    slots = ModelSlots([make_workflow(f"w{number}", model) for number, model in enumerate(models)], 5, lambda _: None)
    names = [slots.slot_name(model) for model in models]
    assert names[0] == names[1]
    assert len({*names}) == 4
    assert slots.total == 4 * 5


def test_fallback_takes_slot_of_requested_model() -> None:
    first, second = ScriptedModel([], name="first"), ScriptedModel([], name="second")
    model = FallbackModel(first, second)
    slots = ModelSlots([make_workflow("w", model)], 1, lambda _: None)
    assert [slots.slot_name(model, attempt) for attempt in (1, 2, 3)] == [slots.slot_name(each) for each in (first, second, second)]
    assert slots.total == 2


def test_waiting_sessions_retry_one_after_another() -> None:
    """Without `on_slot_freed`, as many sessions per second try again as the model has slots, however many wait."""
    slots = ModelSlots([make_workflow("w", ScriptedModel([]))], 10, lambda _: None)
    visits = [slots.seconds_until_retry("m") for _ in range(100)]
    assert visits[0] == pytest.approx(1, abs=0.05)
    assert visits[-1] == pytest.approx(1 + 9.9, abs=0.2)


async def test_woken_session_without_use_for_slot_wakes_next() -> None:
    """The session that is woken for a free slot may not need it: then the next one is woken."""
    engine, made = LocalEngine(), []
    stop, ready, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    answers = {
        "a": [NextStep("no_free_slot", 1.0, model="m"), NextStep("deleted")],
        "b": [NextStep("no_free_slot", 1.0, model="m"), NextStep("waiting")],
    }

    async def advance(session: str, failed: int, broken: int, stop: asyncio.Event) -> NextStep:
        made.append(session)
        if len(made) == 2:
            asyncio.get_running_loop().call_soon(engine.on_slot_freed, "m")
        if len(made) == 4:
            done.set()
        return answers[session].pop(0)

    await engine.wake("a")
    await engine.wake("b")
    serving = asyncio.ensure_future(engine.serve(advance, stop, ready.set, 20, 0.0))
    async with asyncio.timeout(60):
        await done.wait()
    stop.set()
    await serving
    assert made == ["a", "b", "a", "b"]
