"""Slots of a worker: sessions that wait for a retry hold none, and those of a silent model hold up no others. Time is virtual."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import CallPaused, ModelRequestFailed
from legato.core.view import Request
from legato.engines import LocalEngine, Worker
from legato.engines.advance import advance
from legato.engines.pace import Step
from legato.engines.slots import ModelSlots
from legato.errors import ModelFailed
from legato.models import FallbackModel, OpenAIResponses
from legato.runtime.clock import seconds
from legato.stores import MemoryStore
from legato.stores.contract import Lease
from legato.testing import ScriptedModel, call, handoff
from legato.testing.loop import SimulatedLoop, Timeline

SLOTS = 20
AT_ONCE_S = 1.0
"""Seconds in which a session is answered that waits for nothing."""


def in_virtual_time(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimulatedLoop(Timeline(1))
    loop.run_until_complete(play())
    assert not loop.timeline.errors


class SlowModel(ScriptedModel):
    """Is silent for some seconds, then answers. Knows how many requests it had at the same time."""

    def __init__(self, silent_s: float, name: str = "slow") -> None:
        super().__init__(self._answer, name=name)
        self.running = self.most = 0
        self._silent_s = silent_s

    async def _answer(self, request: Request) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self._silent_s)
        finally:
            self.running -= 1
        return "At last."


def workflow_of(name: str, model: Any, **more: Any) -> Workflow:
    return HandoffBuilder(name, [Agent(f"{name}_clerk", model=model, **more)]).build()


def healthy() -> Workflow:
    return workflow_of("healthy", ScriptedModel(lambda seen: "Hello!", name="healthy"))


class Desk:
    """A worker of some workflows, in this event loop."""

    def __init__(self, *workflows: Workflow, store: MemoryStore | None = None, slots: int = SLOTS, sweep: float = 15.0) -> None:
        self.store = store or MemoryStore()
        self.engine = LocalEngine()
        self.worker = Worker(workflows, engine=self.engine, store=self.store, concurrency=slots, grace=0.0, sweep=sweep)
        self._working = asyncio.ensure_future(self.worker.run(signals=False))

    async def seconds_to_answer(self, workflow: Workflow, id: str) -> float:
        """Say something, and wait until the session rests."""
        began = seconds()
        async with asyncio.timeout(10_000):
            result = await self.engine.session(workflow, id, self.store).run("Hello")
        assert result.status == "waiting", result
        return seconds() - began

    async def say(self, workflow: Workflow, count: int) -> list[asyncio.Task[float]]:
        """Say something in so many sessions, and let them begin."""
        tasks = [asyncio.ensure_future(self.seconds_to_answer(workflow, f"{workflow.name}-{number}")) for number in range(count)]
        await asyncio.sleep(AT_ONCE_S)
        return tasks

    async def stop(self, *tasks: asyncio.Task[float]) -> None:
        for task in tasks:
            task.cancel()
        self.worker.stop()
        await self._working


def asked_to_wait(retry_after: float, failures: int = 1) -> tuple[ScriptedModel, dict[str, list[float]]]:
    """A model whose provider asks to wait so often, in each session that says "Hello"; and when it was requested in each."""
    requested: dict[str, list[float]] = {}

    def reply(seen: Request) -> str:
        times = requested.setdefault(seen.session, [])
        times.append(seconds())
        if len(times) <= failures:
            raise ModelFailed("slow down", retryable=True, retry_after=retry_after)
        return "Hello!"

    return ScriptedModel(reply, name="limited"), requested


def test_session_waiting_for_retry_holds_no_slot() -> None:
    async def play() -> None:
        model, requested = asked_to_wait(60)
        limited = workflow_of("limited", model)
        desk = Desk(limited, slots=2)
        waiting = await desk.say(limited, SLOTS)
        assert len(requested) == SLOTS  # each was tried, although there are two slots, and all wait
        assert all(60 <= took < 60 + AT_ONCE_S for took in await asyncio.gather(*waiting))
        assert {len(times) for times in requested.values()} == {2}
        await desk.stop()

    in_virtual_time(play)


def test_retry_wait_leaves_slots_for_others() -> None:
    async def play() -> None:
        model, _ = asked_to_wait(60)
        limited, other = workflow_of("limited", model), healthy()
        desk = Desk(limited, other)
        waiting = await desk.say(limited, 2 * SLOTS)
        assert await desk.seconds_to_answer(other, "healthy") < AT_ONCE_S
        await desk.stop(*waiting)

    in_virtual_time(play)


def test_child_that_ended_gives_its_slot_back() -> None:
    """While one child of a step waits for a silent model, the slot of another child that has answered is free."""

    async def play() -> None:
        quick = SlowModel(AT_ONCE_S / 2, "quick")  # long enough that both children are under way at the same time
        children = [Agent("slow_child", model=SlowModel(3600)), Agent("quick_child", model=quick)]
        calls = [call("ask_slow_child", task="Go"), call("ask_quick_child", task="Go")]
        boss = workflow_of("boss", ScriptedModel(lambda seen: calls, name="boss"), tools=[each.as_tool() for each in children])
        other = workflow_of("other", quick)
        desk = Desk(boss, other)
        waiting = await desk.say(boss, SLOTS)
        assert await desk.seconds_to_answer(other, "other") < AT_ONCE_S
        await desk.stop(*waiting)

    in_virtual_time(play)


@pytest.mark.parametrize("sessions", [SLOTS, 10 * SLOTS])
def test_silent_model_leaves_slots_for_others(sessions: int) -> None:
    async def play() -> None:
        model, other = SlowModel(3600), healthy()
        silent = workflow_of("silent", model)
        desk = Desk(silent, other)
        waiting = await desk.say(silent, sessions)
        assert model.most == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < AT_ONCE_S
        await desk.stop(*waiting)

    in_virtual_time(play)


def test_freed_slots_go_to_waiting_sessions() -> None:
    async def play() -> None:
        model = SlowModel(10)
        slow = workflow_of("slow", model)
        desk = Desk(slow, healthy(), sweep=10_000)
        took = await asyncio.gather(*await desk.say(slow, 3 * SLOTS))
        assert (model.most, Counter(round(each, -1) for each in took)) == (SLOTS, {10: SLOTS, 20: SLOTS, 30: SLOTS})
        await desk.stop()

    in_virtual_time(play)


def test_handoff_to_silent_model_leaves_slots() -> None:
    """A step that goes on with another model needs a slot of that one: else it ends, and the session waits for one."""

    async def play() -> None:
        model = SlowModel(3600)
        triage = Agent("triage", model=ScriptedModel(lambda seen: handoff("expert"), name="triage"))
        expert = Agent("expert", model=model)
        team = HandoffBuilder("team", [triage, expert]).build()
        other = healthy()
        desk = Desk(team, other)
        waiting = await desk.say(team, 10 * SLOTS)
        assert model.most == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < AT_ONCE_S
        await desk.stop(*waiting)

    in_virtual_time(play)


async def test_slot_freed_while_step_ends_is_used() -> None:
    """A slot may become free after a step was refused it, and before its session waits for it: then nobody would tell of it again."""
    expert = ScriptedModel(["At last."], name="expert")
    triage = Agent("triage", model=ScriptedModel([handoff("expert")], name="triage"))
    team = HandoffBuilder("team", [triage, Agent("expert", model=expert)]).build()
    slots = ModelSlots([team], 1, lambda _: None)
    taken = slots.slot(slots.name_of(expert))
    assert taken is not None

    class Freeing(MemoryStore):
        async def release(self, lease: Lease, *, rested: int | None = None) -> None:
            taken.release()
            await super().release(lease, rested=rested)

    store = Freeing()
    await team.session("s", store=store).say("Hello")
    rests = [await advance({"team": team}, store, "s", asyncio.Event(), slots=slots) for _ in range(2)]
    assert [rest.how for rest in rests] == ["left", "waiting"]


def team_with_helper(model: Any) -> Workflow:
    """A boss who calls a helper as a tool."""

    def reply(seen: Request) -> Any:
        return call("helper", task="help") if seen.messages[-1].role == "user" else "It is done."

    helper = Agent("helper", model=model)
    boss = Agent("boss", model=ScriptedModel(reply, name="boss"), tools=[helper.as_tool("helper", "Helps.")])
    return HandoffBuilder("team", [boss]).build()


def test_child_waiting_for_retry_holds_no_slot() -> None:
    async def play() -> None:
        model, requested = asked_to_wait(60)
        team = team_with_helper(model)
        desk = Desk(team, slots=1)
        waiting = await desk.say(team, SLOTS)
        assert len(requested) == SLOTS
        session = await team.session("team-0", store=desk.store).refresh()
        assert (session.status, session.pending) == ("running", [])
        assert all(60 <= took < 60 + AT_ONCE_S for took in await asyncio.gather(*waiting))
        assert {len(times) for times in requested.values()} == {2}
        await desk.stop()

    in_virtual_time(play)


def test_child_with_silent_model_leaves_slots() -> None:
    async def play() -> None:
        model, other = SlowModel(100), healthy()
        team = team_with_helper(model)
        desk = Desk(team, other)
        waiting = await desk.say(team, 3 * SLOTS)
        assert model.most == SLOTS
        assert await desk.seconds_to_answer(other, "healthy") < AT_ONCE_S
        assert max(await asyncio.gather(*waiting)) < 3 * 100 + AT_ONCE_S
        facts = await desk.store.read(f"team-{3 * SLOTS - 1}")
        assert len([fact for fact in facts if isinstance(fact, CallPaused)]) <= 1  # a session that waits for a slot records nothing
        await desk.stop()

    in_virtual_time(play)


def test_restarted_worker_waits_for_recorded_retry() -> None:
    async def play() -> None:
        model, requested = asked_to_wait(60)
        limited = workflow_of("limited", model)
        first = Desk(limited)
        waiting = await first.say(limited, SLOTS)
        await first.stop(*waiting)
        second = Desk(limited, store=first.store, sweep=5.0)
        await asyncio.sleep(40)
        assert {len(times) for times in requested.values()} == {1}
        await asyncio.sleep(25)
        assert {tuple(round(time - times[0]) for time in times) for times in requested.values()} == {(0, 60)}
        await second.stop()

    in_virtual_time(play)


def test_next_worker_of_engine_advances_those_that_waited_for_slots() -> None:
    async def play() -> None:
        model, other = SlowModel(10), healthy()
        slow = workflow_of("slow", model)
        first = Desk(slow, other)
        waiting = await first.say(slow, 2 * SLOTS)
        await first.stop()
        worker = Worker([slow, other], engine=first.engine, store=first.store, concurrency=SLOTS, grace=0.0)
        working = asyncio.ensure_future(worker.run(signals=False))
        await asyncio.gather(*waiting)
        worker.stop()
        await working

    in_virtual_time(play)


def test_failed_attempts_count_across_steps() -> None:
    async def play() -> None:
        model, requested = asked_to_wait(10, failures=4)
        limited = workflow_of("limited", model)
        desk = Desk(limited)
        await desk.engine.session(limited, "s", desk.store).say("Hello")
        await asyncio.sleep(35)
        attempts = [fact for fact in await desk.store.read("s") if isinstance(fact, ModelRequestFailed)]
        assert [(fact.number, fact.final, bool(fact.retry_at)) for fact in attempts] == [
            (1, False, True),
            (2, False, True),
            (3, False, True),
            (4, True, True),
        ]
        waits = [later - time for time, later in pairwise(requested["s"])]
        assert [10 <= wait <= 11.5 for wait in waits] == [True] * 3
        await desk.stop()

    in_virtual_time(play)


def test_message_during_retry_wait_is_answered_at_once() -> None:
    async def play() -> None:
        model, _ = asked_to_wait(60)
        limited = workflow_of("limited", model)
        desk = Desk(limited)
        waiting = await desk.say(limited, 1)
        assert await desk.seconds_to_answer(limited, "limited-0") < AT_ONCE_S
        await desk.stop(*waiting)

    in_virtual_time(play)


def test_models_share_slots_by_name_and_address() -> None:
    def named(**more: Any) -> OpenAIResponses:
        return OpenAIResponses("gpt-5.1", api_key="any", **more)

    local = {"base_url": "http://127.0.0.1:1/v1"}
    models = [named(), named(), named(**local), ScriptedModel([]), ScriptedModel([])]
    slots = ModelSlots([workflow_of(f"w{number}", model) for number, model in enumerate(models)], 5, lambda _: None)
    names = [slots.name_of(model) for model in models]
    assert names[0] == names[1]
    assert len({*names}) == 4
    assert slots.total == 4 * 5


def test_fallback_takes_slot_of_model_it_asks() -> None:
    first, second = ScriptedModel([], name="first"), ScriptedModel([], name="second")
    model = FallbackModel(first, second)
    slots = ModelSlots([workflow_of("w", model)], 1, lambda _: None)
    assert [slots.name_of(model, attempt) for attempt in (1, 2, 3)] == [slots.name_of(each) for each in (first, second, second)]
    assert slots.total == 2


def test_turned_away_sessions_come_back_one_after_another() -> None:
    """Engines that cannot be told of a free slot look as often per second as the model has slots, however many sessions wait."""
    slots = ModelSlots([workflow_of("w", ScriptedModel([]))], 10, lambda _: None)
    visits = [slots.seconds_to_next_visit("m") for _ in range(100)]
    assert visits[0] == pytest.approx(1, abs=0.05)
    assert visits[-1] == pytest.approx(1 + 9.9, abs=0.2)


async def test_woken_session_without_use_for_slot_wakes_next() -> None:
    """A session that a free slot was meant for may need none by then: the next one is looked at."""
    engine, made = LocalEngine(), []
    stop, ready, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    answers = {"a": [Step("busy", 1.0, model="m"), Step("gone")], "b": [Step("busy", 1.0, model="m"), Step("waiting")]}

    async def advance(session: str, failed: int, broken: int, stop: asyncio.Event) -> Step:
        made.append(session)
        if len(made) == 2:
            asyncio.get_running_loop().call_soon(engine.slot_freed, "m")
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
