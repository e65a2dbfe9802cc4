"""The state machine: the facts that may follow one another, and the meaning of a ledger.

A state is `fold(facts)` and is never stored. Resume, recovery, time travel and the normal step are the same operation: fold the facts, then
plan (planner.py). The rules:

 1. A ledger begins with `Opened`. A later `Opened` must have an origin: from there on the ledger is a fork, a copy or a moved session. It
    gives the ledger a new id, so that all pending requests get new ids, and it restarts epochs: an open attempt has no driver here. In a
    fork and a copy it also voids everything that permits an effect: approvals of calls without an output, standing approvals, allowances
    (branch_inheritance.py).
 2. `MessageReceived` is always legal. A message is a *new message* first. It joins the groups when a reply is recorded whose request
    included it (`upto`), so a message that arrives during a model request, or while a call is pending, follows that reply's whole batch.
    A message ends what came before it: a refused limit, a cancel, a termination, an objection, a failure, a turn context. A message that
    awaits guardrails is an *unchecked message*, outside the conversation. When the guardrails of an agent let it pass (`GuardrailJudged`),
    it becomes a new message; if they withhold it, it has no effect. No request may include the position of an unchecked message, or a
    later one. The run options of a message (`options`) apply from the point where it becomes a new message, until the next message
    does, or until a decision (`Decided`) brings other options. Calls of a reply belong to the tools that its request offered.
 3. `ModelReplied` is legal if something waits for a reply, every call of the previous reply has its output, `upto` covers that batch, and
    the agent is the active one (or a message began a new run). The calls of the reply form the *batch*. `ModelRequestFailed` is legal
    where a reply is, and also after the conversation was stopped; it adds nothing to the conversation. `ConversationClaimed` is legal
    where a reply is. The end of the provider's conversation that it names is unknown until that reply is recorded, and stays unknown if
    it never is.
 4. A call goes through these facts: (`GuardrailJudged`, `ApprovalChecked`), (`Decided`), `CallStarted`, `CallReturned`. `ApprovalChecked`
    is legal once. `Decided` is legal only while exactly that decision is pending, with the digest of the recorded arguments. `CallStarted`
    is legal only if no attempt is open, with the next attempt number, and, if the call needs approval, if exactly those arguments are
    approved. It is never legal for a call beyond a limit that its reply names.
 5. `Cancelled`, and a limit that a person refuses, stop the conversation until the user's next message. They stop the open calls for good:
    these get outputs and are never started. After a refused limit, started calls may finish. A message that is unchecked when a limit is
    refused takes effect when it passes; one that is unchecked at a cancel is not checked until the user sends another one.
 6. A call gets one output: from `CallReturned`, from `Decided` (reject, answer), from `GuardrailJudged` (an objection) or from
    `HandedOff`. A `CallReturned` for an attempt of an answered call, or for an attempt that another one followed, is `late`: it is kept
    for people, once.
 7. `CallLost` is legal for an open attempt. It makes the outcome unknown; a `CallReturned` that still arrives answers the call, unless a
    person decided first. `CallPaused` is legal for an open attempt too, and ends it without an output: nothing more is recorded about that
    attempt, and the call waits until it is started again. `CallLost` is legal for a paused attempt as well, if its child session is
    missing. `ChildUsageReported` is legal for every call that was started, whatever became of it.
 8. `HandedOff` is legal if only handoffs of the batch are unanswered, and the reply is within its limit of calls. It answers all of them:
    its own call as taken, the others as not taken.
 9. `AgentPrompted` is legal if the last reply had no calls and no message came after it. `GuardrailJudged` and `TerminationJudged` name
    what was checked, and are legal once for it. A `Compacted` must cover more than the one before it.
10. `Redacted` is always legal. It names earlier facts whose text is gone by then. Summaries among them are void: the agent sees again
    what they covered. Unanswered calls of a reply among them that are not running must not run any more. A new turn context is due, and
    a reply to a request made before the redaction is discarded, because it may repeat what was erased.

An illegal fact raises `IllegalFact`, which names the fact, the state and the reason. It changes nothing and reaches no store. Code that has
an outcome to record calls `classify_fact` to learn if these rules accept it, accept it as late, or reject it.

Below: the parts of a state, the state, `classify_fact`, and the rules in the order of their numbers. For each kind of fact, one function
checks if the fact may follow and finds its subject, and one function changes the state; `RULES` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from legato.core import texts_for_model
from legato.core.counters import RunCounters, UsageTotals, WorkTime
from legato.core.digests import digest_arguments
from legato.core.facts import (
    MAX_COUNT,
    NO_OPTIONS,
    NO_USAGE,
    AgentPrompted,
    AnyFact,
    ApprovalChecked,
    Call,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    ChildUsageReported,
    Compacted,
    Content,
    ConversationClaimed,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    OutputText,
    Redacted,
    Refusal,
    RunOptions,
    StandingApproval,
    TerminationJudged,
    Text,
    Usage,
)
from legato.core.groups import CallAttempt, CallOutput, CallState, Group, OpenCalls
from legato.core.handoff_arguments import IncomingHandoff
from legato.core.limits import explain_exceeded_limits
from legato.core.messages import render_content
from legato.core.pending_requests import VERDICTS
from legato.errors import IllegalFact

EMPTY_CONVERSATION, UNKNOWN_END = -1, -2
"""The end of a provider's conversation, if it is not the position of a reply."""


# -- the parts of a state ----------------------------------------------------------------------------------------------


class ConversationStop(Struct, eq=False):
    """The last stop of the conversation. `reason` is "cancelled", "limit", or "" if the conversation has continued since.

    The user's next message ends a stop.
    """

    reason: str = ""
    position: int = -1


class ReplyChecks(Struct, eq=False):
    """The verdicts of user code about the newest reply."""

    output_checked: bool = False  # it was checked against its output type and the output guardrails
    termination_checked: bool = False  # the termination condition was evaluated
    is_terminated: bool = False  # and ended the conversation
    objection: str = ""  # the reason why the reply was not accepted


class LastRequest(Struct, eq=False):
    """The newest model request: its turn context, the last position that it included, and its failure if it failed."""

    context_digest: str = ""
    upto: int = -1
    failure: ModelRequestFailed | None = None


class Redactions(Struct, eq=False):
    """The redacted facts, each with the position of the `Redacted` that names it, and the position of the last `Redacted`."""

    facts: dict[int, int] = {}
    last_position: int = -1


