"""Sessions: handles on conversations, each with one ledger.

A handle reads the ledger at its first awaited call, and again with each later one. Several handles on one ledger, in one process or in
several, are the normal case, and no handle owns anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from legato.core.argument_checks import require_text
from legato.core.child_session_ids import MAX_SESSION_ID_CHARS, find_max_id_chars
from legato.core.facts import (
    AnyFact,
    CallRef,
    CallReturned,
    Cancelled,
    Decided,
    Opened,
    StandingApproval,
    Usage,
)
from legato.core.messages import Message, find_attachment_digests, validate_text
from legato.core.pending_requests import Pending
from legato.core.planner import (
    SessionStatus,
    answer_stopped_calls,
    derive_status,
    derive_status_and_requests,
    find_failure,
    find_pending_request,
    make_plan,
)
from legato.core.state import State
from legato.errors import BadInput, LedgerConflict, LedgerExists, NotLoaded, NotPending, StoreError
from legato.runtime.child_sessions import ChildSessions
from legato.runtime.clock import new_id, now_ms
from legato.runtime.events import Event
from legato.runtime.ledger import Ledger, LoopLock
from legato.runtime.parent_call import current_parent_call
from legato.runtime.run import Run
from legato.runtime.transcript import list_messages
from legato.runtime.user_input import UserDecision, UserInput, check_same_decision, encode_arguments, make_user_input, validate_key
from legato.stores.contract import Store, is_store
from legato.tools import ClientTool, options_of, tool_content

if TYPE_CHECKING:
    from legato.core.view import ModelRequest
    from legato.core.visibility_explanation import GroupExplanation
    from legato.runtime.definition import WorkflowInterface
    from legato.runtime.driver import Driver, DriverRole
    from legato.runtime.erasure import Redaction
    from legato.runtime.worker_slot import WorkerSlot


class Session:
    """A handle on one conversation. Made by `workflow.session(id)`."""

    _role: ClassVar[DriverRole] = "either"  # of the drivers of its runs
    _slot: WorkerSlot | None = None  # the slot of its runs, if a worker drives them

    def __init__(
        self, workflow: WorkflowInterface, id: str, store: Store, context: Any = None, pending_import: Mapping[str, Any] | None = None
    ) -> None:
        max_chars = find_max_id_chars(id) if isinstance(id, str) else MAX_SESSION_ID_CHARS
        if not isinstance(id, str) or not 0 < len(id) <= max_chars or not id.isprintable():
            raise BadInput(f"a session id is 1 to {max_chars} printable characters", found=repr(id)[:80], do="choose another id, or none")
        if not is_store(store):
            raise BadInput(
                "the store of a session must be a Store", found=repr(store)[:80], do='write store=SQLiteStore("desk.db"), or leave it out'
            )
        self.id = id
        self.workflow = workflow
        self.store = store
        self.context = context
        self._ledger = Ledger(store, id, workflow.name)
        self._child_sessions = ChildSessions(workflow.definition, self._ledger)
        self._import_lock = LoopLock() if pending_import is not None else None
        self._pending_import = pending_import  # a decoded copy that is not in the store yet; see transfer.py

    def __repr__(self) -> str:
        status = self.status if self._ledger.is_loaded else "not loaded"
        return f"<Session {self.id!r} of {self.workflow.name!r}: {status}>"

    # -- running -----------------------------------------------------------------------------------------------------------

    def run(
        self,
        message: Any,
        stream: bool = False,
        key: str | None = None,
        *,
        tools: Iterable[ClientTool] = (),
        output_schema: Mapping[str, Any] | None = None,
        tool_required: bool = False,
    ) -> Run:
        """Send a message and drive the conversation until it needs people again. Await a `Result`, or iterate over events.

        `message` is text, a `Message`, or parts. With a `key`, a message that is delivered several times is recorded once.

        `tools` are tools that you run yourself, for this run: a call of one waits in `pending` until `answer(request, value)`. With
        `tool_required`, a reply without a call of them is rejected. `output_schema` is the JSON schema of the reply for this run:
        `Result.output` is then its value.
        """
        return Run(self, stream, make_user_input(message, key, tools, output_schema, tool_required))

    async def say(
        self,
        message: Any,
        key: str | None = None,
        expected: int | None = None,
        *,
        tools: Iterable[ClientTool] = (),
        output_schema: Mapping[str, Any] | None = None,
        tool_required: bool = False,
    ) -> None:
        """Send a message without driving: a worker, or a later `resume()`, continues the conversation. The arguments are those of `run`.

        With `expected`, the message is recorded only if the conversation has exactly so many facts, else `LedgerConflict` is raised.
        """
        user_input = make_user_input(message, key, tools, output_schema, tool_required)
        await self.refresh()
        await self._record_input(user_input, expected)

    async def open(self, message: Any = None, key: str | None = None) -> None:
        """Create the session in the store, with or without a message.

        `LedgerExists` if it exists already, unless this is the same delivery again, as its key tells.
        """
        user_input = make_user_input(message, key) if message is not None else None
        key = validate_key(key)
        graph = self.workflow.definition.graph

        def propose(state: State) -> Iterator[AnyFact]:
            if state.facts and not (key and key in state.delivery_keys):
                raise LedgerExists(f"there is a session {self.id!r} already", do="choose another id, or none; nothing was changed")
            if user_input is not None:
                yield from user_input.make_facts(state, graph)
            else:
                yield Opened(at=now_ms(), ledger_id=new_id(), workflow=graph.name)

        await self.refresh()
        await self._ledger.append(propose, user_input.contents if user_input is not None else None)
        if user_input is not None:
            await self._wake_driver()

    def resume(self, stream: bool = False) -> Run:
        """Continue with pending work: after decisions, after a restart, after a failure."""
        return Run(self, stream)

    def follow(self, after: str | int | None = None, until_idle: bool = False) -> AsyncGenerator[Event, None]:
        """Yield the events of the conversation without driving it, whichever process drives.

        First come the events of all recorded facts, from the beginning or `after` the `cursor` of the last received event, or after the
        position of a fact. Then come new events as they are recorded, and deltas of replies in progress if the store carries them. It ends
        when the session is deleted; with `until_idle`, also where the conversation needs people.
        """
        from legato.runtime.event_follower import EventFollower  # imported when it is needed, as the driver is

        return EventFollower(self.workflow.definition.graph, self._ledger, self._child_sessions, self.refresh, after).events(until_idle)

    async def cancel(self, reason: str = "") -> None:
        """Stop the work of the conversation, from any process. Finished work is kept, and the next message continues."""
        await self._cancel(reason)
        await self._wake_driver()

    async def _cancel(self, reason: str, parent_lengths: tuple[int, ...] = ()) -> None:
        graph = self.workflow.definition.graph
        await self.refresh()
        length, all_stopped = self._ledger.state.length, False
        while not all_stopped:
            # Child sessions are stopped first: if the process ends in between, none of their requests can be approved any more. They
            # record the reason, so that the driver of this session stops too, and does not continue without them.
            stopped = await self._child_sessions.stop_all(reason, (length, *parent_lengths))

            def propose(state: State, stopped: set[CallRef] = stopped) -> Iterator[AnyFact]:
                nonlocal all_stopped
                all_stopped = all(call.ref in stopped for call in state.batch if call.pause)
                if all_stopped and state.stop.position < length and derive_status(state, graph) in ("running", "pending", "failed"):
                    yield Cancelled(at=now_ms(), reason=reason, parent_lengths=parent_lengths)
                    yield from answer_stopped_calls(state, graph, now_ms())

            await self._ledger.append(propose)
            await self._child_sessions.refresh()
        # A child session that was about to begin could not be stopped before. The driver that began it cancels it too.
        await self._child_sessions.cancel_orphans()

    # -- for runs ------------------------------------------------------------------------------------------------------

    async def _record_input(self, user_input: UserInput, expected: int | None = None) -> None:
        """Record a message. `LedgerConflict` if the ledger has not the `expected` number of facts."""
        for digest in find_attachment_digests(user_input.content) - user_input.contents.keys():
            try:
                await self.store.content(self.id, digest)
            except StoreError:
                raise BadInput(
                    "the message names a picture or file whose bytes are not in this session",
                    do="attach it with image(bytes) or file(bytes)",
                ) from None

        def propose(state: State) -> Iterator[AnyFact]:
            if expected not in (None, state.length) and user_input.key not in state.delivery_keys:
                raise LedgerConflict(self.id, expected, state.length)
            yield from user_input.make_facts(state, self.workflow.definition.graph)

        await self._ledger.append(propose, user_input.contents)
        await self._wake_driver()

    async def _wake_driver(self) -> None:
        """Wake a driver after input. This handle drives in its own runs, so there is nothing to wake; handles of workers override this."""

    def _make_driver(self, on_event: Callable[[Event], None] | None, stream: bool, length_before: int) -> Driver:
        """Make the driver of a run, before which the ledger had `length_before` facts."""
        from legato.runtime.driver import Driver  # imported with the first workflow that is built: it is a tenth of Legato

        parent_call = current_parent_call.get()
        if parent_call is not None and parent_call.child_session_id != self.id:
            parent_call = None  # user code runs another session within a tool
        slot = parent_call.slot if parent_call is not None else self._slot
        return Driver(
            self.workflow.definition,
            self._ledger,
            self.context,
            self._child_sessions,
            on_event,
            stream,
            length_before,
            self._role,
            parent_call,
            slot,
        )

    # -- deciding ----------------------------------------------------------------------------------------------------------

    async def approve(self, request: Pending | str, always: bool = False, key: str | None = None) -> None:
        """Approve a call, rerun a call whose outcome is unknown, or grant a reached limit again.

        `always=True` also approves all later calls of the same tool by the same agent in this session (see `revoke`).
        """
        await self._decide(UserDecision(request, "approve", validate_key(key), always=always))

    async def reject(self, request: Pending | str, message: str = "", key: str | None = None) -> None:
        """Reject a request. The model is given the message."""
        await self._decide(UserDecision(request, "reject", validate_key(key), reason=validate_text(message, "message", allow_empty=True)))

    async def edit(self, request: Pending | str, arguments: Mapping[str, Any], key: str | None = None) -> None:
        """Approve a call with other arguments. The model is told with which arguments the tool ran."""
        await self._decide(UserDecision(request, "edit", validate_key(key), arguments=encode_arguments(arguments)))

    async def answer(
        self,
        request: Pending | str,
        value: Any,
        key: str | None = None,
        *,
        tools: Iterable[ClientTool] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        tool_required: bool = False,
    ) -> None:
        """Supply the output of a deferred tool or of a tool that you run yourself, or an unknown outcome.

        The tools and the schema that came with the message stay in force, unless `tools` replaces them.
        """
        output, contents = tool_content(value)
        options, definitions = (None, {}) if tools is None else options_of(tools, output_schema, tool_required)
        if tools is None and (output_schema is not None or tool_required):
            raise BadInput("output_schema= and tool_required= come with tools=", do="write tools=[...] too: tools=[] for none")
        await self._decide(UserDecision(request, "answer", validate_key(key), output=output, options=options), {**contents, **definitions})

    async def revoke(self, agent: str, tool: str) -> None:
        """Revoke a standing approval."""
        require_text("the agent of a standing approval", agent)
        require_text("the tool of a standing approval", tool)
        standing = StandingApproval(agent, tool)
        await self.refresh()
        if standing not in self.state.standing_approvals and (child := self._child_sessions.find_approving(standing)) is not None:
            await child.revoke(agent, tool)
            return

        def propose(state: State) -> Iterator[AnyFact]:
            if standing not in state.standing_approvals:
                raise NotPending(f"there is no standing approval of {tool!r} for {agent!r}", do="nothing was changed")
            yield Decided(at=now_ms(), kind="standing", verdict="revoke", standing=standing)

        await self._ledger.append(propose)

    async def _decide(self, decision: UserDecision, contents: Mapping[str, bytes] | None = None) -> None:
        await self.refresh()
        if (child := await self._find_asking_child(decision)) is not None:
            await child._decide(replace(decision, options=None), contents)  # child sessions have no tools of the client
        else:
            await self._record_decision(decision, contents)
        await self._wake_driver()

    async def _record_decision(self, decision: UserDecision, contents: Mapping[str, bytes] | None) -> None:
        definition = self.workflow.definition

        def propose(state: State) -> Iterator[AnyFact]:
            if not decision.key or decision.key not in state.delivery_keys:
                yield decision.make_fact(state, definition)
                yield from answer_stopped_calls(state, definition.graph, now_ms())

        if not await self._ledger.append(propose, contents):  # it was delivered before
            await check_same_decision(self.state, decision, definition)

    async def _find_asking_child(self, decision: UserDecision) -> Session | None:
        """Return the child session whose request is answered; None if the request is of this session."""
        own_request = find_pending_request(self.state, self.workflow.definition.graph, decision.request_id, self._child_sessions.status)
        if own_request is not None or (decision.key and decision.key in self.state.delivery_keys):
            return None
        return await self._child_sessions.find_asking(decision.request, decision.key)

    # -- reading ------------------------------------------------------------------------------------------------------------

    async def refresh(self) -> Session:
        """Read the facts that other handles and drivers have appended."""
        if self._pending_import is not None:
            await self._import_copy()
        await self._ledger.refresh()
        self._child_sessions.context = self.context
        await self._child_sessions.refresh()
        return self

    async def _import_copy(self) -> None:
        """Write a loaded copy to the store before its first use."""
        from legato.runtime.transfer import import_session

        assert self._import_lock is not None
        async with self._import_lock:
            if self._pending_import is not None:
                await import_session(self, self._pending_import)
                self._pending_import = None

    @property
    def state(self) -> State:
        """The state of the conversation, as far as this handle has read the ledger."""
        if not self._ledger.is_loaded:
            raise NotLoaded(f"session {self.id!r} has not read its ledger yet", do="await session.refresh()")
        return self._ledger.confirmed_state

    @property
    def pending(self) -> list[Pending]:
        """The requests to people that block the conversation, in order, with those of its child sessions."""
        return self._child_sessions.merge_requests(
            make_plan(self.state, self.workflow.definition.graph, children=self._child_sessions.status).requests
        )

    def find_session_of(self, request: Pending) -> Session:
        """Return the session that makes a request: this one, or one of its child sessions."""
        return self._child_sessions.find(request.session) or self

    @property
    def status(self) -> SessionStatus:
        """The status: new, running, waiting, pending, terminated, cancelled or failed."""
        return derive_status_and_requests(self.state, self.workflow.definition.graph, self._child_sessions.status)[0]

    @property
    def error(self) -> str:
        """The error of the session, if its status is "failed"; else an empty string."""
        return find_failure(self.state) if self.status == "failed" else ""

    @property
    def messages(self) -> list[Message]:
        """The messages of users and agents, in conversational order."""
        return list_messages(self.state)

    @property
    def facts(self) -> list[AnyFact]:
        """The facts of the ledger."""
        return list(self.state.facts)

    @property
    def usage(self) -> Usage:
        """The usage of the whole conversation; see also `usage_by_agent` and `usage_by_handoff`."""
        return self.state.usage_totals.total

    @property
    def usage_by_agent(self) -> dict[str, Usage]:
        """The usage of each agent."""
        return dict(self.state.usage_totals.by_agent)

    @property
    def usage_by_handoff(self) -> list[tuple[str, str, Usage]]:
        """The source and target of each handoff, with the usage from there to the next one."""
        return list(self.state.usage_totals.by_handoff)

    @property
    def losses(self) -> list[str]:
        """The parts of the conversation that a provider's format could not express."""
        return list(self.state.losses)

    @property
    def late_outcomes(self) -> list[CallReturned]:
        """The outputs of tools whose calls had been answered as timed out, cancelled or lost before."""
        return list(self.state.late_outputs)

    async def seen(self, call: int = -1) -> ModelRequest:
        """Return the exact model request behind a reply, from the ledger alone. `call` counts replies from 0, or from the end."""
        from legato.runtime.past_requests import rebuild_request  # imported when it is needed: runs do without it

        return await rebuild_request(self, call)

    async def explain(self, call: int = -1) -> list[GroupExplanation]:
        """Return for every part of the conversation up to a reply whether the agent was `shown` it, and by which `rule`."""
        from legato.runtime.past_requests import explain_request

        return await explain_request(self, call)

    # -- erasing -----------------------------------------------------------------------------------------------------------

    async def redact(
        self, *targets: int | Message, everything: bool = False, reason: str = "", by: str = "", turn_contexts: bool = False
    ) -> Redaction:
        """Erase text permanently: of messages, or of the facts at these positions; with `everything`, of the whole conversation.

        The facts stay where they are, and agents see `[erased on request]` in place of the text. `reason` and `by` are recorded. With
        `turn_contexts`, the instructions and added messages of every turn that saw the text are erased too. Read the report: it names what
        else was erased, where the text is still quoted, and who else may have it.

            await session.redact(session.messages[0], reason="asked for by the customer")
        """
        from legato.runtime.erasure import find_positions, redact_facts

        await self.refresh()
        positions = None if everything else find_positions(self.state, targets)
        redaction = await redact_facts(
            self.store, self.id, positions, reason=reason, by=by, turn_contexts=turn_contexts, ledger_id=self._ledger.ledger_id
        )
        await self.refresh()
        await self._wake_driver()  # calls that lost their arguments have to be answered, and models requested again
        return redaction

    # -- copying -----------------------------------------------------------------------------------------------------------

    async def fork(self, at: int | None = None, id: str | None = None) -> Session:
        """Create a session that shares the first `at` facts (by default all) and then continues on its own.

        Approvals and granted limits are not inherited: what was permitted here and has not happened yet is requested again in the branch.
        The child sessions of unanswered calls are forked too.
        """
        await self.refresh()
        length = self.state.length
        at = length if at is None else at
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= length:
            raise BadInput(f"session {self.id!r} has {length} facts", found=f"at={at!r}", do=f"fork at 0 to {length}")
        branch = self.workflow.session(id, store=self.store, context=self.context)
        if at == 0:
            if self.store is branch.store and await self.store.read(branch.id):
                raise LedgerExists(f"there is a session {branch.id!r} already", do="choose another id; nothing was changed")
        else:
            from legato.runtime.child_sessions import fork_session_tree

            await fork_session_tree(self._ledger, at, branch.id)
        return await branch.refresh()

    async def to_string(
        self, serialize_context: Callable[[Any], Any] | None = None, strict: bool = True, sign_with: bytes | None = None
    ) -> str:
        """Return the whole session as text, which `workflow.load` reads in this process or another.

        The user's context is not part of the ledger: pass `serialize_context` to include it. Without that function, strict mode refuses a
        session with a context, so that the context is not lost silently.
        """
        from legato.runtime.transfer import export_session

        await self.refresh()
        return await export_session(self, serialize_context, strict, sign_with)
