"""The state machine: which fact may follow which, and what a ledger means.

State is `fold(facts)` and is never stored. Resume, recovery, time travel and the normal step are the same thing: fold, then ask
`owed` (planner.py) what the world still owes the conversation. The rules:

 1. A ledger begins with `Opened`. A later `Opened` must have an origin: the ledger is a fork, a copy or the new place of another from
    there on. It renames all requests and begins epochs anew: an attempt that was open belongs to no driver here. In a fork and a
    copy it also voids whatever permits an effect: approvals of calls that have no output, standing approvals, allowances
    (branch_inheritance.py).
 2. `MessageReceived` is always legal. A message lands in the *tail*, and joins the groups when a reply that saw it (`upto`) is recorded;
    so one
    that came while a model was thinking, or a call was pending, follows that reply's whole batch. It overtakes whatever stands
    before it: a limit refused, a cancel, a termination, an objection, a failure, a frame. A *guarded* one waits outside until an
    agent's guardrails have let it pass (`GuardrailJudged`), and lands then; one that they withhold was never there. No request sees past
    a message that waits. What its client asks of the run (`options`) is in force from where it lands until the next message lands, or
    an answer (`Decided`) brings other options. The calls of a reply are of the tools that were offered in its request.
 3. `ModelReplied` is legal when something waits for a reply, every call of the previous reply has its output, `upto` covers that batch,
    and the agent is the one in control (or a message began a new run). Its calls form the *batch*. `ModelRequestFailed` is legal where a
    reply is, also after the conversation was stopped, and leaves no words. `ConversationClaimed` is legal where a reply is; what the
    conversation
    it names holds is unknown until that reply has come, and for good if it never does.
 4. A call goes: unanswered -> (GuardrailJudged, ApprovalChecked) -> (Decided) -> CallStarted -> CallReturned. `ApprovalChecked` once;
    `Decided` only while that very thing is
    pending, with the digest of the recorded arguments; `CallStarted` only when no attempt is open, numbered one above the last, and,
    if gated, approved for exactly those arguments; never, if the call is beyond a limit that its reply names.
 5. `Cancelled`, and a limit that a person refuses, stop the conversation until the user speaks, and the open calls for good: they are
    answered and never started. What a limit finds started comes to its end. A message that waits when a limit is refused is heard
    when it lands; one that waits when it is cancelled is not judged before the user speaks again.
 6. A call is answered once: by `CallReturned`, by `Decided` (reject, answer), by `GuardrailJudged` (a guardrail's no) or by `HandedOff`.
    A `CallReturned` for an attempt of an answered call, or for an attempt that another one followed, is `late`: kept for people, once.
 7. `CallLost` is legal for an open attempt. It makes the outcome unknown; a `CallReturned` that comes after all still answers the call,
    unless a person decided first. `CallPaused` is legal for an open attempt too, and ends it without an output: nothing else will be heard
    of that attempt, and the call waits until it is started again. `CallLost` is legal for a paused attempt as well: its child session is
    missing. `ChildUsageReported` is legal for a call that was started, whatever has become of it.
 8. `HandedOff` is legal when nothing of the batch but handoffs is unanswered, and the reply is within its limit of calls. It answers
    them all: its own call as taken, the others as not taken.
 9. `AgentPrompted` is legal when the last reply had no calls and nobody has spoken since. `GuardrailJudged` names what it judged and is
    legal once
    for it. `Compacted` moves forward only.
10. `Redacted` is always legal, and names facts that stand before it and have lost their words by then. Summaries among them are void:
    what they covered is seen again. Calls of a reply among them that are unanswered and do not run are not to run any more. A frame is
    due, and a reply to a request that was made before it is not heard: it may hold what was erased.

What is illegal raises `IllegalFact` naming the fact, the state and why; it changes nothing, and no store ever sees it. Whoever has an
outcome to record asks `classify` whether these rules accept it, accept it as late, or reject it.

Below: the parts of a state, the state, `classify`, and the rules in the order of their numbers. Each kind of fact has a function that
checks whether it may follow and finds what it is about, and one that changes the state; `RULES` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from legato.core import messages_to_model
from legato.core.counters import Spent, Tally, WorkTime
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
    Redacted,
    Refusal,
    RunOptions,
    Standing,
    Text,
    Usage,
    Words,
)
from legato.core.groups import Attempt, CallState, Group, OpenCalls, Output
from legato.core.handoff_arguments import Arrival
from legato.core.messages import text_of
from legato.core.pending_requests import VERDICTS
from legato.core.workflow_graph import refusals
from legato.errors import IllegalFact

NEW, UNKNOWN = -1, -2
"""What a provider's conversation ends with, where that is no reply."""


# -- the parts of a state ----------------------------------------------------------------------------------------------


class Stop(Struct, eq=False):
    """Where the conversation was last stopped, and why: "cancelled", "limit", or "" if it goes on. The user's next message overtakes it."""

    why: str = ""
    at: int = -1


class Judgements(Struct, eq=False):
    """What user code judged about the newest reply."""

    output: bool = False  # it was checked against its type and the output guardrails
    termination: bool = False  # the termination condition was asked
    ended: bool = False  # and said enough
    objection: str = ""  # why the reply was not accepted


class LastRequest(Struct, eq=False):
    """The newest request to a model: the frame it was made in, what it saw, and the attempt if that failed."""

    frame: str = ""
    upto: int = -1
    failed: ModelRequestFailed | None = None


class Erasures(Struct, eq=False):
    """The facts that lost their words, each with where that is recorded; and where it was last recorded."""

    facts: dict[int, int] = {}
    at: int = -1