class ProviderConversations(Struct, eq=False):
    """The conversations that providers store. `ends` has the position of the reply that each ends with, or `UNKNOWN_END`."""

    ends: dict[str, int] = {}
    current: str = ""  # the conversation that the newest request goes to
    previous_end: int = EMPTY_CONVERSATION  # its end before that request

    def claim(self, conversation: str) -> None:
        """Record that a request goes to a conversation: its end is unknown until the reply is recorded."""
        self.current, self.previous_end = conversation, self.ends.get(conversation, EMPTY_CONVERSATION)
        self.ends[conversation] = UNKNOWN_END

    def record_reply(self, conversation: str, reply: int) -> None:
        """Record that a conversation ends with a reply."""
        if conversation in self.ends:
            self.ends[conversation] = reply
        self.current = ""

    def record_failure(self, unchanged: bool) -> None:
        """Record that a request failed. `unchanged`: the provider stored nothing of the request."""
        if unchanged and self.current:
            self.ends[self.current] = self.previous_end
        self.current = ""

    def mark_all_unknown(self) -> None:
        """Mark the ends of all conversations as unknown, because another ledger keeps adding to them."""
        self.ends = dict.fromkeys(self.ends, UNKNOWN_END)


class State(Struct, eq=False):
    """The meaning of a ledger, created by `fold` and advanced one fact at a time by `apply`. The cost of a step depends only on the fact.

    A new message does not erase what it ends (a stop, a failure, a turn context): properties compare positions instead.
    """

    session_id: str = ""
    facts: list[AnyFact] = []
    length: int = 0  # the number of facts, and the position of the next one
    workflow: str = ""
    ledger_ids: list[tuple[int, str]] = []  # each id of the ledger, with the position where it starts to apply
    delivery_keys: dict[str, int] = {}  # the key of a delivery -> the position where it is recorded
    # the conversation
    groups: list[Group] = []
    new_messages: list[Group] = []  # messages that no reply's request has included yet
    unchecked_messages: list[Group] = []  # messages that no guardrail has let pass yet: they have no effect
    rejected_reply_count: int = 0  # replies that were not accepted, which only their agent sees
    withheld_message_count: int = 0  # messages that an input guardrail keeps out of every view
    has_attachments: bool = False  # a message or an output has more than text
    summaries: dict[str, Compacted] = {}  # the last summary of each agent
    redactions: Redactions = field(default_factory=Redactions)
    # control, and the newest reply
    active_agent: str = ""
    incoming_handoff: IncomingHandoff | None = None  # the handoff that gave control to the active agent
    last_reply: Group | None = None
    open_calls: OpenCalls = field(default_factory=OpenCalls)  # the unanswered calls of the last reply
    reply_checks: ReplyChecks = field(default_factory=ReplyChecks)
    stop: ConversationStop = field(default_factory=ConversationStop)
    # requests
    options_history: list[tuple[int, RunOptions]] = []  # run options, with the position where they start to apply
    last_request: LastRequest = field(default_factory=LastRequest)
    context_digests: set[str] = set()  # all turn contexts that replies and failed requests name
    provider_conversations: ProviderConversations = field(default_factory=ProviderConversations)
    # counters: of the run, and of the whole session
    run_counters: RunCounters = field(default_factory=RunCounters)
    usage_totals: UsageTotals = field(default_factory=UsageTotals)
    work_time: WorkTime = field(default_factory=WorkTime)
    reply_count: int = 0
    reply_count_by_agent: dict[str, int] = {}
    losses: list[str] = []
    late_outputs: list[CallReturned] = []
    # permissions
    epoch: int = 0
    standing_approvals: set[StandingApproval] = set()

    def __repr__(self) -> str:
        return f"<state of {self.session_id!r} after {len(self.facts)} facts>"

    def apply(self, fact: AnyFact) -> None:
        """Advance the state by one fact, or raise `IllegalFact` and change nothing."""
        check, change = RULES[type(fact)]
        if not self.facts and type(fact) is not Opened:
            _refuse(self, fact, "a ledger begins with Opened")
        change(self, fact, check(self, fact))
        self.facts.append(fact)
        self.length += 1

    # -- the ledger ----------------------------------------------------------------------------------------------------

    @property
    def ledger_id(self) -> str:
        """The unique id of this ledger."""
        return self.ledger_ids[-1][1] if self.ledger_ids else ""

    def ledger_id_at(self, position: int) -> str:
        """Return the id that the ledger had when this position was recorded; forks share it for the facts that they share."""
        for start, ledger_id in reversed(self.ledger_ids):
            if position >= start:
                return ledger_id
        return self.ledger_id

    def make_idempotency_key(self, call: CallRef) -> str:
        """Return the idempotency key of a recorded call. It is the same for every attempt, and in every fork."""
        return f"{self.ledger_id_at(call.position)}:{call}"

    # -- messages ------------------------------------------------------------------------------------------------------

    @property
    def unseen_messages(self) -> list[Group]:
        """The new messages that no guardrail withholds."""
        return [group for group in self.new_messages if not group.withheld] if self.withheld_message_count else self.new_messages

    @property
    def last_unseen_position(self) -> int:
        """The position of the newest unseen message; -1 if there is none."""
        unseen = self.unseen_messages
        return unseen[-1].position if unseen else -1

    @property
    def is_new_run(self) -> bool:
        """True if a message began a new run and no reply has followed yet."""
        return bool(unseen := self.unseen_messages) and any(group.begins_run for group in unseen)

    @property
    def awaits_reply(self) -> bool:
        """True if the conversation ends with something that a model has not replied to."""
        if (unseen := self.unseen_messages) or self.last_reply is None:
            return bool(unseen)
        last = self.groups[-1]
        return bool(self.last_reply.calls) or last.kind == "prompt" or (last.kind == "feedback" and bool(self.reply_checks.objection))

    # -- properties that the user's next message resets ----------------------------------------------------------------

    @property
    def stop_reason(self) -> str:
        """The reason of the stop, "cancelled" or "limit", until the user's next message; "" if the conversation is not stopped."""
        return self.stop.reason if self.stop.reason and self.stop.position > self.last_unseen_position else ""

    @property
    def interrupted_at(self) -> int:
        """The position of the last stop or redaction: replies to requests made before it are discarded."""
        return max(self.stop.position, self.redactions.last_position)

    @property
    def is_terminated(self) -> bool:
        """True if the termination condition ended the conversation, and no message has arrived since."""
        return self.reply_checks.is_terminated and not self.unseen_messages

    @property
    def reply_objection(self) -> str:
        """The objection to the newest reply; empty if there is none, or a message has arrived since."""
        return "" if self.unseen_messages else self.reply_checks.objection

    @property
    def failed_request(self) -> ModelRequestFailed | None:
        """The last model request, if it failed and no message has arrived since. It says when the next attempt is made, if one is."""
        failed = self.last_request.failure
        return failed if failed is not None and failed.upto >= self.last_unseen_position else None

    @property
    def next_request_attempt(self) -> int:
        """The number of the next attempt of the model request, from 1."""
        failed = self.failed_request
        return failed.attempt + (not failed.limit) if failed is not None and not failed.final else 1

    @property
    def context_digest(self) -> str:
        """The digest of the turn context in force; empty if a new one is due.

        One is due after control, a message or other run options have arrived.
        """
        changed_at = self.options_history[-1][0] if self.options_history else -1
        return self.last_request.context_digest if self.last_request.upto >= max(self.last_unseen_position, changed_at) else ""

    # -- the options of a run ------------------------------------------------------------------------------------------

    @property
    def run_options(self) -> RunOptions:
        """The run options in force now."""
        return self.options_history[-1][1] if self.options_history else NO_OPTIONS

    def options_at(self, position: int) -> RunOptions:
        """Return the run options that were in force at this position."""
        return next((options for at, options in reversed(self.options_history) if at <= position), NO_OPTIONS)

    def options_of_reply(self, reply: int) -> RunOptions:
        """Return the run options of the request that led to the reply at this position."""
        fact = self.facts[reply]
        return self.options_at(fact.upto) if self.options_history and isinstance(fact, ModelReplied) else NO_OPTIONS

    # -- calls ---------------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> list[CallState]:
        """The calls of the newest reply, while any is unanswered."""
        return self.last_reply.calls if self.last_reply is not None and self.last_reply.unanswered_count else []

    @property
    def started_calls(self) -> list[CallState]:
        """The unanswered calls that were started: their tool runs, their child session waits, or their outcome is unknown."""
        return [*self.open_calls.started_calls] if self.last_reply is not None and self.last_reply.unanswered_count else []

    @property
    def has_paused_calls(self) -> bool:
        """True if unanswered calls wait for their child sessions."""
        return self.last_reply is not None and self.last_reply.unanswered_count > 0 and self.open_calls.has_paused_calls

    def find_call(self, ref: CallRef) -> CallState | None:
        """Return the state of a call of any reply; None if there is no such call."""
        for group in reversed(self.groups):
            if group.position == ref.position:
                return group.find_call(ref.index)
            if group.position < ref.position and group.kind == "reply":
                return None
        return None

    def is_unanswered(self, call: CallRef, ledger_id: str) -> bool:
        """Return True if a call has no output yet. `ledger_id` is the id that the ledger had when the call was recorded."""
        state = self.find_call(call) if call.position < self.length and self.ledger_id_at(call.position) == ledger_id else None
        return state is not None and state.output is None


