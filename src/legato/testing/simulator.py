"""The simulator: runs a workflow under thousands of random schedules and checks every promise.

One seed is one schedule, the same in every run. Models reply anything. Tools are slow, fail and hang. Users answer in any order, twice and
at once, send messages in the middle of a run, cancel, fork and redact. Up to two processes share a session, die at any operation, restart,
and wrongly lose their leases. The store fails. All of it runs in virtual time, in a millisecond or two. Then the faults end, a last message
must still get its answer, and `check_promises`, `check_session_trees` and `check_effects` check what happened.

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

from legato.core.child_session_ids import find_root_session_id
from legato.core.facts import (
    AnyFact,
    Call,
    Cancelled,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    OutputText,
    Reasoning,
    Redacted,
    Refusal,
    ReplyItem,
    Usage,
)
from legato.core.messages import MessageInput
from legato.core.redaction import LedgerRedaction, Redactor
from legato.core.texts_for_model import REDACTED_TEXT
from legato.core.view import ModelRequest
from legato.core.workflow_graph import HANDOFF_PREFIX
from legato.errors import ModelFailed, StoreError, StoreFull, StoreLocked
from legato.models.model import Emit, Model, ModelReply
from legato.runtime.clock import now_ms
from legato.stores.memory import MemoryStore
from legato.testing.child_session_checks import check_child_sessions
from legato.testing.effect_log import EffectLog, check_effects
from legato.testing.failing_store import Died, FailingStore
from legato.testing.promise_checks import ToolExecution, Violation, check_promises, is_recorded
from legato.testing.schema_samples import sample_schema
from legato.testing.session_tree_checks import check_session_trees
from legato.testing.simulated_event_loop import Deadlock, SimulatedLoop, StepLimitExceeded, Timeline
from legato.testing.simulated_users import SimulatedUser
from legato.testing.simulated_workflow import SimulatedError, SimulatedWorkflow, current_schedule, get_message_text
from legato.tools import Tool, ToolContext
from legato.workflow.workflow import Workflow

MAX_STEPS = 60_000
"""Event loop steps that one schedule may take. More steps are a violation."""

LONG_THINKING_S = 2.0
"""How long some model requests take, so that other users and processes act meanwhile."""

PROVIDER_SILENCE_S = 8.0
"""How long some providers send nothing."""

RETRY_AFTER_S = (0.01, 0.01, 0.01, 1.5, 400.0)
"""The `retry_after` values of busy providers. The last is longer than a session waits by itself."""


@dataclass
class Report:
    """Counts of what was simulated, and the violations found, each with its seed."""

    schedules: int = 0
    trace_digests: set[int] = field(default_factory=set, repr=False)
    facts: int = 0
    deaths: int = 0
    faults: int = 0
    requests: int = 0
    tool_executions: int = 0
    forks: int = 0
    redactions: int = 0
    steps: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list, repr=False)

    @property
    def distinct_schedules(self) -> int:
        """The number of schedules with different facts and tool executions."""
        return len(self.trace_digests)

    def format_counts(self) -> str:
        """Render the counts as one line."""
        return (
            f"{self.schedules:,} schedules ({self.distinct_schedules:,} distinct), {self.facts:,} facts, {self.requests:,} requests, "
            f"{self.tool_executions:,} tool executions, {self.deaths:,} process deaths, {self.faults:,} store faults, "
            f"{self.forks:,} forks, {self.redactions:,} redactions"
        )

    def add(self, other: Report) -> None:
        """Add the counts and violations of another report."""
        self.trace_digests |= other.trace_digests
        self.violations += other.violations
        self.trace += other.trace
        for each in fields(self):
            if isinstance(count := getattr(self, each.name), int):
                setattr(self, each.name, count + getattr(other, each.name))

    def __str__(self) -> str:
        counts = f"{self.format_counts()}: "
        lines = [f"  seed {seed}: {violation}" for seed, violation in self.violations[:20]]
        return "\n".join([counts + (f"{len(self.violations)} violations" if self.violations else "no violation"), *lines])


def simulate(
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int] = range(1000),
    *,
    trace: bool = False,
    real_tools: bool = False,
    max_violations: int | None = None,
    wrap_model: Callable[[Model], Model] | None = None,
    make_message: Callable[[str], MessageInput | Iterable[MessageInput]] | None = None,
) -> Report:
    """Simulate the workflow once per seed and check every promise.

    `workflow` may be a function of the seed. Models are replaced, and so are the bodies of tools, unless `real_tools` is set.
    `trace=True` keeps every step in `report.trace`. The simulation ends after `max_violations`. `wrap_model` returns the model to use
    in place of the simulated one, for example one that reaches it over HTTP. `make_message` returns what a user sends for a text:
    it must begin with that text, and may add an image, for example.
    """
    return run_schedules(Schedule, workflow, seeds, trace, real_tools, max_violations, wrap_model, make_message)


def run_schedules(
    schedule_type: type[Schedule],
    workflow: Workflow | Callable[[int], Workflow],
    seeds: Iterable[int],
    trace: bool,
    real_tools: bool,
    max_violations: int | None,
    wrap_model: Callable[[Model], Model] | None,
    make_message: Callable[[str], MessageInput | Iterable[MessageInput]] | None,
) -> Report:
    """Run one schedule of this type per seed, as `simulate` does."""
    report = schedule_type.report_type()
    prepared: tuple[Workflow, SimulatedWorkflow] | None = None
    for seed in seeds:
        chosen = workflow if isinstance(workflow, Workflow) else workflow(seed)
        if prepared is None or prepared[0] is not chosen:
            prepared = chosen, SimulatedWorkflow(chosen, real_tools, wrap_model, make_message)
        schedule = schedule_type(prepared[1], seed, trace)
        schedule.run(report)
        if max_violations is not None and len(report.violations) >= max_violations:
            break
    return report


# -- one schedule ----------------------------------------------------------------------------------------------------------


current_process: ContextVar[SimulatedProcess] = ContextVar("process")


class SimulatedProcess:
    """One process until its death: an event loop, a store handle, and the users who work through it."""

    def __init__(self, schedule: Schedule, name: int) -> None:
        self.schedule = schedule
        self.name = name
        self.loop = SimulatedLoop(schedule.timeline)
        self.store = FailingStore(schedule.store, self._plan_fault, delay=self._delay if schedule.rng.random() < 0.5 else None)
        self.store.on_death = self._on_death
        self.stores = [self.store]  # every store handle that its users open
        self.active_users = 0  # users with remaining actions
        rng = schedule.rng
        self._dies_at = rng.randrange(1, 60) if rng.random() < 0.35 and not schedule.is_settling else 0
        self._dies_when = "before" if rng.random() < 0.5 else "after"
        self._dies_in_effect = rng.randrange(1, 8) if rng.random() < 0.2 and not schedule.is_settling else 0
        self._fails_at = rng.randrange(1, 60) if rng.random() < 0.2 and not schedule.is_settling else 0
        self._fails_for = 1 if rng.random() < 0.7 else rng.randrange(2, 12)
        self._fails_when = "before" if rng.random() < 0.5 else "after"
        self._fails_with = rng.choice((StoreError, StoreFull, StoreLocked))

    def _plan_fault(self, operation: str, when: str, number: int) -> BaseException | None:
        if number == self._dies_at and when == self._dies_when:
            return Died(f"{when} {operation}")
        # The contract allows neither: a failed `lease` has granted nothing, and `release` always succeeds.
        is_excluded = operation == "release" or (operation == "lease" and when == "after")
        if self._fails_at and not is_excluded and when == self._fails_when and 0 <= number - self._fails_at < self._fails_for:
            self.schedule.report.faults += 1
            self.schedule.add_trace(f"process {self.name}: the store fails {when} {operation}")
            return self._fails_with(f"simulated, {when} {operation}")
        return None

    async def _delay(self) -> None:
        chance = self.schedule.rng.random()
        if chance < 0.2:
            await asyncio.sleep(0.0 if chance < 0.1 else chance * 0.05)

    def pass_effect_boundary(self, where: str) -> None:
        """Count the boundary of an effect, and die here if that is planned."""
        if self._dies_in_effect and not self.schedule.is_settling:
            self._dies_in_effect -= 1
            if not self._dies_in_effect:
                raise self.store.die(where)

    def _on_death(self) -> None:
        self.loop.kill()
        self.schedule.on_process_death(self)

    def start_user(self, user: SimulatedUser) -> None:
        """Run a user's actions as a task of this process."""
        self.active_users += 1
        context = self.schedule.timeline.context.copy()
        context.run(current_schedule.set, self.schedule)
        context.run(current_process.set, self)
        self.loop.create_task(self._run_user(user), context=context)

    async def _run_user(self, user: SimulatedUser) -> None:
        await user.run(self)
        self.active_users -= 1
        self.schedule.active_users.discard(user)