class ProviderConversations(Struct, eq=False):
    """The conversations that providers keep: the reply that each ends with, or `UNKNOWN`."""

    ends: dict[str, int] = {}
    asked: str = ""  # the one that the newest request went to
    before: int = NEW  # what that one ended with before

    def ask(self, conversation: str) -> None:
        """A request goes there: what is in there is unknown until its reply has come."""
        self.asked, self.before = conversation, self.ends.get(conversation, NEW)
        self.ends[conversation] = UNKNOWN

    def end_at(self, conversation: str, reply: int) -> None:
        """A reply has come."""
        if conversation in self.ends:
            self.ends[conversation] = reply
        self.asked = ""

    def fail(self, unchanged: bool) -> None:
        """No reply has come. `unchanged`: the provider has kept nothing of the request."""
        if unchanged and self.asked:
            self.ends[self.asked] = self.before
        self.asked = ""

    def forget(self) -> None:
        """Somebody else goes on adding to them."""
        self.ends = dict.fromkeys(self.ends, UNKNOWN)


class State(Struct, eq=False):
    """What a ledger means. Made by `fold`; advanced one fact at a time by `apply`, at a cost that depends on the fact alone.

    What a later message overtakes (a stop, a failure, a frame) is not erased by the message: it is read through properties that
    compare positions.
    """

    session: str = ""
    facts: list[AnyFact] = []
    length: int = 0  # how many facts there are: the position that the next one will have
    workflow: str = ""
    names: list[tuple[int, str]] = []  # from which position on the ledger had which unique name
    keys: dict[str, int] = {}  # a delivery's key -> the position it was recorded at
    # the conversation
    groups: list[Group] = []
    tail: list[Group] = []
    waiting: list[Group] = []  # messages that no guardrail has let pass yet: they are part of nothing
    rejections: int = 0  # replies that were not accepted, which only their agent sees
    withheld: int = 0  # messages that an input guardrail keeps from every view
    pictured: bool = False  # whether anything that was said or returned is more than text
    summaries: dict[str, Compacted] = {}
    erasures: Erasures = field(default_factory=Erasures)
    # control, and the newest reply
    active: str = ""
    arrived: Arrival | None = None  # how control came to the active agent
    reply: Group | None = None
    open: OpenCalls = field(default_factory=OpenCalls)  # its unanswered calls
    judgements: Judgements = field(default_factory=Judgements)
    stop: Stop = field(default_factory=Stop)
    # requests
    options: list[tuple[int, RunOptions]] = []  # from which position on a client asks what of the run
    request: LastRequest = field(default_factory=LastRequest)
    frames: set[str] = set()  # the frames that replies and attempts name: they were recorded with them
    provider: ProviderConversations = field(default_factory=ProviderConversations)
    # what is counted, since the user last spoke and over all
    tally: Tally = field(default_factory=Tally)
    spent: Spent = field(default_factory=Spent)
    work: WorkTime = field(default_factory=WorkTime)
    replies: int = 0
    replies_of: dict[str, int] = {}
    losses: list[str] = []
    late: list[CallReturned] = []
    # what may be done
    epoch: int = 0
    standing: set[Standing] = set()

    def __repr__(self) -> str:
        return f"<state of {self.session!r} after {len(self.facts)} facts>"

    # -- growing -------------------------------------------------------------------------------------------------------

    def apply(self, fact: AnyFact) -> None:
        """Advance by one fact, or raise `IllegalFact` and change nothing."""
        check, change = RULES[type(fact)]
        if not self.facts and type(fact) is not Opened:
            _refuse(self, fact, "a ledger begins with Opened")
        change(self, fact, check(self, fact))
        self.facts.append(fact)
        self.length += 1

    # -- the ledger ----------------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> str:
        """The unique name of this ledger."""
        return self.names[-1][1] if self.names else ""

    def name_at(self, position: int) -> str:
        """The unique name the ledger had when this position was recorded; forks share it for what they share."""
        for start, name in reversed(self.names):
            if position >= start:
                return name
        return self.ledger

    def idempotency_key(self, call: CallRef) -> str:
        """Return the name of a recorded call. It is the same for every attempt, and in every fork."""
        return f"{self.name_at(call.position)}:{call}"

    # -- messages ------------------------------------------------------------------------------------------------------

    @property
    def unseen(self) -> list[Group]:
        """Messages that no reply has seen and no guardrail withholds."""
        return [group for group in self.tail if not group.blocked] if self.withheld else self.tail

    @property
    def spoken_at(self) -> int:
        """Where the newest message stands that no reply has seen and no guardrail withholds; -1 if there is none."""
        unseen = self.unseen
        return unseen[-1].position if unseen else -1

    @property
    def fresh(self) -> bool:
        """Whether a message began a new run and no reply has followed yet."""
        return bool(unseen := self.unseen) and any(group.began for group in unseen)

    @property
    def awaits_reply(self) -> bool:
        """Whether anything stands in the conversation that a model has not replied to."""
        if (unseen := self.unseen) or self.reply is None:
            return bool(unseen)
        last = self.groups[-1]
        return bool(self.reply.calls) or last.kind == "prompt" or (last.kind == "feedback" and bool(self.judgements.objection))

    # -- what a message overtakes --------------------------------------------------------------------------------------

    @property
    def halt(self) -> str:
        """ "cancelled" or "limit" while the conversation is stopped: until the user speaks."""
        return self.stop.why if self.stop.why and self.stop.at > self.spoken_at else ""

    @property
    def overtaken_at(self) -> int:
        """Where the conversation was last stopped, or words of it erased: a model that was asked before that is not heard any more."""
        return max(self.stop.at, self.erasures.at)

    @property
    def ended(self) -> bool:
        """Whether the termination condition said enough, and nobody has spoken since."""
        return self.judgements.ended and not self.unseen

    @property
    def feedback(self) -> str:
        """The objection to the newest reply, while it stands."""
        return "" if self.unseen else self.judgements.objection

    @property
    def failed(self) -> ModelRequestFailed | None:
        """The last call of a model, if it left no words and saw all that there is to see. It says when the next is made, if one is."""
        failed = self.request.failed
        return failed if failed is not None and failed.upto >= self.spoken_at else None

    @property
    def next_attempt(self) -> int:
        """The number of the next attempt at a model request, from 1."""
        failed = self.failed
        return failed.number + (not failed.limit) if failed is not None and not failed.final else 1

    @property
    def frame(self) -> str:
        """The frame in force since control or a message last arrived, or a client last changed its options; empty: a new one is due."""
        changed_at = self.options[-1][0] if self.options else -1
        return self.request.frame if self.request.upto >= max(self.spoken_at, changed_at) else ""

    # -- the options of a run ------------------------------------------------------------------------------------------

    @property
    def run_options(self) -> RunOptions:
        """The client's options that are in force now."""
        return self.options[-1][1] if self.options else NO_OPTIONS

    def options_at(self, position: int) -> RunOptions:
        """Return the client's options that were in force at this position."""
        return next((options for at, options in reversed(self.options) if at <= position), NO_OPTIONS)

    def options_of(self, reply: int) -> RunOptions:
        """Return the client's options that the reply at this position was requested with."""
        fact = self.facts[reply]
        return self.options_at(fact.upto) if self.options and isinstance(fact, ModelReplied) else NO_OPTIONS

    # -- calls ---------------------------------------------------------------------------------------------------------

    @property
    def batch(self) -> list[CallState]:
        """The calls of the newest reply, while any is unanswered."""
        return self.reply.calls if self.reply is not None and self.reply.unanswered else []

    @property
    def started(self) -> list[CallState]:
        """The unanswered calls whose tool was started: it runs, or its child session waits, or its outcome is unknown."""
        return [*self.open.begun] if self.reply is not None and self.reply.unanswered else []

    def call(self, ref: CallRef) -> CallState | None:
        """What is recorded about a call, of any reply."""
        for group in reversed(self.groups):
            if group.position == ref.position:
                return group.call(ref.index)
            if group.position < ref.position and group.kind == "reply":
                return None
        return None

    def is_unanswered(self, call: CallRef, ledger: str) -> bool:
        """Whether a call has no output yet. `ledger` is the unique name that the ledger had when the call was recorded."""
        found = self.call(call) if call.position < self.length and self.name_at(call.position) == ledger else None
        return found is not None and found.output is None


