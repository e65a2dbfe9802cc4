"""Sessions: one conversation, one ledger. May know: workflows and stores. Decides: what a person or program may do to a conversation.

A session object is a handle. It reads the ledger at its first awaited call and after each; two handles on one ledger, in one process or
two, are the normal case, and neither owns anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from legato.core.argument_checks import text
from legato.core.child_session_ids import MAX_SESSION_ID_CHARS, max_id_chars
from legato.core.facts import (
    AnyFact,
    CallRef,
    CallReturned,
    Cancelled,
    Decided,
    Opened,
    Standing,
    Usage,
)
from legato.core.messages import Message, checked_text, contents_named
from legato.core.pending_requests import Pending
from legato.core.planner import Status, answers_of, failure_of, find_request, plan, resting, status
from legato.core.state import State
from legato.errors import BadInput, LedgerConflict, LedgerExists, NotLoaded, NotPending, StoreError
from legato.runtime.child_sessions import ChildSessions
from legato.runtime.clock import fresh_name, now_ms
from legato.runtime.decisions import Given, as_json, check_same_answer, checked_key
from legato.runtime.events import Event
from legato.runtime.ledger import Ledger, LoopLock
from legato.runtime.parent_call import current_caller
from legato.runtime.run import Run
from legato.runtime.transcript import messages_of
from legato.runtime.user_input import UserInput, user_input
from legato.stores.contract import Store, is_store
from legato.tools import ClientTool, options_of, tool_content

if TYPE_CHECKING:
    from legato.core.explanation import Explained
    from legato.core.view import Request
    from legato.runtime.definition import WorkflowInterface
    from legato.runtime.driver import Driver, Role
    from legato.runtime.erasure import Redaction
    from legato.runtime.worker_slot import Slot


class Session:
    """A handle on one conversation. Made by `workflow.session(id)`."""

    _role: ClassVar[Role] = "either"  # whether its runs drive, or look on while somebody else does
    _slot: Slot | None = None  # that its runs work in, if a worker has them driven

    def __init__(
        self, workflow: WorkflowInterface, id: str, store: Store, context: Any = None, arriving: Mapping[str, Any] | None = None
    ) -> None:
        longest = max_id_chars(id) if isinstance(id, str) else MAX_SESSION_ID_CHARS
        if not isinstance(id, str) or not 0 < len(id) <= longest or not id.isprintable():
            raise BadInput(f"a session id is 1 to {longest} printable characters", found=repr(id)[:80], do="choose another id, or none")
        if not is_store(store):
            raise BadInput("a session lives in a store", found=repr(store)[:80], do='write store=SQLiteStore("desk.db"), or leave it out')
        self.id = id
        self.workflow = workflow
        self.store = store
        self.context = context
        self._ledger = Ledger(store, id, workflow.name)
        self._nested = ChildSessions(workflow.definition, self._ledger)  # the conversations that calls of this one wait for
        self._arrival = LoopLock() if arriving is not None else None
        self._arriving = arriving  # a copy that is yet to be put into the store; see transfer.py

    def __repr__(self) -> str:
        known = self.status if self._ledger.loaded else "not loaded"
        return f"<Session {self.id!r} of {self.workflow.name!r}: {known}>"

    # -- going on --------------------------------------------------------------------------------------------------------

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
        """Say something and drive the conversation until it needs its people again. Await a `Result`, or iterate over events.

        `message` is text, a `Message`, or parts. With `key`, however often the same message is delivered, it is recorded once.

        `tools` are tools that you run yourself, for this run: a call of one waits in `pending` until `answer(request, value)`. With
        `tool_required`, an answer without a call of them is not accepted. `output_schema` is the JSON schema of the answer for this run:
        `Result.output` is then its value.
        """
        return Run(self, stream, user_input(message, key, tools, output_schema, tool_required))

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
        """Say something, and leave it to others to drive: to a worker, or to a later `resume()`. What is given is as for `run`.

        With `expected`, only if the conversation has exactly so many facts; `LedgerConflict` otherwise, and nothing was said.
        """
        given = user_input(message, key, tools, output_schema, tool_required)
        await self.refresh()
        await self._record_input(given, expected)

    async def open(self, message: Any = None, key: str | None = None) -> None:
        """Begin the session, with a message or without any: it is there afterwards. `LedgerExists` if it was there before, unless this
        is the same delivery again, by its key."""
        given = user_input(message, key) if message is not None else None
        key = checked_key(key)
        graph = self.workflow.definition.graph

        def begun(state: State) -> Iterator[AnyFact]:
            if state.facts and not (key and key in state.keys):
                raise LedgerExists(f"there is a session {self.id!r} already", do="choose another id, or none; nothing was changed")
            if given is not None:
                yield from given.facts(state, graph)
            else:
                yield Opened(at=now_ms(), ledger=fresh_name(), workflow=graph.name)

        await self.refresh()
        await self._ledger.append(begun, given.contents if given is not None else None)
        if given is not None:
            await self._wake_driver()

    def resume(self, stream: bool = False) -> Run:
        """Go on with whatever is owed: after answers, after a restart, after a failure."""
        return Run(self, stream)

    def follow(self, after: str | int | None = None, until_rest: bool = False) -> AsyncGenerator[Event, None]:
        """What happens in the conversation, whoever drives it and wherever: the events that a run gives, without driving.

        First all that is recorded, from the beginning or `after` a point: the `cursor` of the last event that was received, or the position
        of the last fact. Then what is new, as it is recorded; and what agents are saying, piece by piece, where the store carries that.
        Ends when the session is deleted; with `until_rest`, where the conversation needs its people.
        """
        from legato.runtime.event_follower import Following  # as the driver, when it is needed

        return Following(self.workflow.definition.graph, self._ledger, self._nested, self.refresh, after).events(until_rest)

    async def cancel(self, words: str = "") -> None:
        """Stop what the conversation is doing, from any process. Finished work is kept; the next message goes on."""
        await self._cancel(words)
        await self._wake_driver()

    async def _cancel(self, words: str, holders: tuple[int, ...] = ()) -> None:
        graph = self.workflow.definition.graph
        await self.refresh()
        began, all_stopped = self._ledger.state.length, False
        while not all_stopped:
            # First the conversations that calls wait for: if the process ends in between, nothing of them can be approved any more. They
            # say why they were stopped, so that whoever drives this one does not go on without them, and stops too.
            stopped = await self._nested.stop_all(words, (began, *holders))

            def propose(state: State, stopped: set[CallRef] = stopped) -> Iterator[AnyFact]:
                nonlocal all_stopped
                all_stopped = all(call.ref in stopped for call in state.batch if call.paused)
                if all_stopped and state.stop.at < began and status(state, graph) in ("running", "pending", "failed"):
                    yield Cancelled(at=now_ms(), words=words, holders=holders)
                    yield from answers_of(state, graph, now_ms())

            await self._ledger.append(propose)
            await self._nested.refresh()
        # A conversation that was about to begin could not be stopped before. Whoever drives this one, and began it, does the same.
        await self._nested.let_go_all()

    # -- what a run needs ----------------------------------------------------------------------------------------------

    async def _record_input(self, given: UserInput, expected: int | None = None) -> None:
        """Record a message. With `expected`, only if there are exactly so many facts; `LedgerConflict` otherwise."""
        for digest in contents_named(given.content) - given.contents.keys():
            try:
                await self.store.content(self.id, digest)
            except StoreError:
                raise BadInput(
                    "the message names a picture or file whose bytes are not in this session",
                    do="attach it with image(bytes) or file(bytes)",
                ) from None

        def propose(state: State) -> Iterator[AnyFact]:
            if expected not in (None, state.length) and given.key not in state.keys:
                raise LedgerConflict(self.id, expected, state.length)
            yield from given.facts(state, self.workflow.definition.graph)

        await self._ledger.append(propose, given.contents)
        await self._wake_driver()

    async def _wake_driver(self) -> None:
        """Have the session driven, after something was given to it. A handle that drives when it is run wakes nobody."""

    def _driver(self, show: Callable[[Event], None] | None, stream: bool, since: int) -> Driver:
        """Make the driver of a run, before which there were `since` facts."""
        from legato.runtime.driver import Driver  # with the first workflow that is built, not before: it is a tenth of Legato

        caller = current_caller.get()
        if caller is not None and caller.child != self.id:
            caller = None  # another session, which user code runs within a tool
        slot = caller.slot if caller is not None else self._slot
        return Driver(self.workflow.definition, self._ledger, self.context, self._nested, show, stream, since, self._role, caller, slot)

    # -- answering ---------------------------------------------------------------------------------------------------------

    async def approve(self, request: Pending | str, always: bool = False, key: str | None = None) -> None:
        """Approve a call, rerun one whose outcome is unknown, or allow as much again where a limit was reached.

        `always=True` also approves all later calls of the same tool by the same agent in this session (see `revoke`).
        """
        await self._decide(Given(request, "approve", checked_key(key), always=always))

    async def reject(self, request: Pending | str, message: str = "", key: str | None = None) -> None:
        """Decline, in words that the model is given."""
        await self._decide(Given(request, "reject", checked_key(key), words=checked_text(message, "message", empty=True)))

    async def edit(self, request: Pending | str, arguments: Mapping[str, Any], key: str | None = None) -> None:
        """Approve a call with other arguments. The model is told which ones ran."""
        await self._decide(Given(request, "edit", checked_key(key), arguments=as_json(arguments)))

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
        """Supply the result of a deferred tool or of one that you run yourself, or the outcome that nobody knew.

        The tools and the schema that were given with the message stay in force; with `tools`, these take their place.
        """
        output, contents = tool_content(value)
        options, definitions = (None, {}) if tools is None else options_of(tools, output_schema, tool_required)
        if tools is None and (output_schema is not None or tool_required):
            raise BadInput("output_schema= and tool_required= come with tools=", do="write tools=[...] too: tools=[] for none")
        await self._decide(Given(request, "answer", checked_key(key), output=output, options=options), {**contents, **definitions})

    async def revoke(self, agent: str, tool: str) -> None:
        """Withdraw a standing approval."""
        text("the agent of a standing approval", agent)
        text("the tool of a standing approval", tool)
        standing = Standing(agent, tool)
        await self.refresh()
        if standing not in self.state.standing and (other := self._nested.approving(standing)) is not None:
            await other.revoke(agent, tool)
            return

        def propose(state: State) -> Iterator[AnyFact]:
            if standing not in state.standing:
                raise NotPending(f"there is no standing approval of {tool!r} for {agent!r}", do="nothing was changed")
            yield Decided(at=now_ms(), kind="standing", verdict="revoke", standing=standing)

        await self._ledger.append(propose)

    async def _decide(self, given: Given, contents: Mapping[str, bytes] | None = None) -> None:
        await self.refresh()
        if (other := await self._asked_elsewhere(given)) is not None:
            await other._decide(replace(given, options=None), contents)  # agents that work as tools have no tools of the client
        else:
            await self._record_decision(given, contents)
        await self._wake_driver()

    async def _record_decision(self, given: Given, contents: Mapping[str, bytes] | None) -> None:
        definition = self.workflow.definition

        def propose(state: State) -> Iterator[AnyFact]:
            if not given.key or given.key not in state.keys:
                yield given.decided(state, definition)
                yield from answers_of(state, definition.graph, now_ms())

        if not await self._ledger.append(propose, contents):  # it was delivered before
            await check_same_answer(self.state, given, definition)

    async def _asked_elsewhere(self, given: Given) -> Session | None:
        """The conversation that a call waits for, if the question is one of its own."""
        here = find_request(self.state, self.workflow.definition.graph, given.id, self._nested.known)
        if here is not None or (given.key and given.key in self.state.keys):
            return None
        return await self._nested.asked_by(given.request, given.key)

    # -- looking ------------------------------------------------------------------------------------------------------------

    async def refresh(self) -> Session:
        """Read what others have appended."""
        if self._arriving is not None:
            await self._arrive()
        await self._ledger.refresh()
        self._nested.context = self.context
        await self._nested.refresh()
        return self

    async def _arrive(self) -> None:
        """Put a loaded copy into the store, before anything else is done with it."""
        from legato.runtime.transfer import arrive

        assert self._arrival is not None
        async with self._arrival:
            if self._arriving is not None:
                await arrive(self, self._arriving)
                self._arriving = None

    @property
    def state(self) -> State:
        """The fold of the ledger, as far as this handle has read it."""
        if not self._ledger.loaded:
            raise NotLoaded(f"session {self.id!r} has not read its ledger yet", do="await session.refresh()")
        return self._ledger.settled

    @property
    def pending(self) -> list[Pending]:
        """What blocks the conversation, in order; also what agents ask that work for it as tools."""
        return self._nested.requests(plan(self.state, self.workflow.definition.graph, children=self._nested.known).requests)

    def asking(self, request: Pending) -> Session:
        """The conversation that asks this: this one, or that of an agent which works for it as a tool."""
        return self._nested.asking(request.session) or self

    @property
    def status(self) -> Status:
        """One of new, running, waiting, pending, terminated, cancelled, failed."""
        return resting(self.state, self.workflow.definition.graph, self._nested.known)[0]

    @property
    def error(self) -> str:
        """Why the session failed, if its status is "failed"."""
        return failure_of(self.state) if self.status == "failed" else ""

    @property
    def messages(self) -> list[Message]:
        """What users and agents said, in conversational order."""
        return messages_of(self.state)

    @property
    def facts(self) -> list[AnyFact]:
        """The ledger."""
        return list(self.state.facts)

    @property
    def usage(self) -> Usage:
        """Of the whole conversation; see `usage_by_agent` and `usage_by_handoff`."""
        return self.state.spent.total

    @property
    def usage_by_agent(self) -> dict[str, Usage]:
        return dict(self.state.spent.of)

    @property
    def usage_by_handoff(self) -> list[tuple[str, str, Usage]]:
        """For each handoff taken: source, target, and what was used until the next one."""
        return list(self.state.spent.by_handoff)

    @property
    def losses(self) -> list[str]:
        """What could not be carried over to a provider."""
        return list(self.state.losses)

    @property
    def late_outcomes(self) -> list[CallReturned]:
        """What tools did after their calls had been answered as timed out, cancelled or lost."""
        return list(self.state.late)

    async def seen(self, call: int = -1) -> Request:
        """The exact request behind a reply, from the ledger alone. `call` counts replies from 0, or from the end."""
        from legato.runtime.past_requests import request_behind  # when somebody asks: sessions run without

        return await request_behind(self, call)

    async def explained(self, call: int = -1) -> list[Explained]:
        """Every part of the conversation up to a reply: whether its agent was `shown` it (whole, its words, or no), and by which `rule`."""
        from legato.runtime.past_requests import explained_behind

        return await explained_behind(self, call)

    # -- erasing -----------------------------------------------------------------------------------------------------------

    async def redact(
        self, *what: int | Message, everything: bool = False, reason: str = "", by: str = "", frames: bool = False
    ) -> Redaction:
        """Erase words, for good: of messages, or of the facts at these positions; with `everything`, all words of the conversation.

        The facts stay where they are, and agents see `[erased on request]` in their place. `reason` and `by` are recorded. Read what
        it returns: it says what went along, where the words are still quoted, and who else may hold them.

            await session.redact(session.messages[0], reason="asked for by the customer")
        """
        from legato.runtime.erasure import positions_of, redact

        await self.refresh()
        positions = None if everything else positions_of(self.state, what)
        redaction = await redact(self.store, self.id, positions, reason=reason, by=by, frames=frames, born=self._ledger.born)
        await self.refresh()
        await self._wake_driver()  # a call without arguments has to be answered, and a model asked again
        return redaction

    # -- branching and leaving ---------------------------------------------------------------------------------------------

    async def fork(self, at: int | None = None, id: str | None = None) -> Session:
        """A new session that shares the first `at` facts (all, by default) and goes its own way from there.

        Approvals and granted limits stay behind: whatever was permitted here and has not happened yet is asked again in the branch. The
        child sessions of calls that have no output yet (agents as tools) are forked too.
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
            from legato.runtime.child_sessions import fork_family

            await fork_family(self._ledger, at, branch.id)
        return await branch.refresh()

    async def to_string(
        self, serialize_context: Callable[[Any], Any] | None = None, strict: bool = True, sign_with: bytes | None = None
    ) -> str:
        """The whole session as text that `workflow.load` reads, in this process or another.

        The caller's context is not part of the ledger: give `serialize_context` to take it along. Without one, a session that has a
        context is refused in strict mode, rather than silently losing it.
        """
        from legato.runtime.transfer import depart

        await self.refresh()
        return await depart(self, serialize_context, strict, sign_with)