class Schedule:
    """The simulation of one seed. A harness may override the methods without a leading `_`."""

    report_type: type[Report] = Report

    def __init__(self, simulated_workflow: SimulatedWorkflow, seed: int, trace: bool = False) -> None:
        self.simulated_workflow = simulated_workflow
        self.seed = seed
        self.timeline = Timeline(seed)
        self.rng = self.timeline.random
        self.store = self.make_store()
        self.has_lost_lease = False  # if so, an attempt that was declared lost may still be running
        self.effect_log = EffectLog()
        self.is_settling = False
        self.report = self.report_type()
        self.processes: list[SimulatedProcess] = []
        self.active_users: set[SimulatedUser] = set()
        self.process_names: dict[SimulatedUser, int] = {}
        self.executions: list[ToolExecution] = []
        self.requests: list[tuple[ModelRequest, ModelReply | None]] = []
        self.termination_inputs: list[list[str]] = []
        self.violations: list[Violation] = []
        self.deliveries: dict[str, list[int]] = {}  # text -> [attempts to deliver, successful attempts, 1 if sent with a key]
        self.answer_counts: Counter[str] = Counter()
        self.branches: list[str] = ["s"]
        self.trace: list[str] | None = [] if trace else None
        self._message_count = 0

    def add_trace(self, line: str) -> None:
        """Add a line with the virtual time to the trace, if a trace is kept."""
        if self.trace is not None:
            self.trace.append(f"{self.timeline.now:9.4f}  {line}")

    def report_violation(self, promise: str, description: str) -> None:
        self.add_trace(f"VIOLATION {promise}: {description}")
        self.violations.append(Violation(promise, description))

    def make_store(self) -> RedactionTrackingStore:
        """Create the store that all processes share."""
        return RedactionTrackingStore({})

    def make_user(self, index: int) -> SimulatedUser:
        """Create a user; `index` counts from 0."""
        return SimulatedUser(self, index)

    # -- the phases of a schedule --------------------------------------------------------------------------------------

    def run(self, total: Report) -> None:
        """Run the users, settle, check, and add the counts to `total`."""
        rng = self.rng
        users = [self.make_user(index) for index in range(rng.choice((1, 1, 1, 2, 2, 3)))]
        has_two_processes = len(users) > 1 and rng.random() < 0.6
        for user in users:
            self.process_names[user] = user.index % 2 if has_two_processes else 0
        self.active_users = set(users)
        try:
            self._run_users(users)
        finally:  # also if a mutant's bug raises: else the garbage collector would close the remaining tasks in another test
            for process in self.processes:
                process.store.is_dead = True
                process.loop.discard_tasks()
        self._count(total)

    def _run_users(self, users: list[SimulatedUser]) -> None:
        try:
            for name in sorted(set(self.process_names.values())):
                self._start_process(name)
            if self.rng.random() < 0.15:
                SimulatedLoop(self.timeline).call_later(self.rng.random() * 0.3, self._lose_leases)
            self.timeline.run(lambda: not self.active_users, MAX_STEPS)
            self._settle(users)
        except (Deadlock, StepLimitExceeded) as error:
            self.report_violation("D4", f"{type(error).__name__}: {error}")
        for uncaught in self.timeline.errors:
            if not isinstance(uncaught, StoreError):
                self.report_violation("loop", f"an uncaught error in the event loop: {uncaught!r}")
        self._check()

    def _start_process(self, name: int) -> None:
        process = SimulatedProcess(self, name)
        self.processes.append(process)
        for user in self.process_names:
            if self.process_names[user] == name and user in self.active_users:
                process.start_user(user)

    def on_process_death(self, process: SimulatedProcess) -> None:
        """Count the death, and schedule the restart with the same users."""
        self.report.deaths += 1
        self.add_trace(f"process {process.name} DIES")

        def restart() -> None:
            self.add_trace(f"process {process.name} restarts")
            for store in process.stores:
                store.is_dead = True
                run_without_waiting(store.release_leases())
            self._start_process(process.name)

        SimulatedLoop(self.timeline).call_later(self.rng.random() * 0.1, restart)

    def _lose_leases(self) -> None:
        """Release the leases behind their holders' backs, as after a machine slept too long."""
        for process in self.processes:
            for lease in list(process.store.held_leases.values()):
                self.add_trace(f"process {process.name} loses its lease on {lease.ledger} without noticing")
                run_without_waiting(self.store.release(lease))
                self.has_lost_lease = True

    def _settle(self, users: list[SimulatedUser]) -> None:
        """End all faults; a new process drives every branch until it is idle, and a last message must get an answer."""
        self.add_trace("no more faults: all sessions settle")
        self.is_settling = True
        for process in self.processes:
            process.store.heal()
        last = self.make_user(len(users))
        last.remaining_actions = [("settle", branch) for branch in self.branches]
        self.process_names = {last: 9}
        self.active_users = {last}
        self.before_settling()
        self._start_process(9)
        self.timeline.run(lambda: not self.active_users, MAX_STEPS)

    def before_settling(self) -> None:
        """Do nothing; a harness that changes the store as a whole overrides this."""

    # -- models and tools ------------------------------------------------------------------------------------------------

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Reply at random, fail, or end the process."""
        rng, process = self.rng, current_process.get()
        index = self.record_request(request)
        process.pass_effect_boundary("before a model's reply")
        if rng.random() < 0.5:
            pause = rng.random() * 0.05
            await asyncio.sleep(pause if pause < 0.045 or self.is_settling else LONG_THINKING_S if pause < 0.049 else PROVIDER_SILENCE_S)
            self.check_interruption_noticed(request)
        else:
            await asyncio.sleep(0)
        if not self.is_settling:
            chance = rng.random()
            if chance < 0.08:
                emit("half of ")
                raise ModelFailed("simulated failure", retryable=chance < 0.06, retry_after=rng.choice(RETRY_AFTER_S))
            if chance < 0.10:
                return ModelReply(items=())
        items = (OutputText(f"calm {index}"),) if self.is_settling else self._make_reply_items(request, index)
        for item in items:
            if isinstance(item, (OutputText, Refusal)):
                emit(item.text)
        process.pass_effect_boundary("after a model's reply")
        finish = "length" if not self.is_settling and rng.random() < 0.03 else "stop"
        reply = ModelReply(items=items, usage=Usage(10, 5), response_id=f"r{index}", finish=finish)  # type: ignore[arg-type]
        self.requests[index] = (request, reply)
        return reply

    def record_request(self, request: ModelRequest, reply: ModelReply | None = None) -> int:
        """Record a model request for the checks; return its index."""
        self.requests.append((request, reply))
        return len(self.requests) - 1

    def find_ledger_id(self, session: str) -> str:
        """Return the id of the ledger that a session has now; empty if it has none."""
        ledger = self.store._ledgers.get(session)
        return ledger.ledger_id if ledger is not None else ""

    def find_ledger_id_of_call(self, session: str, key: str) -> str:
        """Return the id of the ledger in which the call with this idempotency key runs."""
        return self.find_ledger_id(session)

    def check_interruption_noticed(self, request: ModelRequest) -> None:
        """Check that a cancel or a redaction ends a running model request, instead of waiting for its reply."""
        noticed_before = now_ms() - LONG_THINKING_S * 500
        ledger = self.store._ledgers.get(request.session_id)
        if ledger is None:
            return
        for fact in ledger.facts[request.upto + 1 :]:
            if isinstance(fact, (Cancelled, Redacted)) and fact.at < noticed_before:
                reason = "was cancelled" if isinstance(fact, Cancelled) else "contains text that was redacted"
                self.report_violation("D4", f"the request of {request.agent} that saw up to {request.upto} {reason}, and goes on")

    def _make_reply_items(self, request: ModelRequest, index: int) -> tuple[ReplyItem, ...]:
        rng = self.rng
        items: list[ReplyItem] = []
        if rng.random() < 0.1:
            items.append(Reasoning("hm", f"enc{index}"))
        if rng.random() < 0.7:
            items.append(OutputText(f"words {index}"))
        tools = request.turn_context.tools
        if tools and (rng.random() < 0.65 or not items):
            for number in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
                items.append(self._make_call(rng.choice(tools), index, number))
        if not items:
            items.append(Refusal(f"no {index}") if rng.random() < 0.5 else OutputText(f"plain {index}"))
        return tuple(items)

    def _make_call(self, spec: Any, index: int, number: int) -> Call:
        rng = self.rng
        chance = rng.random()
        name = spec.name
        arguments = json.dumps(sample_schema(spec.parameters, rng))
        if chance < 0.04:
            name = rng.choice(("nonsense", HANDOFF_PREFIX + "nobody"))
        elif chance < 0.08:
            arguments = rng.choice(("{", "[]", "null", '{"zz": 1}', ""))
        call_id = rng.choice((f"call_{index}_{number}", f"call_{index}_{number}", "call", ""))
        return Call(name, arguments, call_id)

    async def run_tool(self, tool: Tool, context: ToolContext[Any]) -> object:
        """Record that the tool ran and return an output, after a delay; or fail, or end the process."""
        rng, process = self.rng, current_process.get()
        ledger_id = self.find_ledger_id_of_call(context.session_id, context.idempotency_key)
        process.pass_effect_boundary("before a tool's effect")
        await self._delay_tool(tool)
        ledger = self.store._ledgers.get(context.session_id)
        id_in_key = context.idempotency_key.partition(":")[0]
        is_same = ledger is not None and any(isinstance(fact, Opened) and fact.ledger_id == id_in_key for fact in ledger.facts)
        length = len(ledger.facts) if ledger is not None and is_same else -1  # it may have been deleted and created again
        self.executions.append(ToolExecution(context.idempotency_key, tool.name, context.session_id, context.attempt, length, ledger_id))
        self.effect_log.add_effect(context)
        self.add_trace(f"process {process.name} in {context.session_id}: {tool.name} {context.call.id} attempt {context.attempt} DONE")
        process.pass_effect_boundary("after a tool's effect")
        await self._delay_tool(tool)
        chance = rng.random()
        if chance < 0.1:
            raise RuntimeError(f"simulated failure of {context.call.id}")
        return f"output of {context.call.id} #{len(self.executions)}"

    async def _delay_tool(self, tool: Tool) -> None:
        chance = self.rng.random()
        if chance < 0.4:
            return
        if chance < 0.6:
            await asyncio.sleep(0)
        elif chance < 0.95 or tool.timeout is None:
            await asyncio.sleep(self.rng.random() * 0.1)
        else:
            await asyncio.sleep(tool.timeout * (0.5 + self.rng.random()))

    def maybe_fail(self) -> None:
        """Raise, rarely, an error as user code may."""
        if not self.is_settling and self.rng.random() < 0.03:
            self.add_trace("a guardrail raises an error")
            raise SimulatedError("a guardrail failed")

    def make_message_text(self, user_index: int) -> str:
        """Return a text that no message had before."""
        self._message_count += 1
        return f"message {self._message_count} of {user_index}"

    # -- checks ----------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        ledgers = self.list_ledgers()
        self._check_acknowledged(ledgers)
        for ledger in ledgers:
            self._check_ledger(ledger, self.select_requests(ledger), self.select_executions(ledger, ledgers))
        self.check_stores()
        self.violations += check_effects(self.effect_log, self.simulated_workflow.rules)
        self._check_message_counts(ledgers)
        self._check_termination()
        if self.trace is not None:
            for ledger in ledgers:
                self.trace += [f"  {ledger.name} {position:3} {fact}" for position, fact in enumerate(ledger.facts)]

    def _check_acknowledged(self, ledgers: Sequence[LedgerSnapshot]) -> None:
        """Check that every acknowledged append is recorded."""
        for process in self.processes:
            for name, position, confirmed in process.store.acknowledged:
                if not any(is_recorded(ledger.facts, position, confirmed) for ledger in ledgers if ledger.name == name):
                    self.report_violation("D1", f"the facts acknowledged at {position} of {name} are not recorded")

    def list_ledgers(self) -> list[LedgerSnapshot]:
        """Return every ledger of the schedule."""
        return self.store.list_ledgers()

    def select_requests(self, ledger: LedgerSnapshot) -> list[tuple[ModelRequest, ModelReply | None]]:
        """Return the requests that may have been made for a ledger."""
        return self.requests

    def select_executions(self, ledger: LedgerSnapshot, all_ledgers: Sequence[LedgerSnapshot]) -> list[ToolExecution]:
        """Return the tool executions for a ledger's calls."""
        return [execution for execution in self.executions if execution.session == ledger.name]

    def check_stores(self) -> None:
        """Check the promises between the ledgers of each store."""
        self.check_store_ledgers(self.store)

    def check_store_ledgers(self, store: MemoryStore, *, allow_orphans: bool = False) -> None:
        """Check the promises between the ledgers of one store."""
        ledgers = {name: ledger.facts for name, ledger in store._ledgers.items() if ledger.facts}
        self.violations += check_child_sessions(ledgers)
        self.violations += check_session_trees(ledgers, allow_orphans=allow_orphans, allow_late_attempts=self.has_lost_lease)

    def _check_ledger(
        self,
        ledger: LedgerSnapshot,
        requests: Sequence[tuple[ModelRequest, ModelReply | None]],
        executions: Sequence[ToolExecution],
    ) -> None:
        self.report.facts += len(ledger.facts)
        rules = self.simulated_workflow.rules
        if find_root_session_id(ledger.name) != ledger.name:
            rules = rules.for_child_sessions()
        self.violations += check_promises(ledger.facts, requests, executions, rules=rules, session=ledger.name)
        named = {
            fact.context_digest for fact in ledger.facts if isinstance(fact, (ModelReplied, ModelRequestFailed)) and fact.context_digest
        }
        if lacking := named - ledger.contents:
            self.report_violation("D1", f"{ledger.name} refers to {len(lacking)} turn contexts that were never recorded")

    def _check_message_counts(self, ledgers: Sequence[LedgerSnapshot]) -> None:
        """Check that each user message is recorded as often as its deliveries allow."""
        count: Counter[str] = Counter()
        for ledger in ledgers:
            fork = max((index for index, fact in enumerate(ledger.facts) if isinstance(fact, Opened) and fact.origin), default=-1)
            count.update(get_message_text(fact.content) for fact in ledger.original_facts[fork + 1 :] if isinstance(fact, MessageReceived))
        for text, (tries, successes, has_key) in self.deliveries.items():
            least, most = min(successes, 1) if has_key else successes, 1 if has_key and not self.has_lost_keys() else tries
            if not least <= count[text] <= most:
                promise = "D1" if count[text] < least else "D6" if has_key else "C1"
                key = "with a key" if has_key else "without a key"
                self.report_violation(
                    promise, f"{text!r} was delivered {tries} times {key}, {successes} confirmed: recorded {count[text]} times"
                )

    def _check_termination(self) -> None:
        """Check that the termination condition received user messages only, each of them once."""
        for received in self.termination_inputs:
            texts = [text for text in received if text != REDACTED_TEXT]
            has_repeats = len(texts) != len(set(texts))
            if any(text not in self.deliveries for text in texts) or (has_repeats and not self._has_repeated_deliveries()):
                self.report_violation("C1", f"the termination condition received {texts}, which users did not send like that")

    def has_lost_keys(self) -> bool:
        """Return True if a session was created again, without the keys of earlier deliveries."""
        return False

    def _has_repeated_deliveries(self) -> bool:
        return any(tries > 1 and not has_key for tries, _, has_key in self.deliveries.values())

    def _count(self, total: Report) -> None:
        report = self.report
        report.schedules = 1
        report.requests, report.tool_executions, report.steps = len(self.requests), len(self.executions), self.timeline.steps
        report.forks = len(self.branches) - 1
        digest = blake2b(digest_size=8)
        for name in sorted(self.store._ledgers):
            facts = self.store._ledgers[name].facts
            digest.update(" ".join([name, *(type(fact).__name__ for fact in facts)]).encode())
        digest.update(" ".join(f"{each.tool}{each.attempt}@{each.ledger_length}" for each in self.executions).encode())
        report.trace_digests = {int.from_bytes(digest.digest(), "big")}
        report.violations = [(self.seed, violation) for violation in self.violations]
        report.trace = self.trace or []
        total.add(report)


