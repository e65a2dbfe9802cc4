"""The driver: fold, owed, perform, append. May know: asyncio. Decides: when to perform, never what.

One pass of the loop records what is known (outcomes, and everything that follows from them without anybody's help) in one append,
asks the plan what is wanted now, starts what is wanted and not running, stops what is running and no longer wanted, and waits for
the next thing to happen: an effect ends, or somebody else appends. There is no other loop: streaming observes this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from legato.core.facts import Answered, AnyFact, Refusal, Words
from legato.core.graph import Graph
from legato.core.owed import (
    NOBODY,
    Admit,
    Bookkeeping,
    CallModel,
    GiveUp,
    HandOver,
    JudgeInput,
    JudgeOutput,
    JudgeTermination,
    Plan,
    RunTool,
    Summarise,
    Work,
    fact_of,
    in_control,
    plan,
    resting,
    status,
)
from legato.core.state import State
from legato.drive.asking import ModelCaller
from legato.drive.clock import now_ms
from legato.drive.definition import Definition
from legato.drive.events import Event, OutputData, Waiting, events_of, request_event
from legato.drive.frames import Frames
from legato.drive.judging import Judge
from legato.drive.ledger import Ledger
from legato.drive.others import Others
from legato.drive.outcome import Outcome, record_each, record_later
from legato.drive.tools import ToolRunner
from legato.errors import DefinitionChanged, StoreError

FOLLOW_SECONDS = 0.05
"""How often somebody who waits for the right to drive asks for it again."""

UNWATCHED_SECONDS = 0.005
"""How long what runs may take before the driver looks out for what others append. Looking costs more than a quick effect does."""

SETTLED = ("pending", "waiting", "terminated", "cancelled", "failed")


class Driver:
    """Drives one session until nothing more can be done without its people."""

    def __init__(
        self,
        definition: Definition,
        ledger: Ledger,
        context: Any,
        others: Others,
        show: Callable[[Event], None] | None,
        stream: bool,
        since: int,
    ) -> None:
        """`show` is told what happens; None: nobody looks."""
        self._definition = definition
        self._ledger = ledger
        self._others = others
        self._awake = NOBODY  # calls that wait for another conversation, which can go on
        self._show = show
        self._stream = stream
        self._shown = since  # events have been shown for all facts before this position
        self._epoch = 0
        self._planned: tuple[State, int, Plan] | None = None  # the newest plan, and the state and length that it was made for
        self._running: dict[Work, asyncio.Task[Outcome]] = {}
        self._unwanted: set[asyncio.Task[Outcome]] = set()  # stopped by this driver
        self._watcher: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None  # to the conversations that calls wait for
        self._watchful = False  # what runs takes its time, so somebody has to look out for what others append
        self._gave_up = False
        self._leaving = False
        self._recording = False
        self._wake = asyncio.Event()  # something has happened: an effect ended, or somebody else appended
        self._error: BaseException | None = None  # raised by user code; told when what runs beside it has been recorded
        self._streamed: list[str] = []  # the pieces shown of the reply that is being made
        self._attempt = 0
        self._speaker = ""
        frames = Frames(definition, ledger, context)
        self._models = ModelCaller(definition, ledger, frames)
        self._tools = ToolRunner(definition, ledger, context, others)
        self._judge = Judge(definition, ledger, context)

    def leave(self) -> None:
        """Start nothing new; what runs is finished and recorded."""
        self._leaving = True

    async def drive(self) -> None:
        """Take the lead and drive; or follow whoever leads until the session rests."""
        store, session = self._ledger.store, self._ledger.session
        while not self._leaving:
            lease = await store.lease(session)
            rested: int | None = None
            try:
                await self._ledger.refresh()
                self._show_new()
                if lease is not None:
                    self._epoch, self._planned = lease.epoch, None
                    await self._lead()
                    if not self._overtaken(self._ledger.state):
                        rested = self._rested()
                        break
            finally:
                if lease is not None:
                    await store.release(lease, rested=rested)
            if status(self._ledger.state, self._definition.graph) in SETTLED and not await self._others_go_on():
                break
            await store.wait(session, self._ledger.recorded, FOLLOW_SECONDS)
        self._show_rest()

    def _rested(self) -> int | None:
        """How many facts there are, if nothing can be done about them without its people; None if it was only told to leave."""
        state = self._ledger.state
        owed = [effect for effect in self._plan(state).effects if not (self._gave_up and isinstance(effect, CallModel))]
        return None if owed else state.length

    def _overtaken(self, state: State) -> bool:
        """Whether the lease was lost and nobody told: a holder of a later one has started something. What runs here is finished."""
        return state.epoch > self._epoch

    def _nothing_new(self, state: State) -> bool:
        """Whether to begin nothing more, and only finish and record what runs."""
        return self._leaving or self._error is not None or self._overtaken(state)

    async def _others_go_on(self) -> bool:
        """Whether a call that waits for another conversation can be started again now."""
        awake = await self._others.awake() if self._waits() else NOBODY
        if awake != self._awake:
            self._awake, self._planned = awake, None
        return bool(awake) and not awake.isdisjoint(self._plan(self._ledger.state).effects)

    def _waits(self) -> bool:
        return any(call.paused for call in self._ledger.state.batch)

    async def _lead(self) -> None:
        check_definition(self._ledger.state, self._definition.graph)
        await self._others_go_on()
        self._wake.clear()
        self._ledger.listeners.append(self._moved)
        outcomes: list[Outcome] = []
        try:
            while True:
                await self._record(outcomes)
                outcomes = []
                # Nothing has happened between the append and this line, so what is wanted is what is recorded.
                busy = self._reconcile()
                if (self._awake or self._waits()) and await self._others_go_on() and not self._nothing_new(self._ledger.state):
                    continue
                if not busy and not self._wake.is_set():  # while it looked there, something may have happened here
                    break
                watching = asyncio.get_running_loop().call_later(UNWATCHED_SECONDS, self._begin_watching)
                try:
                    await self._wake.wait()
                finally:
                    watching.cancel()
                    if self._listener is not None:
                        self._listener.cancel()
                    self._watchful = False
                self._wake.clear()
                if self._watcher is not None and self._watcher.done() and not self._watcher.cancelled():
                    self._watcher.result()
                outcomes = self._collect()
            if self._error is not None:
                raise self._error
        finally:
            self._ledger.listeners.remove(self._moved)
            outcomes += self._collect()
            if outcomes:
                record_later(self._ledger, outcomes)  # what is finished is kept, although this drive ends before it was recorded
            for effect, task in list(self._running.items()):
                self._stop(effect, task)
            tasks: list[asyncio.Task[Any]] = [*self._running.values(), *(each for each in (self._watcher, self._listener) if each)]
            if self._watcher is not None:
                self._watcher.cancel()
            if tasks:
                await asyncio.wait(tasks)  # not gather: the errors it collects keep the driver and its ledger alive
                for task in tasks:
                    _ = task.cancelled() or task.exception()  # nobody is told of what was stopped
            self._running.clear()
            self._watcher = self._listener = None

    def _begin_watching(self) -> None:
        self._watchful = True
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.get_running_loop().create_task(self._watch())
        if self._waits():
            self._listener = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        """Wake when something happens in a conversation that a call waits for."""
        await self._others.moved()
        self._wake.set()

    async def _watch(self) -> None:
        """Read what others append, in this process or another, as soon as it is there; until what runs has come to its end.

        A store may take its time to say that this driver itself appended something; what runs by then needs a watch again, or does not.
        """
        try:
            while self._watchful:
                known = self._ledger.recorded
                if await self._ledger.store.wait(self._ledger.session, known, 60) and self._ledger.recorded == known:
                    await self._ledger.refresh()
        except Exception:
            self._wake.set()  # the drive ends with it
            raise

    def _moved(self) -> None:
        """The ledger has moved; what this driver is recording itself it knows already."""
        if not self._recording:
            self._wake.set()

    async def _record(self, outcomes: list[Outcome]) -> None:
        contents = {digest: data for outcome in outcomes for digest, data in outcome.contents.items()}

        def propose(state: State) -> Iterator[AnyFact]:
            for outcome in outcomes:
                yield from outcome.propose(state)
            if not self._nothing_new(state):
                yield from self._follow_up(state)

        before = self._ledger.state.failed
        self._recording = True
        try:
            await self._ledger.append(propose, contents)
        except StoreError:
            raise
        except Exception as error:
            # User code failed, or gave what cannot be recorded. What else is finished is recorded; what runs comes to its end.
            self._error = self._error or error
            await record_each(self._ledger, outcomes)
        finally:
            self._recording = False
        self._show_new()
        failed = self._ledger.state.failed
        # What it gave up is the request that failed: a message that landed since is another one.
        self._gave_up = bool(failed and failed.final) and (self._gave_up or failed is not before)

    def _follow_up(self, state: State) -> Iterator[AnyFact]:
        """What follows from the state without anybody's help: bookkeeping, claims on tools, handoffs."""
        while facts := list(self._due(state, self._plan(state))):
            yield from facts

    def _plan(self, state: State) -> Plan:
        """What is owed now. A state changes only by facts, so the newest plan is good until there is one more."""
        planned = self._planned
        if planned is None or planned[0] is not state or planned[1] != state.length:
            self._planned = planned = (state, state.length, plan(state, self._definition.graph, self._epoch, self._awake))
        return planned[2]

    def _due(self, state: State, now: Plan) -> Iterator[AnyFact]:
        for effect in now.effects:
            match effect:
                case RunTool():
                    call = state.call(effect.call)
                    if call is not None and not call.running:
                        yield self._tools.start(state, effect, self._epoch)
                case Admit():
                    gated = self._tools.gate(state, effect)
                    if gated is not None:
                        yield gated
                case HandOver():
                    yield self._tools.hand_over(state, effect.call)
                case CallModel() | JudgeInput() | JudgeOutput() | JudgeTermination() | Summarise() | GiveUp():
                    pass
                case _:
                    yield fact_of(effect, now_ms())

    def _wanted(self, state: State, effect: Work) -> bool:
        return effect in self._plan(state).effects

    def _reconcile(self) -> bool:
        """Start what is wanted, stop what is not. False if nothing is running then."""
        state = self._ledger.state
        wanted = [effect for effect in self._plan(state).effects if not isinstance(effect, Bookkeeping)]
        for effect, task in list(self._running.items()):
            if effect not in wanted and not _still_welcome(state, effect):
                self._stop(effect, task)
        nothing_new = self._nothing_new(state)
        for effect in wanted:
            if effect in self._running or nothing_new or (isinstance(effect, CallModel) and (self._gave_up or state.waiting)):
                continue  # no model is asked while a message is being judged: it may have to be seen
            self._running[effect] = asyncio.get_running_loop().create_task(self._performed(effect))
        return bool(self._running)

    def _stop(self, effect: Work, task: asyncio.Task[Outcome]) -> None:
        """Stop something that is not wanted any more. A tool may take its time to stop: nobody waits for it."""
        task.cancel()
        if isinstance(effect, RunTool):
            del self._running[effect]
            self._tools.leave(task)
            return
        self._unwanted.add(task)
        task.add_done_callback(lambda _: self._wake.set())  # it may never have begun, and then says nothing itself
        if isinstance(effect, CallModel) and self._streamed:
            self._withdraw()

    async def _performed(self, effect: Work) -> Outcome:
        try:
            return await self._perform(effect)
        finally:
            self._wake.set()

    def _perform(self, effect: Work) -> Coroutine[Any, Any, Outcome]:
        match effect:
            case CallModel():
                return self._models.perform(effect, self._piece, self._wanted)
            case RunTool():
                return self._tools.run(effect)
            case Admit():
                return self._tools.admit(effect)
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
        if self._show is None or not self._stream or not text or self._definition.graph.agents[agent].judges_output:
            return  # what is yet to be judged is shown when it has been accepted
        if self._streamed and attempt != self._attempt:
            self._withdraw()
        self._streamed.append(text)
        self._attempt, self._speaker = attempt, agent
        self._show(Event("output", OutputData(text, agent, True, attempt)))

    def _withdraw(self) -> None:
        if self._show is not None:
            self._show(Event("output_reset", OutputData("", self._speaker, True, self._attempt)))
        self._streamed.clear()

    def _show_new(self) -> None:
        state, show = self._ledger.state, self._show
        if show is None:
            return
        while self._shown < state.length:
            fact = state.facts[self._shown]
            whole = isinstance(fact, Answered) and bool(self._streamed) and _in_pieces(fact, self._streamed)
            if isinstance(fact, Answered) and self._streamed and not whole:
                self._withdraw()  # they were of a reply that another driver's overtook
            for event in events_of(fact, self._shown, state, self._definition.graph):
                if event.type in ("model_failed", "cancelled") and self._streamed:
                    self._withdraw()
                if event.type == "output" and whole:
                    continue  # its pieces have been shown
                show(event)
            if whole:
                self._streamed.clear()
            self._shown += 1

    def _show_rest(self) -> None:
        """Where the session came to rest, and what it asks."""
        if self._show is None:
            return
        if self._streamed:
            self._withdraw()  # the reply they were of came to nothing
        state, graph = self._ledger.state, self._definition.graph
        now, requests = resting(state, graph, self._awake)
        if now == "pending":
            for request in self._others.requests(requests):
                self._show(request_event(request, state.length - 1))
        if now == "waiting":
            self._show(Event("request_info", Waiting(in_control(state, graph)), state.length - 1))
        self._show(Event("status", now, state.length - 1))


def _still_welcome(state: State, effect: Work) -> bool:
    """Whether the outcome of a tool that was taken for lost would still answer its call."""
    if not isinstance(effect, RunTool):
        return False
    call = state.call(effect.call)
    return call is not None and call.output is None


def _in_pieces(fact: Answered, pieces: list[str]) -> bool:
    """Whether these pieces are what the reply says."""
    return "".join(pieces) == "".join(item.text for item in fact.items if isinstance(item, (Words, Refusal)))


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