def fold(facts: Iterable[AnyFact], session: str = "") -> State:
    """Return the state that these facts lead to."""
    state = State(session_id=session)
    for fact in facts:
        state.apply(fact)
    return state


# -- what may be recorded ----------------------------------------------------------------------------------------------

FactVerdict: TypeAlias = Literal["accepted", "late", "rejected"]


def classify_fact(fact: AnyFact, state: State, known_length: int | None = None) -> FactVerdict:
    """Tell if a fact may be recorded: as it is ("accepted"), in the form that `to_recordable` returns ("late"), or not ("rejected").

    `known_length` is the number of facts when the work on an outcome began. Verdicts and summaries of user code are rejected if text was
    redacted since, because they may quote it; so are verdicts that a call needs approval. The answer to a call is rejected if something
    about the call was decided since. A usage report that adds nothing is rejected too.
    """
    if (known_length is not None and _is_outdated(fact, state, known_length)) or _adds_nothing(fact, state):
        return "rejected"
    late = _make_late_form(fact, state)
    try:
        RULES[type(late or fact)][0](state, late or fact)
    except IllegalFact:
        return "rejected"
    return "late" if late is not None else "accepted"


def to_recordable(fact: AnyFact, state: State, known_length: int | None = None, attempt: int = 1) -> AnyFact | None:
    """Return an outcome in the form in which it may be recorded now; None if it may not be recorded.

    `attempt` is the attempt number of the model request that a reply came from.
    """
    match classify_fact(fact, state, known_length):
        case "accepted":
            return fact
        case "late":
            return _make_late_form(fact, state, attempt)
        case "rejected":
            return None


def _is_outdated(fact: AnyFact, state: State, known_length: int) -> bool:
    if (
        isinstance(fact, (GuardrailJudged, TerminationJudged, ApprovalChecked, Compacted))
        and state.redactions.last_position >= known_length
    ):
        return True
    if isinstance(fact, CallReturned) and not fact.attempt:
        call = state.find_call(fact.call)
        return call is not None and (bool(call.stop_reason) or any(position >= known_length for position in call.decision_positions[-1:]))
    return False


def _adds_nothing(fact: AnyFact, state: State) -> bool:
    """Return True if a usage report equals the last one: reports are totals."""
    if not isinstance(fact, ChildUsageReported) or (call := state.find_call(fact.call)) is None:
        return False
    return (fact.agents, fact.turns) == ((call.child_usage.agents, call.child_usage.turns) if call.child_usage else ((), 0))


def _make_late_form(fact: AnyFact, state: State, attempt: int = 1) -> AnyFact | None:
    """Return the form of an outcome that is too late to be part of the conversation; None if it is in time.

    The output of a call that has another output by now is kept for people. A reply after a stop or a redaction is discarded, but its cost
    is recorded. A failed request made before a redaction does not name its turn context, which may quote the redacted text.
    """
    match fact:
        case CallReturned(late=False) if (call := state.find_call(fact.call)) is not None and _is_overtaken(call, fact):
            return replace(fact, late=True)
        case ModelReplied() if state.stop_reason or fact.upto < state.interrupted_at:
            erased = fact.upto < state.redactions.last_position
            return ModelRequestFailed(
                at=fact.at,
                agent=fact.agent,
                context_digest="" if erased else fact.context_digest,
                upto=fact.upto,
                error="something it was shown was erased" if erased else "cancelled",
                code="erased" if erased else "cancelled",
                attempt=attempt,
                usage=fact.usage,
                duration_ms=fact.duration_ms,
            )
        case ModelRequestFailed() if fact.context_digest and fact.upto < state.redactions.last_position:
            return replace(fact, context_digest="", error="it failed, and something it was shown was erased")
    return None


