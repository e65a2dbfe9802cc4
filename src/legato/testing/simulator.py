"""The simulator: a workflow under thousands of random schedules, every promise checked. May know: everything public. Decides: by dice.

One seed is one schedule, the same in every run: models that reply anything, tools that dawdle, fail and hang, people who answer in any
order, twice and at once, who speak in the middle, cancel, fork, and have words erased; two processes on one session that die at any
operation, come back, and lose their leases wrongly; a store that fails. All of it in virtual time, in a millisecond or two. Then the dust
settles, what happened is checked by `check_promises`, `check_families` and `check_effects`, and a last message must still get its answer.

>>> from legato import Agent, HandoffBuilder
>>> from legato.testing import ScriptedModel
>>> desk = HandoffBuilder("desk", [Agent("triage", model=ScriptedModel([])), Agent("refunds", model=ScriptedModel([]))]).build()
>>> report = simulate(desk, seeds=range(20))
>>> report.schedules, report.violations
(20, [])
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, NamedTuple

from legato.core.child_session_ids import root_session_id
from legato.core.facts import (
    AnyFact,
    Call,
    Cancelled,
    Item,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    Reasoning,
    Redacted,
    Refusal,
    Usage,
    Words,
)
from legato.core.messages import Sendable
from legato.core.messages_to_model import ERASED
from legato.core.redaction import Erased, Erases
from legato.core.view import Request
from legato.core.workflow_graph import HANDOFF_PREFIX
from legato.errors import ModelFailed, StoreError, StoreFull, StoreLocked
from legato.models.base import Emit, Model, Reply
from legato.runtime.clock import now_ms
from legato.stores.memory import MemoryStore
from legato.testing.actors import Actor
from legato.testing.effects import EffectLog, check_effects
from legato.testing.families import check_families
from legato.testing.faults import Died, FailingStore
from legato.testing.loop import Deadlock, Endless, SimulatedLoop, Timeline
from legato.testing.promises import Deed, Violation, check_promises, is_recorded
from legato.testing.sampling import sample
from legato.testing.stage import SimulatedError, Stage, current_schedule, words_of
from legato.testing.waiting import check_waiting
from legato.tools import Tool, ToolContext
from legato.workflow.workflow import Workflow

MOST_STEPS = 60_000
"""Steps of the event loops that one schedule may take; one that takes more is a violation."""

LONG_THOUGHT = 2.0
"""Seconds that a model sometimes thinks, in which others do something."""

SILENCE_S = 8.0
"""Seconds that a provider is sometimes silent."""

RETRY_AFTER_S = (0.01, 0.01, 0.01, 1.5, 400.0)
"""What a provider that is busy asks to wait. The last is more than a session waits by itself."""


@dataclass
class Report:
    """What was played, and what was broken: `violations` pairs each with its seed."""

    schedules: int = 0
    traces: set[int] = field(default_factory=set, repr=False)
    facts: int = 0
    deaths: int = 0
    faults: int = 0
    requests: int = 0
    deeds: int = 0
    forks: int = 0
    erasures: int = 0
    steps: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    story: list[str] = field(default_factory=list, repr=False)

    @property
    def distinct(self) -> int:
        """How many schedules left different traces of facts and deeds."""
        return len(self.traces)

    def format_counts(self) -> str:
        """What was played, in figures."""
        return (
            f"{self.schedules:,} schedules ({self.distinct:,} distinct), {self.facts:,} facts, {self.requests:,} requests, "
            f"{self.deeds:,} deeds, {self.deaths:,} deaths, {self.faults:,} store faults, {self.forks:,} forks, {self.erasures:,} erasures"
        )

    def add(self, other: Report) -> None:
        """Take in what another report counted."""
        self.traces |= other.traces
        self.violations += other.violations
        self.story += other.story
        for each in fields(self):
            if isinstance(count := getattr(self, each.name), int):
                setattr(self, each.name, count + getattr(other, each.name))

    def __str__(self) -> str:
        counts = f"{self.format_counts()}: "
        told = [f"  seed {seed}: {violation}" for seed, violation in self.violations[:20]]
        return "\n".join([counts + (f"{len(self.violations)} violations" if self.violations else "no violation"), *told])


def simulate(
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int] = range(1000),
    *,
    trace: bool = False,
    real_tools: bool = False,
    stop_at: int | None = None,
    model: Callable[[Model], Model] | None = None,
    message: Callable[[str], Sendable | Iterable[Sendable]] | None = None,
) -> Report:
    """Play the workflow once per seed and check every promise.

    `workflow` may be a function of the seed. Models are replaced; so are the bodies of tools, unless
    `real_tools` says that they may really run. `trace=True` keeps the whole story of what happened in `report.story`; `stop_at`
    ends the simulation after that many violations. `model` may put something between the workflow and the played model: a wire.
    `message` says what a person sends for some words: those words first, then a picture, say.
    """
    return play_schedules(Schedule, workflow, seeds, trace, real_tools, stop_at, model, message)


def play_schedules(
    kind: type[Schedule],
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int],
    trace: bool,
    real_tools: bool,
    stop_at: int | None,
    model: Callable[[Model], Model] | None,
    message: Callable[[str], Sendable | Iterable[Sendable]] | None,
) -> Report:
    """Play a kind of schedule once per seed, as `simulate` does."""
    report = kind.report_type()
    known: tuple[Workflow, Stage] | None = None
    for seed in seeds:
        chosen = workflow if isinstance(workflow, Workflow) else workflow(seed)
        if known is None or known[0] is not chosen:
            known = chosen, Stage(chosen, real_tools, model, message)
        schedule = kind(known[1], seed, trace)
        schedule.play(report)
        if stop_at is not None and len(report.violations) >= stop_at:
            break
    return report


# -- one schedule ----------------------------------------------------------------------------------------------------------


current_process: ContextVar[Process] = ContextVar("process")


class Process:
    """One life of one process: a loop, a store handle, and what its people do in it."""

    def __init__(self, schedule: Schedule, name: int) -> None:
        self.schedule = schedule
        self.name = name
        self.loop = SimulatedLoop(schedule.timeline)
        self.store = FailingStore(schedule.base, self._plan, delay=self._delay if schedule.dice.random() < 0.5 else None)
        self.store.on_death = self._gone
        self.stores = [self.store]  # those that anybody in it uses
        self.left = 0  # people who are not done yet
        dice = schedule.dice
        self._dies_at = dice.randrange(1, 60) if dice.random() < 0.35 and not schedule.calm else 0
        self._dies_when = "before" if dice.random() < 0.5 else "after"
        self._dies_in_effect = dice.randrange(1, 8) if dice.random() < 0.2 and not schedule.calm else 0
        self._fails_at = dice.randrange(1, 60) if dice.random() < 0.2 and not schedule.calm else 0
        self._fails_for = 1 if dice.random() < 0.7 else dice.randrange(2, 12)
        self._fails_when = "before" if dice.random() < 0.5 else "after"
        self._fails_with = dice.choice((StoreError, StoreFull, StoreLocked))

    def _plan(self, operation: str, when: str, number: int) -> BaseException | None:
        if number == self._dies_at and when == self._dies_when:
            return Died(f"{when} {operation}")
        # A store whose lease fails has not given it, and one that cannot take it back is no store.
        sound = operation == "release" or (operation == "lease" and when == "after")
        if self._fails_at and not sound and when == self._fails_when and 0 <= number - self._fails_at < self._fails_for:
            self.schedule.report.faults += 1
            self.schedule.tell(f"process {self.name}: store fails {when} {operation}")
            return self._fails_with(f"simulated, {when} {operation}")
        return None

    async def _delay(self) -> None:
        chance = self.schedule.dice.random()
        if chance < 0.2:
            await asyncio.sleep(0.0 if chance < 0.1 else chance * 0.05)

    def effect(self, where: str) -> None:
        """A boundary of an effect: the process may end here."""
        if self._dies_in_effect and not self.schedule.calm:
            self._dies_in_effect -= 1
            if not self._dies_in_effect:
                raise self.store.die(where)

    def _gone(self) -> None:
        self.loop.kill()
        self.schedule.died(self)

    def start(self, actor: Actor) -> None:
        """Let somebody act in this process."""
        self.left += 1
        context = self.schedule.timeline.context.copy()
        context.run(current_schedule.set, self.schedule)
        context.run(current_process.set, self)
        self.loop.create_task(self._play(actor), context=context)

    async def _play(self, actor: Actor) -> None:
        await actor.play(self)
        self.left -= 1
        self.schedule.busy.discard(actor)


class Schedule:
    """One seed, played. What a harness may play in another way has a name without `_`."""

    report_type: type[Report] = Report

    def __init__(self, stage: Stage, seed: int, trace: bool = False) -> None:
        self.stage = stage
        self.seed = seed
        self.timeline = Timeline(seed)
        self.dice = self.timeline.random
        self.base = self.make_store()
        self.lease_was_lost = False  # then an attempt goes on that others have taken for lost
        self.effects = EffectLog()
        self.calm = False
        self.report = self.report_type()
        self.processes: list[Process] = []
        self.busy: set[Actor] = set()
        self.homes: dict[Actor, int] = {}
        self.deeds: list[Deed] = []
        self.requests: list[tuple[Request, Reply | None]] = []
        self.judged: list[list[str]] = []
        self.broken: list[Violation] = []
        self.said: dict[str, list[int]] = {}  # words -> [attempts to deliver, of those with success, with a key]
        self.accepted: Counter[str] = Counter()
        self.branches: list[str] = ["s"]
        self.told: list[str] | None = [] if trace else None
        self._words = 0

    def tell(self, what: str) -> None:
        """Keep it for the trace, if there is one."""
        if self.told is not None:
            self.told.append(f"{self.timeline.now:9.4f}  {what}")

    def violate(self, promise: str, what: str) -> None:
        self.tell(f"VIOLATION {promise}: {what}")
        self.broken.append(Violation(promise, what))

    def make_store(self) -> RememberingStore:
        """The store on which everything happens."""
        return RememberingStore({})

    def make_actor(self, index: int) -> Actor:
        """A person."""
        return Actor(self, index)

    # -- the course of a schedule --------------------------------------------------------------------------------------

    def play(self, total: Report) -> None:
        """Play, settle, check, and count."""
        dice = self.dice
        actors = [self.make_actor(index) for index in range(dice.choice((1, 1, 1, 2, 2, 3)))]
        two = len(actors) > 1 and dice.random() < 0.6
        for actor in actors:
            self.homes[actor] = actor.index % 2 if two else 0
        self.busy = set(actors)
        try:
            self._run(actors)
        finally:  # also where a bug of a mutant ends it: what is left would be closed by the garbage collector, in another test
            for process in self.processes:
                process.store.dead = True
                process.loop.bury()
        self._count(total)

    def _run(self, actors: list[Actor]) -> None:
        try:
            for home in sorted(set(self.homes.values())):
                self._launch(home)
            if self.dice.random() < 0.15:
                SimulatedLoop(self.timeline).call_later(self.dice.random() * 0.3, self._expire)
            self.timeline.run(lambda: not self.busy, MOST_STEPS)
            self._settle(actors)
        except (Deadlock, Endless) as error:
            self.violate("D4", f"{type(error).__name__}: {error}")
        for uncaught in self.timeline.errors:
            if not isinstance(uncaught, StoreError):
                self.violate("loop", f"an error nobody caught: {uncaught!r}")
        self._check()

    def _launch(self, home: int) -> None:
        process = Process(self, home)
        self.processes.append(process)
        for actor in self.homes:
            if self.homes[actor] == home and actor in self.busy:
                process.start(actor)

    def died(self, process: Process) -> None:
        """A process is gone; some time later it comes back, and its people go on."""
        self.report.deaths += 1
        self.tell(f"process {process.name} DIES")

        def rebirth() -> None:
            self.tell(f"process {process.name} comes back")
            for store in process.stores:
                store.dead = True
                run_now(store.bury())
            self._launch(process.name)

        SimulatedLoop(self.timeline).call_later(self.dice.random() * 0.1, rebirth)

    def _expire(self) -> None:
        """Leases are wrongly lost, as on a machine that slept too long."""
        for process in self.processes:
            for lease in list(process.store.held.values()):
                self.tell(f"process {process.name} loses its lease on {lease.ledger}, and does not know")
                run_now(self.base.release(lease))
                self.lease_was_lost = True

    def _settle(self, actors: list[Actor]) -> None:
        """No more faults: a fresh process brings every branch to rest, and a last message must get an answer."""
        self.tell("the dust settles")
        self.calm = True
        for process in self.processes:
            process.store.heal()
        last = self.make_actor(len(actors))
        last.todo = [("settle", branch) for branch in self.branches]
        self.homes = {last: 9}
        self.busy = {last}
        self.before_settling()
        self._launch(9)
        self.timeline.run(lambda: not self.busy, MOST_STEPS)

    def before_settling(self) -> None:
        """For a harness that does more to a store than sessions do."""

    # -- what models and tools do ----------------------------------------------------------------------------------------

    async def reply(self, request: Request, emit: Emit) -> Reply:
        dice, process = self.dice, current_process.get()
        index = self.record_request(request)
        process.effect("before a model's reply")
        if dice.random() < 0.5:
            pause = dice.random() * 0.05
            await asyncio.sleep(pause if pause < 0.045 or self.calm else LONG_THOUGHT if pause < 0.049 else SILENCE_S)
            self.check_wanted(request)
        else:
            await asyncio.sleep(0)
        if not self.calm:
            chance = dice.random()
            if chance < 0.08:
                emit("half of ")
                raise ModelFailed("simulated failure", retryable=chance < 0.06, retry_after=dice.choice(RETRY_AFTER_S))
            if chance < 0.10:
                return Reply(items=())
        items = (Words(f"calm {index}"),) if self.calm else self._items(request, index)
        for item in items:
            if isinstance(item, (Words, Refusal)):
                emit(item.text)
        process.effect("after a model's reply")
        finish = "length" if not self.calm and dice.random() < 0.03 else "stop"
        reply = Reply(items=items, usage=Usage(10, 5), response_id=f"r{index}", finish=finish)  # type: ignore[arg-type]
        self.requests[index] = (request, reply)
        return reply

    def record_request(self, request: Request, reply: Reply | None = None) -> int:
        """Record a model request for the checks; return its index."""
        self.requests.append((request, reply))
        return len(self.requests) - 1

    def birth_name(self, session: str) -> str:
        """The birth name of the ledger that a session has now; empty if it has none."""
        kept = self.base._ledgers.get(session)
        return kept.born if kept is not None else ""

    def find_birth_name(self, session: str, key: str) -> str:
        """The birth name of the ledger in which the call with this key runs."""
        return self.birth_name(session)

    def check_wanted(self, request: Request) -> None:
        """Whoever cancels is heard while a model thinks, not when it has thought."""
        long_ago = now_ms() - LONG_THOUGHT * 500
        kept = self.base._ledgers.get(request.session)
        if kept is None:
            return
        for fact in kept.facts[request.upto + 1 :]:
            if isinstance(fact, (Cancelled, Redacted)) and fact.at < long_ago:
                told = "was cancelled" if isinstance(fact, Cancelled) else "shows what was erased"
                self.violate("D4", f"the request of {request.agent} that saw up to {request.upto} {told}, and nobody heard")

    def _items(self, request: Request, index: int) -> tuple[Item, ...]:
        dice = self.dice
        items: list[Item] = []
        if dice.random() < 0.1:
            items.append(Reasoning("hm", f"enc{index}"))
        if dice.random() < 0.7:
            items.append(Words(f"words {index}"))
        tools = request.frame.tools
        if tools and (dice.random() < 0.65 or not items):
            for number in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
                items.append(self._call(dice.choice(tools), index, number))
        if not items:
            items.append(Refusal(f"no {index}") if dice.random() < 0.5 else Words(f"plain {index}"))
        return tuple(items)

    def _call(self, spec: Any, index: int, number: int) -> Call:
        dice = self.dice
        chance = dice.random()
        name = spec.name
        arguments = json.dumps(sample(spec.parameters, dice))
        if chance < 0.04:
            name = dice.choice(("nonsense", HANDOFF_PREFIX + "nobody"))
        elif chance < 0.08:
            arguments = dice.choice(("{", "[]", "null", '{"zz": 1}', ""))
        call_id = dice.choice((f"call_{index}_{number}", f"call_{index}_{number}", "call", ""))
        return Call(name, arguments, call_id)

    async def body(self, tool: Tool, context: ToolContext[Any]) -> object:
        dice, process = self.dice, current_process.get()
        born = self.find_birth_name(context.session_id, context.idempotency_key)
        process.effect("before a tool's effect")
        await self._dawdle(tool)
        now = self.base._ledgers.get(context.session_id)
        name = context.idempotency_key.partition(":")[0]
        here = now is not None and any(isinstance(fact, Opened) and fact.ledger == name for fact in now.facts)
        facts = len(now.facts) if now is not None and here else -1  # it may have been deleted, and begun anew
        self.deeds.append(Deed(context.idempotency_key, tool.name, context.session_id, context.attempt, facts, born))
        self.effects.add_effect(context)
        self.tell(f"process {process.name} in {context.session_id}: {tool.name} {context.call.id} attempt {context.attempt} DONE")
        process.effect("after a tool's effect")
        await self._dawdle(tool)
        chance = dice.random()
        if chance < 0.1:
            raise RuntimeError(f"simulated failure of {context.call.id}")
        return f"output of {context.call.id} #{len(self.deeds)}"

    async def _dawdle(self, tool: Tool) -> None:
        chance = self.dice.random()
        if chance < 0.4:
            return
        if chance < 0.6:
            await asyncio.sleep(0)
        elif chance < 0.95 or tool.timeout is None:
            await asyncio.sleep(self.dice.random() * 0.1)
        else:
            await asyncio.sleep(tool.timeout * (0.5 + self.dice.random()))

    def fail_sometimes(self) -> None:
        """Raise an error of the user's code, rarely."""
        if not self.calm and self.dice.random() < 0.03:
            self.tell("a guardrail raises an error")
            raise SimulatedError("a guardrail failed")

    def new_words(self, who: int) -> str:
        """Words that nobody has said before."""
        self._words += 1
        return f"message {self._words} of {who}"

    # -- what became of it -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        every = self.list_ledgers()
        self._check_acknowledged(every)
        for each in every:
            self._check_ledger(each, self.select_requests(each), self.select_deeds(each, every))
        self.check_stores()
        self.broken += check_effects(self.effects, self.stage.rules)
        self._check_words(every)
        self._check_termination()
        if self.told is not None:
            for each in every:
                self.told += [f"  {each.name} {position:3} {fact}" for position, fact in enumerate(each.facts)]

    def _check_acknowledged(self, every: Sequence[Ledger]) -> None:
        """What was confirmed to whoever appended it is there."""
        for process in self.processes:
            for name, position, confirmed in process.store.acknowledged:
                if not any(is_recorded(each.facts, position, confirmed) for each in every if each.name == name):
                    self.violate("D1", f"what was acknowledged at {position} of {name} is not there")

    def list_ledgers(self) -> list[Ledger]:
        """Every ledger that there was."""
        return self.base.list_ledgers()

    def select_requests(self, each: Ledger) -> list[tuple[Request, Reply | None]]:
        """The requests that may have been made for a ledger."""
        return self.requests

    def select_deeds(self, each: Ledger, every: Sequence[Ledger]) -> list[Deed]:
        """What was done in a ledger."""
        return [deed for deed in self.deeds if deed.session == each.name]

    def check_stores(self) -> None:
        """Check what holds between ledgers."""
        self.check_store(self.base)

    def check_store(self, store: MemoryStore, *, orphans: bool = False) -> None:
        ledgers = {name: kept.facts for name, kept in store._ledgers.items() if kept.facts}
        self.broken += check_waiting(ledgers)
        self.broken += check_families(ledgers, orphans=orphans, late_attempts=self.lease_was_lost)

    def _check_ledger(self, each: Ledger, requests: Sequence[tuple[Request, Reply | None]], deeds: Sequence[Deed]) -> None:
        self.report.facts += len(each.facts)
        rules = self.stage.rules if root_session_id(each.name) == each.name else self.stage.rules.of_tools()
        self.broken += check_promises(each.facts, requests, deeds, rules=rules, session=each.name)
        named = {fact.frame for fact in each.facts if isinstance(fact, (ModelReplied, ModelRequestFailed)) and fact.frame}
        if lacking := named - each.contents:
            self.violate("D1", f"{each.name} names {len(lacking)} frames that were never recorded")

    def _check_words(self, every: Sequence[Ledger]) -> None:
        """What people said is recorded as often as it may be."""
        count: Counter[str] = Counter()
        for each in every:
            fork = max((index for index, fact in enumerate(each.facts) if isinstance(fact, Opened) and fact.origin), default=-1)
            count.update(words_of(fact.content) for fact in each.before[fork + 1 :] if isinstance(fact, MessageReceived))
        for words, (tried, done, keyed) in self.said.items():
            least, most = min(done, 1) if keyed else done, 1 if keyed and not self.keys_are_forgotten() else tried
            if not least <= count[words] <= most:
                promise = "D1" if count[words] < least else "D6" if keyed else "C1"
                key = "with a key" if keyed else "without a key"
                told = f"{words!r} was delivered {tried} times {key}, {done} confirmed: recorded {count[words]} times"
                self.violate(promise, told)

    def _check_termination(self) -> None:
        """The termination condition was shown what users said, each message once."""
        for judged in self.judged:
            heard = [words for words in judged if words != ERASED]
            if any(words not in self.said for words in heard) or (len(heard) != len(set(heard)) and not self._repeats()):
                self.violate("C1", f"the termination condition was shown {heard}, which users did not say")

    def keys_are_forgotten(self) -> bool:
        """Whether a session was made again that knows nothing of what was delivered before."""
        return False

    def _repeats(self) -> bool:
        return any(tried > 1 and not keyed for tried, _, keyed in self.said.values())

    def _count(self, total: Report) -> None:
        report = self.report
        report.schedules = 1
        report.requests, report.deeds, report.steps = len(self.requests), len(self.deeds), self.timeline.steps
        report.forks = len(self.branches) - 1
        digest = blake2b(digest_size=8)
        for name in sorted(self.base._ledgers):
            facts = self.base._ledgers[name].facts
            digest.update(" ".join([name, *(type(fact).__name__ for fact in facts)]).encode())
        digest.update(" ".join(f"{deed.tool}{deed.attempt}@{deed.facts}" for deed in self.deeds).encode())
        report.traces = {int.from_bytes(digest.digest(), "big")}
        report.violations = [(self.seed, violation) for violation in self.broken]
        report.story = self.told or []
        total.add(report)