def fold(facts: Iterable[AnyFact], session: str = "") -> State:
    """The state that these facts lead to."""
    state = State(session=session)
    for fact in facts:
        state.apply(fact)
    return state


# -- what may be recorded ----------------------------------------------------------------------------------------------

Verdict: TypeAlias = Literal["accepted", "late", "rejected"]


def classify(fact: AnyFact, state: State, known: int | None = None) -> Verdict:
    """Whether this fact may follow: as it is ("accepted"), as `recordable` has it ("late"), or not at all ("rejected").

    `known`: how many facts there were when the making of an outcome began. What was judged or written by user code is rejected if words
    were erased since, because it may hold them, and what goes with it: a verdict on a call, and whether the call needs approval. So is the
    answer to a call about which something was decided since. A report of usage that adds nothing is rejected too.
    """
    if (known is not None and _is_outdated(fact, state, known)) or _adds_nothing(fact, state):
        return "rejected"
    late = _late_form(fact, state)
    try:
        RULES[type(late or fact)][0](state, late or fact)
    except IllegalFact:
        return "rejected"
    return "late" if late is not None else "accepted"


def recordable(fact: AnyFact, state: State, known: int | None = None, attempt: int = 1) -> AnyFact | None:
    """An outcome in the form in which it may be recorded now; None if it may not be.

    `attempt` is the number of the model request that a reply came from.
    """
    match classify(fact, state, known):
        case "accepted":
            return fact
        case "late":
            return _late_form(fact, state, attempt)
        case "rejected":
            return None


def _is_outdated(fact: AnyFact, state: State, known: int) -> bool:
    if isinstance(fact, (GuardrailJudged, ApprovalChecked, Compacted)) and state.erasures.at >= known:
        return True
    if isinstance(fact, CallReturned) and not fact.attempt:
        call = state.call(fact.call)
        return call is not None and (bool(call.stopped) or any(position >= known for position in call.decisions[-1:]))
    return False


def _adds_nothing(fact: AnyFact, state: State) -> bool:
    """Whether a report says what the last one said: reports are totals."""
    if not isinstance(fact, ChildUsageReported) or (call := state.call(fact.call)) is None:
        return False
    return (fact.agents, fact.turns) == ((call.reported.agents, call.reported.turns) if call.reported else ((), 0))


def _late_form(fact: AnyFact, state: State, attempt: int = 1) -> AnyFact | None:
    """What is recorded of an outcome that comes too late to be part of the conversation; None if it comes in time.

    The output of a call that has another by now is kept for people. A reply that nobody wants any more is not heard, but its cost is
    recorded. An attempt whose request was made before words were erased does not name its frame, which may quote them.
    """
    match fact:
        case CallReturned(late=False) if (call := state.call(fact.call)) is not None and _is_overtaken(call, fact):
            return replace(fact, late=True)
        case ModelReplied() if state.halt or fact.upto < state.overtaken_at:
            erased = fact.upto < state.erasures.at
            return ModelRequestFailed(
                at=fact.at,
                agent=fact.agent,
                frame="" if erased else fact.frame,
                upto=fact.upto,
                error="something it was shown was erased" if erased else "cancelled",
                code="erased" if erased else "cancelled",
                number=attempt,
                usage=fact.usage,
                took=fact.took,
            )
        case ModelRequestFailed() if fact.frame and fact.upto < state.erasures.at:
            return replace(fact, frame="", error="it failed, and something it was shown was erased")
    return None


