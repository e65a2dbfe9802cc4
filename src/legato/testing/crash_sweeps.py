"""The crash sweep: runs a story that dies at point 1, 2, 3 ... and must still end well every time.

It follows SQLite's tests. A *point* is before or after every append (after: it is committed, but not yet acknowledged to its caller), and
before or after every effect (each model's reply and each tool's body). At each point the process dies, or the store fails once, or the
store fails until the process is restarted. Then the same user continues in a new process, with the same store and the same world. At the
end the story's own check and every promise must hold. Deaths during the recovery are swept in the same way.

>>> from legato import Agent, HandoffBuilder
>>> from legato.testing import ScriptedModel
>>> from legato.testing.scripted_users import ScriptedUser
>>> from legato.testing.story import Story
>>> def build(store, world):
...     return HandoffBuilder("desk", [Agent("triage", model=ScriptedModel(by_agent={"triage": ["Hello!"]}))]).build()
>>> def check(result):
...     assert result.session.messages[-1].text == "Hello!"
>>> report = crash_sweep(Story(build, ScriptedUser(["Hi"]), check))
>>> report.violations
[]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from legato.core.facts import AnyFact, Opened
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.errors import StoreError, StoreFull, StoreLocked
from legato.runtime.definition import Middleware, call_user_code
from legato.stores.contract import Store
from legato.stores.memory import MemoryStore
from legato.testing.child_session_checks import check_child_sessions
from legato.testing.failing_store import Died, FailingStore
from legato.testing.promise_checks import Violation, WorkflowRules, check_promises
from legato.testing.scripted_users import DecisionFunction, Verdict, approve_all
from legato.testing.simulated_event_loop import Deadlock, SimulatedLoop, StepLimitExceeded, Timeline
from legato.testing.story import Story, StoryResult, World
from legato.tools import ToolCall
from legato.workflow.workflow import Workflow

SweepMode: TypeAlias = Literal["death", "error", "broken", "second death"]
"""At each point: the process dies; the store fails once; the store fails until a restart; the process dies again during the recovery."""

SWEEP_MODES: tuple[SweepMode, ...] = ("death", "error", "broken", "second death")
MAX_PROCESSES = 12
MAX_POINTS = 5_000
MAX_STEPS = 200_000

SweepCase: TypeAlias = tuple[str, str, str]
"""The name of a story, a point, and a mode."""


@dataclass
class SweepReport:
    """The cases that ran, their counts, and the violations found, each with its case."""

    cases: set[SweepCase] = field(default_factory=set, repr=False)
    points: int = 0
    runs: int = 0
    deaths: int = 0
    errors: int = 0
    facts: int = 0
    violations: list[tuple[SweepCase, Violation]] = field(default_factory=list)

    def add(self, other: SweepReport) -> None:
        """Add the counts and violations of another report."""
        self.cases |= other.cases
        self.violations += other.violations
        for name in ("points", "runs", "deaths", "errors", "facts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        counts = (
            f"{len(self.cases):,} cases (story, point, mode), {self.runs:,} runs, {self.deaths:,} process deaths, "
            f"{self.errors:,} store errors, {self.facts:,} facts: "
            f"{len(self.violations) or 'no'} violation{'s' if len(self.violations) > 1 else ''}"
        )
        return "\n".join([counts, *(f"  {case}: {violation}" for case, violation in self.violations[:20])])


def crash_sweep(
    story: Story,
    *,
    name: str = "story",
    stream: bool = False,
    modes: Sequence[SweepMode] = SWEEP_MODES,
    recovery_points: int | None = 3,
    stride: int = 1,
    store: Callable[[], Store] = MemoryStore,
    simulated: bool = True,
) -> SweepReport:
    """Sweep one story and return a report.

    `recovery_points` is the number of points of a first death whose recovery is swept too (None: all of them). `stride` takes only every
    n-th point. A store that uses threads (`SQLiteStore`) needs `simulated=False`: real event loops and real time.
    """
    report = SweepReport()
    player = _StoryPlayer(story, stream, store, simulated)
    whole = player.run(report, (name, "0", "none"), {})
    report.points = whole.points
    other = _StoryPlayer(story, not stream, store, simulated).run(report, (name, "0", "streamed"), {})
    if whole.normalised_facts != other.normalised_facts:
        report.violations.append(((name, "0", "streamed"), Violation("C6", "streaming and not streaming recorded different facts")))
    for mode in modes:
        if mode == "second death":
            _sweep_recovery(player, report, name, recovery_points, whole.points)
        else:
            for point in range(1, MAX_POINTS, stride):
                if not _run_with_fault(player, report, name, point, mode):
                    break
    return report


def _run_with_fault(player: _StoryPlayer, report: SweepReport, name: str, point: int, mode: SweepMode) -> bool:
    """Run the story with a fault at this point. Return False if it ended before."""
    outcome = player.run(report, (name, str(point), mode), {1: (point, mode)})
    return outcome.is_point_reached


def _sweep_recovery(player: _StoryPlayer, report: SweepReport, name: str, recovery_points: int | None, points: int) -> None:
    """Die at some points, and again at each point of the recovery."""
    first_points = range(1, points + 1)
    if recovery_points is not None and recovery_points < points:
        first_points = range(1, points + 1, -(-points // max(recovery_points, 1)))
    for first in first_points:
        for point in range(1, MAX_POINTS):
            outcome = player.run(report, (name, f"{first}+{point}", "second death"), {1: (first, "death"), 2: (point, "death")})
            if not outcome.is_point_reached:
                break


# -- one run ---------------------------------------------------------------------------------------------------------------


@dataclass
class _RunOutcome:
    points: int = 0
    is_point_reached: bool = False
    normalised_facts: list[bytes] = field(default_factory=list)


class _ProcessRunner(Protocol):
    def run_process(self, process: _StoryProcess) -> None: ...
    def run_in_last_loop(self, make_coroutine: Callable[[], Coroutine[Any, Any, Any]]) -> Any: ...
    def close(self) -> None: ...


class _StoryPlayer:
    """A story and the way it runs."""

    def __init__(self, story: Story, stream: bool, store: Callable[[], Store], simulated: bool) -> None:
        self.story = story
        self.stream = stream
        self.store = store
        self.simulated = simulated

    def run(self, report: SweepReport, case: SweepCase, faults: dict[int, tuple[int, SweepMode]]) -> _RunOutcome:
        """Run the story to its end. `faults` has a point and a mode for the n-th process."""
        outcome = _RunOutcome()
        violations: list[Violation] = []
        store, world = self.store(), World()
        result = StoryResult(None, world)  # type: ignore[arg-type]
        runner: _ProcessRunner = _SimulatedRunner() if self.simulated else _RealRunner()
        processes: list[_StoryProcess] = []
        try:
            self._run_processes(runner, store, result, faults, processes)
            outcome.points = processes[0].count
            outcome.is_point_reached = all(number <= len(processes) and processes[number - 1].is_point_reached for number in faults)
            last = processes[-1]
            if last.error is not None:
                violations.append(Violation("story", f"{type(last.error).__name__}: {last.error}"))
            else:
                runner.run_in_last_loop(lambda: _check_story(self.story, result, store, processes, violations, report, outcome))
        except (Deadlock, StepLimitExceeded) as error:
            violations.append(Violation("D4", f"{type(error).__name__}: {error}"))
        finally:
            for process in processes:
                process.store.is_dead = True
            runner.close()
            _close_store(store)
        report.runs += 1
        report.deaths += sum(process.store.has_died for process in processes)
        report.errors += sum(process.errors for process in processes)
        if outcome.is_point_reached or not faults:
            report.cases.add(case)
        report.violations += [(case, violation) for violation in violations]
        return outcome

    def _run_processes(
        self,
        runner: _ProcessRunner,
        store: Store,
        result: StoryResult,
        faults: dict[int, tuple[int, SweepMode]],
        processes: list[_StoryProcess],
    ) -> None:
        """Run one process after another, until one needs no successor."""
        for number in range(1, MAX_PROCESSES + 1):
            point, mode = faults.get(number, (0, "death"))
            process = _StoryProcess(self.story, store, result, self.stream, point, mode, processes[-1] if processes else None)
            processes.append(process)
            runner.run_process(process)
            if not process.needs_successor:
                return


class _ProcessStore(FailingStore):
    """A failing store that remembers a death."""

    has_died = False

    def die(self, why: str = "") -> Died:
        self.has_died = True
        return super().die(why)


class _StoryProcess:
    """One process: a new workflow and session, with the same user, world and store as the processes before."""

    def __init__(
        self, story: Story, store: Store, result: StoryResult, stream: bool, point: int, mode: SweepMode, previous: _StoryProcess | None
    ) -> None:
        self.story = story
        self.result = result
        self.point = point
        self.mode = mode
        self.previous = previous
        self.count = 0
        self.errors = 0
        self.is_point_reached = False
        self.is_store_broken = False
        self.wants_restart = False
        self.error: BaseException | None = None
        self.store = _ProcessStore(store, self._plan_fault)
        decide = _decide_truthfully(result.world) if story.user.decide is approve_all else story.user.decide
        self.user = replace(story.user, decide=decide, stream=stream, on_event=result.events.append)
        self.workflow: Workflow | None = None

    @property
    def needs_successor(self) -> bool:
        """True if another process must continue the story."""
        return self.store.has_died or self.wants_restart

    async def run(self) -> None:
        """Play the story until its end, or until the process dies."""
        if self.previous is not None:
            await self.previous.store.release_leases()
        self.workflow = self.story.build(self.store, self.result.world).with_middleware(_SweepMiddleware(self))
        self.result.session = self.workflow.session("story", store=self.store)
        for _ in range(4):
            try:
                await self.user.play(self.result.session)
                return
            except StoreError:
                if not self.errors:
                    raise
        self.wants_restart = True  # its store stays broken

    def pass_point(self) -> bool:
        """Count a point. Return True if the fault is due here."""
        self.count += 1
        if self.count != self.point:
            return False
        self.is_point_reached = True
        return True

    def _plan_fault(self, operation: str, when: str, number: int) -> BaseException | None:
        if operation == "append" and self.pass_point():
            if self.mode == "death":
                return Died(f"{when} append")
            self.is_store_broken = self.mode == "broken"
            self.errors += 1
            return (StoreError, StoreFull, StoreLocked)[self.count % 3](f"planned, {when} append")
        if self.is_store_broken and when == "before" and operation not in ("release", "wait"):
            self.errors += 1
            return StoreFull(f"planned, from point {self.point} on")
        return None

    def pass_effect_boundary(self, where: str) -> None:
        """Count the boundary of an effect. The process may die here; other failures of models and tools are up to the story."""
        if self.store.is_dead:
            raise Died(where)
        if self.mode != "error" and self.pass_point():
            if self.mode == "death":
                raise self.store.die(where)
            self.is_store_broken = True


class _SweepMiddleware(Middleware):
    """A middleware that counts the boundaries of effects and records model requests."""

    def __init__(self, process: _StoryProcess) -> None:
        self._process = process

    async def around_model(self, request: ModelRequest, proceed: Any) -> Any:
        self._process.result.requests.append(request)
        self._process.pass_effect_boundary("before a reply")
        reply = await proceed(request)
        self._process.pass_effect_boundary("after a reply")
        return reply

    async def around_tool(self, call: ToolCall, proceed: Any) -> Any:
        self._process.pass_effect_boundary(f"before {call.tool}")
        try:
            output = await proceed()
        except Exception:
            self._process.pass_effect_boundary(f"after {call.tool}")
            raise
        self._process.pass_effect_boundary(f"after {call.tool}")
        return output


def _decide_truthfully(world: World) -> DecisionFunction:
    """Return a function that approves everything, but answers a lost attempt with "done" if its effect is in the world."""

    def decide(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return approve_all(request)
        has_effect = any(key.endswith(f":{request.call}") for key, _ in world.effects)
        return ("answer", "done") if has_effect else "approve"

    return decide


async def _check_story(
    story: Story,
    result: StoryResult,
    store: Store,
    processes: list[_StoryProcess],
    violations: list[Violation],
    report: SweepReport,
    outcome: _RunOutcome,
) -> None:
    try:
        await call_user_code(story.check, result)
    except Exception as error:  # any error of a check is a violation
        violations.append(Violation("story", f"the story's check failed at {_describe_line(error)}: {error!r}"))
    workflow = processes[-1].workflow
    assert workflow is not None
    ledgers = {info.ledger: await store.read(info.ledger) for info in await store.list()}
    violations += check_child_sessions(ledgers)
    rules = WorkflowRules.from_workflow(workflow)
    for ledger, facts in ledgers.items():
        report.facts += len(facts)
        acknowledged = [(at, appended) for process in processes for name, at, appended in process.store.acknowledged if name == ledger]
        violations += check_promises(
            facts,
            result.requests,
            result.world.effects,
            rules=rules if ledger == "story" else rules.for_child_sessions(),
            acknowledged=acknowledged,
            session=ledger,
        )
    outcome.normalised_facts = _normalise_facts(ledgers)


def _describe_line(error: BaseException) -> str:
    """Return the line and file in which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename}" if trace else ""


