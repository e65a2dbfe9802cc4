"""Bugs, on purpose. Each mutant breaks the core or the driver in one way that the field has really seen; a harness that does not see it
is blind. `applied(mutant)` patches the package in this process and restores it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core import groups, planner, redaction, state, state_copy, view
from legato.core.facts import (
    NO_OPTIONS,
    ApprovalChecked,
    CallReturned,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    Origin,
    Redacted,
    Words,
)
from legato.core.messages import Message, parts_of
from legato.errors import LedgerConflict
from legato.runtime import (
    child_sessions,
    claims,
    driver,
    event_projector,
    ledger,
    model_requests,
    outcomes,
    tool_runs,
    transcript,
    transfer,
)
from legato.runtime import parent_call as caller
from legato.runtime.clock import fresh_name, now_ms
from legato.runtime.decisions import Given
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSIONS, CachedState
from legato.stores import copying, retiring
from legato.stores.contract import Lease
from legato.stores.memory import MemoryStore
from legato.tools import ChildPaused

Patch = Callable[[Any, Any, Any], None]
"""`patch(owner, name, value)`: an attribute of a module or class, or an entry of a dict."""

MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(sentence: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[sentence] = make
        return make

    return register


@contextmanager
def applied(sentence: str, mutants: Mapping[str, Callable[[Patch], None]] = MUTANTS) -> Iterator[None]:
    """While active, the package has this bug."""
    undo: list[Callable[[], None]] = []

    def patch(owner: Any, name: Any, value: Any) -> None:
        if isinstance(owner, dict):
            before = owner[name]
            undo.append(lambda: owner.__setitem__(name, before))
            owner[name] = value
        else:
            before = owner.__dict__[name]
            undo.append(lambda: setattr(owner, name, before))
            setattr(owner, name, value)

    try:
        mutants[sentence](patch)
        yield
    finally:
        for back in reversed(undo):
            back()


def _rule(kind: type) -> Callable[[state.State, Any], None]:
    """The rule of a kind of fact: its check, and then what it changes."""
    check, change = state.RULES[kind]

    def rule(now: state.State, fact: Any) -> None:
        change(now, fact, check(now, fact))

    return rule


def _patch_rule(patch: Patch, kind: type, rule: Callable[[Any, Any], None]) -> None:
    """Put another rule in its place, which checks for itself."""
    patch(state.RULES, kind, (lambda now, fact: None, lambda now, fact, found: rule(now, fact)))


# -- order and wholeness -----------------------------------------------------------------------------------------------


@mutant("a message that came while the model was thinking is put before its reply")
def _(patch: Patch) -> None:
    before = _rule(ModelReplied)

    def answered(self: state.State, fact: ModelReplied) -> None:
        before(self, fact)
        group = self.groups.pop()
        self.groups += [*self.tail, group]
        self.tail.clear()

    _patch_rule(patch, ModelReplied, answered)


@mutant("of two messages that nobody has answered the later is sent first")
def _(patch: Patch) -> None:
    before = state._add_message

    def land(now: state.State, group: groups.Group) -> None:
        before(now, group)
        now.tail.insert(0, now.tail.pop())

    patch(state, "_add_message", land)


@mutant("other agents' tool outputs are dropped at a handoff")
def _(patch: Patch) -> None:
    before = model_requests.visible

    def visible(now: state.State, spec: Any, agent: str, *more: Any) -> list[groups.Group]:
        return [_without_outputs(group) if group.agent and group.agent != agent else group for group in before(now, spec, agent, *more)]

    patch(model_requests, "visible", visible)


def _without_outputs(group: groups.Group) -> groups.Group:
    bare = groups.Group(group.kind, group.position, group.agent)
    bare.fact = group.fact
    bare._entries = tuple(entry for entry in group.entries if not isinstance(entry, groups.OutputEntry))
    return bare


@mutant("other agents' calls and outputs are dropped, both")
def _(patch: Patch) -> None:
    before = model_requests.visible

    def visible(now: state.State, spec: Any, agent: str, *more: Any) -> list[groups.Group]:
        seen = before(now, spec, agent, *more)
        return [words for group in seen if (words := group if group.agent == agent or not group.agent else group.words())]

    patch(model_requests, "visible", visible)


@mutant("the receiving agent gets the user's messages twice")
def _(patch: Patch) -> None:
    before = model_requests.visible

    def visible(now: state.State, spec: Any, agent: str, *more: Any) -> list[groups.Group]:
        seen = before(now, spec, agent, *more)
        return [group for group in seen for _ in range(2 if group.kind == "said" and now.tally.handoffs else 1)]

    patch(model_requests, "visible", visible)


@mutant("the last-n-turns policy keeps one turn too few")
def _(patch: Patch) -> None:
    before = view.last_turns
    patch(view, "last_turns", lambda seen, turns: before(seen, turns - 1) if turns > 1 else max(0, len(seen) - 1))


@mutant("messages that a guardrail withholds are sent all the same")
def _(patch: Patch) -> None:
    def visible(now: state.State, spec: Any, agent: str, *more: Any) -> list[groups.Group]:
        withheld, now.withheld = now.withheld, 0
        try:
            return view.visible(now, spec, agent, *more)
        finally:
            now.withheld = withheld

    patch(model_requests, "visible", visible)


@mutant("a prompt to an autonomous agent counts as a user's message")
def _(patch: Patch) -> None:
    before = transcript._messages

    def messages(group: groups.Group) -> list[Message]:
        if group.kind == "prompt":
            return [Message(role="user", parts=parts_of(group.content), position=group.position)]
        return before(group)

    patch(transcript, "_messages", messages)


@mutant("a reply records that it saw one fact less than it did")
def _(patch: Patch) -> None:
    before = model_requests._answered
    patch(model_requests, "_answered", lambda reply, request, *more: before(reply, replace(request, upto=request.upto - 1), *more))


@mutant("a reply records that it saw all there was when it came")
def _(patch: Patch) -> None:
    before = outcomes.recordable

    def recordable(fact: Any, now: state.State, *more: Any) -> Any:
        return before(replace(fact, upto=now.length - 1) if isinstance(fact, ModelReplied) else fact, now, *more)

    patch(outcomes, "recordable", recordable)


@mutant("the words of a broken attempt are recorded as a reply")
def _(patch: Patch) -> None:
    before = outcomes.recordable

    def recordable(fact: Any, now: state.State, *more: Any) -> Any:
        recorded = before(fact, now, *more)
        if not isinstance(recorded, ModelRequestFailed):
            return recorded
        return ModelReplied(at=0, agent=fact.agent, frame=fact.frame, upto=now.length - 1, items=(Words("half of "),))

    patch(outcomes, "recordable", recordable)


@mutant("words that were streamed and came to nothing are not withdrawn")
def _(patch: Patch) -> None:
    patch(event_projector.Screen, "withdraw", lambda self: None)


# -- calls and handoffs ------------------------------------------------------------------------------------------------


@mutant("a handoff is taken before the rest of its batch is answered")
def _(patch: Patch) -> None:
    before = planner._plan_batch

    def plan_batch(batch: Any, about: Any) -> planner.Plan:
        made = before(batch, about)
        handoffs = [call for call in batch.state.batch if call.call.tool in batch.rules.edges and call.phase in ("unchecked", "ready")]
        if not handoffs or (handoffs[0].phase == "unchecked" and batch.rules.edges[handoffs[0].call.tool].needs_approval):
            return made
        others = [effect for effect in made.effects if not isinstance(effect, planner.HandOver)]
        return planner.Plan([*others, planner._hand_over(batch, handoffs[0])], made.requests)

    patch(planner, "_plan_batch", plan_batch)

    def handed_off(self: state.State, fact: HandedOff) -> None:
        for call in self.batch:
            if call.output is None and call.ref != fact.call:
                state._give_output(self, call, groups.Output("pending", "ok", self.length))
        rule(self, fact)

    rule = _rule(HandedOff)
    _patch_rule(patch, HandedOff, handed_off)


@mutant("the second handoff of a batch is left unanswered")
def _(patch: Patch) -> None:
    rule = _rule(HandedOff)

    def handed_off(self: state.State, fact: HandedOff) -> None:
        others = [call for call in self.batch if call.output is None and call.ref != fact.call]
        rule(self, fact)
        for call in others:
            call.output = None

    _patch_rule(patch, HandedOff, handed_off)


@mutant("the last handoff of a batch wins, not the first")
def _(patch: Patch) -> None:
    before = planner._hand_over

    def hand_over(batch: Any, call: Any) -> Any:
        handoffs = [each for each in batch.state.batch if each.output is None and each.call.tool in batch.rules.edges]
        return before(batch, handoffs[-1])

    patch(planner, "_hand_over", hand_over)


@mutant("a late outcome is sent as a second output")
def _(patch: Patch) -> None:
    rule = _rule(CallReturned)

    def returned(self: state.State, fact: CallReturned) -> None:
        call = self.call(fact.call)
        if call is not None and call.output is not None and fact.attempt and not fact.late:
            call.output = groups.Output(fact.output, fact.status, self.length)
            for group in self.groups:
                if group.position == fact.call.position:
                    group._entries = None
            return
        rule(self, fact)

    _patch_rule(patch, CallReturned, returned)
    before = outcomes.recordable

    def recordable(fact: Any, *more: Any) -> Any:
        return fact if isinstance(fact, CallReturned) else before(fact, *more)

    patch(outcomes, "recordable", recordable)


@mutant("a cancel stops the conversation, but its open calls go on when the user speaks again")
def _(patch: Patch) -> None:
    from legato.runtime import session, tool_runs

    def stop(now: state.State, why: str) -> None:
        now.stop = state.Stop(why, now.length)

    patch(state, "_stop", stop)
    for room in (session, tool_runs):
        patch(room, "answers_of", lambda *given: iter(()))


# -- durability --------------------------------------------------------------------------------------------------------


@mutant("a tool runs, and its start is never recorded")
def _(patch: Patch) -> None:
    before = driver.Driver._due

    def due(self: Any, now: state.State, plan: planner.Plan) -> Iterator[Any]:
        others = [effect for effect in plan.effects if not isinstance(effect, planner.RunTool)]
        return before(self, now, planner.Plan(others, plan.requests))

    patch(driver.Driver, "_due", due)


@mutant("a tool's start is recorded, but nobody waits for that before it starts")
def _(patch: Patch) -> None:
    before = driver.Driver._record

    async def record(self: Any, outcomes: Any) -> None:
        task = asyncio.get_running_loop().create_task(before(self, outcomes))
        await asyncio.wait({task}, timeout=0.0005)
        if task.done():
            task.result()
        else:
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    patch(driver.Driver, "_record", record)


_tasks: set[Any] = set()


@mutant("whoever lost a race writes all the same")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **more: Any) -> int:
        try:
            return await before(self, name, expected, facts, **more)
        except LedgerConflict as conflict:
            return await before(self, name, conflict.found_position, facts, **{**more, "born": ""})

    patch(MemoryStore, "append", append)


@mutant("what lost a race is dropped without a word")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **more: Any) -> int:
        try:
            return await before(self, name, expected, facts, **more)
        except LedgerConflict:
            return expected + len(facts)

    patch(MemoryStore, "append", append)


@mutant("of an append of several facts the last is acknowledged and not written")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **more: Any) -> int:
        await before(self, name, expected, facts[:-1] if len(facts) > 2 else facts, **more)
        return expected + len(facts)

    patch(MemoryStore, "append", append)


@mutant("everybody may drive, and nobody's attempt is ever lost")
def _(patch: Patch) -> None:
    async def lease(self: Any, name: str) -> Lease:
        return Lease(name, 1)

    patch(MemoryStore, "lease", lease)


@mutant("a new driver takes an attempt that was started by a dead one for its own")
def _(patch: Patch) -> None:
    before = driver.plan
    patch(driver, "plan", lambda now, graph, epoch=None, *more: before(now, graph, None, *more))


@mutant("a driver whose lease was lost goes on starting tools")
def _(patch: Patch) -> None:
    patch(driver.Driver, "_overtaken", lambda self, now: False)


@mutant("a tool that is not idempotent is started again after its attempt was lost")
def _(patch: Patch) -> None:
    before = planner._Batch.rules_for
    patch(planner._Batch, "rules_for", lambda self, call: replace(before(self, call), idempotent=True))


@mutant("an attempt whose outcome is unknown is answered as failed, and nobody is asked")
def _(patch: Patch) -> None:
    rule = _rule(planner.CallLost)

    def lost(self: state.State, fact: Any) -> None:
        rule(self, fact)
        call = self.call(fact.call)
        assert call is not None
        state._give_output(self, call, groups.Output("It failed.", "error", self.length))

    _patch_rule(patch, planner.CallLost, lost)


@mutant("a delivery's key is ignored")
def _(patch: Patch) -> None:
    rule = _rule(MessageReceived)
    _patch_rule(patch, MessageReceived, lambda self, fact: rule(self, msgspec.structs.replace(fact, key="")))


@mutant("cancel stops the world: the user's next message gets no answer")
def _(patch: Patch) -> None:
    patch(state.State, "halt", property(lambda self: self.stop.why))


@mutant("a message ends a cancel even if a guardrail withholds it")
def _(patch: Patch) -> None:
    patch(state.State, "spoken_at", property(lambda self: self.tail[-1].position if self.tail else -1))


# -- messages that guardrails judge --------------------------------------------------------------------------------------


@mutant("a message that is yet to be judged is part of the conversation at once")
def _(patch: Patch) -> None:
    rule = _rule(MessageReceived)
    _patch_rule(patch, MessageReceived, lambda self, fact: rule(self, replace(fact, guarded=False)))


@mutant("a model is asked while a message is being judged")
def _(patch: Patch) -> None:
    reconcile = driver.Driver._reconcile

    def all_the_same(self: Any) -> bool:
        now = self._ledger.state
        going = reconcile(self)
        for effect in planner.plan(now, self._definition.graph, self._epoch).effects if now.waiting and not self._nothing_new(now) else ():
            if isinstance(effect, planner.CallModel) and effect not in self._running and not self._has_given_up(now):
                self._running[effect] = asyncio.get_running_loop().create_task(self._performed(effect))
        return going or bool(self._running)

    async def prepare(self: Any, effect: Any, wanted: Any) -> Any:
        digest, frame, data = await self._frames.in_force(effect.agent)
        async with self._ledger.lock:
            now = self._ledger.state
            if not wanted(now, effect):
                return None
            history = model_requests.history_in_force(self._definition, effect.agent, now.arrived if now.active == effect.agent else None)
            seen, kept = model_requests._choose(now, frame.history, history, effect.agent)
            return view.request_for(now, frame, digest, seen, effect.agent), kept, {digest: data}

    patch(driver.Driver, "_reconcile", all_the_same)
    patch(model_requests.ModelCaller, "_prepare", prepare)


@mutant("a message that is withheld begins a new run all the same")
def _(patch: Patch) -> None:
    rule = _rule(GuardrailJudged)

    def judged(self: state.State, fact: GuardrailJudged) -> None:
        rule(self, fact)
        if fact.kind == "input" and fact.stop:
            self.tally = self.tally.following()

    _patch_rule(patch, GuardrailJudged, judged)


# -- agents that work as tools, and wait for people ----------------------------------------------------------------------


async def _keep(self: child_sessions.ChildSessions, call: Any) -> None:
    """Do nothing about the conversation of a call that was answered without it: whoever drives next would stop it."""


@mutant("a cancel leaves what an agent asks that works as a tool to be approved")
def _(patch: Patch) -> None:
    async def stop_all(self: child_sessions.ChildSessions, words: str, holders: Any) -> Any:
        return {call.ref for call in self._ledger.state.batch}

    patch(child_sessions.ChildSessions, "stop_all", stop_all)
    patch(child_sessions.ChildSessions, "let_go", _keep)


@mutant("a message that supersedes a call leaves what its agent asks to be approved")
def _(patch: Patch) -> None:
    async def stop(self: child_sessions.ChildSessions, call: Any) -> None:
        pass

    patch(child_sessions.ChildSessions, "stop", stop)


@mutant("a cancel stops the caller first, and then the agents that work for it")
def _(patch: Patch) -> None:
    before, stop_all = Session.cancel, child_sessions.ChildSessions.stop_all

    async def later(self: child_sessions.ChildSessions, words: str, holders: Any) -> Any:
        return {call.ref for call in self._ledger.state.batch}

    async def cancel(self: Session, words: str = "") -> None:
        await self.refresh()
        waiting = [handle for _, handle in self._nested._waiting() if handle is not None]
        await before(self, words)
        for handle in waiting:
            await stop_all(handle._nested, words, ())
            await before(handle, words)

    patch(child_sessions.ChildSessions, "stop_all", later)
    patch(child_sessions.ChildSessions, "let_go", _keep)
    patch(Session, "cancel", cancel)


@mutant("branches share the conversation of an agent that works as a tool")
def _(patch: Patch) -> None:
    patch(child_sessions, "child_session_id", lambda session, key: f"s/{key}")


@mutant("a fork leaves the child sessions behind")
def _(patch: Patch) -> None:
    async def fork_alone(ledger: Any, at: int, new: str) -> None:
        now = await ledger.refresh()
        opened = Opened(at=now_ms(), ledger=fresh_name(), workflow=now.workflow, origin=Origin(ledger.session, at))
        await ledger.fork(at, new, opened)

    patch(child_sessions, "fork_family", fork_alone)


@mutant("a call that waits for an agent is started again although nobody has answered")
def _(patch: Patch) -> None:
    before = child_sessions.ChildSessions.known.fget  # type: ignore[attr-defined]

    def known(self: child_sessions.ChildSessions) -> planner.ChildStatus:
        waiting = [call for call in self._ledger.state.batch if call.paused]
        return planner.ChildStatus(before(self).resumable | {planner.RunTool(call.ref, 2) for call in waiting}, before(self).missing)

    patch(child_sessions.ChildSessions, "known", property(known))


@mutant("nobody notices that what an agent asked was answered")
def _(patch: Patch) -> None:
    patch(child_sessions.ChildSessions, "known", property(lambda self: planner.NO_CHILDREN))


@mutant("a missing child session is begun again, and nobody is asked")
def _(patch: Patch) -> None:
    caller_of, before = tool_runs.ToolRunner._caller_of, child_sessions.ChildSessions.known.fget  # type: ignore[attr-defined]

    def begins(self: Any, *given: Any) -> Any:
        caller = caller_of(self, *given)
        caller.resumes = False
        return caller

    async def none_missing(self: child_sessions.ChildSessions) -> frozenset[Any]:
        return frozenset()

    def known(self: child_sessions.ChildSessions) -> planner.ChildStatus:
        found = before(self)
        calls = [call for call in self._ledger.state.batch if call.ref in found.missing]
        return planner.ChildStatus(found.resumable | {planner.RunTool(call.ref, len(call.attempts) + 1) for call in calls})

    patch(tool_runs.ToolRunner, "_caller_of", begins)
    patch(child_sessions.ChildSessions, "missing", none_missing)
    patch(child_sessions.ChildSessions, "known", property(known))


@mutant("a child session that failed is an error of its call")
def _(patch: Patch) -> None:
    before = child_sessions.run_child

    async def run_child(*given: Any) -> Any:
        try:
            return await before(*given)
        except ChildPaused as paused:
            if paused.error:
                raise RuntimeError(f"it did not finish: {paused.error}") from None
            raise

    patch(child_sessions, "run_child", run_child)


@mutant("what a child session uses is not counted")
def _(patch: Patch) -> None:
    async def report(self: caller.Caller, spent: Any) -> None:
        self._reserved.pop(self._call, None)

    patch(caller.Caller, "report", report)


@mutant("the limits of a session do not bind its child sessions")
def _(patch: Patch) -> None:
    patch(caller.Caller, "allows", lambda self, needed: True)


@mutant("deleting a session leaves its child sessions")
def _(patch: Patch) -> None:
    async def delete(self: MemoryStore, ledger: str, *, expected: Any = None, born: str = "") -> bool:
        kept = self._ledgers.pop(ledger, None)
        return kept is not None and bool(kept.facts)

    patch(MemoryStore, "delete", delete)


@mutant("a copy takes a session without its child sessions")
def _(patch: Patch) -> None:
    before = copying.Copier._read_all

    async def alone(self: copying.Copier, family: Any) -> Any:
        return (await before(self, family))[:1]

    patch(copying.Copier, "_read_all", alone)


@mutant("retiring deletes child sessions before their parent")
def _(patch: Patch) -> None:
    before = retiring._Retiring._family

    async def one_by_one(self: Any, family: Any) -> None:
        for info in reversed(family):
            await before(self, [info])

    patch(retiring._Retiring, "_family", one_by_one)


@mutant("a string holds a session without its child sessions")
def _(patch: Patch) -> None:
    before = transfer._envelope

    class Childless:
        def __init__(self, store: Any) -> None:
            self.content = store.content

        async def children(self, id: str) -> list[Any]:
            return []

    async def envelope(store: Any, id: str, facts: Any) -> Any:
        return await before(Childless(store), id, facts)  # type: ignore[arg-type]

    patch(transfer, "_envelope", envelope)


# -- safety ------------------------------------------------------------------------------------------------------------


@mutant("an approval counts whatever arguments it was given for")
def _(patch: Patch) -> None:
    before = Given._asked

    def asked(self: Given, now: state.State, definition: Any) -> Any:
        return before(replace(self, request=self.id), now, definition)

    patch(Given, "_asked", asked)


@mutant("a request can be answered twice")
def _(patch: Patch) -> None:
    before = Given._asked
    rule = _rule(Decided)

    def asked(self: Given, now: state.State, definition: Any) -> Any:
        request = self.request
        try:
            return before(self, now, definition)
        except Exception:
            if isinstance(request, str) or request.call is None or request.digest == "0" * 32 or now.call(request.call) is None:
                raise
            return request

    def decided(self: state.State, fact: Decided) -> None:
        call = self.call(fact.call) if fact.call else None
        if call is not None and (call.output is not None or call.approved or call.attempts):
            return
        rule(self, fact)

    patch(Given, "_asked", asked)
    _patch_rule(patch, Decided, decided)


@mutant("what needs approval runs without it")
def _(patch: Patch) -> None:
    before = claims.Claims.gate

    def gate(self: Any, now: state.State, effect: Any) -> Any:
        fact = before(self, now, effect)
        return msgspec.structs.replace(fact, needed=False) if isinstance(fact, ApprovalChecked) else fact

    patch(claims.Claims, "gate", gate)


@mutant("a fork keeps the standing approvals of its parent")
def _(patch: Patch) -> None:
    rule = _rule(Opened)

    def opened(self: state.State, fact: Opened) -> None:
        standing = set(self.standing)
        rule(self, fact)
        self.standing |= standing

    _patch_rule(patch, Opened, opened)


def _keep_consents(patch: Patch, kind: str) -> None:
    """Treat a fork or a copy as a session that was moved."""
    rule = _rule(Opened)

    def opened(self: state.State, fact: Opened) -> None:
        same = fact.origin is not None and fact.origin.kind == kind
        rule(self, replace(fact, origin=replace(fact.origin, kind="move")) if same else fact)

    _patch_rule(patch, Opened, opened)


@mutant("a fork keeps what was approved in its parent")
def _(patch: Patch) -> None:
    _keep_consents(patch, "fork")


@mutant("a copy keeps what was approved in the original")
def _(patch: Patch) -> None:
    _keep_consents(patch, "copy")


@mutant("a standing approval of one agent's tool holds for all agents")
def _(patch: Patch) -> None:
    before = planner._next_step

    def next_step(batch: Any, call: Any) -> Any:
        kept = set(batch.state.standing)
        batch.state.standing |= {msgspec.structs.replace(each, agent=batch.rules.name) for each in kept}
        try:
            return before(batch, call)
        finally:
            batch.state.standing = kept

    patch(planner, "_next_step", next_step)
    patch(planner, "_has_effects", lambda *given: True)


@mutant("an edited call runs with the arguments the model wrote")
def _(patch: Patch) -> None:
    rule = _rule(Decided)

    def decided(self: state.State, fact: Decided) -> None:
        call = self.call(fact.call) if fact.call else None
        arguments = call.arguments if call else ""
        rule(self, fact)
        if call is not None and fact.verdict == "edit":
            call.arguments = arguments

    _patch_rule(patch, Decided, decided)


@mutant("what a person declined is cancelled for good: later messages are not heard")
def _(patch: Patch) -> None:
    rule = _rule(Decided)

    def decided(self: state.State, fact: Decided) -> None:
        rule(self, fact)
        if fact.verdict == "reject":
            self.tail.clear()

    _patch_rule(patch, Decided, decided)


# -- what makes it quick -------------------------------------------------------------------------------------------------


@mutant("a cached state is advanced under those who look at it")
def _(patch: Patch) -> None:
    patch(ledger, "copy_state", lambda state: state)


@mutant("a copy of a state shares the newest reply with the original")
def _(patch: Patch) -> None:
    patch(state_copy, "_copy_group", lambda group: group)


@mutant("a cached state is taken for all there is")
def _(patch: Patch) -> None:
    before = ledger.Ledger._read

    async def read(self: Any) -> Any:
        born, now, facts = await before(self)
        return born, now, facts if now is self.state else ()

    patch(ledger.Ledger, "_read", read)


@mutant("a state is cached with what was proposed and never recorded")
def _(patch: Patch) -> None:
    def share(self: Any) -> None:
        if self._sound:
            SESSIONS.put(self.store, self.session, CachedState, CachedState(self._born, self.state, 0), 0)

    async def append(self: Any, propose: Any, contents: Any = None) -> Any:
        async with self.lock:
            try:
                return await self._append(propose, contents)
            finally:
                share(self)

    patch(ledger.Ledger, "append", append)


@mutant("nobody looks out for what others append while something runs")
def _(patch: Patch) -> None:
    patch(driver.Driver, "_grown", lambda self, length: None)


@mutant("a plan is kept although the ledger has moved")
def _(patch: Patch) -> None:
    def kept(self: Any, now: state.State) -> planner.Plan:
        if self._planned is None or self._planned[0] is not now:
            self._planned = (now, now.length, planner.plan(now, self._definition.graph, self._epoch))
        return self._planned[2]

    patch(driver.Driver, "_plan", kept)


@mutant("a frame is never sent to the store with what names it")
def _(patch: Patch) -> None:
    before = model_requests.ModelCaller._prepare

    async def prepare(self: Any, *given: Any) -> Any:
        prepared = await before(self, *given)
        return prepared and (*prepared[:2], {})

    patch(model_requests.ModelCaller, "_prepare", prepare)


# -- what was erased -----------------------------------------------------------------------------------------------------


@mutant("a handle goes on with words that were erased")
def _(patch: Patch) -> None:
    patch(ledger, "Redacted", type("Unheard", (), {}))  # no fact that is read is of this type


@mutant("a reply that was made from erased words is recorded")
def _(patch: Patch) -> None:
    patch(state.State, "overtaken_at", property(lambda self: self.stop.at))


@mutant("a model goes on thinking about words that were erased")
def _(patch: Patch) -> None:
    before = planner._call_model

    def call_model(now: state.State, *given: Any) -> planner.Plan:
        made = before(now, *given)
        effects = [replace(each, stop=now.stop.at) if isinstance(each, planner.CallModel) else each for each in made.effects]
        return planner.Plan(effects, made.requests)

    patch(planner, "_call_model", call_model)


@mutant("a call is run although its arguments were erased")
def _(patch: Patch) -> None:
    before = _rule(Redacted)

    def redacted(self: state.State, fact: Redacted) -> None:
        before(self, fact)
        for call in self.batch:
            call.stopped = "" if call.stopped == "erased" else call.stopped

    _patch_rule(patch, Redacted, redacted)


@mutant("what is erased in one branch stays in the others")
def _(patch: Patch) -> None:
    before = MemoryStore.redact

    async def redact(self: Any, name: str, what: Any, **options: Any) -> Any:
        others = {each: list(kept.facts) for each, kept in self._ledgers.items() if each != name}
        done = await before(self, name, what, **options)
        for each, facts in others.items():
            self._ledgers[each].facts[: len(facts)] = facts
        return done

    patch(MemoryStore, "redact", redact)


@mutant("the digests of erased arguments stay")
def _(patch: Patch) -> None:
    patch(redaction._Erasure, "_digest", lambda self, call, digest: digest)


# -- tools of clients ----------------------------------------------------------------------------------------------------


@mutant("a frame is kept although an answer brought other tools of the client")
def _(patch: Patch) -> None:
    patch(state.State, "frame", property(lambda self: self.request.frame if self.request.upto >= self.spoken_at else ""))


@mutant("the tools of a client are offered in the runs that follow")
def _(patch: Patch) -> None:
    before = state._set_options

    def set_options(now: state.State, options: Any) -> None:
        if options != NO_OPTIONS:
            before(now, options)

    patch(state, "_set_options", set_options)