def _refuse(state: State, fact: AnyFact, reason: str) -> NoReturn:
    batch = ", ".join(f"{call.ref} {call.call.tool}" for call in state.batch if call.output is None)
    raise IllegalFact(
        f"{type(fact).__name__} cannot follow here: {reason}",
        found=f"position {state.length}, active agent {state.active_agent or 'none yet'}, unanswered calls: {batch or 'none'}",
        do="nothing was recorded; refresh the session and look at what is pending",
    )


# -- 1. a ledger begins ------------------------------------------------------------------------------------------------


def _check_opened(state: State, fact: Opened) -> None:
    if state.facts and fact.origin is None:
        _refuse(state, fact, "the ledger has been opened already, and this fact has no origin")


def _apply_opened(state: State, fact: Opened, _: object) -> None:
    state.workflow = fact.workflow
    state.ledger_ids.append((state.length, fact.ledger_id))
    state.epoch = 0
    for call in state.batch:
        if call.open_attempt:
            call.open_attempt.epoch = 0
    if fact.origin is not None and fact.origin.kind != "move":
        _void_permissions(state)


def _void_permissions(state: State) -> None:
    """Remove everything that permits an effect, because this ledger runs beside the one that it was given in. See branch_inheritance.py."""
    state.standing_approvals.clear()
    state.run_counters.allowances.clear()
    state.delivery_keys = {key: position for key, position in state.delivery_keys.items() if type(state.facts[position]) is not Decided}
    state.provider_conversations.mark_all_unknown()
    for call in state.batch:
        if call.output is None:
            call.approved = call.rerun_approved = False
            if not call.attempts:  # a started call ran with the edited arguments
                call.arguments, call.edited = call.call.arguments, False
            state.open_calls.changed_calls.append(call)


# -- 2. users send messages --------------------------------------------------------------------------------------------


def _check_message_received(state: State, fact: MessageReceived) -> None:
    _check_key(state, fact, fact.key)
    _check_options(state, fact, fact.options)


def _apply_message_received(state: State, fact: MessageReceived, _: object) -> None:
    group = Group("said", state.length, author=fact.author, content=fact.content, options=fact.options or NO_OPTIONS)
    _record_key(state, fact.key)
    if fact.awaits_guardrails:
        state.unchecked_messages.append(group)
    else:
        _add_message(state, group)


def _add_message(state: State, group: Group) -> None:
    """Add a message to the new messages, and begin a run."""
    group.begins_run = not state.awaits_reply or bool(state.stop_reason) or state.is_terminated
    if state.stop.reason == "limit":
        state.stop.reason = ""  # also for a message that was recorded before the limit was refused, and was unchecked until now
    in_order = not state.new_messages or state.new_messages[-1].position < group.position
    state.new_messages.append(group)
    if not in_order:  # the message waited for its guardrail, and others arrived meanwhile
        state.new_messages.sort(key=_get_position)
    state.run_counters = state.run_counters.start_next_run()
    _set_options(state, group.options)
    _count_content(state, group.content)


def _check_key(state: State, fact: AnyFact, key: str) -> None:
    if key and key in state.delivery_keys:
        _refuse(state, fact, f"the delivery {key!r} was recorded at position {state.delivery_keys[key]}")


def _record_key(state: State, key: str) -> None:
    if key:
        state.delivery_keys[key] = state.length


def _check_options(state: State, fact: AnyFact, options: RunOptions | None) -> None:
    if options is None:
        return
    names = [tool.name for tool in options.tools]
    if not all(names) or len(set(names)) < len(names):
        _refuse(state, fact, "each tool of a client must have a name of its own")
    if bool(options.digest) != bool(names or options.typed) or (options.required and not names):
        _refuse(state, fact, "a client's options must name the definitions of their tools and of their format, and of nothing else")


def _set_options(state: State, options: RunOptions) -> None:
    """Apply run options from here on."""
    if options != state.run_options:
        state.options_history.append((state.length, options))


def _count_content(state: State, content: Content) -> None:
    """Count the characters of a message or an output."""
    if type(content) is str:
        state.usage_totals.characters += len(content)
    else:
        state.has_attachments = True
        state.usage_totals.characters += len(render_content(content))


def _get_position(group: Group) -> int:
    return group.position


# -- 3. models are requested -------------------------------------------------------------------------------------------


def _check_model_request(state: State, fact: ModelReplied | ConversationClaimed | ModelRequestFailed) -> None:
    """Check that a model may be requested now, and that its request included everything that it had to."""
    if state.last_reply and state.last_reply.unanswered_count:
        _refuse(state, fact, "the last reply has calls without outputs")
    if not state.awaits_reply:
        _refuse(state, fact, "nothing waits for a reply")
    if fact.agent != state.active_agent and state.active_agent and not state.is_new_run:
        _refuse(state, fact, f"{fact.agent!r} is not the active agent")
    has_upto = fact.upto >= 0 or not isinstance(fact, ModelRequestFailed)
    if has_upto and not _find_lowest_upto(state) <= fact.upto < state.length:
        _refuse(state, fact, f"its request included positions up to {fact.upto}, which is not the conversation as it was")


def _check_request_still_valid(state: State, fact: ModelReplied | ConversationClaimed) -> None:
    """Check that since the request was made, the conversation was not stopped, no text was redacted, and no message in it is unchecked."""
    if state.stop.reason and state.stop_reason:
        _refuse(state, fact, f"the conversation is stopped ({state.stop_reason})")
    if fact.upto < state.interrupted_at:
        event = "the conversation was stopped" if state.stop.position > state.redactions.last_position else "text was redacted"
        _refuse(state, fact, f"{event} at position {state.interrupted_at}, after its request was made")
    if state.unchecked_messages and _has_unchecked_message(state, fact.upto):
        _refuse(state, fact, f"its request included positions up to {fact.upto}, where a message has not been checked by guardrails")


def _find_lowest_upto(state: State) -> int:
    """Return the lowest `upto` that a request may have: it must include the whole last batch and everything after it."""
    if state.last_reply is None:
        return state.unseen_messages[0].position if state.unseen_messages else 0
    floor = state.groups[-1].position  # the reply, or a prompt or objection after it
    for call in state.last_reply.calls:
        if call.output and call.output.position > floor:
            floor = call.output.position
    return floor


