"""Deliberate bugs, each of which some framework really had. A harness that misses one of them is not good enough.

`apply_mutant(description)` patches the package in this process, and restores it afterwards.
"""

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
    OutputText,
    Redacted,
)
from legato.core.messages import Message, to_parts
from legato.errors import LedgerConflict
from legato.runtime import (
    child_sessions,
    driver,
    event_projector,
    ledger,
    model_requests,
    parent_call,
    tool_calls,
    transcript,
    transfer,
)
from legato.runtime.clock import new_id, now_ms
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSION_CACHE, CachedState
from legato.runtime.user_input import UserDecision
from legato.stores import retirement, session_copy
from legato.stores.contract import Lease
from legato.stores.memory import MemoryStore
from legato.tools import ChildPaused
from legato.workflow import agent_as_tool

Patch = Callable[[Any, Any, Any], None]
"""`patch(owner, name, value)`: an attribute of a module or class, or an entry of a dict."""

MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(description: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register a function that applies a bug by its argument `patch`."""

    def register(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[description] = make
        return make

    return register


@contextmanager
def apply_mutant(description: str, mutants: Mapping[str, Callable[[Patch], None]] = MUTANTS) -> Iterator[None]:
    """Give the package this bug during the block."""
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
        mutants[description](patch)
        yield
    finally:
        for restore in reversed(undo):
            restore()


def _find_rule(kind: type) -> Callable[[state.State, Any], None]:
    """Return the rule of a kind of fact as one function, which checks a fact and applies it."""
    check, change = state.RULES[kind]

    def rule(now: state.State, fact: Any) -> None:
        change(now, fact, check(now, fact))

    return rule


def _patch_rule(patch: Patch, kind: type, rule: Callable[[Any, Any], None]) -> None:
    """Replace the rule of a kind of fact by one that does its own checks."""
    patch(state.RULES, kind, (lambda now, fact: None, lambda now, fact, checked: rule(now, fact)))


# -- order and wholeness -----------------------------------------------------------------------------------------------


@mutant("a message that came during a model request is put before its reply")
def _(patch: Patch) -> None:
    before = _find_rule(ModelReplied)

    def broken_rule(self: state.State, fact: ModelReplied) -> None:
        before(self, fact)
        group = self.groups.pop()
        self.groups += [*self.new_messages, group]
        self.new_messages.clear()

    _patch_rule(patch, ModelReplied, broken_rule)


@mutant("of two unanswered messages the later is sent first")
def _(patch: Patch) -> None:
    before = state._add_message

    def add_message(now: state.State, group: groups.Group) -> None:
        before(now, group)
        now.new_messages.insert(0, now.new_messages.pop())

    patch(state, "_add_message", add_message)


@mutant("other agents' tool outputs are dropped at a handoff")
def _(patch: Patch) -> None:
    before = model_requests.select_groups

    def select_groups(now: state.State, spec: Any, agent: str, *arguments: Any) -> list[groups.Group]:
        selected = before(now, spec, agent, *arguments)
        return [_without_outputs(group) if group.agent and group.agent != agent else group for group in selected]

    patch(model_requests, "select_groups", select_groups)


def _without_outputs(group: groups.Group) -> groups.Group:
    bare = groups.Group(group.kind, group.position, group.agent)
    bare.fact = group.fact
    bare._entries = tuple(entry for entry in group.entries if not isinstance(entry, groups.OutputEntry))
    return bare


@mutant("other agents' calls and outputs are both dropped")
def _(patch: Patch) -> None:
    before = model_requests.select_groups

    def select_groups(now: state.State, spec: Any, agent: str, *arguments: Any) -> list[groups.Group]:
        selected = before(now, spec, agent, *arguments)
        stripped = (group if group.agent == agent or not group.agent else group.without_tool_traffic() for group in selected)
        return [group for group in stripped if group]

    patch(model_requests, "select_groups", select_groups)


@mutant("the receiving agent gets the user's messages twice")
def _(patch: Patch) -> None:
    before = model_requests.select_groups

    def select_groups(now: state.State, spec: Any, agent: str, *arguments: Any) -> list[groups.Group]:
        selected = before(now, spec, agent, *arguments)
        return [group for group in selected for _ in range(2 if group.kind == "said" and now.run_counters.handoffs else 1)]

    patch(model_requests, "select_groups", select_groups)


@mutant("the last-n-turns policy keeps one turn too few")
def _(patch: Patch) -> None:
    before = view.find_turns_start
    patch(view, "find_turns_start", lambda groups, turns: before(groups, turns - 1) if turns > 1 else max(0, len(groups) - 1))


@mutant("withheld messages are sent to models")
def _(patch: Patch) -> None:
    def select_groups(now: state.State, spec: Any, agent: str, *arguments: Any) -> list[groups.Group]:
        withheld, now.withheld_message_count = now.withheld_message_count, 0
        try:
            return view.select_groups(now, spec, agent, *arguments)
        finally:
            now.withheld_message_count = withheld

    patch(model_requests, "select_groups", select_groups)


@mutant("a prompt to an autonomous agent counts as a user's message")
def _(patch: Patch) -> None:
    before = transcript._to_messages

    def to_messages(group: groups.Group) -> list[Message]:
        if group.kind == "prompt":
            return [Message(role="user", parts=to_parts(group.content), position=group.position)]
        return before(group)

    patch(transcript, "_to_messages", to_messages)


@mutant("a reply records one fact less than its model input had")
def _(patch: Patch) -> None:
    before = model_requests._make_replied_fact

    def make_replied_fact(reply: Any, request: Any, *arguments: Any) -> Any:
        return before(reply, replace(request, upto=request.upto - 1), *arguments)

    patch(model_requests, "_make_replied_fact", make_replied_fact)


@mutant("a reply records facts that came after its model input")
def _(patch: Patch) -> None:
    before = ledger.to_recordable

    def to_recordable(fact: Any, now: state.State, *arguments: Any) -> Any:
        return before(replace(fact, upto=now.length - 1) if isinstance(fact, ModelReplied) else fact, now, *arguments)

    patch(ledger, "to_recordable", to_recordable)


@mutant("the text of a failed model request is recorded as a reply")
def _(patch: Patch) -> None:
    before = ledger.to_recordable

    def to_recordable(fact: Any, now: state.State, *arguments: Any) -> Any:
        recorded = before(fact, now, *arguments)
        if not isinstance(recorded, ModelRequestFailed):
            return recorded
        return ModelReplied(
            at=0, agent=fact.agent, context_digest=fact.context_digest, upto=now.length - 1, items=(OutputText("half of "),)
        )

    patch(ledger, "to_recordable", to_recordable)


@mutant("streamed text of a failed model request is not withdrawn")
def _(patch: Patch) -> None:
    patch(event_projector.EventProjector, "retract_deltas", lambda self: None)


# -- calls and handoffs ------------------------------------------------------------------------------------------------


@mutant("a handoff is taken before the rest of its batch is answered")
def _(patch: Patch) -> None:
    before = planner._plan_batch

    def plan_batch(batch: Any, about: Any) -> planner.Plan:
        plan = before(batch, about)
        handoffs = [call for call in batch.state.batch if call.call.tool in batch.rules.edges and call.phase in ("unchecked", "ready")]
        if not handoffs or (handoffs[0].phase == "unchecked" and batch.rules.edges[handoffs[0].call.tool].needs_approval):
            return plan
        others = [effect for effect in plan.effects if not isinstance(effect, planner.TakeHandoff)]
        return planner.Plan([*others, planner._plan_handoff(batch, handoffs[0])], plan.requests)

    patch(planner, "_plan_batch", plan_batch)

    def broken_rule(self: state.State, fact: HandedOff) -> None:
        for call in self.batch:
            if call.output is None and call.ref != fact.call:
                state._give_output(self, call, groups.CallOutput("pending", "ok", self.length))
        rule(self, fact)

    rule = _find_rule(HandedOff)
    _patch_rule(patch, HandedOff, broken_rule)


@mutant("the second handoff of a batch is left unanswered")
def _(patch: Patch) -> None:
    rule = _find_rule(HandedOff)

    def broken_rule(self: state.State, fact: HandedOff) -> None:
        others = [call for call in self.batch if call.output is None and call.ref != fact.call]
        rule(self, fact)
        for call in others:
            call.output = None

    _patch_rule(patch, HandedOff, broken_rule)


@mutant("the last handoff of a batch wins, not the first")
def _(patch: Patch) -> None:
    before = planner._plan_handoff

    def plan_handoff(batch: Any, call: Any) -> Any:
        handoffs = [each for each in batch.state.batch if each.output is None and each.call.tool in batch.rules.edges]
        return before(batch, handoffs[-1])

    patch(planner, "_plan_handoff", plan_handoff)


@mutant("a late outcome is sent as a second output")
def _(patch: Patch) -> None:
    rule = _find_rule(CallReturned)

    def broken_rule(self: state.State, fact: CallReturned) -> None:
        call = self.find_call(fact.call)
        if call is not None and call.output is not None and fact.attempt and not fact.late:
            call.output = groups.CallOutput(fact.output, fact.status, self.length)
            for group in self.groups:
                if group.position == fact.call.position:
                    group._entries = None
            return
        rule(self, fact)

    _patch_rule(patch, CallReturned, broken_rule)
    before = ledger.to_recordable

    def to_recordable(fact: Any, *arguments: Any) -> Any:
        return fact if isinstance(fact, CallReturned) else before(fact, *arguments)

    patch(ledger, "to_recordable", to_recordable)


@mutant("a cancel stops the conversation, but its open calls go on when the user speaks again")
def _(patch: Patch) -> None:
    from legato.runtime import session, tool_calls

    def stop(now: state.State, why: str) -> None:
        now.stop = state.ConversationStop(why, now.length)

    patch(state, "_stop_conversation", stop)
    for module in (session, tool_calls):
        patch(module, "answer_stopped_calls", lambda *arguments: iter(()))


# -- durability --------------------------------------------------------------------------------------------------------


@mutant("a tool runs without a recorded start")
def _(patch: Patch) -> None:
    before = driver.Driver._make_immediate_facts

    def make_immediate_facts(self: Any, now: state.State, plan: planner.Plan) -> Iterator[Any]:
        others = [effect for effect in plan.effects if not isinstance(effect, planner.RunTool)]
        return before(self, now, planner.Plan(others, plan.requests))

    patch(driver.Driver, "_make_immediate_facts", make_immediate_facts)


@mutant("a tool starts before the record of its start is confirmed")
def _(patch: Patch) -> None:
    before = driver.Driver._record_outcomes

    async def record_outcomes(self: Any, outcomes: Any) -> None:
        task = asyncio.get_running_loop().create_task(before(self, outcomes))
        await asyncio.wait({task}, timeout=0.0005)
        if task.done():
            task.result()
        else:
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    patch(driver.Driver, "_record_outcomes", record_outcomes)


_tasks: set[Any] = set()


@mutant("the loser of a race appends anyway")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **options: Any) -> int:
        try:
            return await before(self, name, expected, facts, **options)
        except LedgerConflict as conflict:
            return await before(self, name, conflict.found_position, facts, **{**options, "ledger_id": ""})

    patch(MemoryStore, "append", append)


@mutant("the facts of the loser of a race are silently dropped")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **options: Any) -> int:
        try:
            return await before(self, name, expected, facts, **options)
        except LedgerConflict:
            return expected + len(facts)

    patch(MemoryStore, "append", append)


@mutant("of an append of several facts the last is acknowledged and not written")
def _(patch: Patch) -> None:
    before = MemoryStore.append

    async def append(self: Any, name: str, expected: int, facts: Any, **options: Any) -> int:
        await before(self, name, expected, facts[:-1] if len(facts) > 2 else facts, **options)
        return expected + len(facts)

    patch(MemoryStore, "append", append)


@mutant("every process gets the lease, and no attempt is ever lost")
def _(patch: Patch) -> None:
    async def lease(self: Any, name: str) -> Lease:
        return Lease(name, 1)

    patch(MemoryStore, "lease", lease)


@mutant("a new driver treats a dead driver's attempt as its own")
def _(patch: Patch) -> None:
    before = driver.make_plan
    patch(driver, "make_plan", lambda now, graph, epoch=None, *arguments: before(now, graph, None, *arguments))


@mutant("a driver that lost its lease still starts tools")
def _(patch: Patch) -> None:
    patch(driver.Driver, "_has_lost_lease", lambda self, now: False)


@mutant("a tool that is not idempotent is started again after its attempt was lost")
def _(patch: Patch) -> None:
    before = planner._Batch.find_tool_rules
    patch(planner._Batch, "find_tool_rules", lambda self, call: replace(before(self, call), idempotent=True))


@mutant("a lost attempt is answered as failed without asking")
def _(patch: Patch) -> None:
    rule = _find_rule(planner.CallLost)

    def broken_rule(self: state.State, fact: Any) -> None:
        rule(self, fact)
        call = self.find_call(fact.call)
        assert call is not None
        state._give_output(self, call, groups.CallOutput("It failed.", "error", self.length))

    _patch_rule(patch, planner.CallLost, broken_rule)


@mutant("the key of a message is ignored")
def _(patch: Patch) -> None:
    rule = _find_rule(MessageReceived)
    _patch_rule(patch, MessageReceived, lambda self, fact: rule(self, msgspec.structs.replace(fact, key="")))


@mutant("after a cancel the user's next message gets no reply")
def _(patch: Patch) -> None:
    patch(state.State, "stop_reason", property(lambda self: self.stop.reason))


@mutant("a withheld message ends a cancel")
def _(patch: Patch) -> None:
    patch(state.State, "last_unseen_position", property(lambda self: self.new_messages[-1].position if self.new_messages else -1))


# -- messages that guardrails check --------------------------------------------------------------------------------------


@mutant("a message joins the conversation before guardrails checked it")
def _(patch: Patch) -> None:
    rule = _find_rule(MessageReceived)
    _patch_rule(patch, MessageReceived, lambda self, fact: rule(self, replace(fact, awaits_guardrails=False)))


@mutant("a model is requested while guardrails check a message")
def _(patch: Patch) -> None:
    reconcile = driver.Driver._reconcile

    def reconcile_anyway(self: Any) -> bool:
        now = self._ledger.state
        going = reconcile(self)
        for effect in (
            planner.make_plan(now, self._definition.graph, self._epoch).effects
            if now.unchecked_messages and not self._is_winding_down(now)
            else ()
        ):
            if isinstance(effect, planner.RequestModel) and effect not in self._tasks and not self._has_given_up(now):
                self._tasks[effect] = asyncio.get_running_loop().create_task(self._perform_and_wake(effect))
        return going or bool(self._tasks)

    async def prepare(self: Any, effect: Any, wanted: Any) -> Any:
        digest, turn_context, data = await self._turn_contexts.get_current(effect.agent)
        async with self._ledger.lock:
            now = self._ledger.state
            if not wanted(now, effect):
                return None
            history = model_requests.find_history_policy(
                self._definition, effect.agent, now.incoming_handoff if now.active_agent == effect.agent else None
            )
            selected, kept_groups = model_requests._choose_groups(now, turn_context.history, history, effect.agent)
            return view.build_request(now, turn_context, digest, selected, effect.agent), kept_groups, {digest: data}

    patch(driver.Driver, "_reconcile", reconcile_anyway)
    patch(model_requests.ModelRequester, "_prepare", prepare)


@mutant("a withheld message begins a new run")
def _(patch: Patch) -> None:
    rule = _find_rule(GuardrailJudged)

    def broken_rule(self: state.State, fact: GuardrailJudged) -> None:
        rule(self, fact)
        if fact.kind == "input" and fact.stop:
            self.run_counters = self.run_counters.start_next_run()

    _patch_rule(patch, GuardrailJudged, broken_rule)


# -- agents that work as tools, and wait for people ----------------------------------------------------------------------


async def _do_nothing(self: child_sessions.ChildSessions, call: Any) -> None:
    """Leave the child session of a call that was answered without it, which a later driver would otherwise stop."""


@mutant("a cancel leaves the requests of child sessions open")
def _(patch: Patch) -> None:
    async def stop_all(self: child_sessions.ChildSessions, words: str, holders: Any) -> Any:
        return {call.ref for call in self._ledger.state.batch}

    patch(child_sessions.ChildSessions, "stop_all", stop_all)
    patch(child_sessions.ChildSessions, "cancel_orphan", _do_nothing)


@mutant("a superseded call leaves the requests of its child session open")
def _(patch: Patch) -> None:
    async def stop(self: child_sessions.ChildSessions, call: Any) -> None:
        pass

    patch(child_sessions.ChildSessions, "stop", stop)


@mutant("a cancel stops the parent session before its child sessions")
def _(patch: Patch) -> None:
    before, stop_all = Session.cancel, child_sessions.ChildSessions.stop_all

    async def later(self: child_sessions.ChildSessions, words: str, holders: Any) -> Any:
        return {call.ref for call in self._ledger.state.batch}

    async def cancel(self: Session, words: str = "") -> None:
        await self.refresh()
        waiting = [handle for _, handle in self._child_sessions._list_paused_calls() if handle is not None]
        await before(self, words)
        for handle in waiting:
            await stop_all(handle._child_sessions, words, ())
            await before(handle, words)

    patch(child_sessions.ChildSessions, "stop_all", later)
    patch(child_sessions.ChildSessions, "cancel_orphan", _do_nothing)
    patch(Session, "cancel", cancel)


@mutant("branches share a child session")
def _(patch: Patch) -> None:
    def share_id(session_id: str, key: str) -> str:
        return f"s/{key}"

    async def open_handle(self: child_sessions.ChildSessions, call: Any) -> Session | None:
        opener = self._find_opener(call)
        if opener is None:
            return None
        child_id = share_id(self._ledger.session_id, self._ledger.state.make_idempotency_key(call.ref))
        handle: Session = await opener(child_id, self._ledger.store, self.context)
        return handle

    patch(agent_as_tool, "choose_child_session_id", share_id)
    patch(child_sessions.ChildSessions, "_open_handle", open_handle)


@mutant("a fork leaves the child sessions behind")
def _(patch: Patch) -> None:
    async def fork_alone(ledger: Any, at: int, new: str) -> None:
        now = await ledger.refresh()
        opened = Opened(at=now_ms(), ledger_id=new_id(), workflow=now.workflow, origin=Origin(ledger.session_id, at))
        await ledger.fork(at, new, opened)

    patch(child_sessions, "fork_session_tree", fork_alone)


@mutant("a waiting call is started again before its child session was answered")
def _(patch: Patch) -> None:
    before = child_sessions.ChildSessions.status.fget  # type: ignore[attr-defined]

    def status(self: child_sessions.ChildSessions) -> planner.ChildSessionStatus:
        waiting = [call for call in self._ledger.state.batch if call.pause]
        return planner.ChildSessionStatus(before(self).resumable | {planner.RunTool(call.ref, 2) for call in waiting}, before(self).missing)

    patch(child_sessions.ChildSessions, "status", property(status))


@mutant("an answer to a child session does not resume its parent session")
def _(patch: Patch) -> None:
    patch(child_sessions.ChildSessions, "status", property(lambda self: planner.NO_CHILDREN))


@mutant("a missing child session is started again without asking")
def _(patch: Patch) -> None:
    caller_of, before = tool_calls.ToolRunner._make_parent_call, child_sessions.ChildSessions.status.fget  # type: ignore[attr-defined]

    def make_parent_call(self: Any, *arguments: Any) -> Any:
        caller = caller_of(self, *arguments)
        caller.is_resumed = False
        return caller

    async def find_no_attempts(self: child_sessions.ChildSessions) -> frozenset[Any]:
        return frozenset()

    def status(self: child_sessions.ChildSessions) -> planner.ChildSessionStatus:
        known = before(self)
        calls = [call for call in self._ledger.state.batch if call.ref in known.missing]
        return planner.ChildSessionStatus(known.resumable | {planner.RunTool(call.ref, len(call.attempts) + 1) for call in calls})

    patch(tool_calls.ToolRunner, "_make_parent_call", make_parent_call)
    patch(child_sessions.ChildSessions, "find_attempts_without_child", find_no_attempts)
    patch(child_sessions.ChildSessions, "status", property(status))


@mutant("a failed child session becomes an error of its call")
def _(patch: Patch) -> None:
    before = agent_as_tool.run_child_session

    async def run_child(*arguments: Any) -> Any:
        try:
            return await before(*arguments)
        except ChildPaused as paused:
            if paused.error:
                raise RuntimeError(f"it did not finish: {paused.error}") from None
            raise

    patch(agent_as_tool, "run_child_session", run_child)


@mutant("the usage of child sessions is not counted")
def _(patch: Patch) -> None:
    async def report(self: parent_call.ParentCall, spent: Any) -> None:
        self._reservations.pop(self._call, None)

    patch(parent_call.ParentCall, "report_usage", report)


@mutant("the limits of a session do not apply to its child sessions")
def _(patch: Patch) -> None:
    patch(parent_call.ParentCall, "has_budget_for", lambda self, needed: True)


@mutant("deleting a session leaves its child sessions")
def _(patch: Patch) -> None:
    async def delete(self: MemoryStore, ledger: str, *, expected: Any = None, ledger_id: str = "") -> bool:
        deleted = self._ledgers.pop(ledger, None)
        return deleted is not None and bool(deleted.facts)

    patch(MemoryStore, "delete", delete)


@mutant("a copy of a session lacks its child sessions")
def _(patch: Patch) -> None:
    before = session_copy.SessionCopier._read_tree

    async def read_tree(self: session_copy.SessionCopier, tree: Any) -> Any:
        return (await before(self, tree))[:1]

    patch(session_copy.SessionCopier, "_read_tree", read_tree)


@mutant("retiring deletes child sessions before their parent")
def _(patch: Patch) -> None:
    before = retirement._Retirement._retire_tree

    async def retire_tree(self: Any, tree: Any) -> None:
        for info in reversed(tree):
            await before(self, [info])

    patch(retirement._Retirement, "_retire_tree", retire_tree)


@mutant("the text of a session lacks its child sessions")
def _(patch: Patch) -> None:
    before = transfer._read_envelope

    class Childless:
        def __init__(self, store: Any) -> None:
            self.content = store.content

        async def children(self, id: str) -> list[Any]:
            return []

    async def read_envelope(store: Any, id: str, facts: Any) -> Any:
        return await before(Childless(store), id, facts)  # type: ignore[arg-type]

    patch(transfer, "_read_envelope", read_envelope)


# -- safety ------------------------------------------------------------------------------------------------------------


@mutant("an approval counts for other arguments")
def _(patch: Patch) -> None:
    before = UserDecision._find_request

    def find_request(self: UserDecision, now: state.State, definition: Any) -> Any:
        return before(replace(self, request=self.request_id), now, definition)

    patch(UserDecision, "_find_request", find_request)


@mutant("a request can be answered twice")
def _(patch: Patch) -> None:
    before = UserDecision._find_request
    rule = _find_rule(Decided)

    def find_request(self: UserDecision, now: state.State, definition: Any) -> Any:
        request = self.request
        try:
            return before(self, now, definition)
        except Exception:
            if isinstance(request, str) or request.call is None or request.digest == "0" * 32 or now.find_call(request.call) is None:
                raise
            return request

    def broken_rule(self: state.State, fact: Decided) -> None:
        call = self.find_call(fact.call) if fact.call else None
        if call is not None and (call.output is not None or call.approved or call.attempts):
            return
        rule(self, fact)

    patch(UserDecision, "_find_request", find_request)
    _patch_rule(patch, Decided, broken_rule)


@mutant("a call that needs approval runs without it")
def _(patch: Patch) -> None:
    before = tool_calls.Claims.check_approval

    def check_approval(self: Any, now: state.State, effect: Any) -> Any:
        fact = before(self, now, effect)
        return msgspec.structs.replace(fact, needed=False) if isinstance(fact, ApprovalChecked) else fact

    patch(tool_calls.Claims, "check_approval", check_approval)


@mutant("a fork keeps the standing approvals of its parent")
def _(patch: Patch) -> None:
    rule = _find_rule(Opened)

    def broken_rule(self: state.State, fact: Opened) -> None:
        standing = set(self.standing_approvals)
        rule(self, fact)
        self.standing_approvals |= standing

    _patch_rule(patch, Opened, broken_rule)


def _keep_consents(patch: Patch, kind: str) -> None:
    """Treat a fork or a copy as a session that was moved."""
    rule = _find_rule(Opened)

    def broken_rule(self: state.State, fact: Opened) -> None:
        same = fact.origin is not None and fact.origin.kind == kind
        rule(self, replace(fact, origin=replace(fact.origin, kind="move")) if same else fact)

    _patch_rule(patch, Opened, broken_rule)


@mutant("a fork keeps the unused approvals of its parent")
def _(patch: Patch) -> None:
    _keep_consents(patch, "fork")


@mutant("a copy keeps the unused approvals of the original")
def _(patch: Patch) -> None:
    _keep_consents(patch, "copy")


@mutant("a standing approval of one agent's tool holds for all agents")
def _(patch: Patch) -> None:
    before = planner._find_next_step

    def find_next_step(batch: Any, call: Any) -> Any:
        approvals = set(batch.state.standing_approvals)
        batch.state.standing_approvals |= {msgspec.structs.replace(each, agent=batch.rules.name) for each in approvals}
        try:
            return before(batch, call)
        finally:
            batch.state.standing_approvals = approvals

    patch(planner, "_find_next_step", find_next_step)
    patch(planner, "_may_have_effects", lambda *arguments: True)


@mutant("an edited call runs with the arguments the model wrote")
def _(patch: Patch) -> None:
    rule = _find_rule(Decided)

    def broken_rule(self: state.State, fact: Decided) -> None:
        call = self.find_call(fact.call) if fact.call else None
        arguments = call.arguments if call else ""
        rule(self, fact)
        if call is not None and fact.verdict == "edit":
            call.arguments = arguments

    _patch_rule(patch, Decided, broken_rule)


@mutant("after a rejection later messages are ignored")
def _(patch: Patch) -> None:
    rule = _find_rule(Decided)

    def broken_rule(self: state.State, fact: Decided) -> None:
        rule(self, fact)
        if fact.verdict == "reject":
            self.new_messages.clear()

    _patch_rule(patch, Decided, broken_rule)


# -- what makes it quick -------------------------------------------------------------------------------------------------


@mutant("a cached state is changed while others read it")
def _(patch: Patch) -> None:
    patch(ledger, "copy_state", lambda state: state)


@mutant("a copy of a state shares the newest reply with the original")
def _(patch: Patch) -> None:
    patch(state_copy, "_copy_group", lambda group: group)


@mutant("a cached state is used without reading newer facts")
def _(patch: Patch) -> None:
    before = ledger.Ledger._read

    async def read(self: Any) -> Any:
        ledger_id, now, facts = await before(self)
        return ledger_id, now, facts if now is self.state else ()

    patch(ledger.Ledger, "_read", read)


@mutant("a state is cached with facts that were never recorded")
def _(patch: Patch) -> None:
    def share(self: Any) -> None:
        if self.confirmed_length:
            SESSION_CACHE.put(self.store, self.session_id, CachedState, CachedState(self.ledger_id, self.state, 0), 0)

    async def append(self: Any, propose: Any, contents: Any = None) -> Any:
        async with self.lock:
            try:
                return await self._append_locked(propose, contents)
            finally:
                share(self)

    patch(ledger.Ledger, "append", append)


@mutant("a driver ignores appends of others while an effect runs")
def _(patch: Patch) -> None:
    patch(driver.Driver, "_on_store_growth", lambda self, length: None)


@mutant("a plan is reused after the ledger has grown")
def _(patch: Patch) -> None:
    def get_plan(self: Any, now: state.State) -> planner.Plan:
        if self._newest_plan is None or self._newest_plan[0] is not now:
            self._newest_plan = (now, now.length, planner.make_plan(now, self._definition.graph, self._epoch))
        return self._newest_plan[2]

    patch(driver.Driver, "_get_plan", get_plan)


@mutant("a turn context is not stored with the reply that names it")
def _(patch: Patch) -> None:
    before = model_requests.ModelRequester._prepare

    async def prepare(self: Any, *arguments: Any) -> Any:
        prepared = await before(self, *arguments)
        return prepared and (*prepared[:2], {})

    patch(model_requests.ModelRequester, "_prepare", prepare)


# -- what was erased -----------------------------------------------------------------------------------------------------


@mutant("a session handle keeps using redacted text")
def _(patch: Patch) -> None:
    patch(ledger, "Redacted", type("NoFact", (), {}))  # no fact has this type


@mutant("a reply made from redacted text is recorded")
def _(patch: Patch) -> None:
    patch(state.State, "interrupted_at", property(lambda self: self.stop.position))


@mutant("a model request continues after its input was redacted")
def _(patch: Patch) -> None:
    before = planner._plan_model_request

    def plan_model_request(now: state.State, *arguments: Any) -> planner.Plan:
        plan = before(now, *arguments)
        effects = [
            replace(each, interrupted_at=now.stop.position) if isinstance(each, planner.RequestModel) else each for each in plan.effects
        ]
        return planner.Plan(effects, plan.requests)

    patch(planner, "_plan_model_request", plan_model_request)


@mutant("a call runs after its arguments were redacted")
def _(patch: Patch) -> None:
    before = _find_rule(Redacted)

    def broken_rule(self: state.State, fact: Redacted) -> None:
        before(self, fact)
        for call in self.batch:
            call.stop_reason = "" if call.stop_reason == "erased" else call.stop_reason

    _patch_rule(patch, Redacted, broken_rule)


@mutant("a redaction in one branch leaves the text in the others")
def _(patch: Patch) -> None:
    before = MemoryStore.redact

    async def redact(self: Any, name: str, what: Any, **options: Any) -> Any:
        others = {each: list(ledger.facts) for each, ledger in self._ledgers.items() if each != name}
        done = await before(self, name, what, **options)
        for each, facts in others.items():
            self._ledgers[each].facts[: len(facts)] = facts
        return done

    patch(MemoryStore, "redact", redact)


@mutant("the digests of redacted arguments stay")
def _(patch: Patch) -> None:
    patch(redaction._LedgerRedactor, "_find_digest", lambda self, call, digest: digest)


# -- tools of clients ----------------------------------------------------------------------------------------------------


@mutant("a turn context is kept after an answer changed the client's tools")
def _(patch: Patch) -> None:
    patch(
        state.State,
        "context_digest",
        property(lambda self: self.last_request.context_digest if self.last_request.upto >= self.last_unseen_position else ""),
    )


@mutant("a client's tools are offered in later runs")
def _(patch: Patch) -> None:
    before = state._set_options

    def set_options(now: state.State, options: Any) -> None:
        if options != NO_OPTIONS:
            before(now, options)

    patch(state, "_set_options", set_options)
