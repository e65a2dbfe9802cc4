"""Child sessions, in which agents work as tools of other agents.

The child session of a call is a session of its own, in the same store. When it cannot continue, the call waits for it (`CallPaused`), and
the handle on the parent session has a handle on the child session. Requests of the child session are read from its ledger and answered in
its ledger. Only its usage is copied into the parent's ledger.

A missing child session is not started again unless a person says so. What it did is unknown, so the parent asks for the call's outcome.
A fork of the parent forks the child sessions of its unanswered calls too (`fork_session_tree`), so that an approval in one branch approves
nothing in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from legato.core.child_session_ids import make_child_session_id
from legato.core.facts import CallPaused, CallRef, Cancelled, ModelRequestFailed, Opened, Origin, StandingApproval
from legato.core.groups import CallState
from legato.core.pending_requests import Pending
from legato.core.planner import (
    NO_CHILDREN,
    ChildSessionStatus,
    RunTool,
    SessionStatus,
    estimate_next_request,
    find_active_agent,
    find_failure,
    make_plan,
)
from legato.errors import DefinitionChanged, LedgerExists, UnknownLedger
from legato.runtime.clock import new_id, now_ms
from legato.runtime.ledger import Ledger, attribute_errors, fold_in_slices, is_error_of_store, mark_idle
from legato.runtime.parent_call import ParentCall, current_parent_call
from legato.stores.contract import Store
from legato.tools import CallerStopped, ChildMissing, ChildPaused

if TYPE_CHECKING:
    from legato.models.model import Model
    from legato.runtime.definition import WorkflowDefinition
    from legato.runtime.run import Result
    from legato.runtime.session import Session


ORPHANING_OUTPUT_STATUSES = ("cancelled", "superseded", "stopped", "timeout")
"""The statuses of outputs that answer a call while its tool still works or waits, and so make its child session an orphan."""


def choose_child_session_id(session_id: str, key: str) -> str:
    """Return the id of the child session of the call with this idempotency key; a new id for a call that runs outside of a session."""
    return make_child_session_id(session_id, key) if session_id else new_id()


def find_parent_store() -> Store | None:
    """Return the store of the session whose call is running; None outside of a session."""
    parent_call = current_parent_call.get()
    return parent_call.store if parent_call is not None else None


async def run_child_session(session: Session, task: Any, key: str) -> Result:
    """Give a child session its task, once, and drive it. `ChildPaused` if it failed or has no budget left: `resume()` continues it."""
    parent_call = current_parent_call.get()
    await _give_task(session, task, key, parent_call)
    length_before = session.state.length
    try:
        result = await session.run(task, key=key)
    except Exception as error:
        if is_error_of_store(session.store, error):
            raise
        raise _make_failure_pause(session, error) from error
    if result.status in ("failed", "running"):
        raise _make_pause(session, result.status, session.state.length != length_before, parent_call)
    return result


async def _give_task(session: Session, task: Any, key: str, parent_call: ParentCall | None) -> None:
    try:
        await session.refresh()
        if parent_call is not None and parent_call.is_resumed and not session.state.length:
            raise ChildMissing
        await session.say(task, key=key)
    except DefinitionChanged as error:
        raise _make_failure_pause(session, error) from error
    if parent_call is not None:
        try:
            await parent_call.check_parent_exists()
        except UnknownLedger:
            await attribute_errors(session.store, session.store.delete(session.id))  # it began just after its parent was deleted
            raise


def _make_pause(session: Session, status: SessionStatus, has_grown: bool, parent_call: ParentCall | None) -> ChildPaused:
    """Return the reason why a child session did not end, for the parent's driver. `has_grown`: its run recorded something."""
    length = session.state.length
    if parent_call is None or (status == "failed" and has_grown):
        return ChildPaused(session.id, length, find_failure(session.state) or f"its session is {status}")
    needed = estimate_next_request(session.state)
    if status == "running" and parent_call.slot is not None and parent_call.has_budget_for(needed):  # it waits for a retry or a slot
        return ChildPaused(session.id, length, retry_at=find_next_retry_at(session) or now_ms())
    # It made no model request, because a limit of a session above it has no room for one.
    return ChildPaused(session.id, length, needed=needed)


def find_next_retry_at(session: Session) -> int:
    """Return the time of the next retry that a session waits for, in milliseconds since the epoch; 0 if it waits for none."""
    return make_plan(session.state, session.workflow.definition.graph, children=session._child_sessions.status).retry_at