def _has_unchecked_message(state: State, upto: int) -> bool:
    """Return True if a message at or before this position is unchecked."""
    return any(group.position <= upto for group in state.unchecked_messages)


def _check_model_replied(state: State, fact: ModelReplied) -> None:
    _check_model_request(state, fact)
    _check_request_still_valid(state, fact)


def _apply_model_replied(state: State, fact: ModelReplied, _: object) -> None:
    messages = state.new_messages
    while messages and messages[0].position <= fact.upto:
        state.groups.append(messages.pop(0))
    if fact.agent != state.active_agent:
        state.incoming_handoff, state.run_counters.prompts = None, 0
    reply = _make_reply_group(state, fact)
    state.groups.append(reply)
    state.last_reply, state.open_calls = reply, OpenCalls(list(reply.calls))
    state.active_agent, state.reply_checks, state.stop.reason = fact.agent, ReplyChecks(), ""
    state.context_digests.add(fact.context_digest)
    state.last_request = LastRequest(fact.context_digest, fact.upto)
    state.provider_conversations.record_reply(fact.base, reply.position)
    _count_reply(state, fact, reply)


def _make_reply_group(state: State, fact: ModelReplied) -> Group:
    position = state.length
    group = Group("reply", position, fact.agent, fact=fact, awaits_checks=fact.awaits_checks)
    if state.options_history:
        group.options = state.options_at(fact.upto)
    for index, item in enumerate(fact.items):
        if type(item) is Call:
            group.calls.append(CallState(CallRef(position, index), item, item.arguments))
    group.unanswered_count = len(group.calls)
    if fact.calls_allowed >= 0 or fact.argument_bytes_allowed >= 0:
        for call, error in zip(group.calls, explain_exceeded_limits(fact, [call.call for call in group.calls]), strict=True):
            call.limit_error = error
    return group


def _count_reply(state: State, fact: ModelReplied, reply: Group) -> None:
    counters, totals = state.run_counters, state.usage_totals
    for item in fact.items:
        if type(item) is OutputText or type(item) is Refusal:
            totals.characters += len(item.text)
    state.reply_count += 1
    state.reply_count_by_agent[fact.agent] = state.reply_count_by_agent.get(fact.agent, 0) + 1
    counters.turns += 1
    counters.tool_rounds = counters.tool_rounds + 1 if reply.calls else 0
    totals.turns += 1
    totals.add_request(fact.agent, fact.usage)
    _count_work_time(state, fact.at, fact.duration_ms)
    if fact.losses:
        state.losses.extend(fact.losses)


def _count_work_time(state: State, at: int, duration_ms: int) -> None:
    """Count the time of a piece of work that ended at `at`."""
    state.run_counters.work_ms += state.work_time.add(at - duration_ms, at)


def _check_conversation_claimed(state: State, fact: ConversationClaimed) -> None:
    _check_model_request(state, fact)
    _check_request_still_valid(state, fact)
    if state.provider_conversations.ends.get(fact.conversation) == UNKNOWN_END:
        _refuse(state, fact, f"the content of the provider's conversation {fact.conversation!r} is unknown")


def _apply_conversation_claimed(state: State, fact: ConversationClaimed, _: object) -> None:
    state.provider_conversations.claim(fact.conversation)


def _apply_model_request_failed(state: State, fact: ModelRequestFailed, _: object) -> None:
    state.provider_conversations.record_failure(fact.conversation_unchanged)
    state.context_digests.add(fact.context_digest)
    # After the last attempt something has to change, and that may be the agent: the next attempt evaluates its turn context again.
    state.last_request = LastRequest("" if fact.final else fact.context_digest, fact.upto, fact)
    state.usage_totals.add_request(fact.agent, fact.usage)
    work_ms = state.run_counters.work_ms
    _count_work_time(state, fact.at, fact.duration_ms)
    if fact.limit:  # the request used up the rest of the limit, to the millisecond; the wall clock may say less
        state.run_counters.work_ms = max(state.run_counters.work_ms, work_ms + fact.duration_ms)


# -- 4 to 7. calls run and get outputs ---------------------------------------------------------------------------------


def _require_open_call(state: State, fact: AnyFact, ref: CallRef | None) -> CallState:
    reply = state.last_reply
    call = reply.find_call(ref.index) if ref and reply and reply.unanswered_count and reply.position == ref.position else None
    if call is None:
        _refuse(state, fact, f"there is no call {ref} in the open batch")
    if call.output is not None:
        _refuse(state, fact, f"call {ref} has its output already ({call.output.status})")
    return call


def _give_output(state: State, call: CallState, output: CallOutput) -> None:
    assert state.last_reply is not None
    call.output = output
    state.open_calls.changed_calls.append(call)
    state.last_reply.unanswered_count -= 1
    _count_content(state, output.content)


def prefix_edited_arguments(call: CallState, output: Content) -> Content:
    """Return the output of a call that ran; if a person edited the arguments, they are put before it."""
    if not call.edited:
        return output
    if isinstance(output, str):
        return texts_for_model.arguments_edited(call.arguments, output)
    return (Text(texts_for_model.arguments_edited(call.arguments, "")), *output)


def _check_approval_checked(state: State, fact: ApprovalChecked) -> CallState:
    call = _require_open_call(state, fact, fact.call)
    if call.needs_approval is not None or call.attempts:
        _refuse(state, fact, f"the approval policy has decided about call {fact.call} already")
    if call.stop_reason:
        _refuse(state, fact, f"call {fact.call} was stopped ({call.stop_reason})")
    if fact.digest != digest_arguments(call.arguments):
        _refuse(state, fact, "its digest is not the digest of the recorded arguments")
    return call


def _apply_approval_checked(state: State, fact: ApprovalChecked, call: CallState) -> None:
    call.needs_approval = fact.needed
    call.decision_positions += (state.length,)
    state.open_calls.changed_calls.append(call)


def _check_decided_call(state: State, fact: Decided) -> CallState:
    call = _require_open_call(state, fact, fact.call)
    if fact.digest != digest_arguments(call.arguments):
        _refuse(state, fact, f"it is about other arguments of call {call.ref}")
    kind = _find_request_kind(call)
    if fact.kind != kind or fact.verdict not in VERDICTS[kind]:
        _refuse(state, fact, f"call {call.ref} waits for {kind or 'no decision'}, not for {fact.verdict} of its {fact.kind}")
    if fact.verdict == "edit" and fact.standing:
        _refuse(state, fact, "an edited call cannot be approved for all later calls")
    return call


