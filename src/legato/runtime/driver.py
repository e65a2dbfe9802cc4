"""The driver: fold, owed, perform, append. May know: asyncio. Decides: when to perform, never what.

One pass of the loop records what is known (outcomes, and everything that follows from them without anybody's help) in one append,
asks the plan what is wanted now, starts what is wanted and not running, stops what is running and no longer wanted, and waits for
the next thing to happen: an effect ends, or somebody else appends. There is no other loop: streaming observes this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from legato.core.facts import NO_USAGE, AnyFact, Usage
from legato.core.planner import (
    NO_CHILDREN,
    Admit,
    AdmitStanding,
    Answer,
    Bookkeeping,
    CallModel,
    ChildStatus,
    DeclareLost,
    Effect,
    GiveUp,
    HandOver,
    JudgeInput,
    JudgeOutput,
    JudgeTermination,
    Plan,
    Prompt,
    RunTool,
    Summarise,
    Work,
    fact_of,
    in_control,
    next_request_usage,
    plan,
    resting,
    status,
)
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.errors import DefinitionChanged, DrivenElsewhere
from legato.runtime.claims import Claims
from legato.runtime.clock import now_ms
from legato.runtime.definition import Definition
from legato.runtime.deltas import Voice
from legato.runtime.event_cursor import Cursor
from legato.runtime.event_projector import Screen
from legato.runtime.events import Event
from legato.runtime.guardrails import Judge
from legato.runtime.ledger import Ledger, failed_itself, used
from legato.runtime.model_requests import ModelCaller, seconds_until
from legato.runtime.outcomes import Outcome, record_each, record_later
from legato.runtime.parent_call import Caller
from legato.runtime.tool_runs import ToolRunner
from legato.runtime.turn_contexts import ClientDefinitions, Frames
from legato.runtime.worker_slot import Slot

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions
    from legato.runtime.instrumentation import Watch

FOLLOW_SECONDS = 0.05
"""How often somebody who waits for the right to drive asks for it again."""

LOOK_ON_SECONDS = 1.0
"""How often somebody who only looks on does so although nothing was appended: what a conversation waits for may be in another ledger."""

SETTLED = ("pending", "waiting", "terminated", "cancelled", "failed")
Role: TypeAlias = Literal["either", "lead", "follow"]
"""Whether to lead, or to follow while somebody else does ("either"); to lead or to be told that somebody else does ("lead"); or only to
look on ("follow")."""


class Driver:
    """Drives one session until nothing more can be done without its people."""

    def __init__(
        self,
        definition: Definition,
        ledger: Ledger,
        context: Any,
        others: ChildSessions,
        show: Callable[[Event], None] | None,
        stream: bool,
        since: int,
        role: Role = "either",
        caller: Caller | None = None,
        slot: Slot | None = None,
    ) -> None:
        """`show` is called with each event, if given. `caller` is the call that this session works for, if it is a child session.

        `since` is how many facts there were before the run. What had failed for good by then is tried again; what fails for good after
        that ends the run. So the ledger alone says what was given up, whichever process recorded it.

        With a `slot`, this driver ends where it would only wait, for a retry or for its model's slots: whoever gave it the slot has the
        session driven again. Without one it waits.
        """
        self._definition = definition
        self._ledger = ledger
        self._others = others
        self._children = NO_CHILDREN  # what is known of the child sessions that calls wait for
        self._missing: frozenset[RunTool] = frozenset()  # open attempts whose child session was not there when this driver began
        self._caller = caller
        self._slot = slot
        self._timer: asyncio.TimerHandle | None = None  # wakes this driver when something that failed is tried again
        self._reported: tuple[int, dict[str, Usage]] = (0, {})  # what was last reported to the caller
        self._since = since
        self._screen = Screen(show, definition.graph, Cursor(facts=since)) if show else None
        self._stream = stream
        self._voice = Voice(ledger)
        self._role = role
        self._epoch = 0
        self._planned: tuple[State, int, Plan] | None = None  # the newest plan, and the state and length that it was made for
        self._running: dict[Work, asyncio.Task[Outcome]] = {}
        self._unwanted: set[asyncio.Task[Outcome]] = set()  # stopped by this driver
        self._heard = 0  # how many facts the store says that there are, if that is news
        self._leaving = False
        self._recording = False
        self._wake = asyncio.Event()  # something has happened: an effect ended, or somebody else appended
        self._error: BaseException | None = None  # raised by user code; told when what runs beside it has been recorded
        self._observing: Watch | None = None  # who is told what this driver does, if anybody measures it
        self._observed = since  # that one has been told of all facts before this position
        self._leads = False
        clients = ClientDefinitions(ledger)
        frames = Frames(definition, ledger, context, clients)
        self._models = ModelCaller(definition, ledger, frames, caller)
        self._claims = Claims(definition)
        self._tools = ToolRunner(definition, ledger, context, others, self._claims, caller, slot)
        self._judge = Judge(definition, ledger, context, clients)

    def leave(self) -> None:
        """Start nothing new; what runs is finished and recorded."""
        self._leaving = True
        self._wake.set()

    async def drive(self) -> None:
        """Take the lead and drive; or follow whoever leads until the session rests. `DrivenElsewhere` if it may only lead, and cannot."""
        try:
            await self._drive_observed()
        finally:
            self._ledger.share()

    async def _drive_observed(self) -> None:
        if self._definition.observer is None:
            await self._drive()
            return
        watch = self._definition.observer.watch(self._definition, self._ledger.session)
        self._observing = self._models.watch = self._tools.watch = watch
        failure: BaseException | None = None
        try:
            await self._drive()
        except BaseException as error:
            failure = error
            raise
        finally:
            now, requests = resting(self._ledger.state, self._definition.graph, self._children)
            watch.ended(now, self._others.requests(requests) if now == "pending" else (), failure)

    async def _drive(self) -> None:
        store, session = self._ledger.store, self._ledger.session
        while not self._leaving:
            lease = await used(store, store.lease(session)) if self._role != "follow" else None
            rested: int | None = None
            try:
                await self._ledger.refresh()
                self._show_new()
                if lease is not None:
                    self._epoch, self._planned, self._leads = lease.epoch, None, True
                    await self._lead()
                    if not self._overtaken(self._ledger.state):
                        rested = self._rested()
                        if rested is not None and self._waits():
                            await self._others.let_rest()
                        break
            finally:
                self._leads = False
                if lease is not None:
                    await used(store, store.release(lease, rested=rested))
            now = status(self._ledger.state, self._definition.graph)
            if now in SETTLED and not await self._others_go_on():
                break
            if now == "new" and self._role == "follow":
                break  # nobody has said anything: there is nothing to look on at
            if self._role == "lead" and lease is None:
                raise DrivenElsewhere(f"somebody else drives session {session!r}", do="nothing was changed; come again")
            pause = LOOK_ON_SECONDS if self._role == "follow" else FOLLOW_SECONDS
            await used(store, store.wait(session, self._ledger.recorded, pause))
        await self._report()  # also what another driver recorded here, and was stopped before it reported that
        self._show_rest()

    def _rested(self) -> int | None:
        """How many facts there are, if nothing can be done about them without its people; None if it was only told to leave."""
        state = self._ledger.state
        # Behind who may only lead there is somebody who knows whether a model that failed is asked again, and says when it is not.
        given_up = self._has_given_up(state) and self._role != "lead"
        owed = [effect for effect in self._plan(state).effects if not (given_up and isinstance(effect, CallModel))]
        return None if owed else state.length

    def _has_given_up(self, state: State) -> bool:
        """Whether the model request that is owed has failed for good since the run began."""
        return state.failed is not None and state.failed.final and self._is_of_run(state.failed)

    def _is_of_run(self, fact: AnyFact) -> bool:
        """Whether a fact was recorded since the run began."""
        facts = self._ledger.state.facts
        return any(facts[position] is fact for position in range(len(facts) - 1, self._since - 1, -1))

    def _overtaken(self, state: State) -> bool:
        """Whether the lease was lost and nobody told: a holder of a later one has started something. What runs here is finished."""
        return state.epoch > self._epoch

    def _nothing_new(self, state: State) -> bool:
        """Whether to begin nothing more, and only finish and record what runs."""
        refused = self._slot is not None and self._slot.refused != ""
        return self._leaving or self._error is not None or refused or self._overtaken(state)

    async def _others_go_on(self) -> bool:
        """Look at the child sessions that calls wait for. True if that gives this driver something to do."""
        found = await self._others.look() if self._waits() else NO_CHILDREN
        resumable = found.resumable | self._retried_children()
        # One that stopped for a budget would stop there again while that is reserved for others, here or in this session's callers.
        resumable = frozenset(each for each in resumable if self._has_room(each))
        missing = frozenset(each.call for each in self._missing if self._is_open(each))
        children = ChildStatus(resumable, found.missing | missing, found.cancelled)
        if children != self._children:
            self._children, self._planned = children, None
        effects = self._plan(self._ledger.state).effects if children != NO_CHILDREN else []
        return any(each in resumable or isinstance(each, DeclareLost) for each in effects)

    def _retried_children(self) -> frozenset[RunTool]:
        """The next attempts of calls whose child session had failed before the run began."""
        failed = [call for call in self._ledger.state.started if call.paused and call.paused.error and not call.stopped]
        old = [call for call in failed if call.paused and not self._is_of_run(call.paused)]
        return frozenset(RunTool(call.ref, call.next_attempt) for call in old)

    def _is_open(self, attempt: RunTool) -> bool:
        """Whether an attempt is the one that runs."""
        call = self._ledger.state.call(attempt.call)
        return call is not None and call.running is not None and call.running.number == attempt.attempt

    def _has_room(self, next_attempt: RunTool) -> bool:
        """Whether the budgets have room for what a child session needs to go on. Those that siblings have reserved are free again soon."""
        call = self._ledger.state.call(next_attempt.call)
        if call is None or call.paused is None or call.paused.needed == NO_USAGE:
            return True
        return self._tools.has_room(call.ref, call.paused.needed)

    def _waits(self) -> bool:
        return any(call.paused for call in self._ledger.state.started)

    async def _lead(self) -> None:
        check_definition(self._ledger.state, self._definition.graph)
        await self._others.let_go_all()  # who stopped this conversation may have died before that
        self._missing = await self._others.missing()
        await self._report()
        await self._others_go_on()
        self._wake.clear()
        self._heard = 0
        watched = self._ledger.store.watch(self._ledger.session, self._ledger.recorded, self._grown)
        self._ledger.listeners.append(self._moved)
        outcomes: list[Outcome] = []
        try:
            while True:
                await self._record(outcomes)
                outcomes = []
                # Nothing has happened between the append and this line, so what is wanted is what is recorded.
                busy = self._reconcile()
                looks = self._children != NO_CHILDREN or self._waits()
                if looks and await self._others_go_on() and not self._nothing_new(self._ledger.state):
                    continue
                if not busy and not self._wake.is_set():  # while it looked there, something may have happened here
                    break
                await self._wait()
                outcomes = self._collect()
            if self._error is not None:
                raise self._error
        finally:
            watched()
            self._ledger.listeners.remove(self._moved)
            await self._end([*outcomes, *self._collect()])

    async def _wait(self) -> None:
        """Wait until something happens, here or in a child session."""
        end_watch = self._others.watch(self._other_moved) if self._waits() else None
        try:
            await self._wake.wait()
        finally:
            if end_watch is not None:
                end_watch()
        if self._heard > self._ledger.recorded:
            await self._ledger.refresh()
        self._heard = 0
        self._wake.clear()

    async def _end(self, outcomes: list[Outcome]) -> None:
        """Stop what runs. What is finished is kept, although this drive ends before it was recorded."""
        self._set_timer(None)
        if outcomes:
            record_later(self._ledger, outcomes)
        for effect, task in list(self._running.items()):
            self._stop(effect, task)
        if self._running:
            await asyncio.wait(self._running.values())  # not gather: the errors it collects keep the driver and its ledger alive
            for task in self._running.values():
                _ = task.cancelled() or task.exception()  # nobody is told of what was stopped
            self._running.clear()
        self._voice.end()

    def _grown(self, length: int) -> None:
        """The store has more facts, by whomever. What this driver is recording itself it will know in a moment."""
        if length > self._ledger.recorded:
            self._heard = length
            if not self._recording:
                self._wake.set()

    def _moved(self) -> None:
        """The ledger has been read on, or another has appended by it."""
        if not self._recording:
            self._wake.set()

    def _other_moved(self, length: int) -> None:
        """Something has happened in a conversation that a call waits for."""
        self._wake.set()

    async def _record(self, outcomes: list[Outcome]) -> None:
        contents = {digest: data for outcome in outcomes for digest, data in outcome.contents.items()}

        def propose(state: State) -> Iterator[AnyFact]:
            for outcome in outcomes:
                yield from outcome.propose(state)
            if not self._nothing_new(state):
                yield from self._follow_up(state)

        self._recording = True
        try:
            await self._ledger.append(propose, contents)
        except Exception as error:
            if failed_itself(self._ledger.store, error):
                raise
            # User code failed, or gave what cannot be recorded. What else is finished is recorded; what runs comes to its end.
            self._error = self._error or error
            await record_each(self._ledger, outcomes)
        finally:
            self._recording = False
        if self._heard > self._ledger.recorded:
            self._wake.set()  # somebody else appended right behind it
        await self._report()
        self._show_new()

    async def _report(self) -> None:
        """Report to the caller what this session has used, where it is a child session and has used more."""
        spent = self._ledger.state.spent
        if self._caller is not None and self._reported != (spent.turns, spent.of):
            self._reported = spent.turns, dict(spent.of)
            await self._caller.report(spent)

    def _follow_up(self, state: State) -> Iterator[AnyFact]:
        """What follows from the state without anybody's help: bookkeeping, claims on tools, handoffs."""
        while facts := self._due(state, self._plan(state)):
            yield from facts

    def _plan(self, state: State) -> Plan:
        """What is owed now. A state changes only by facts, so the newest plan is good until there is one more."""
        planned = self._planned
        if planned is None or planned[0] is not state or planned[1] != state.length:
            self._planned = planned = (state, state.length, plan(state, self._definition.graph, self._epoch, self._children, "effects"))
        return planned[2]

    def _due(self, state: State, now: Plan) -> list[AnyFact]:
        due = [effect for effect in now.effects if not (now.not_before and seconds_until(now.not_before.get(effect, 0)))]
        return [fact for effect in due if (fact := self._claim(state, effect)) is not None]

    def _claim(self, state: State, effect: Effect) -> AnyFact | None:
        """What is recorded before an effect is performed, or in place of performing it; None if nothing is."""
        match effect:
            case RunTool():
                return self._claims.start(state, effect, self._epoch)
            case HandOver():
                return self._claims.hand_over(state, effect.call)
            case Admit():
                return self._claims.gate(state, effect)
            case Answer() | AdmitStanding() | DeclareLost() | Prompt():
                return fact_of(effect, now_ms())
            case CallModel() | JudgeInput() | JudgeOutput() | JudgeTermination() | Summarise() | GiveUp():
                return None

    def _wanted(self, state: State, effect: Work) -> bool:
        return effect in self._plan(state).effects

    def _reconcile(self) -> bool:
        """Start what is wanted, stop what is not. False if nothing is running then, and no retry is waited for."""
        state = self._ledger.state
        now = self._plan(state)
        wanted: list[Work] = [effect for effect in now.effects if not isinstance(effect, Bookkeeping)]
        if self._running:
            self._stop_unwanted(state, set(wanted))
        self._set_timer(None)
        if self._nothing_new(state):
            return bool(self._running)
        waits = []  # seconds until each effect that is too early
        for effect in wanted:
            if effect in self._running:
                continue
            if now.not_before and (wait := seconds_until(now.not_before.get(effect, 0))):
                waits.append(wait)
            else:
                self._start(state, effect)
        if waits and self._slot is None:
            self._set_timer(min(waits))
        return bool(self._running) or self._timer is not None

    def _stop_unwanted(self, state: State, wanted: set[Work]) -> None:
        for effect, task in list(self._running.items()):
            if effect not in wanted and not _still_welcome(state, effect):
                self._stop(effect, task)

    def _start(self, state: State, effect: Work) -> None:
        """Begin to perform an effect, unless it is a model request that may not be made now."""
        ended = None
        if type(effect) is CallModel:
            if state.waiting or self._has_given_up(state):
                return  # no model is asked while a message is being judged: it may have to be seen
            needed = next_request_usage(state) if self._caller is not None else NO_USAGE
            if self._caller is not None and not self._caller.allows(needed):
                return  # the parent's plan asks people about its budget, and then goes on with this session
            if self._slot is not None:
                ended = self._slot.admit(self._definition.agents[effect.agent].model, state.next_attempt)
                if ended is None:
                    return
            if self._caller is not None:
                self._caller.reserve(needed)
        task = self._running[effect] = asyncio.get_running_loop().create_task(self._performed(effect))
        if ended is not None:
            task.add_done_callback(ended)

    def _set_timer(self, wait: float | None) -> None:
        """Wake this driver after so many seconds, and at no other time that was set before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wait is not None:
            self._timer = asyncio.get_running_loop().call_later(wait, self._wake.set)

    def _stop(self, effect: Work, task: asyncio.Task[Outcome]) -> None:
        """Stop something that is not wanted any more. A tool may take its time to stop: nobody waits for it."""
        task.cancel()
        if isinstance(effect, RunTool):
            del self._running[effect]
            self._tools.leave(task, effect.call)
            return
        self._unwanted.add(task)
        task.add_done_callback(lambda _: self._wake.set())  # it may never have begun, and then says nothing itself
        if isinstance(effect, CallModel):
            self._voice.take_back()
            if self._screen is not None:
                self._screen.withdraw()

    async def _performed(self, effect: Work) -> Outcome:
        try:
            return await self._perform(effect)
        finally:
            self._wake.set()

    def _perform(self, effect: Work) -> Coroutine[Any, Any, Outcome]:
        match effect:
            case CallModel():
                self._voice.begin(self._epoch)
                return self._models.perform(effect, self._piece, self._wanted)
            case RunTool():
                return self._tools.run(effect)
            case Admit():
                return self._judge.call(effect)
            case GiveUp():
                return self._tools.give_up(effect)
            case JudgeInput():
                return self._judge.input(effect)
            case JudgeOutput():
                return self._judge.output(effect)
            case JudgeTermination():
                return self._judge.termination(effect)
            case Summarise():
                return self._judge.summarise(effect)
            case HandOver():
                raise AssertionError("a handoff is recorded, not performed")

    def _collect(self) -> list[Outcome]:
        """The outcomes of what has ended. An exception of user code ends the drive as soon as its siblings are through."""
        done = [(effect, task) for effect, task in self._running.items() if task.done()]
        outcomes = []
        for effect, task in done:
            del self._running[effect]
            if task.cancelled():
                if task not in self._unwanted:
                    self._error = self._error or RuntimeError(f"{effect} was cancelled, and not by its driver")
                self._unwanted.discard(task)
                continue
            error = task.exception()
            if error is None:
                outcomes.append(task.result())
            else:
                self._error = self._error or error
        return outcomes

    # -- what observers see ---------------------------------------------------------------------------------------------

    def _piece(self, agent: str, attempt: int, text: str) -> None:
        if not text or self._definition.graph.agents[agent].judges_output:
            return  # what is yet to be judged is shown when it has been accepted
        self._voice.say(agent, attempt, text)
        if self._screen is not None and self._stream:
            self._screen.piece(agent, attempt, text)

    def _show_new(self) -> None:
        state, watch = self._ledger.state, self._observing
        if self._screen is not None:
            self._screen.show(state, state.length)
        while watch is not None and self._observed < state.length:
            watch.recorded(state.facts[self._observed], self._observed, state, self._leads)
            self._observed += 1

    def _show_rest(self) -> None:
        """Where the session came to rest, and what it asks."""
        if self._screen is not None:
            state = self._ledger.state
            now, requests = resting(state, self._definition.graph, self._children)
            self._screen.rest(state, now, self._others.requests(requests) if now == "pending" else [])


def _still_welcome(state: State, effect: Work) -> bool:
    """Whether the outcome of a tool that was taken for lost would still answer its call."""
    if not isinstance(effect, RunTool):
        return False
    call = state.call(effect.call)
    return call is not None and call.output is None


def check_definition(state: State, graph: Graph) -> None:
    """Refuse to go on with a ledger whose next agent the workflow does not have."""
    agent = state.reply.agent if state.batch and state.reply else in_control(state, graph)
    if agent not in graph.agents:
        raise DefinitionChanged(
            f"session {state.session!r} is with agent {agent!r}, whom workflow {graph.name!r} does not have",
            expected=f"an agent named {agent!r}",
            found=f"agents {', '.join(graph.agents)}",
            do=f"build the workflow with an agent of that name, or fork the session before {agent!r} took over; nothing was changed",
        )