def find_next_model_request(session: Session) -> tuple[Model, int] | None:
    """Return the model that a session or one of its child sessions requests next, and the 1-based attempt number; None if there is none."""
    child = session._child_sessions.find_next_to_resume()
    if child is not None:
        return find_next_model_request(child)
    agent = session.workflow.definition.agents.get(find_active_agent(session.state, session.workflow.definition.graph))
    return (agent.model, session.state.next_request_attempt) if agent is not None else None


def iter_failed_requests(session: Session) -> Iterator[tuple[Session, ModelRequestFailed]]:
    """Yield the failed model requests that stop a session, each with the session that made it: this one, or one of its child sessions."""
    if (failed := session.state.failed_request) is not None:
        yield session, failed
    for child in session._child_sessions.list_paused():
        yield from iter_failed_requests(child)


def _make_failure_pause(session: Session, error: Exception) -> ChildPaused:
    """Return the pause for an error outside of tools: user code failed (a guardrail, for example), or the agent was renamed.

    What the child session has done is recorded, and must not be done again. So the parent waits until the error is repaired and the
    session is resumed.
    """
    return ChildPaused(session.id, session.state.length, f"{type(error).__name__}: {error}")


def raise_if_unfinished(session: Session) -> None:
    """Raise `ChildPaused` if a child session waits for people, `CallerStopped` if it was cancelled together with its parent."""
    if session.status == "pending":
        raise ChildPaused(session.id, session.state.length)
    stop = session.state.facts[session.state.stop.position] if session.status == "cancelled" else None
    if isinstance(stop, Cancelled) and stop.parent_lengths:
        raise CallerStopped(stop.reason, stop.parent_lengths)