def _normalise_facts(ledgers: Mapping[str, Sequence[AnyFact]]) -> list[bytes]:
    """Return the facts of all ledgers as bytes, without times and ledger ids, which differ from run to run."""
    ledger_ids = [fact.ledger_id.encode() for facts in ledgers.values() for fact in facts if isinstance(fact, Opened)]
    normalised = []
    for name in sorted(ledgers, key=lambda name: (name.count("/"), len(ledgers[name]))):
        for fact in ledgers[name]:
            fields: dict[str, Any] = {each: getattr(fact, each) for each in fact.__struct_fields__ if each not in ("at", "duration_ms")}
            encoded = type(fact).__name__.encode() + msgspec.json.encode(fields)
            for ledger_id in ledger_ids:
                encoded = encoded.replace(ledger_id, b"a ledger id")
            normalised.append(encoded)
    return normalised


# -- event loops of processes ------------------------------------------------------------------------------------------------


class _SimulatedRunner:
    """Runs each process in its own simulated event loop, all on one timeline."""

    def __init__(self) -> None:
        self.timeline = Timeline("crash")
        self.loops: list[SimulatedLoop] = []

    def run_process(self, process: _StoryProcess) -> None:
        loop = SimulatedLoop(self.timeline)
        self.loops.append(loop)
        process.store.on_death = loop.kill
        task = loop.create_task(process.run())
        self.timeline.run(lambda: loop.is_dead or task.done(), MAX_STEPS)
        if not loop.is_dead:
            process.error = task.exception()
            if process.wants_restart:
                process.store.die("restarted")
                process.store.has_died = False

    def run_in_last_loop(self, make_coroutine: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loops[-1].run_until_complete(make_coroutine())

    def close(self) -> None:
        for loop in self.loops:
            loop.discard_tasks()


class _RealRunner:
    """Runs each process in a real event loop, for stores that use threads."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    def run_process(self, process: _StoryProcess) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        self.loops.append(loop)
        process.store.on_death = loop.stop
        task = loop.create_task(process.run())

        def stop_loop(_: object) -> None:
            loop.stop()

        task.add_done_callback(stop_loop)
        loop.run_forever()
        task.remove_done_callback(stop_loop)
        process.store.on_death = None
        if not process.store.is_dead:
            process.error = task.exception()
            if process.wants_restart:
                process.store.die("restarted")
                process.store.has_died = False

    def run_in_last_loop(self, make_coroutine: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loops[-1].run_until_complete(make_coroutine())

    def close(self) -> None:
        for loop in self.loops:
            for _ in range(20):
                tasks = asyncio.all_tasks(loop)
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(tasks, timeout=1))
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


def _close_store(store: Store) -> None:
    if not isinstance(store, MemoryStore):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(store.close())
        loop.close()


__all__ = ["SWEEP_MODES", "SweepMode", "SweepReport", "crash_sweep"]