class Ledger(NamedTuple):
    """One ledger: its id, its birth name, its facts as they are and as they were before anything was erased, and its contents."""

    name: str
    born: str
    facts: Sequence[AnyFact]
    before: Sequence[AnyFact]
    contents: frozenset[str]


class RememberingStore(MemoryStore):
    """Remembers what was erased, to count what was said."""

    def __init__(self, erased: dict[str, dict[int, AnyFact]]) -> None:
        """`erased`: facts as they were, by the birth name of their ledger. Shared by stores that copy from one another."""
        super().__init__()
        self.erased = erased

    def list_ledgers(self) -> list[Ledger]:
        """The ledgers that are there."""
        return [
            Ledger(name, kept.born, list(kept.facts), self._as_they_were(name), frozenset(kept.contents))
            for name, kept in self._ledgers.items()
            if kept.facts
        ]

    async def redact(self, ledger: str, erasing: Erases, *, born: str = "") -> Mapping[str, Erased]:
        before = {name: self._as_they_were(name) for name in self._ledgers}
        done = await super().redact(ledger, erasing, born=born)
        for name, erased in done.items():
            lost = self.erased.setdefault(self._ledgers[name].born, {})
            lost.update((position, before[name][position]) for position in erased.replaced if position not in lost)
        return done

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        born: str = "",
        of: str = "",
        expected: int | None = None,
    ) -> int:
        length = await super().fork(ledger, at, new, facts, contents=contents, born=born, of=of, expected=expected)
        erased = self.erased.get(self._ledgers[ledger].born, {})
        self.erased.setdefault(born, {}).update((position, fact) for position, fact in erased.items() if position < at)
        return length

    def _as_they_were(self, name: str) -> list[AnyFact]:
        """The facts of a ledger as they were before anything was erased."""
        kept = self._ledgers[name]
        erased = self.erased.get(kept.born, {})
        return [erased.get(position, fact) for position, fact in enumerate(kept.facts)]


def run_now(doing: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits (as those of a `MemoryStore`)."""
    try:
        doing.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")