def _refuse(state: State, fact: AnyFact, why: str) -> NoReturn:
    batch = ", ".join(f"{call.ref} {call.call.tool}" for call in state.batch if call.output is None)
    raise IllegalFact(
        f"{type(fact).__name__} cannot follow here: {why}",
        found=f"position {state.length}, control with {state.active or 'nobody yet'}, unanswered calls: {batch or 'none'}",
        do="nothing was recorded; refresh the session and look at what is pending",
    )


# -- 1. a ledger begins ------------------------------------------------------------------------------------------------


def _check_opened(state: State, fact: Opened) -> None:
    if state.facts and fact.origin is None:
        _refuse(state, fact, "the ledger is open already, and this names no origin")


def _apply_opened(state: State, fact: Opened, _: object) -> None:
    state.workflow = fact.workflow
    state.names.append((state.length, fact.ledger))
    state.epoch = 0
    for call in state.batch:
        if call.running:
            call.running.epoch = 0
    if fact.origin is not None and fact.origin.kind != "move":
        _void_permissions(state)


def _void_permissions(state: State) -> None:
    """Take back whatever permits an effect: this ledger runs beside the one that it was given in. See branch_inheritance.py."""
    state.standing.clear()
    state.tally.allowances.clear()
    state.keys = {key: at for key, at in state.keys.items() if type(state.facts[at]) is not Decided}
    state.provider.forget()
    for call in state.batch:
        if call.output is None:
            call.approved = call.redo = False
            if not call.attempts:  # what has started ran with the arguments as they were edited
                call.arguments, call.edited = call.call.arguments, False
            state.open.changed.append(call)


# -- 2. users speak ----------------------------------------------------------------------------------------------------


def _check_said(state: State, fact: MessageReceived) -> None:
    _check_key(state, fact, fact.key)
    _check_options(state, fact, fact.options)


def _apply_said(state: State, fact: MessageReceived, _: object) -> None:
    group = Group("said", state.length, author=fact.author, content=fact.content, options=fact.options or NO_OPTIONS)
    _record_key(state, fact.key)
    if fact.guarded:
        state.waiting.append(group)
    else:
        _add_message(state, group)


def _add_message(state: State, group: Group) -> None:
    """A message takes its place in the conversation, and begins a run."""
    group.began = not state.awaits_reply or bool(state.halt) or state.ended
    if state.stop.why == "limit":
        state.stop.why = ""  # it may have been said before the limit was refused, and waited: the user has spoken all the same
    in_order = not state.tail or state.tail[-1].position < group.position
    state.tail.append(group)
    if not in_order:  # it waited for its guardrail, and others were said meanwhile
        state.tail.sort(key=_position)
    state.tally = state.tally.following()
    _set_options(state, group.options)
    _count_content(state, group.content)


def _check_key(state: State, fact: AnyFact, key: str) -> None:
    if key and key in state.keys:
        _refuse(state, fact, f"the delivery {key!r} was recorded at position {state.keys[key]}")


def _record_key(state: State, key: str) -> None:
    if key:
        state.keys[key] = state.length


def _check_options(state: State, fact: AnyFact, options: RunOptions | None) -> None:
    if options is None:
        return
    names = [tool.name for tool in options.tools]
    if not all(names) or len(set(names)) < len(names):
        _refuse(state, fact, "each tool of a client has a name of its own")
    if bool(options.digest) != bool(names or options.typed) or (options.required and not names):
        _refuse(state, fact, "a client's options name the definitions of what they ask for, and of nothing else")


def _set_options(state: State, options: RunOptions) -> None:
    """From here on a client asks this of the run."""
    if options != state.run_options:
        state.options.append((state.length, options))


def _count_content(state: State, content: Content) -> None:
    """Something was said or returned."""
    if type(content) is str:
        state.spent.letters += len(content)
    else:
        state.pictured = True
        state.spent.letters += len(text_of(content))


def _position(group: Group) -> int:
    return group.position


# -- 3. models reply ---------------------------------------------------------------------------------------------------


def _check_request(state: State, fact: ModelReplied | ConversationClaimed | ModelRequestFailed) -> None:
    """A model may be asked now, and its request saw what there was to see, as far as that is known."""
    if state.reply and state.reply.unanswered:
        _refuse(state, fact, "the last reply has calls without outputs")
    if not state.awaits_reply:
        _refuse(state, fact, "nothing waits for a reply")
    if fact.agent != state.active and state.active and not state.fresh:
        _refuse(state, fact, f"{fact.agent!r} is not in control")
    known = fact.upto >= 0 or not isinstance(fact, ModelRequestFailed)
    if known and not _lowest_upto(state) <= fact.upto < state.length:
        _refuse(state, fact, f"its request saw up to {fact.upto}, which is not what there was to see")


def _check_wanted(state: State, fact: ModelReplied | ConversationClaimed) -> None:
    """Nobody has stopped what the request is for, no words that it saw were erased, and no message that it saw waits for a guardrail."""
    if state.stop.why and state.halt:
        _refuse(state, fact, f"the conversation is stopped ({state.halt})")
    if fact.upto < state.overtaken_at:
        what = "the conversation was stopped" if state.stop.at > state.erasures.at else "words were erased"
        _refuse(state, fact, f"{what} at {state.overtaken_at}, after its request was made")
    if state.waiting and _waits_before(state, fact.upto):
        _refuse(state, fact, f"its request saw up to {fact.upto}, where a message waits to be judged")