def _find_request_kind(call: CallState) -> str:
    """Return the kind of decision that a call waits for, as far as the ledger alone can tell; empty for none."""
    if call.phase == "lost":
        return "outcome"
    if call.lacks_approval:
        return "approval"
    return "" if call.attempts else "result"


def _apply_decided_call(state: State, fact: Decided, call: CallState) -> None:
    call.decision_positions += (state.length,)
    if fact.verdict == "answer":
        content = fact.output if fact.kind != "outcome" else prefix_edited_arguments(call, fact.output)
        _give_output(state, call, CallOutput(content, "ok", state.length))
        return
    if fact.verdict == "reject":
        make_text = {
            "approval": texts_for_model.call_rejected,
            "outcome": texts_for_model.outcome_declared_failed,
            "result": texts_for_model.result_declined,
        }[fact.kind]
        _give_output(state, call, CallOutput(make_text(fact.reason), "rejected", state.length))
        return
    call.approved = True
    if fact.kind == "outcome":
        call.rerun_approved = True  # this approves the arguments too, also if an earlier approval was void
    if fact.verdict == "edit":
        call.arguments, call.edited = fact.arguments, True
    if fact.standing and fact.kind == "approval":
        state.standing_approvals.add(fact.standing)
    state.open_calls.changed_calls.append(call)


def _check_call_started(state: State, fact: CallStarted) -> CallState:
    call = _require_open_call(state, fact, fact.call)
    if call.stop_reason:
        _refuse(state, fact, f"call {fact.call} was stopped ({call.stop_reason})")
    if call.limit_error:
        _refuse(state, fact, f"call {fact.call} is beyond a limit ({call.limit_error})")
    if running := call.open_attempt:
        _refuse(state, fact, f"attempt {running.number} of call {fact.call} is running")
    if fact.attempt != call.next_attempt:
        _refuse(state, fact, f"the next attempt of call {fact.call} is number {call.next_attempt}")
    if fact.epoch < state.epoch:
        _refuse(state, fact, f"its driver has epoch {fact.epoch}, and the ledger is in epoch {state.epoch}")
    if call.lacks_approval or (call.needs_approval and fact.digest != digest_arguments(call.arguments)):
        _refuse(state, fact, f"call {fact.call} is not approved for these arguments")
    return call


def _apply_call_started(state: State, fact: CallStarted, call: CallState) -> None:
    state.run_counters.tool_calls += call.pause is None  # a call that was paused continues, and is not counted again
    call.attempts += (CallAttempt(fact.attempt, fact.epoch),)
    call.rerun_approved = False
    state.open_calls.changed_calls.append(call)
    state.epoch = fact.epoch


def _is_overtaken(call: CallState, fact: CallReturned) -> bool:
    """Return True if the call has its output already, or another attempt has followed or will follow."""
    return call.output is not None or (fact.attempt > 0 and (fact.attempt < len(call.attempts) or call.rerun_approved))


def _check_call_returned(state: State, fact: CallReturned) -> CallState:
    call = state.find_call(fact.call)
    if call is None:
        _refuse(state, fact, f"there is no call {fact.call}")
    overtaken = _is_overtaken(call, fact)
    if fact.attempt:
        if not 1 <= fact.attempt <= len(call.attempts):
            _refuse(state, fact, f"call {fact.call} has no attempt {fact.attempt}")
        if call.attempts[fact.attempt - 1].outcome_known:
            _refuse(state, fact, f"the outcome of attempt {fact.attempt} of call {fact.call} is recorded already")
    elif call.open_attempt or fact.status == "ok":
        _refuse(state, fact, "an output without an attempt needs a call that is not running, and a status other than ok")
    elif overtaken:
        _refuse(state, fact, f"call {fact.call} has its output already")
    if fact.late != overtaken:
        _refuse(state, fact, "it is late, and does not say so" if overtaken else "it says that it is late, and is in time")
    if fact.late and fact.status not in ("ok", "error"):
        _refuse(state, fact, "a late output must have the real outcome of the attempt: status ok or error")
    return call


def _apply_call_returned(state: State, fact: CallReturned, call: CallState) -> None:
    _count_work_time(state, fact.at, fact.duration_ms)
    if fact.attempt:
        # A timeout or a cancel answers the call, but the real outcome of the attempt is not known.
        call.attempts[fact.attempt - 1].outcome_known = fact.late or fact.status in ("ok", "error")
    if fact.late:
        state.late_outputs.append(fact)
        return
    content = prefix_edited_arguments(call, fact.output) if fact.attempt else fact.output
    _give_output(state, call, CallOutput(content, fact.status, state.length))


def _check_attempt_end(state: State, fact: CallLost | CallPaused) -> CallState:
    call = _require_open_call(state, fact, fact.call)
    attempt = _find_ended_attempt(call, fact)
    if attempt is None or attempt.number != fact.attempt:
        _refuse(state, fact, f"attempt {fact.attempt} of call {fact.call} is not open")
    return call


def _find_ended_attempt(call: CallState, fact: CallLost | CallPaused) -> CallAttempt | None:
    """Return the attempt that the fact ends: the open one, or a paused one whose child session is missing."""
    child_missing = call.pause is not None and isinstance(fact, CallLost) and fact.missing
    return call.attempts[-1] if child_missing else call.open_attempt


def _apply_call_lost(state: State, fact: CallLost, call: CallState) -> None:
    attempt = call.attempts[-1]
    attempt.lost, attempt.child_missing, attempt.pause, attempt.outcome_known = True, fact.missing, None, False
    call.decision_positions += (state.length,)
    if fact.missing:
        call.child_usage = None  # the next child session counts from zero
    state.open_calls.changed_calls.append(call)


def _apply_call_paused(state: State, fact: CallPaused, call: CallState) -> None:
    attempt = call.attempts[-1]
    attempt.pause, attempt.outcome_known = fact, True
    _count_work_time(state, fact.at, fact.duration_ms)
    if state.stop_reason == "limit" and fact.needed != NO_USAGE:
        call.stop_reason = "limit"  # the limit was refused meanwhile, and is not requested again
    state.open_calls.changed_calls.append(call)


