"""Agents that work as tools of others, each in a child session.

The child session of a call is a session of its own, in the same store. When it cannot go on, the call waits for it (`CallPaused`), and a
handle on the parent holds a handle on it: what it asks is read from its ledger and answered in its ledger, which alone decides.
Nothing of it is copied into the parent but what it has used.

A child session that is missing is never begun again unasked: what it did is unknown, so the parent asks for the call's outcome.
A fork of the parent forks the child sessions of its unanswered calls too (`fork_family`), so an approval in one branch approves nothing
in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from legato.core.child_session_ids import child_session_id
from legato.core.facts import CallPaused, CallRef, Cancelled, ModelRequestFailed, Opened, Origin, Standing
from legato.core.groups import CallState
from legato.core.pending_requests import Pending
from legato.core.planner import NO_CHILDREN, ChildStatus, RunTool, Status, failure_of, in_control, next_request_usage, plan
from legato.errors import DefinitionChanged, LedgerExists, UnknownLedger
from legato.runtime.clock import fresh_name, now_ms
from legato.runtime.ledger import Ledger, failed_itself, fold_in_slices, let_rest, used
from legato.runtime.parent_call import Caller, current_caller
from legato.stores.contract import Store
from legato.tools import CallerStopped, ChildMissing, ChildPaused

if TYPE_CHECKING:
    from legato.models.base import Model
    from legato.runtime.definition import Definition
    from legato.runtime.run import Result
    from legato.runtime.session import Session


WITHOUT_IT = ("cancelled", "superseded", "stopped", "timeout")
"""Outputs of calls that were answered while their tool worked, or waited."""


def child_id(session: str, key: str) -> str:
    """The id of the child session of the call with this idempotency key; of a call that is run outside of a session, a new one."""
    return child_session_id(session, key) if session else fresh_name()


def child_store() -> Store | None:
    """The store of the session whose call is being run; None outside of a session."""
    caller = current_caller.get()
    return caller.store if caller is not None else None


async def run_child(session: Session, task: Any, key: str) -> Result:
    """Give a child session its task, once, and drive it. `ChildPaused` if it failed or may not spend more: `resume()` goes on with it."""
    caller = current_caller.get()
    await _give_task(session, task, key, caller)
    before = session.state.length
    try:
        result = await session.run(task, key=key)
    except Exception as error:
        if failed_itself(session.store, error):
            raise
        raise _failed(session, error) from error
    if result.status in ("failed", "running"):
        raise _paused(session, result.status, session.state.length != before, caller)
    return result


async def _give_task(session: Session, task: Any, key: str, caller: Caller | None) -> None:
    try:
        await session.refresh()
        if caller is not None and caller.resumes and not session.state.length:
            raise ChildMissing
        await session.say(task, key=key)
    except DefinitionChanged as error:
        raise _failed(session, error) from error
    if caller is not None:
        try:
            await caller.check_parent()
        except UnknownLedger:
            await used(session.store, session.store.delete(session.id))  # it was begun just after its parent was deleted
            raise


def _paused(session: Session, status: Status, grew: bool, caller: Caller | None) -> ChildPaused:
    """Why a child session did not come to its end, for its caller. `grew`: its run recorded something."""
    length = session.state.length
    if caller is None or (status == "failed" and grew):
        return ChildPaused(session.id, length, failure_of(session.state) or f"its session is {status}")
    needed = next_request_usage(session.state)
    if status == "running" and caller.slot is not None and caller.allows(needed):  # it waits for a retry, or for a slot
        return ChildPaused(session.id, length, retry_at=retry_time(session) or now_ms())
    # It made no model request, because a limit of its callers has no room for one.
    return ChildPaused(session.id, length, needed=needed)


def retry_time(session: Session) -> int:
    """When a session goes on that waits for a retry, in milliseconds since the epoch; 0 if it does not wait."""
    return plan(session.state, session.workflow.definition.graph, children=session._nested.known).retry_at


def next_request(session: Session) -> tuple[Model, int] | None:
    """The model that a session requests when it goes on, or that one of its child sessions requests, and which attempt that is."""
    child = session._nested.next_to_resume()
    if child is not None:
        return next_request(child)
    agent = session.workflow.definition.agents.get(in_control(session.state, session.workflow.definition.graph))
    return (agent.model, session.state.next_attempt) if agent is not None else None


def failed_requests(session: Session) -> Iterator[tuple[Session, ModelRequestFailed]]:
    """Yield the failed model requests that a session is waiting behind: its own, and those of child sessions, each with its session."""
    if (failed := session.state.failed) is not None:
        yield session, failed
    for child in session._nested.paused():
        yield from failed_requests(child)


def _failed(session: Session, error: Exception) -> ChildPaused:
    """Code of the user's failed, a guardrail for example, or the agent has another name now. What the child session has done is recorded,
    and must not be done again: its parent waits until somebody has mended this, and resumes it."""
    return ChildPaused(session.id, session.state.length, f"{type(error).__name__}: {error}")


def raise_if_waiting(session: Session) -> None:
    """Tell the driver that a child session waits for people, or was cancelled together with its caller."""
    if session.status == "pending":
        raise ChildPaused(session.id, session.state.length)
    stop = session.state.facts[session.state.stop.at] if session.status == "cancelled" else None
    if isinstance(stop, Cancelled) and stop.holders:
        raise CallerStopped(stop.words, stop.holders)


class ChildSessions:
    """Handles on the conversations that the calls of a session wait for."""

    def __init__(self, definition: Definition, ledger: Ledger) -> None:
        self._definition = definition
        self._ledger = ledger
        self.context: Any = None  # the caller's
        self._handles: dict[CallRef, Session | None] = {}  # None: what is there now cannot open it

    # -- looking -------------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read what was appended to the child sessions that calls wait for, or waited for before they went on."""
        handles: dict[CallRef, Session | None] = {}
        for call in self._ledger.state.started:
            if call.waited is not None:
                handles[call.ref] = None
                with suppress(DefinitionChanged):  # then its call fails so, when it is started again
                    handles[call.ref] = await self._read(call)
        self._handles = handles

    async def look(self) -> ChildStatus:
        """Read the child sessions that calls wait for: which can go on, and which are missing."""
        await self.refresh()
        return self.known

    async def missing(self) -> frozenset[RunTool]:
        """The open attempts whose child session is not in the store."""
        found = []
        for call in self._ledger.state.started:
            with suppress(DefinitionChanged):  # there is one, although not one that this workflow may open
                if call.running and (handle := await self._open(call)) is not None and not (await handle.refresh()).state.length:
                    found.append(RunTool(call.ref, call.running.number))
        return frozenset(found)

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told when something happens in one of them; call what this returns to be told no more."""
        ends = ExitStack()
        for id, length in self._known():
            ends.callback(self._ledger.store.watch(id, length, moved))
        return ends.close

    def _known(self) -> list[tuple[str, int]]:
        """How much was read of each, and of those that their own calls wait for."""
        handles = [handle for _, handle in self._waiting() if handle is not None]
        return [known for each in handles for known in ((each.id, each.state.length), *each._nested._known())]

    @property
    def known(self) -> ChildStatus:
        """What `look` found last."""
        if not (waiting := self._waiting()):
            return NO_CHILDREN
        missing = frozenset(call.ref for call, handle in waiting if _is_missing(handle))
        able = frozenset(RunTool(call.ref, len(call.attempts) + 1) for call, handle in waiting if _is_resumable(call, handle))
        cancelled = frozenset(call.ref for call, handle in waiting if handle is not None and handle.status == "cancelled")
        return ChildStatus(able, missing, cancelled)

    def next_to_resume(self) -> Session | None:
        """The child session that goes on first, of those that calls wait for; None if none can."""
        resumable = {attempt.call for attempt in self.known.resumable}
        able = (handle for call, handle in self._waiting() if call.ref in resumable or (call.paused and call.paused.retry_at))
        return next((handle for handle in able if handle is not None), None)

    def paused(self) -> list[Session]:
        """The child sessions that calls wait for."""
        return [handle for _, handle in self._waiting() if handle is not None and handle.state.length]

    def requests(self, own: list[Pending]) -> list[Pending]:
        """What is asked of people, here and there, in the order of calls."""
        asked = [(request.call, request) for request in own]
        asked += [(call.ref, request) for call, handle in self._waiting() if handle is not None for request in handle.pending]
        asked.sort(key=lambda each: (each[0] is None, each[0] or CallRef(0, 0)))
        return [request for _, request in asked]

    def _waiting(self) -> list[tuple[CallState, Session | None]]:
        """The calls that wait, and for which conversation; those that were looked for."""
        calls = [call for call in self._ledger.state.started if call.paused and not call.stopped]
        return [(call, self._handles[call.ref]) for call in calls if call.ref in self._handles]

    # -- answering and stopping ----------------------------------------------------------------------------------------

    async def asked_by(self, request: Pending | str, key: str) -> Session | None:
        """The conversation that asks this, or that was answered with this key before; None if it is not one of these."""
        id = request.id if isinstance(request, Pending) else request
        for _, handle in self._waiting():
            if handle is not None and any(each.id == id for each in handle.pending):
                return handle
        return await self._answered_with(key) if key else None

    async def _answered_with(self, key: str) -> Session | None:
        """A conversation that some call here has ever waited for, and that knows a delivery by this key."""
        state = self._ledger.state
        for ref in {fact.call: None for fact in state.facts if isinstance(fact, CallPaused)}:
            call = state.call(ref)
            handle = await self._open(call) if call is not None else None
            if handle is not None and (key in (await handle.refresh()).state.keys or await handle._nested.asked_by("", key)):
                return handle
        return None

    def asking(self, session: str) -> Session | None:
        """The handle on the conversation of this id."""
        for _, handle in self._waiting():
            if handle is not None and (found := handle if handle.id == session else handle._nested.asking(session)):
                return found
        return None

    def approving(self, standing: Standing) -> Session | None:
        """The conversation in which a standing approval is in force."""
        handles = [handle for _, handle in self._waiting() if handle is not None]
        return next((each for each in handles if standing in each.state.standing or each._nested.approving(standing)), None)

    async def stop(self, call: CallRef) -> None:
        """Stop the conversation that a call waits for: nothing that it asks can be approved afterwards."""
        await self.refresh()
        if (handle := self._handles.get(call)) is not None:
            await handle.cancel()
            await _over(handle)

    async def let_go(self, call: CallRef) -> None:
        """Stop the conversation that was held for a call which was answered without it, and have it rest: it is over.

        When the call was answered, that conversation may not have begun: its tool was just being started, by whoever drives.
        """
        state = self._ledger.settled
        found = state.call(call)
        if found is None or not _done_without(found):
            return
        stop = state.facts[state.stop.at]
        words, holders = (stop.words, (state.stop.at, *stop.holders)) if isinstance(stop, Cancelled) else ("", ())
        if (handle := await self._open(found)) is not None:
            with suppress(DefinitionChanged):
                await handle._cancel(words, holders)
                await _over(handle)

    async def let_go_all(self) -> None:
        """The same, for the calls of the newest reply."""
        reply = self._ledger.settled.reply
        for call in [call for call in reply.calls if _done_without(call)] if reply is not None else ():
            await self.let_go(call.ref)

    async def let_rest(self) -> None:
        """Mark the child sessions that calls wait for as idle: no driver is needed before the parent goes on."""
        for _, handle in self._waiting():
            if handle is not None and handle.state.length:
                await let_rest(handle.store, handle.id, handle.state.length)
                await handle._nested.let_rest()

    async def stop_all(self, words: str, holders: tuple[int, ...]) -> set[CallRef]:
        """Stop the conversations that are held for unanswered calls, because this one and its own `holders` are stopped. The calls."""
        stopped = set()
        for call in [call for call in self._ledger.state.batch if call.output is None]:
            if call.attempts and (handle := self._handles.get(call.ref) or await self._open(call)) is not None:
                with suppress(DefinitionChanged):
                    await handle._cancel(words, holders)
            stopped.add(call.ref)
        return stopped

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _read(self, call: CallState) -> Session | None:
        """The child session of a call, as it is now; None if what is there now cannot open it."""
        if (known := self._handles.get(call.ref)) is not None:
            with suppress(UnknownLedger):  # it was deleted; there may be another by now
                return await known.refresh()
        handle = await self._open(call)
        return await handle.refresh() if handle is not None else None

    async def _open(self, call: CallState) -> Session | None:
        ledger, opener = self._ledger, self._opener(call)
        if opener is None:
            return None
        id = child_session_id(ledger.session, ledger.state.idempotency_key(call.ref))
        opened: Session = await opener(id, ledger.store, self.context)
        return opened

    def _opener(self, call: CallState) -> Any:
        reply = self._ledger.state.facts[call.ref.position]
        agent = self._definition.agents.get(getattr(reply, "agent", ""))
        tool = agent.tools.get(call.call.tool) if agent is not None else None
        return tool.works_in if tool is not None else None


async def _over(handle: Session) -> None:
    """Have a conversation rest that was stopped."""
    if handle.state.length:
        await let_rest(handle.store, handle.id, handle.state.length)


def _done_without(call: CallState) -> bool:
    """Whether a call was answered although its tool had begun, and not with what that did."""
    return bool(call.attempts) and call.output is not None and call.output.status in WITHOUT_IT


def _is_missing(handle: Session | None) -> bool:
    return handle is not None and not handle.state.length


def _is_resumable(call: CallState, handle: Session | None) -> bool:
    """Whether a waiting call can go on. One whose child session failed goes on when the session is resumed, and not by itself; of one
    that waits for a time, the plan says it."""
    if call.paused is None or call.paused.error or call.paused.retry_at or _is_missing(handle):
        return False
    return handle is None or handle.status != "pending"


# -- forking -------------------------------------------------------------------------------------------------------------


async def fork_family(ledger: Ledger, at: int, new: str) -> None:
    """Make the session `new` from the first `at` facts of a ledger, with forks of the child sessions that its unanswered calls need.

    A child session is forked where it is now if the branch begins where the parent is now; in an earlier branch, where it was while the
    parent waited for it. One that was at work at that time is left out, because what it had done by then is unknown: the branch asks for
    the call's outcome.
    """
    state = await ledger.refresh()
    shared = state if at == state.length else await fold_in_slices(state.facts[:at], ledger.session)
    for call in [call for call in shared.batch if call.output is None and call.attempts]:
        key = shared.idempotency_key(call.ref)
        child = await _child(ledger.store, child_session_id(ledger.session, key))
        if child is None:
            continue
        length = child.state.length if at == state.length else _length_at(call)
        if 0 < length <= child.state.length:
            try:
                await fork_family(child, length, child_session_id(new, key))
            except LedgerExists as error:
                if not await _is_fork(child, length, child_session_id(new, key)):
                    summary = f"there already is a session {new!r} in this store, or a child session of it"
                    raise LedgerExists(summary, do="choose another id") from error
    opened = Opened(at=now_ms(), ledger=fresh_name(), workflow=state.workflow, origin=Origin(ledger.session, at))
    await ledger.fork(at, new, opened)


async def _is_fork(ledger: Ledger, at: int, name: str) -> bool:
    """Whether a session is the fork of this ledger at this point: an earlier try at the same branch was interrupted."""
    facts = list(await ledger.store.read(name))
    marker = facts[at] if len(facts) > at else None
    return isinstance(marker, Opened) and marker.origin == Origin(ledger.session, at) and facts[:at] == ledger.state.facts[:at]


async def _child(store: Store, id: str) -> Ledger | None:
    """The ledger of a child session, if there is one."""
    child = Ledger(store, id)
    return child if (await child.refresh()).length else None


def _length_at(call: CallState) -> int:
    """How many facts the child session had while its parent waited for it; 0 if the parent did not wait: it may have done anything."""
    return call.paused.length if call.paused is not None else 0