def _lowest_upto(state: State) -> int:
    """The lowest `upto` a request may have had: it must have seen the whole last batch and what followed it."""
    if state.reply is None:
        return state.unseen[0].position if state.unseen else 0
    floor = state.groups[-1].position  # the reply, or what followed it
    for call in state.reply.calls:
        if call.output and call.output.position > floor:
            floor = call.output.position
    return floor


def _waits_before(state: State, upto: int) -> bool:
    """Whether a message that stands no later than this waits for a guardrail."""
    return any(group.position <= upto for group in state.waiting)


def _check_answered(state: State, fact: ModelReplied) -> None:
    _check_request(state, fact)
    _check_wanted(state, fact)


def _apply_answered(state: State, fact: ModelReplied, _: object) -> None:
    tail = state.tail
    while tail and tail[0].position <= fact.upto:
        state.groups.append(tail.pop(0))
    if fact.agent != state.active:
        state.arrived, state.tally.prompts = None, 0
    reply = _reply_group(state, fact)
    state.groups.append(reply)
    state.reply, state.open = reply, OpenCalls(list(reply.calls))
    state.active, state.judgements, state.stop.why = fact.agent, Judgements(), ""
    state.frames.add(fact.frame)
    state.request = LastRequest(fact.frame, fact.upto)
    state.provider.end_at(fact.base, reply.position)
    _count_reply(state, fact, reply)


def _reply_group(state: State, fact: ModelReplied) -> Group:
    position = state.length
    group = Group("reply", position, fact.agent, fact=fact, unjudged=fact.guarded)
    if state.options:
        group.options = state.options_at(fact.upto)
    for index, item in enumerate(fact.items):
        if type(item) is Call:
            group.calls.append(CallState(CallRef(position, index), item, item.arguments))
    group.unanswered = len(group.calls)
    if fact.calls_allowed >= 0 or fact.argument_bytes_allowed >= 0:
        for call, words in zip(group.calls, refusals(fact, [call.call for call in group.calls]), strict=True):
            call.refused = words
    return group


def _count_reply(state: State, fact: ModelReplied, reply: Group) -> None:
    tally, spent = state.tally, state.spent
    for item in fact.items:
        if type(item) is Words or type(item) is Refusal:
            spent.letters += len(item.text)
    state.replies += 1
    state.replies_of[fact.agent] = state.replies_of.get(fact.agent, 0) + 1
    tally.turns += 1
    tally.tool_rounds = tally.tool_rounds + 1 if reply.calls else 0
    spent.turns += 1
    spent.spend(fact.agent, fact.usage)
    _count_work(state, fact.at, fact.took)
    if fact.losses:
        state.losses.extend(fact.losses)


def _count_work(state: State, at: int, took: int) -> None:
    """Time that was worked."""
    state.tally.active_ms += state.work.add(at - took, at)


def _check_asked(state: State, fact: ConversationClaimed) -> None:
    _check_request(state, fact)
    _check_wanted(state, fact)
    if state.provider.ends.get(fact.conversation) == UNKNOWN:
        _refuse(state, fact, f"nobody knows what the provider holds in {fact.conversation!r}")


def _apply_asked(state: State, fact: ConversationClaimed, _: object) -> None:
    state.provider.ask(fact.conversation)


def _apply_attempted(state: State, fact: ModelRequestFailed, _: object) -> None:
    state.provider.fail(fact.conversation_unchanged)
    state.frames.add(fact.frame)
    # After the last attempt somebody has to change something, and that may be the agent: the next one sees it anew.
    state.request = LastRequest("" if fact.final else fact.frame, fact.upto, fact)
    state.spent.spend(fact.agent, fact.usage)
    worked = state.tally.active_ms
    _count_work(state, fact.at, fact.took)
    if fact.limit:  # it took what was left of the limit, to the millisecond: the wall clock may say less
        state.tally.active_ms = max(state.tally.active_ms, worked + fact.took)


# -- 4 to 7. what becomes of a call ------------------------------------------------------------------------------------


def _open_call(state: State, fact: AnyFact, ref: CallRef | None) -> CallState:
    reply = state.reply
    call = reply.call(ref.index) if ref and reply and reply.unanswered and reply.position == ref.position else None
    if call is None:
        _refuse(state, fact, f"there is no call {ref} in the open batch")
    if call.output is not None:
        _refuse(state, fact, f"call {ref} has its output already ({call.output.status})")
    return call


def _give_output(state: State, call: CallState, output: Output) -> None:
    assert state.reply is not None
    call.output = output
    state.open.changed.append(call)
    state.reply.unanswered -= 1
    _count_content(state, output.content)


def with_arguments(call: CallState, output: Content) -> Content:
    """The output of a call that ran, with the arguments that ran where a person changed them."""
    if not call.edited:
        return output
    if isinstance(output, str):
        return messages_to_model.edited(call.arguments, output)
    return (Text(messages_to_model.edited(call.arguments, "")), *output)


def _check_gated(state: State, fact: ApprovalChecked) -> CallState:
    call = _open_call(state, fact, fact.call)
    if call.gate is not None or call.attempts:
        _refuse(state, fact, f"whether call {fact.call} needs approval was decided before")
    if call.stopped:
        _refuse(state, fact, f"call {fact.call} was stopped ({call.stopped})")
    if fact.digest != digest_arguments(call.arguments):
        _refuse(state, fact, "the digest is not that of the recorded arguments")
    return call


def _apply_gated(state: State, fact: ApprovalChecked, call: CallState) -> None:
    call.gate = fact.needed
    call.decisions += (state.length,)
    state.open.changed.append(call)


