"""The crash sweep: a story dies at point 1, 2, 3 ... and must come out well every time. May know: stories. Decides: where to die.

In the spirit of SQLite's tests. A *point* is every append (before it, and after it was committed but before anybody was told) and every
boundary of an effect (before and after each model's reply and each tool's body). At each point the process dies, or the store
fails once, or fails until the process is restarted. Then the same person goes on in a fresh process on the same store and in
the same world, and at the end the story's own check and every promise must hold. Dying in the recovery is swept likewise.

>>> from legato import Agent, HandoffBuilder
>>> from legato.testing import ScriptedModel
>>> from legato.testing.people import Person
>>> from legato.testing.story import Story
>>> def build(store, world):
...     return HandoffBuilder("desk", [Agent("triage", model=ScriptedModel(by_agent={"triage": ["Hello!"]}))]).build()
>>> def check(told):
...     assert told.session.messages[-1].text == "Hello!"
>>> report = crash_sweep(Story(build, Person(["Hi"]), check))
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
from legato.core.view import Request
from legato.errors import StoreError, StoreFull, StoreLocked
from legato.runtime.definition import Middleware, called
from legato.stores.contract import Store
from legato.stores.memory import MemoryStore
from legato.testing.faults import Died, FailingStore
from legato.testing.loop import Deadlock, Endless, SimulatedLoop, Timeline
from legato.testing.people import Decide, Verdict, approve_all
from legato.testing.promises import Rules, Violation, check_promises
from legato.testing.story import Story, Told, World
from legato.testing.waiting import check_waiting
from legato.tools import ToolCall
from legato.workflow.workflow import Workflow

Mode: TypeAlias = Literal["death", "error", "broken", "second death"]
"""The process dies; the store fails once; the store fails until the process is restarted; it dies again while it recovers."""

MODES: tuple[Mode, ...] = ("death", "error", "broken", "second death")
MOST_LIVES = 12
MOST_POINTS = 5_000
MOST_STEPS = 200_000

Triple: TypeAlias = tuple[str, str, str]
"""Story, point, mode."""


@dataclass
class SweepReport:
    """What was swept: every (story, point, mode) that ran, and what broke where."""

    triples: set[Triple] = field(default_factory=set, repr=False)
    points: int = 0
    runs: int = 0
    deaths: int = 0
    errors: int = 0
    facts: int = 0
    violations: list[tuple[Triple, Violation]] = field(default_factory=list)

    def add(self, other: SweepReport) -> None:
        """Take in what another report counted."""
        self.triples |= other.triples
        self.violations += other.violations
        for name in ("points", "runs", "deaths", "errors", "facts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        counts = (
            f"{len(self.triples):,} distinct (story, point, mode), {self.runs:,} runs, {self.deaths:,} deaths, "
            f"{self.errors:,} store errors, {self.facts:,} facts: "
            f"{len(self.violations) or 'no'} violation{'s' if len(self.violations) > 1 else ''}"
        )
        return "\n".join([counts, *(f"  {triple}: {violation}" for triple, violation in self.violations[:20])])


def crash_sweep(
    story: Story,
    *,
    name: str = "story",
    stream: bool = False,
    modes: Sequence[Mode] = MODES,
    second: int | None = 3,
    stride: int = 1,
    store: Callable[[], Store] = MemoryStore,
    simulated: bool = True,
) -> SweepReport:
    """Sweep one story, and report.

    `second` is at how many first points the recovery is swept in its turn (None: at all of them). `stride` takes only every so-manieth
    point. A store that uses threads (`SQLiteStore`) needs `simulated=False`: real loops, real time.
    """
    report = SweepReport()
    play = _Undisturbed(story, stream, store, simulated)
    whole = play.run(report, (name, "0", "none"), {})
    report.points = whole.points
    other = _Undisturbed(story, not stream, store, simulated).run(report, (name, "0", "streamed"), {})
    if whole.shape != other.shape:
        report.violations.append(((name, "0", "streamed"), Violation("C6", "streaming and not streaming recorded different facts")))
    for mode in modes:
        if mode == "second death":
            _sweep_second(play, report, name, second, whole.points)
        else:
            for point in range(1, MOST_POINTS, stride):
                if not _run_at(play, report, name, point, mode):
                    break
    return report


def _run_at(play: _Undisturbed, report: SweepReport, name: str, point: int, mode: Mode) -> bool:
    """One run that is disturbed at this point. False if it was over before."""
    told = play.run(report, (name, str(point), mode), {1: (point, mode)})
    return told.reached


def _sweep_second(play: _Undisturbed, report: SweepReport, name: str, second: int | None, points: int) -> None:
    """Die, and die again at each point of what follows."""
    every = range(1, points + 1)
    if second is not None and second < points:
        every = range(1, points + 1, -(-points // max(second, 1)))
    for first in every:
        for point in range(1, MOST_POINTS):
            told = play.run(report, (name, f"{first}+{point}", "second death"), {1: (first, "death"), 2: (point, "death")})
            if not told.reached:
                break


# -- one run ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Outcome:
    points: int = 0
    reached: bool = False
    shape: list[bytes] = field(default_factory=list)


class _Runner(Protocol):
    def live(self, life: _Life) -> None: ...
    def finish(self, life: _Life, doing: Callable[[], Coroutine[Any, Any, Any]]) -> Any: ...
    def bury(self) -> None: ...


class _Undisturbed:
    """A story, and how it is told; `run` disturbs it."""

    def __init__(self, story: Story, stream: bool, store: Callable[[], Store], simulated: bool) -> None:
        self.story = story
        self.stream = stream
        self.store = store
        self.simulated = simulated

    def run(self, report: SweepReport, triple: Triple, disturb: dict[int, tuple[int, Mode]]) -> _Outcome:
        """Tell the story, disturbed in the n-th life at a point of it."""
        outcome = _Outcome()
        broken: list[Violation] = []
        base, world = self.store(), World()
        told = Told(None, world)  # type: ignore[arg-type]
        runner: _Runner = _Simulated() if self.simulated else _Real()
        lives: list[_Life] = []
        try:
            self._live(runner, base, told, disturb, lives)
            outcome.points = lives[0].count
            outcome.reached = all(number <= len(lives) and lives[number - 1].disturbed for number in disturb)
            last = lives[-1]
            if last.error is not None:
                broken.append(Violation("story", f"{type(last.error).__name__}: {last.error}"))
            else:
                runner.finish(last, lambda: _check(self.story, told, base, lives, broken, report, outcome))
        except (Deadlock, Endless) as error:
            broken.append(Violation("D4", f"{type(error).__name__}: {error}"))
        finally:
            for life in lives:
                life.store.dead = True
            runner.bury()
            _forget(base)
        report.runs += 1
        report.deaths += sum(life.store.died for life in lives)
        report.errors += sum(life.errors for life in lives)
        if outcome.reached or not disturb:
            report.triples.add(triple)
        report.violations += [(triple, violation) for violation in broken]
        return outcome

    def _live(self, runner: _Runner, base: Store, told: Told, disturb: dict[int, tuple[int, Mode]], lives: list[_Life]) -> None:
        """One life after another, until one ends by itself."""
        for number in range(1, MOST_LIVES + 1):
            point, mode = disturb.get(number, (0, "death"))
            life = _Life(self.story, base, told, self.stream, point, mode, lives[-1] if lives else None)
            lives.append(life)
            runner.live(life)
            if not life.over:
                return


class _LifeStore(FailingStore):
    died = False

    def die(self, why: str = "") -> Died:
        self.died = True
        return super().die(why)


class _Life:
    """One process: a fresh workflow and session, the same person, the same world and store."""

    def __init__(self, story: Story, base: Store, told: Told, stream: bool, point: int, mode: Mode, before: _Life | None) -> None:
        self.story = story
        self.told = told
        self.base = base
        self.point = point
        self.mode = mode
        self.before = before
        self.count = 0
        self.errors = 0
        self.disturbed = False
        self.failing = False
        self.restart = False
        self.error: BaseException | None = None
        self.store = _LifeStore(base, self._plan)
        person = story.person
        decide = _truthful(told.world, self._facts) if person.decide is approve_all else person.decide
        self.person = replace(person, decide=decide, stream=stream, watch=told.events.append)
        self.workflow: Workflow | None = None
        self.at = ""

    @property
    def over(self) -> bool:
        """Whether another life has to follow."""
        return self.store.died or self.restart

    async def play(self) -> None:
        """Live: until the story is over, or the process is."""
        if self.before is not None:
            await self.before.store.bury()
        self.workflow = self.story.build(self.store, self.told.world).observed_by(_Observer(self))
        self.told.session = self.workflow.session("story", store=self.store)
        for _ in range(4):
            try:
                await self.person.play(self.told.session)
                return
            except StoreError:
                if not self.errors:
                    raise
        self.restart = True  # the store is broken for this process: somebody restarts it

    def reach(self, where: str) -> bool:
        """A point. True if this is where it happens."""
        self.count += 1
        if self.count != self.point:
            return False
        self.disturbed = True
        self.at = where
        return True

    def _plan(self, operation: str, when: str, number: int) -> BaseException | None:
        if operation == "append" and self.reach(f"{when} append"):
            if self.mode == "death":
                return Died(f"{when} append")
            self.failing = self.mode == "broken"
            self.errors += 1
            return (StoreError, StoreFull, StoreLocked)[self.count % 3](f"planned, {when} append")
        if self.failing and when == "before" and operation not in ("release", "wait"):
            self.errors += 1
            return StoreFull(f"planned, from point {self.point} on")
        return None

    def effect(self, where: str) -> None:
        """A boundary of an effect. Only death can happen here: what else a model or a tool can do is up to the story."""
        if self.store.dead:
            raise Died(where)
        if self.mode != "error" and self.reach(where):
            if self.mode == "death":
                raise self.store.die(where)
            self.failing = True

    def _facts(self) -> Sequence[AnyFact]:
        return self.told.session.facts


class _Observer(Middleware):
    """Counts the boundaries of effects, and keeps what models were asked."""

    def __init__(self, life: _Life) -> None:
        self._life = life

    async def around_model(self, request: Request, proceed: Any) -> Any:
        self._life.told.requests.append(request)
        self._life.effect("before a reply")
        reply = await proceed(request)
        self._life.effect("after a reply")
        return reply

    async def around_tool(self, call: ToolCall, proceed: Any) -> Any:
        self._life.effect(f"before {call.tool}")
        try:
            output = await proceed()
        except Exception:
            self._life.effect(f"after {call.tool}")
            raise
        self._life.effect(f"after {call.tool}")
        return output


def _truthful(world: World, facts: Callable[[], Sequence[AnyFact]]) -> Decide:
    """Approves everything; of a lost attempt says what the world shows: done, or not, and then it may run again."""

    def decide(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return approve_all(request)
        done = any(key.endswith(f":{request.call}") for key, _ in world.deeds)
        return ("answer", "done") if done else "approve"

    return decide


async def _check(
    story: Story, told: Told, base: Store, lives: list[_Life], broken: list[Violation], report: SweepReport, outcome: _Outcome
) -> None:
    try:
        await called(story.check, told)
    except Exception as error:  # whatever a check stumbles over is a finding
        broken.append(Violation("story", f"the story's check failed at {_line(error)}: {error!r}"))
    workflow = lives[-1].workflow
    assert workflow is not None
    ledgers = {info.ledger: await base.read(info.ledger) for info in await base.list()}
    broken += check_waiting(ledgers)
    rules = Rules.of(workflow)
    for ledger, facts in ledgers.items():
        report.facts += len(facts)
        acknowledged = [(at, given) for life in lives for name, at, given in life.store.acknowledged if name == ledger]
        broken += check_promises(
            facts,
            told.requests,
            told.world.deeds,
            rules=rules if ledger == "story" else rules.of_tools(),
            acknowledged=acknowledged,
            session=ledger,
        )
    outcome.shape = _shape(ledgers)


def _line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename}" if trace else ""


def _shape(ledgers: Mapping[str, Sequence[AnyFact]]) -> list[bytes]:
    """The facts of all ledgers without what differs from run to run: times, and the unique names of ledgers, which keys are made of."""
    names = [fact.ledger.encode() for facts in ledgers.values() for fact in facts if isinstance(fact, Opened)]
    shapes = []
    for name in sorted(ledgers, key=lambda name: (name.count("/"), len(ledgers[name]))):
        for fact in ledgers[name]:
            plain: dict[str, Any] = {each: getattr(fact, each) for each in fact.__struct_fields__ if each not in ("at", "took")}
            shape = type(fact).__name__.encode() + msgspec.json.encode(plain)
            for unique in names:
                shape = shape.replace(unique, b"a name")
            shapes.append(shape)
    return shapes


# -- where processes live --------------------------------------------------------------------------------------------------


class _Simulated:
    """Simulated loops on one timeline: each life is a loop."""

    def __init__(self) -> None:
        self.timeline = Timeline("crash")
        self.loops: list[SimulatedLoop] = []

    def live(self, life: _Life) -> None:
        loop = SimulatedLoop(self.timeline)
        self.loops.append(loop)
        life.store.on_death = loop.kill
        task = loop.create_task(life.play())
        self.timeline.run(lambda: loop.dead or task.done(), MOST_STEPS)
        if not loop.dead:
            life.error = task.exception()
            if life.restart:
                life.store.die("restarted")
                life.store.died = False

    def finish(self, life: _Life, doing: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loops[-1].run_until_complete(doing())

    def bury(self) -> None:
        for loop in self.loops:
            loop.bury()


class _Real:
    """Real loops, for stores that use threads."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    def live(self, life: _Life) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        self.loops.append(loop)
        life.store.on_death = loop.stop
        task = loop.create_task(life.play())

        def ended(_: object) -> None:
            loop.stop()

        task.add_done_callback(ended)
        loop.run_forever()
        task.remove_done_callback(ended)
        life.store.on_death = None
        if not life.store.dead:
            life.error = task.exception()
            if life.restart:
                life.store.die("restarted")
                life.store.died = False

    def finish(self, life: _Life, doing: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.loops[-1].run_until_complete(doing())

    def bury(self) -> None:
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


def _forget(base: Store) -> None:
    if not isinstance(base, MemoryStore):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(base.close())
        loop.close()


__all__ = ["MODES", "Mode", "SweepReport", "crash_sweep"]