class LedgerSnapshot(NamedTuple):
    """One ledger: its name and id, its facts, the same facts before redaction, and the digests of its contents."""

    name: str
    ledger_id: str
    facts: Sequence[AnyFact]
    original_facts: Sequence[AnyFact]
    contents: frozenset[str]


class RedactionTrackingStore(MemoryStore):
    """A store that remembers the facts before redaction, so that messages can be counted."""

    def __init__(self, original_facts: dict[str, dict[int, AnyFact]]) -> None:
        """Create an empty store. `original_facts` are redacted facts by ledger id and position; stores that copy each other share it."""
        super().__init__()
        self.original_facts = original_facts

    def list_ledgers(self) -> list[LedgerSnapshot]:
        """Return a snapshot of each ledger."""
        return [
            LedgerSnapshot(name, ledger.ledger_id, list(ledger.facts), self._restore_facts(name), frozenset(ledger.contents))
            for name, ledger in self._ledgers.items()
            if ledger.facts
        ]

    async def redact(self, ledger: str, redactor: Redactor, *, ledger_id: str = "") -> Mapping[str, LedgerRedaction]:
        before = {name: self._restore_facts(name) for name in self._ledgers}
        redactions = await super().redact(ledger, redactor, ledger_id=ledger_id)
        for name, redaction in redactions.items():
            originals = self.original_facts.setdefault(self._ledgers[name].ledger_id, {})
            originals.update((position, before[name][position]) for position in redaction.replacements if position not in originals)
        return redactions

    async def fork(
        self,
        ledger: str,
        at: int,
        new: str,
        facts: Sequence[AnyFact],
        *,
        contents: Mapping[str, bytes] | None = None,
        ledger_id: str = "",
        parent_ledger_id: str = "",
        expected: int | None = None,
    ) -> int:
        length = await super().fork(
            ledger, at, new, facts, contents=contents, ledger_id=ledger_id, parent_ledger_id=parent_ledger_id, expected=expected
        )
        originals = self.original_facts.get(self._ledgers[ledger].ledger_id, {})
        self.original_facts.setdefault(ledger_id, {}).update((position, fact) for position, fact in originals.items() if position < at)
        return length

    def _restore_facts(self, name: str) -> list[AnyFact]:
        """Return the facts of a ledger as they were before redaction."""
        ledger = self._ledgers[name]
        originals = self.original_facts.get(ledger.ledger_id, {})
        return [originals.get(position, fact) for position, fact in enumerate(ledger.facts)]


def run_without_waiting(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, such as those of a `MemoryStore`, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the coroutine waits")