def _check_decided_call(state: State, fact: Decided) -> CallState:
    call = _open_call(state, fact, fact.call)
    if fact.digest != digest_arguments(call.arguments):
        _refuse(state, fact, f"it was given for other arguments of call {call.ref}")
    asked = _kind_of_request(call)
    if fact.kind != asked or fact.verdict not in VERDICTS[asked]:
        _refuse(state, fact, f"call {call.ref} waits for {asked or 'nobody'}, not for {fact.verdict} of its {fact.kind}")
    if fact.verdict == "edit" and fact.standing:
        _refuse(state, fact, "an edited call stands for itself alone")
    return call


def _kind_of_request(call: CallState) -> str:
    """What a call waits for, as far as the ledger alone can tell."""
    if call.phase == "lost":
        return "outcome"
    if call.lacks_approval:
        return "approval"
    return "" if call.attempts else "result"


def _apply_decided_call(state: State, fact: Decided, call: CallState) -> None:
    call.decisions += (state.length,)
    if fact.verdict == "answer":
        ran = fact.output if fact.kind != "outcome" else with_arguments(call, fact.output)
        _give_output(state, call, Output(ran, "ok", state.length))
        return
    if fact.verdict == "reject":
        words = {
            "approval": messages_to_model.rejected,
            "outcome": messages_to_model.failed_by_person,
            "result": messages_to_model.no_result,
        }[fact.kind]
        _give_output(state, call, Output(words(fact.words), "rejected", state.length))
        return
    call.approved = True
    if fact.kind == "outcome":
        call.redo = True  # consent to these arguments, also where an earlier one was void
    if fact.verdict == "edit":
        call.arguments, call.edited = fact.arguments, True
    if fact.standing and fact.kind == "approval":
        state.standing.add(fact.standing)
    state.open.changed.append(call)


def _check_started(state: State, fact: CallStarted) -> CallState:
    call = _open_call(state, fact, fact.call)
    if call.stopped:
        _refuse(state, fact, f"call {fact.call} was stopped ({call.stopped})")
    if call.refused:
        _refuse(state, fact, f"call {fact.call} is beyond a limit ({call.refused})")
    if running := call.running:
        _refuse(state, fact, f"attempt {running.number} of call {fact.call} is running")
    if fact.attempt != call.next_attempt:
        _refuse(state, fact, f"the next attempt of call {fact.call} is number {call.next_attempt}")
    if fact.epoch < state.epoch:
        _refuse(state, fact, f"its driver's epoch {fact.epoch} is over; the ledger is in epoch {state.epoch}")
    if call.lacks_approval or (call.gate and fact.digest != digest_arguments(call.arguments)):
        _refuse(state, fact, f"call {fact.call} is not approved for these arguments")
    return call


def _apply_started(state: State, fact: CallStarted, call: CallState) -> None:
    state.tally.tool_calls += call.paused is None  # one that waited goes on, and is no other call
    call.attempts += (Attempt(fact.attempt, fact.epoch),)
    call.redo = False
    state.open.changed.append(call)
    state.epoch = fact.epoch


def _is_overtaken(call: CallState, fact: CallReturned) -> bool:
    """Whether the call has its output already, or another attempt has followed or is to follow."""
    return call.output is not None or (fact.attempt > 0 and (fact.attempt < len(call.attempts) or call.redo))


def _check_returned(state: State, fact: CallReturned) -> CallState:
    call = state.call(fact.call)
    if call is None:
        _refuse(state, fact, f"there is no call {fact.call}")
    overtaken = _is_overtaken(call, fact)
    if fact.attempt:
        if not 1 <= fact.attempt <= len(call.attempts):
            _refuse(state, fact, f"call {fact.call} has no attempt {fact.attempt}")
        if call.attempts[fact.attempt - 1].known:
            _refuse(state, fact, f"how attempt {fact.attempt} of call {fact.call} ended is recorded already")
    elif call.running or fact.status == "ok":
        _refuse(state, fact, "an output without an attempt is for a call that does not run, and not of status ok")
    elif overtaken:
        _refuse(state, fact, f"call {fact.call} has its output already")
    if fact.late != overtaken:
        _refuse(state, fact, "it is late" if overtaken else "it is in time")
    if fact.late and fact.status not in ("ok", "error"):
        _refuse(state, fact, "what is late tells how the attempt really ended")
    return call


def _apply_returned(state: State, fact: CallReturned, call: CallState) -> None:
    _count_work(state, fact.at, fact.took)
    if fact.attempt:
        # A time-out or a cancel answers the call without telling how the attempt really ended.
        call.attempts[fact.attempt - 1].known = fact.late or fact.status in ("ok", "error")
    if fact.late:
        state.late.append(fact)
        return
    content = with_arguments(call, fact.output) if fact.attempt else fact.output
    _give_output(state, call, Output(content, fact.status, state.length))


def _check_attempt(state: State, fact: CallLost | CallPaused) -> CallState:
    call = _open_call(state, fact, fact.call)
    attempt = _attempt_of(call, fact)
    if attempt is None or attempt.number != fact.attempt:
        _refuse(state, fact, f"attempt {fact.attempt} of call {fact.call} is not open")
    return call


def _attempt_of(call: CallState, fact: CallLost | CallPaused) -> Attempt | None:
    """The attempt that ends so: the one that is open, or the one whose child session turns out to be missing."""
    waits = call.paused is not None and isinstance(fact, CallLost) and fact.missing
    return call.attempts[-1] if waits else call.running


def _apply_lost(state: State, fact: CallLost, call: CallState) -> None:
    attempt = call.attempts[-1]
    attempt.lost, attempt.missing, attempt.paused, attempt.known = True, fact.missing, None, False
    call.decisions += (state.length,)
    if fact.missing:
        call.reported = None  # the next child session counts from nothing
    state.open.changed.append(call)