def _check_child_usage_reported(state: State, fact: ChildUsageReported) -> CallState:
    call = state.find_call(fact.call)
    if call is None or not call.attempts:
        _refuse(state, fact, f"call {fact.call} has no child session")
    is_of_same_child = bool(state.ledger_ids) and call.child_usage_position > state.ledger_ids[-1][0]  # a branch has its own child session
    if call.child_usage is not None and is_of_same_child and _reports_less(fact, call.child_usage):
        _refuse(state, fact, f"a later report of the child session of call {fact.call} is recorded already")
    return call


def _reports_less(report: ChildUsageReported, latest: ChildUsageReported) -> bool:
    """Return True if a report counts less than the latest one: a driver that lost its lease recorded it late."""
    tokens, latest_tokens = (sum(usage.total for _, usage in each.agents) for each in (report, latest))
    return report.turns < latest.turns or tokens < latest_tokens


def _apply_child_usage_reported(state: State, fact: ChildUsageReported, call: CallState) -> None:
    before = dict(call.child_usage.agents) if call.child_usage else {}
    for agent, usage in fact.agents:
        state.usage_totals.add_child_usage(agent, usage.increase_over(before.get(agent, NO_USAGE)))
    turns = max(0, fact.turns - (call.child_usage.turns if call.child_usage else 0))
    state.usage_totals.turns = min(state.usage_totals.turns + turns, MAX_COUNT)
    state.run_counters.turns += turns
    call.child_usage, call.child_usage_position = fact, state.length


# -- 4 and 5. people decide --------------------------------------------------------------------------------------------


def _check_decided(state: State, fact: Decided) -> CallState | None:
    _check_key(state, fact, fact.key)
    _check_options(state, fact, fact.options)
    if fact.kind not in ("limit", "standing"):
        return _check_decided_call(state, fact)
    if fact.kind == "standing":
        if fact.standing not in state.standing_approvals:
            _refuse(state, fact, "there is no such standing approval")
    elif not fact.limit or state.stop_reason or state.is_terminated:
        _refuse(state, fact, "no limit waits for a decision")
    elif fact.verdict not in VERDICTS["limit"]:
        _refuse(state, fact, "a limit can only be approved or rejected")
    return None


def _apply_decided(state: State, fact: Decided, call: CallState | None) -> None:
    if call is not None:
        _apply_decided_call(state, fact, call)
    elif fact.kind == "standing":
        state.standing_approvals.discard(fact.standing)
    elif fact.verdict == "approve":
        state.run_counters.allowances[fact.limit] = state.run_counters.allowances.get(fact.limit, 0) + 1
    else:
        _stop_conversation(state, "limit")
    if fact.options is not None:
        _set_options(state, fact.options)
    _record_key(state, fact.key)


def _apply_cancelled(state: State, fact: Cancelled, _: object) -> None:
    _stop_conversation(state, "cancelled")
    state.last_request.failure = None


def _stop_conversation(state: State, reason: str) -> None:
    """Stop the conversation until the user's next message, and the open calls for good. After a refused limit, started calls may finish."""
    state.stop, state.reply_checks.objection = ConversationStop(reason, state.length), ""
    for call in state.batch:
        waits_for_limit = call.pause is not None and call.pause.needed != NO_USAGE  # it cannot finish without the refused limit
        if call.output is None and not (reason == "limit" and call.attempts and not waits_for_limit):
            call.stop_reason = reason
            state.open_calls.changed_calls.append(call)


# -- 8. control passes to another agent --------------------------------------------------------------------------------


def _check_handed_off(state: State, fact: HandedOff) -> CallState:
    handoff = _require_open_call(state, fact, fact.call)
    if fact.source != state.active_agent:
        _refuse(state, fact, f"{fact.source!r} is not the active agent")
    if state.stop_reason:
        _refuse(state, fact, f"the conversation is stopped ({state.stop_reason})")
    assert state.last_reply is not None and state.last_reply.fact is not None
    if handoff.phase not in ("unchecked", "ready") or handoff.attempts or state.last_reply.fact.calls_allowed >= 0:
        _refuse(state, fact, f"call {fact.call} is not a handoff that may be taken")
    # The other unanswered calls of the batch must be handoffs too, decided but overtaken. The planner makes sure of that; a call that was
    # started or waits for a person is no such handoff.
    for call in state.batch:
        if call.output is None and call is not handoff and (call.attempts or call.lacks_approval):
            _refuse(state, fact, f"call {call.ref} of the same reply has no output yet")
    return handoff


def _apply_handed_off(state: State, fact: HandedOff, handoff: CallState) -> None:
    assert state.last_reply is not None
    state.last_reply.handed_to = fact.target
    for call in state.batch:
        if call.output is None:
            if call is handoff:
                output = CallOutput(prefix_edited_arguments(call, texts_for_model.handoff_taken(fact.target)), "ok", state.length)
            else:
                output = CallOutput(texts_for_model.handoff_not_taken(fact.target), "not_taken", state.length)
            _give_output(state, call, output)
    state.incoming_handoff = IncomingHandoff(fact.source, fact.target, handoff.arguments)
    state.active_agent, state.last_request.context_digest, state.run_counters.prompts = fact.target, "", 0
    state.run_counters.handoffs += 1
    state.run_counters.tool_rounds = 0
    state.run_counters.count_handoff(fact.source, fact.target)
    state.usage_totals.by_handoff.append((fact.source, fact.target, Usage()))


# -- 9. user code checks, agents are prompted --------------------------------------------------------------------------


def _check_guardrail_judged(state: State, fact: GuardrailJudged) -> Any:
    return _GUARDRAIL_RULES[fact.kind][0](state, fact)


def _apply_guardrail_judged(state: State, fact: GuardrailJudged, subject: Any) -> None:
    _GUARDRAIL_RULES[fact.kind][1](state, fact, subject)


def _check_judged_call(state: State, fact: GuardrailJudged) -> CallState:
    call = _require_open_call(state, fact, CallRef(fact.position, fact.index))
    if call.guardrails_passed or call.attempts:
        _refuse(state, fact, "this call has been checked already")
    if call.stop_reason:
        _refuse(state, fact, f"call {call.ref} was stopped ({call.stop_reason})")
    return call


def _apply_judged_call(state: State, fact: GuardrailJudged, call: CallState) -> None:
    call.guardrails_passed = True
    if fact.stop:
        _give_output(state, call, CallOutput(texts_for_model.call_blocked(fact.reason), "blocked", state.length))


def _check_judged_message(state: State, fact: GuardrailJudged) -> Group:
    group = next((group for group in (*state.unchecked_messages, *state.unseen_messages) if group.position == fact.position), None)
    if group is None or group.checked_by == fact.agent:
        _refuse(state, fact, "no message at that position waits for these guardrails")
    return group