class ChildSessions:
    """Handles on the child sessions that the calls of a session wait for."""

    def __init__(self, definition: WorkflowDefinition, ledger: Ledger) -> None:
        self._definition = definition
        self._ledger = ledger
        self.context: Any = None
        """The user's context, which child sessions are given too."""
        self._handles: dict[CallRef, Session | None] = {}  # None: the present workflow cannot open the child session

    # -- reading -------------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read what was appended to the child sessions that calls wait for, or waited for before they continued."""
        handles: dict[CallRef, Session | None] = {}
        for call in self._ledger.state.started_calls:
            if call.last_pause is not None:
                handles[call.ref] = None
                with suppress(DefinitionChanged):  # the call fails with this error when it is started again
                    handles[call.ref] = await self._refresh_handle(call)
        self._handles = handles

    async def read_status(self) -> ChildSessionStatus:
        """Read the child sessions that calls wait for, and return which of them can continue and which are missing."""
        await self.refresh()
        return self.status

    async def find_attempts_without_child(self) -> frozenset[RunTool]:
        """Return the open attempts whose child session is not in the store."""
        found = []
        for call in self._ledger.state.started_calls:
            with suppress(DefinitionChanged):  # it exists, but this workflow may not open it
                if (
                    call.open_attempt
                    and (handle := await self._open_handle(call)) is not None
                    and not (await handle.refresh()).state.length
                ):
                    found.append(RunTool(call.ref, call.open_attempt.number))
        return frozenset(found)

    def subscribe(self, on_growth: Callable[[int], None]) -> Callable[[], None]:
        """Call `on_growth` when one of the child sessions grows. Return a function that ends this."""
        subscriptions = ExitStack()
        for id, length in self._list_lengths():
            subscriptions.callback(self._ledger.store.watch(id, length, on_growth))
        return subscriptions.close

    def _list_lengths(self) -> list[tuple[str, int]]:
        """Return the id and the length of each child session, at any depth, as far as they were read."""
        handles = [handle for _, handle in self._list_paused_calls() if handle is not None]
        return [
            id_and_length for each in handles for id_and_length in ((each.id, each.state.length), *each._child_sessions._list_lengths())
        ]

    @property
    def status(self) -> ChildSessionStatus:
        """The child sessions that can continue, are missing or were cancelled, as of the last `refresh`."""
        if not (paused := self._list_paused_calls()):
            return NO_CHILDREN
        missing = frozenset(call.ref for call, handle in paused if _is_missing(handle))
        resumable = frozenset(RunTool(call.ref, len(call.attempts) + 1) for call, handle in paused if _is_resumable(call, handle))
        cancelled = frozenset(call.ref for call, handle in paused if handle is not None and handle.status == "cancelled")
        return ChildSessionStatus(resumable, missing, cancelled)

    def find_next_to_resume(self) -> Session | None:
        """Return the first child session that can continue, at once or at a known time; None if none can."""
        resumable = {attempt.call for attempt in self.status.resumable}
        handles = (handle for call, handle in self._list_paused_calls() if call.ref in resumable or (call.pause and call.pause.retry_at))
        return next((handle for handle in handles if handle is not None), None)

    def list_paused(self) -> list[Session]:
        """Return the child sessions that calls wait for and that exist."""
        return [handle for _, handle in self._list_paused_calls() if handle is not None and handle.state.length]

    def merge_requests(self, own: list[Pending]) -> list[Pending]:
        """Return the requests to people, the session's own and those of its child sessions, in the order of calls."""
        requests = [(request.call, request) for request in own]
        requests += [(call.ref, request) for call, handle in self._list_paused_calls() if handle is not None for request in handle.pending]
        requests.sort(key=lambda each: (each[0] is None, each[0] or CallRef(0, 0)))
        return [request for _, request in requests]

    def _list_paused_calls(self) -> list[tuple[CallState, Session | None]]:
        """Return the calls that wait, each with the handle on its child session; only calls that `refresh` has found."""
        calls = [call for call in self._ledger.state.started_calls if call.pause and not call.stop_reason]
        return [(call, self._handles[call.ref]) for call in calls if call.ref in self._handles]

    # -- answering and stopping ----------------------------------------------------------------------------------------

    async def find_asking(self, request: Pending | str, key: str) -> Session | None:
        """Return the child session that makes this request, or that knows a delivery with this key; None if there is none."""
        id = request.id if isinstance(request, Pending) else request
        for _, handle in self._list_paused_calls():
            if handle is not None and any(each.id == id for each in handle.pending):
                return handle
        return await self._find_by_key(key) if key else None

    async def _find_by_key(self, key: str) -> Session | None:
        """Return a child session that some call has ever waited for, and that knows a delivery with this key."""
        state = self._ledger.state
        for ref in {fact.call: None for fact in state.facts if isinstance(fact, CallPaused)}:
            call = state.find_call(ref)
            handle = await self._open_handle(call) if call is not None else None
            if handle is not None and (
                key in (await handle.refresh()).state.delivery_keys or await handle._child_sessions.find_asking("", key)
            ):
                return handle
        return None

    def find(self, session_id: str) -> Session | None:
        """Return the child session with this id, at any depth; None if there is none."""
        for _, handle in self._list_paused_calls():
            if handle is not None and (found := handle if handle.id == session_id else handle._child_sessions.find(session_id)):
                return found
        return None

    def find_approving(self, standing: StandingApproval) -> Session | None:
        """Return the child session in which a standing approval is in force; None if there is none."""
        handles = [handle for _, handle in self._list_paused_calls() if handle is not None]
        return next(
            (each for each in handles if standing in each.state.standing_approvals or each._child_sessions.find_approving(standing)), None
        )

    async def stop(self, call: CallRef) -> None:
        """Cancel the child session that a call waits for. Afterwards no request of it can be approved."""
        await self.refresh()
        if (handle := self._handles.get(call)) is not None:
            await handle.cancel()
            await _mark_handle_idle(handle)

    async def cancel_orphan(self, call: CallRef) -> None:
        """Cancel the child session of a call that was answered without it, and mark it as idle.

        When the call was answered, the child session may not have begun yet, because a driver was just starting the tool.
        """
        state = self._ledger.confirmed_state
        found = state.find_call(call)
        if found is None or not _is_orphaned(found):
            return
        stop = state.facts[state.stop.position]
        reason, parent_lengths = (stop.reason, (state.stop.position, *stop.parent_lengths)) if isinstance(stop, Cancelled) else ("", ())
        if (handle := await self._open_handle(found)) is not None:
            with suppress(DefinitionChanged):
                await handle._cancel(reason, parent_lengths)
                await _mark_handle_idle(handle)

    async def cancel_orphans(self) -> None:
        """Cancel the child sessions of all calls of the newest reply that were answered without them."""
        reply = self._ledger.confirmed_state.last_reply
        for call in [call for call in reply.calls if _is_orphaned(call)] if reply is not None else ():
            await self.cancel_orphan(call.ref)

    async def mark_idle(self) -> None:
        """Mark the child sessions that calls wait for as idle: they need no driver before the parent session continues."""
        for handle in self.list_paused():
            await _mark_handle_idle(handle)
            await handle._child_sessions.mark_idle()

    async def stop_all(self, reason: str, parent_lengths: tuple[int, ...]) -> set[CallRef]:
        """Cancel the child sessions of unanswered calls, because their parent session is stopped. Return the calls that were unanswered.

        `parent_lengths` are the lengths that the parent sessions had when they were stopped, the nearest first.
        """
        stopped = set()
        for call in [call for call in self._ledger.state.batch if call.output is None]:
            if call.attempts and (handle := self._handles.get(call.ref) or await self._open_handle(call)) is not None:
                with suppress(DefinitionChanged):
                    await handle._cancel(reason, parent_lengths)
            stopped.add(call.ref)
        return stopped

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _refresh_handle(self, call: CallState) -> Session | None:
        """Return a refreshed handle on the child session of a call; None if the present workflow cannot open it."""
        if (existing := self._handles.get(call.ref)) is not None:
            with suppress(UnknownLedger):  # it was deleted; another one may have been created since
                return await existing.refresh()
        handle = await self._open_handle(call)
        return await handle.refresh() if handle is not None else None

    async def _open_handle(self, call: CallState) -> Session | None:
        ledger, opener = self._ledger, self._find_opener(call)
        if opener is None:
            return None
        id = make_child_session_id(ledger.session_id, ledger.state.make_idempotency_key(call.ref))
        handle: Session = await opener(id, ledger.store, self.context)
        return handle

    def _find_opener(self, call: CallState) -> Any:
        reply = self._ledger.state.facts[call.ref.position]
        agent = self._definition.agents.get(getattr(reply, "agent", ""))
        tool = agent.tools.get(call.call.tool) if agent is not None else None
        return tool.open_child_session if tool is not None else None