def _apply_paused(state: State, fact: CallPaused, call: CallState) -> None:
    attempt = call.attempts[-1]
    attempt.paused, attempt.known = fact, True
    _count_work(state, fact.at, fact.took)
    if state.halt == "limit" and fact.needed != NO_USAGE:
        call.stopped = "limit"  # a limit was refused meanwhile, and is not asked about again
    state.open.changed.append(call)


def _check_usage_reported(state: State, fact: ChildUsageReported) -> CallState:
    call = state.call(fact.call)
    if call is None or not call.attempts:
        _refuse(state, fact, f"call {fact.call} has no child session")
    return call


def _apply_usage_reported(state: State, fact: ChildUsageReported, call: CallState) -> None:
    before = dict(call.reported.agents) if call.reported else {}
    for agent, usage in fact.agents:
        state.spent.spend_in_child(agent, usage.increase_over(before.get(agent, NO_USAGE)))
    turns = max(0, fact.turns - (call.reported.turns if call.reported else 0))
    state.spent.turns = min(state.spent.turns + turns, MAX_COUNT)
    state.tally.turns += turns
    call.reported = fact


# -- what people decide ------------------------------------------------------------------------------------------------


def _check_decided(state: State, fact: Decided) -> CallState | None:
    _check_key(state, fact, fact.key)
    _check_options(state, fact, fact.options)
    if fact.kind not in ("limit", "standing"):
        return _check_decided_call(state, fact)
    if fact.kind == "standing":
        if fact.standing not in state.standing:
            _refuse(state, fact, "there is no such standing approval")
    elif not fact.limit or state.halt or state.ended:
        _refuse(state, fact, "no limit is waiting for an answer")
    elif fact.verdict not in VERDICTS["limit"]:
        _refuse(state, fact, "a limit is approved or rejected")
    return None


def _apply_decided(state: State, fact: Decided, call: CallState | None) -> None:
    if call is not None:
        _apply_decided_call(state, fact, call)
    elif fact.kind == "standing":
        state.standing.discard(fact.standing)
    elif fact.verdict == "approve":
        state.tally.allowances[fact.limit] = state.tally.allowances.get(fact.limit, 0) + 1
    else:
        _stop(state, "limit")
    if fact.options is not None:
        _set_options(state, fact.options)
    _record_key(state, fact.key)


def _apply_cancelled(state: State, fact: Cancelled, _: object) -> None:
    _stop(state, "cancelled")
    state.request.failed = None


def _stop(state: State, why: str) -> None:
    """Stop until the user speaks, and the calls of the open batch for good. What a limit finds started comes to its end."""
    state.stop, state.judgements.objection = Stop(why, state.length), ""
    for call in state.batch:
        over_budget = call.paused is not None and call.paused.needed != NO_USAGE  # the refused limit is what it waits for
        if call.output is None and not (why == "limit" and call.attempts and not over_budget):
            call.stopped = why
            state.open.changed.append(call)


# -- 8. control passes -------------------------------------------------------------------------------------------------


def _check_handed_off(state: State, fact: HandedOff) -> CallState:
    taken = _open_call(state, fact, fact.call)
    if fact.source != state.active:
        _refuse(state, fact, f"{fact.source!r} is not in control")
    if state.halt:
        _refuse(state, fact, f"the conversation is stopped ({state.halt})")
    assert state.reply is not None and state.reply.fact is not None
    if taken.phase not in ("unchecked", "ready") or taken.attempts or state.reply.fact.calls_allowed >= 0:
        _refuse(state, fact, f"call {fact.call} is not a handoff that may be taken")
    # What else of the batch is unanswered must be handoffs too, decided but overtaken; the plan sees to that, and a call that
    # was started or waits for somebody is none.
    for call in state.batch:
        if call.output is None and call is not taken and (call.attempts or call.lacks_approval):
            _refuse(state, fact, f"call {call.ref} of the same reply has no output yet")
    return taken


def _apply_handed_off(state: State, fact: HandedOff, taken: CallState) -> None:
    assert state.reply is not None
    state.reply.handed_to = fact.target
    for call in state.batch:
        if call.output is None:
            if call is taken:
                output = Output(with_arguments(call, messages_to_model.handed_off(fact.target)), "ok", state.length)
            else:
                output = Output(messages_to_model.not_taken(fact.target), "not_taken", state.length)
            _give_output(state, call, output)
    state.arrived = Arrival(fact.source, fact.target, taken.arguments)
    state.active, state.request.frame, state.tally.prompts = fact.target, "", 0
    state.tally.handoffs += 1
    state.tally.tool_rounds = 0
    state.tally.count_edge(fact.source, fact.target)
    state.spent.by_handoff.append((fact.source, fact.target, Usage()))


# -- 9. user code judges, agents are prompted --------------------------------------------------------------------------


def _check_judged(state: State, fact: GuardrailJudged) -> Any:
    return _JUDGED[fact.kind][0](state, fact)


def _apply_judged(state: State, fact: GuardrailJudged, found: Any) -> None:
    _JUDGED[fact.kind][1](state, fact, found)


def _check_judged_tool(state: State, fact: GuardrailJudged) -> CallState:
    call = _open_call(state, fact, CallRef(fact.position, fact.index))
    if call.guarded or call.attempts:
        _refuse(state, fact, "this call was judged before")
    if call.stopped:
        _refuse(state, fact, f"call {call.ref} was stopped ({call.stopped})")
    return call


def _apply_judged_tool(state: State, fact: GuardrailJudged, call: CallState) -> None:
    call.guarded = True
    if fact.stop:
        _give_output(state, call, Output(messages_to_model.guarded(fact.words), "blocked", state.length))


def _check_judged_input(state: State, fact: GuardrailJudged) -> Group:
    group = next((group for group in (*state.waiting, *state.unseen) if group.position == fact.position), None)
    if group is None or group.judged == fact.agent:
        _refuse(state, fact, "no message waits to be judged there")
    return group