def _apply_judged_message(state: State, fact: GuardrailJudged, group: Group) -> None:
    was_unchecked = group in state.unchecked_messages
    group.checked_by, group.withheld = fact.agent, fact.stop
    state.withheld_message_count += fact.stop
    if was_unchecked:
        state.unchecked_messages.remove(group)
    if was_unchecked and not fact.stop:
        _add_message(state, group)
    elif was_unchecked:
        state.new_messages.append(group)  # for people, who see the message and why it was withheld
        state.new_messages.sort(key=_get_position)


def _check_newest_reply(state: State, fact: GuardrailJudged | TerminationJudged, already_judged: bool) -> Group:
    if state.last_reply is None or state.last_reply.position != fact.position or not state.last_reply.is_complete:
        _refuse(state, fact, "it is not about the newest reply, or that reply has calls without outputs")
    if already_judged:
        _refuse(state, fact, "this reply has been checked already")
    return state.last_reply


def _check_judged_reply(state: State, fact: GuardrailJudged) -> Group:
    return _check_newest_reply(state, fact, state.reply_checks.output_checked)


def _apply_judged_reply(state: State, fact: GuardrailJudged, reply: Group) -> None:
    state.reply_checks.output_checked, reply.awaits_checks = True, False
    if not fact.stop:
        return
    state.reply_checks.is_terminated = False  # the reply that would have ended the run must not be shown
    state.reply_checks.objection = fact.reason
    state.run_counters.output_retries += 1
    reply.rejected = True
    state.rejected_reply_count += 1
    state.groups.append(Group("feedback", state.length, reply.agent, content=texts_for_model.reply_rejected(fact.reason)))


def _check_termination_judged(state: State, fact: TerminationJudged) -> Group:
    return _check_newest_reply(state, fact, state.reply_checks.termination_checked)


def _apply_termination_judged(state: State, fact: TerminationJudged, _: object) -> None:
    state.reply_checks.termination_checked, state.reply_checks.is_terminated = True, fact.stop


_GUARDRAIL_RULES: dict[str, tuple[Callable[[State, GuardrailJudged], Any], Callable[[State, GuardrailJudged, Any], None]]] = {
    "input": (_check_judged_message, _apply_judged_message),
    "output": (_check_judged_reply, _apply_judged_reply),
    "tool": (_check_judged_call, _apply_judged_call),
}
"""The check and the state change of a `GuardrailJudged`, for each kind of subject."""


def _check_agent_prompted(state: State, fact: AgentPrompted) -> None:
    if (
        state.last_reply is None
        or state.last_reply.calls
        or state.unseen_messages
        or state.stop_reason
        or state.is_terminated
        or state.groups[-1] is not state.last_reply
    ):
        _refuse(state, fact, "an agent is prompted only if its reply had no calls and no message came after it")
    if fact.agent != state.active_agent:
        _refuse(state, fact, f"{fact.agent!r} is not the active agent")


def _apply_agent_prompted(state: State, fact: AgentPrompted, _: object) -> None:
    state.groups.append(Group("prompt", state.length, content=fact.text))
    state.run_counters.prompts += 1
    state.usage_totals.characters += len(fact.text)


def _check_compacted(state: State, fact: Compacted) -> None:
    before = state.summaries.get(fact.agent)
    if fact.upto >= state.length or (before and fact.upto <= before.upto):
        _refuse(state, fact, "a summary must cover more than the one before it, and only positions that exist")
    if _has_unchecked_message(state, fact.upto):
        _refuse(state, fact, "it would cover a message that has not been checked by guardrails")


def _apply_compacted(state: State, fact: Compacted, _: object) -> None:
    state.summaries[fact.agent] = fact
    state.usage_totals.add_request(fact.agent, fact.usage)


# -- 10. text is redacted ----------------------------------------------------------------------------------------------


def _check_redacted(state: State, fact: Redacted) -> None:
    redacted = (*fact.positions, *fact.derived)
    if not fact.positions or len(fact.digests) != len(fact.positions) or len(set(redacted)) != len(redacted):
        _refuse(state, fact, "it must name each fact once, with a digest for each of its positions")
    if not 0 <= min(redacted) <= max(redacted) < state.length:
        _refuse(state, fact, "it names positions that do not exist")


def _apply_redacted(state: State, fact: Redacted, _: object) -> None:
    redacted = state.redactions.facts
    redacted.update(dict.fromkeys((*fact.positions, *fact.derived), state.length))
    state.redactions.last_position = state.length
    state.summaries = {each.agent: each for at, each in enumerate(state.facts) if type(each) is Compacted and at not in redacted}
    state.last_request.context_digest = ""
    for call in state.batch:
        if call.output is None and not call.stop_reason and call.ref.position in fact.positions:
            call.stop_reason = "erased"
            state.open_calls.changed_calls.append(call)


def _check_nothing(state: State, fact: AnyFact) -> None:
    """Accept a fact that may follow at any time."""


RULES: dict[type, tuple[Callable[[State, Any], Any], Callable[[State, Any, Any], None]]] = {
    Opened: (_check_opened, _apply_opened),
    MessageReceived: (_check_message_received, _apply_message_received),
    ModelReplied: (_check_model_replied, _apply_model_replied),
    ConversationClaimed: (_check_conversation_claimed, _apply_conversation_claimed),
    ModelRequestFailed: (_check_model_request, _apply_model_request_failed),
    ApprovalChecked: (_check_approval_checked, _apply_approval_checked),
    Decided: (_check_decided, _apply_decided),
    CallStarted: (_check_call_started, _apply_call_started),
    CallReturned: (_check_call_returned, _apply_call_returned),
    CallLost: (_check_attempt_end, _apply_call_lost),
    CallPaused: (_check_attempt_end, _apply_call_paused),
    ChildUsageReported: (_check_child_usage_reported, _apply_child_usage_reported),
    HandedOff: (_check_handed_off, _apply_handed_off),
    GuardrailJudged: (_check_guardrail_judged, _apply_guardrail_judged),
    TerminationJudged: (_check_termination_judged, _apply_termination_judged),
    AgentPrompted: (_check_agent_prompted, _apply_agent_prompted),
    Compacted: (_check_compacted, _apply_compacted),
    Cancelled: (_check_nothing, _apply_cancelled),
    Redacted: (_check_redacted, _apply_redacted),
}
"""The check and the state change of each kind of fact. The subject that the check finds is passed to the change."""