async def _mark_handle_idle(handle: Session) -> None:
    """Mark a child session as idle: it needs no driver."""
    if handle.state.length:
        await mark_idle(handle.store, handle.id, handle.state.length)


def _is_orphaned(call: CallState) -> bool:
    """Return True if a call was started and then answered with something else than its tool's output."""
    return bool(call.attempts) and call.output is not None and call.output.status in ORPHANING_OUTPUT_STATUSES


def _is_missing(handle: Session | None) -> bool:
    return handle is not None and not handle.state.length


def _is_resumable(call: CallState, handle: Session | None) -> bool:
    """Return True if a waiting call can continue.

    A call whose child session failed continues only when the session is resumed. For one that waits for a retry time, the plan says when.
    """
    if call.pause is None or call.pause.error or call.pause.retry_at or _is_missing(handle):
        return False
    return handle is None or handle.status != "pending"


# -- forking -------------------------------------------------------------------------------------------------------------


async def fork_session_tree(ledger: Ledger, at: int, new: str) -> None:
    """Fork a session at its first `at` facts into the session `new`, with the child sessions that its unanswered calls need.

    If the branch begins at the parent's end, a child session is forked at its end too. In an earlier branch it is forked at the length that
    it had while the parent waited for it. A child session that was working at that time is left out, because what it had done by then is
    unknown: the branch asks for the call's outcome.
    """
    state = await ledger.refresh()
    shared = state if at == state.length else await fold_in_slices(state.facts[:at], ledger.session_id)
    for call in [call for call in shared.batch if call.output is None and call.attempts]:
        key = shared.make_idempotency_key(call.ref)
        child = await _read_child_ledger(ledger.store, make_child_session_id(ledger.session_id, key))
        if child is None:
            continue
        length = child.state.length if at == state.length else _find_length_while_paused(call)
        if 0 < length <= child.state.length:
            try:
                await fork_session_tree(child, length, make_child_session_id(new, key))
            except LedgerExists as error:
                if not await _is_fork(child, length, make_child_session_id(new, key)):
                    summary = f"there already is a session {new!r} in this store, or a child session of it"
                    raise LedgerExists(summary, do="choose another id") from error
    opened = Opened(at=now_ms(), ledger_id=new_id(), workflow=state.workflow, origin=Origin(ledger.session_id, at))
    await ledger.fork(at, new, opened)


async def _is_fork(ledger: Ledger, at: int, name: str) -> bool:
    """Return True if a session is a fork of this ledger at this length: an earlier attempt to create the same branch was interrupted."""
    facts = list(await ledger.store.read(name))
    marker = facts[at] if len(facts) > at else None
    return isinstance(marker, Opened) and marker.origin == Origin(ledger.session_id, at) and facts[:at] == ledger.state.facts[:at]


async def _read_child_ledger(store: Store, id: str) -> Ledger | None:
    """Read the ledger of a child session; None if there is none."""
    child = Ledger(store, id)
    return child if (await child.refresh()).length else None


def _find_length_while_paused(call: CallState) -> int:
    """Return the length of the child session while its parent waited for it; 0 if the parent did not wait."""
    return call.pause.length if call.pause is not None else 0