def _apply_judged_input(state: State, fact: GuardrailJudged, group: Group) -> None:
    waited = group in state.waiting
    group.judged, group.blocked = fact.agent, fact.stop
    state.withheld += fact.stop
    if waited:
        state.waiting.remove(group)
    if waited and not fact.stop:
        _add_message(state, group)
    elif waited:
        state.tail.append(group)  # for people, who see what was said and why it was withheld
        state.tail.sort(key=_position)


def _check_newest_reply(state: State, fact: GuardrailJudged, judged: bool) -> Group:
    if state.reply is None or state.reply.position != fact.position or not state.reply.complete:
        _refuse(state, fact, "that is not the newest reply, or it has calls without outputs")
    if judged:
        _refuse(state, fact, "this reply was judged before")
    return state.reply


def _check_judged_output(state: State, fact: GuardrailJudged) -> Group:
    return _check_newest_reply(state, fact, state.judgements.output)


def _apply_judged_output(state: State, fact: GuardrailJudged, reply: Group) -> None:
    state.judgements.output, reply.unjudged = True, False
    if not fact.stop:
        return
    state.judgements.ended = False  # what the run would have ended with is not to be shown
    state.judgements.objection = fact.words
    state.tally.output_retries += 1
    reply.rejected = True
    state.rejections += 1
    state.groups.append(Group("feedback", state.length, reply.agent, content=messages_to_model.feedback(fact.words)))


def _check_judged_termination(state: State, fact: GuardrailJudged) -> Group:
    return _check_newest_reply(state, fact, state.judgements.termination)


def _apply_judged_termination(state: State, fact: GuardrailJudged, _: Group) -> None:
    state.judgements.termination, state.judgements.ended = True, fact.stop


_JUDGED: dict[str, tuple[Callable[[State, GuardrailJudged], Any], Callable[[State, GuardrailJudged, Any], None]]] = {
    "input": (_check_judged_input, _apply_judged_input),
    "output": (_check_judged_output, _apply_judged_output),
    "tool": (_check_judged_tool, _apply_judged_tool),
    "termination": (_check_judged_termination, _apply_judged_termination),
}
"""For each thing that user code judges, when it may and what follows."""


def _check_prompted(state: State, fact: AgentPrompted) -> None:
    if state.reply is None or state.reply.calls or state.unseen or state.halt or state.ended or state.groups[-1] is not state.reply:
        _refuse(state, fact, "only an agent whose reply made no calls, and whom nobody has answered, is prompted")
    if fact.agent != state.active:
        _refuse(state, fact, f"{fact.agent!r} is not in control")


def _apply_prompted(state: State, fact: AgentPrompted, _: object) -> None:
    state.groups.append(Group("prompt", state.length, content=fact.text))
    state.tally.prompts += 1
    state.spent.letters += len(fact.text)


def _check_compacted(state: State, fact: Compacted) -> None:
    before = state.summaries.get(fact.agent)
    if fact.upto >= state.length or (before and fact.upto <= before.upto):
        _refuse(state, fact, "a summary covers more than the one before it, and nothing that has not happened")
    if _waits_before(state, fact.upto):
        _refuse(state, fact, "a message that it would cover waits to be judged")


def _apply_compacted(state: State, fact: Compacted, _: object) -> None:
    state.summaries[fact.agent] = fact
    state.spent.spend(fact.agent, fact.usage)


# -- 10. words are erased ----------------------------------------------------------------------------------------------


def _check_redacted(state: State, fact: Redacted) -> None:
    named = (*fact.positions, *fact.along)
    if not fact.positions or len(fact.digests) != len(fact.positions) or len(set(named)) != len(named):
        _refuse(state, fact, "it names each fact once, and for each that was asked for a digest")
    if not 0 <= min(named) <= max(named) < state.length:
        _refuse(state, fact, "it names facts that are not there")


def _apply_redacted(state: State, fact: Redacted, _: object) -> None:
    erased = state.erasures.facts
    erased.update(dict.fromkeys((*fact.positions, *fact.along), state.length))
    state.erasures.at = state.length
    state.summaries = {each.agent: each for at, each in enumerate(state.facts) if type(each) is Compacted and at not in erased}
    state.request.frame = ""
    for call in state.batch:
        if call.output is None and not call.stopped and call.ref.position in fact.positions:
            call.stopped = "erased"
            state.open.changed.append(call)


def _always(state: State, fact: AnyFact) -> None:
    """The check of a fact that may follow at any time."""


RULES: dict[type, tuple[Callable[[State, Any], Any], Callable[[State, Any, Any], None]]] = {
    Opened: (_check_opened, _apply_opened),
    MessageReceived: (_check_said, _apply_said),
    ModelReplied: (_check_answered, _apply_answered),
    ConversationClaimed: (_check_asked, _apply_asked),
    ModelRequestFailed: (_check_request, _apply_attempted),
    ApprovalChecked: (_check_gated, _apply_gated),
    Decided: (_check_decided, _apply_decided),
    CallStarted: (_check_started, _apply_started),
    CallReturned: (_check_returned, _apply_returned),
    CallLost: (_check_attempt, _apply_lost),
    CallPaused: (_check_attempt, _apply_paused),
    ChildUsageReported: (_check_usage_reported, _apply_usage_reported),
    HandedOff: (_check_handed_off, _apply_handed_off),
    GuardrailJudged: (_check_judged, _apply_judged),
    AgentPrompted: (_check_prompted, _apply_prompted),
    Compacted: (_check_compacted, _apply_compacted),
    Cancelled: (_always, _apply_cancelled),
    Redacted: (_check_redacted, _apply_redacted),
}
"""For each kind of fact, a check of whether it may follow, and what it changes. A change is given what its check has found."""
