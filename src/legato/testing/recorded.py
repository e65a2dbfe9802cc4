"""What the raw facts say, and which promises they break by themselves. May know: facts as they were recorded, deeds that were done.

Written apart from the fold, as all of `promises.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from legato.core.digests import digest_arguments
from legato.core.facts import (
    STANDING,
    AnyFact,
    ApprovalChecked,
    Call,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    Content,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Opened,
    Redacted,
    Standing,
)
from legato.core.redaction import without_words
from legato.core.view import Request
from legato.testing.pauses import Landings, options_at
from legato.testing.violations import Deed, Rules, Violation


class CallRead:
    """What the raw facts say of one call."""

    def __init__(self, ref: CallRef, call: Call, reply: int, name: str) -> None:
        self.ref = ref
        self.tool = call.tool
        self.arguments = self.recorded = call.arguments
        self.reply = reply
        self.name = name  # of the ledger when the call was recorded
        self.gate: ApprovalChecked | None = None
        self.approved = ""  # the digest that was approved
        self.cancelled = False
        self.erased = -1  # where it is recorded that its arguments are gone, if it had no output then
        self.decided: list[tuple[str, str, int]] = []  # kind, verdict, position
        self.starts: list[int] = []
        self.lost: list[int] = []
        self.paused: list[int] = []
        self.settled: set[int] = set()  # attempts whose real outcome is recorded
        self.answers: list[tuple[int, Content | None]] = []  # position and content (None: any)
        self.for_client = False  # its tool was offered by the client of the run

    @property
    def key(self) -> str:
        return f"{self.name}:{self.ref}"


class Reading:
    """The facts, read once from first to last; what breaks a promise is said into `broken`."""

    def __init__(self, facts: Sequence[AnyFact], rules: Rules, broken: list[Violation]) -> None:
        self.facts = facts
        self.rules = rules
        self.broken = broken
        self.calls: dict[CallRef, CallRead] = {}
        self.by_reply: dict[int, list[CallRead]] = {}
        self.replies: dict[str, int] = {}  # response id -> position
        self.has_options = any(isinstance(fact, (MessageReceived, Decided)) and fact.options is not None for fact in facts)
        self.redactions = {
            position: at for at, fact in enumerate(facts) if isinstance(fact, Redacted) for position in (*fact.positions, *fact.along)
        }  # a fact that lost words -> where that was last recorded
        # What is known where the walk has come to.
        self._keys: dict[str, int] = {}
        self._name = ""
        self._latest = -1
        self._standing: set[Standing] = set()
        self._messages = Landings()
        self._unseen: set[int] = set()
        self._stopped = -1  # where it was last cancelled, until a reply follows

    def say(self, promise: str, what: str) -> None:
        self.broken.append(Violation(promise, what))

    def erased_at(self, position: int) -> int:
        """Where it is recorded that the fact at a position lost words; -1: it did not."""
        return self.redactions.get(position, -1)

    def erased_since(self, position: int, request: Request) -> bool:
        """Whether the fact at a position lost words after a request was made: only then may that have had others."""
        return self.erased_at(position) > request.upto

    def read(self) -> None:
        """Walk once through the facts."""
        for position, fact in enumerate(self.facts):
            self._unseen = self._messages.unseen
            self._messages.landed(position, fact)
            self._check_key(position, fact)
            if (rule := _RULES.get(type(fact))) is not None:
                rule(self, position, fact)

    def _check_key(self, position: int, fact: AnyFact) -> None:
        key = fact.key if isinstance(fact, (MessageReceived, Decided)) else ""
        if key:
            if key in self._keys:
                self.say("D6", f"the key {key!r} was recorded twice, at {self._keys[key]} and {position}")
            self._keys[key] = position

    def _opened(self, position: int, fact: Opened) -> None:
        self._name = fact.ledger
        if fact.origin is None or fact.origin.kind != "move":
            self._standing = set()
            self._void_consents(self._keys)

    def _answered(self, position: int, fact: ModelReplied) -> None:
        self._check_order(position, fact)
        self._stopped = -1
        self._latest = position
        if fact.response_id:
            if fact.response_id in self.replies:
                self.say("C1", f"one reply was recorded twice, at {self.replies[fact.response_id]} and {position}")
            self.replies[fact.response_id] = position
        made = [(CallRef(position, index), item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
        calls = self.by_reply[position] = [CallRead(ref, item, position, self._name) for ref, item in made]
        self.calls.update((call.ref, call) for call in calls)
        if self.has_options:
            offered = options_at(self.facts[: fact.upto + 1])
            for made_call in calls:
                made_call.for_client = offered.offers(made_call.tool)

    def _check_order(self, position: int, fact: ModelReplied) -> None:
        """A reply comes when all calls before it have outputs, and after a cancel not before the user has spoken."""
        open_calls = [call for call in self.by_reply.get(self._latest, ()) if not call.answers]
        if open_calls:
            self.say("C3", f"the reply at {position} came before call {open_calls[0].ref} had its output")
        if self._stopped >= 0 and not any(self._stopped < message <= fact.upto for message in self._unseen):
            self.say("D4", f"the reply at {position} came after a cancel, and the user had not spoken since")

    def _gated(self, position: int, fact: ApprovalChecked) -> None:
        if call := self._call(fact.call, position):
            if call.gate is not None:
                self.say("D3", f"call {call.ref} was gated twice")
            call.gate = fact

    def _lost(self, position: int, fact: CallLost) -> None:
        if call := self._call(fact.call, position):
            if call.answers or fact.attempt != len(call.starts):
                self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was lost, which was not open")
            call.lost.append(fact.attempt)
            if fact.missing and fact.attempt in call.paused:
                call.paused.remove(fact.attempt)

    def _paused(self, position: int, fact: CallPaused) -> None:
        if call := self._call(fact.call, position):
            if call.answers or fact.attempt != len(call.starts) or fact.attempt in (*call.lost, *call.paused):
                self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} paused, which was not open")
            call.paused.append(fact.attempt)

    def _judged(self, position: int, fact: GuardrailJudged) -> None:
        if fact.kind == "tool" and fact.stop and (call := self._call(CallRef(fact.position, fact.index), position)):
            self._answer(call, position, None)

    def _cancelled(self, position: int, fact: Cancelled) -> None:
        self._stopped = position
        for call in self.by_reply.get(self._latest, ()):
            call.cancelled = True

    def _void_consents(self, keys: dict[str, int]) -> None:
        """A fork or a copy begins: what was allowed before, and has not happened, is not allowed here."""
        for key in [key for key, at in keys.items() if isinstance(self.facts[at], Decided)]:
            del keys[key]
        for call in self.calls.values():
            if not call.answers:
                call.approved = ""
                call.decided = [each for each in call.decided if each[1] not in ("approve", "edit")]
                if not call.starts:
                    call.arguments = call.recorded

    def _redacted(self, position: int, fact: Redacted) -> None:
        for at in fact.positions:
            if (lost := self.facts[at]) != without_words(lost):
                self.say("S5", f"at {position} it says that the words at {at} were erased, and there are some")
        for later, reply in enumerate(self.facts[position:], position):
            if isinstance(reply, ModelReplied) and reply.upto < position:
                self.say("S5", f"the reply at {later} was made from what was erased at {position}")
        for at, held in enumerate(self.facts[:position]):
            if isinstance(held, ModelReplied) and held.held and held.upto >= min(fact.positions):
                self.say("S5", f"the reply at {at} keeps a proof of what was erased at {position}")
        for call in self.calls.values():
            if call.reply in fact.positions and not call.answers:
                call.erased = position

    def _call(self, ref: CallRef | None, position: int) -> CallRead | None:
        call = self.calls.get(ref) if ref is not None else None
        if call is None:
            self.say("D3", f"the fact at {position} is about call {ref}, which nobody made")
        return call

    def _answer(self, call: CallRead, position: int, content: Content | None) -> None:
        if call.answers:
            self.say("D3", f"call {call.ref} ({call.tool}) got a second output at {position}; the first was at {call.answers[0][0]}")
        call.answers.append((position, content))

    def _decided(self, position: int, fact: Decided) -> None:
        if fact.kind == "standing" and fact.standing:
            self._standing.discard(fact.standing)
        if fact.kind in ("limit", "standing") or (call := self._call(fact.call, position)) is None:
            return
        self._check_decided_once(call, position, fact)
        self._check_consent(call, position, fact)
        call.decided.append((fact.kind, fact.verdict, position))
        if fact.verdict in ("answer", "reject"):
            self._answer(call, position, fact.output if fact.verdict == "answer" else None)
        elif fact.kind in ("outcome", "approval"):
            if fact.kind == "approval" and fact.verdict == "edit":
                call.arguments = fact.arguments
            call.approved = digest_arguments(call.arguments)
            if fact.kind == "approval" and fact.standing:
                self._standing.add(fact.standing)

    def _check_decided_once(self, call: CallRead, position: int, fact: Decided) -> None:
        """Nobody decides what has its output or was decided before. Each attempt that was lost is asked about anew."""
        if call.answers:
            self.say("D3", f"at {position} call {call.ref} was decided, which was answered at {call.answers[0][0]}")
        before = sum(1 for kind, _, _ in call.decided if kind == fact.kind)
        if before and (fact.kind != "outcome" or before >= len(call.lost)):
            self.say("D3", f"the {fact.kind} of call {call.ref} was decided again at {position}")
        if fact.kind == "outcome" and len(call.starts) not in call.lost:
            self.say("D2", f"at {position} somebody decided the outcome of call {call.ref}, which was not lost")

    def _check_consent(self, call: CallRead, position: int, fact: Decided) -> None:
        """A consent is for a call that was gated, and for its exact arguments; one by standing approval needs one that is in force."""
        if fact.kind == "approval" and not (call.gate and call.gate.needed):
            self.say("S2", f"at {position} call {call.ref} was decided, which nobody had gated")
        if fact.digest != digest_arguments(call.arguments):
            self.say("S2", f"at {position} call {call.ref} was decided for other arguments")
        reply = self.facts[call.reply]
        agent = reply.agent if isinstance(reply, ModelReplied) else ""
        if fact.source == STANDING and Standing(agent, call.tool) not in self._standing:
            self.say("S2", f"at {position} call {call.ref} was admitted by a standing approval that is not in force here")

    def _started(self, position: int, fact: CallStarted) -> None:
        call = self._call(fact.call, position)
        if call is None:
            return
        self._check_open(call, position)
        if fact.attempt != len(call.starts) + 1:
            self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was started after {len(call.starts)} others")
        if call.starts and len(call.starts) not in call.paused:
            self._check_restart(call, position)
        needed = call.tool in self.rules.gated or (call.gate is not None and call.gate.needed)
        if needed and not call.approved:
            self.say("S2", f"at {position} call {call.ref} of {call.tool} was started without approval")
        elif needed and fact.digest != call.approved:
            self.say("S2", f"at {position} call {call.ref} was started with other arguments than were approved")
        call.starts.append(position)

    def _check_open(self, call: CallRead, position: int) -> None:
        """What is started is a call of ours that is open."""
        if call.for_client:
            self.say("S3", f"at {position} call {call.ref} of {call.tool} was started, which is a tool of the client")
        if call.answers:
            self.say("D2", f"at {position} call {call.ref} was started, which was answered at {call.answers[0][0]}")
        if call.cancelled:
            self.say("D4", f"at {position} call {call.ref} was started, which had been cancelled")
        if call.erased >= 0:
            self.say("S5", f"at {position} call {call.ref} was started, whose arguments had been erased")

    def _check_restart(self, call: CallRead, position: int) -> None:
        """A call starts again when its attempt was lost, and if it is not idempotent, when a person asked for it."""
        if len(call.starts) not in call.lost:
            self.say("D2", f"at {position} call {call.ref} was started while another attempt was open")
        since = call.starts[-1]
        asked = any(kind == "outcome" and verdict == "approve" and at > since for kind, verdict, at in call.decided)
        known = self.rules.idempotent
        if not asked and known is not None and call.tool not in known:
            self.say("D2", f"at {position} {call.tool}, which is not idempotent, was started again, and nobody asked for it")

    def _returned(self, position: int, fact: CallReturned) -> None:
        call = self._call(fact.call, position)
        if call is None:
            return
        if fact.attempt > len(call.starts):
            self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} returned, which was never started")
        if fact.attempt in call.paused:
            self.say("D2", f"at {position} attempt {fact.attempt} of call {call.ref} returned, which had paused")
        if not fact.attempt and fact.status == "ok":
            self.say("D2", f"at {position} call {call.ref} has a result, and it never ran")
        if fact.attempt and fact.status in ("ok", "error"):
            if fact.attempt in call.settled:
                self.say("D3", f"at {position} attempt {fact.attempt} of call {call.ref} has a second outcome")
            call.settled.add(fact.attempt)
        if not fact.late:
            self._answer(call, position, fact.output)

    def _handed_off(self, position: int, fact: HandedOff) -> None:
        taken = self._call(fact.call, position)
        if taken is None:
            return
        if self.rules.edges is not None and (fact.source, fact.target) not in self.rules.edges:
            self.say("S3", f"at {position} {fact.source} handed to {fact.target}, which nobody allowed")
        self._check_taken(taken, position)
        for call in self.by_reply.get(taken.reply, ()):
            self._check_passed_over(call, taken, position)

    def _check_taken(self, taken: CallRead, position: int) -> None:
        """The handoff that is taken is of the newest reply, allowed, and no tool that ran."""
        if taken.reply != self._latest:
            self.say("D3", f"at {position} a handoff of an earlier reply was taken")
        if taken.cancelled:
            self.say("D4", f"at {position} a handoff was taken, which had been cancelled")
        if taken.gate and taken.gate.needed and not taken.approved:
            self.say("S2", f"at {position} a gated handoff was taken without approval")
        if taken.starts:
            self.say("D3", f"at {position} call {taken.ref} was taken as a handoff, and it ran as a tool")

    def _check_passed_over(self, call: CallRead, taken: CallRead, position: int) -> None:
        """With the handoff, the other handoffs of its reply have their outputs. Its tools must have had theirs before."""
        if call is taken or not call.answers:
            if not call.tool.startswith("handoff_to_"):
                self.say("C3", f"at {position} control passed before call {call.ref} of {call.tool} had its output")
            elif call.ref < taken.ref:
                self.say("C3", f"at {position} handoff {taken.ref} was taken, though {call.ref} came first and nobody declined it")
            self._answer(call, position, None)
        elif call.ref < taken.ref and any(kind == "handoff" for kind, _, _ in call.decided):
            self.say("D3", f"at {position} two handoffs of one reply were taken")

    # -- deeds ----------------------------------------------------------------------------------------------------------

    def check_deeds(self, deeds: Iterable[Deed | tuple[str, str]]) -> None:
        """Whether every deed had its start before it, and no start led to two deeds."""
        by_key = {call.key: call for call in self.calls.values()}
        attempts: dict[tuple[str, str, int], int] = {}
        counted: dict[tuple[str, str], int] = {}
        for each in deeds:
            deed = each if isinstance(each, Deed) else Deed(*each)
            call = by_key.get(deed.key)
            if call is None:
                if isinstance(each, Deed):
                    self.say("D2", f"{deed.tool} ran for {deed.key}, of which the ledger knows nothing")
                continue
            if deed.attempt:
                starts = [at for at in call.starts[deed.attempt - 1 : deed.attempt] if deed.facts < 0 or at < deed.facts]
                if not starts:
                    self.say("D2", f"{deed.tool} ran as attempt {deed.attempt} of call {call.ref} before its start was recorded")
                slot = (deed.session, deed.key, deed.attempt)
                attempts[slot] = attempts.get(slot, 0) + 1
                if attempts[slot] == 2:
                    self.say("D2", f"attempt {deed.attempt} of call {call.ref} of {deed.tool} ran twice")
            else:
                pair = (deed.key, deed.tool)
                counted[pair] = counted.get(pair, 0) + 1
                if counted[pair] == len(call.starts) + 1:
                    self.say("D2", f"{deed.tool} was done {counted[pair]} times for call {call.ref}, started {len(call.starts)} times")


_RULES: dict[type, Callable[[Reading, int, Any], None]] = {
    Opened: Reading._opened,
    ModelReplied: Reading._answered,
    ApprovalChecked: Reading._gated,
    Decided: Reading._decided,
    CallStarted: Reading._started,
    CallLost: Reading._lost,
    CallPaused: Reading._paused,
    CallReturned: Reading._returned,
    GuardrailJudged: Reading._judged,
    HandedOff: Reading._handed_off,
    Redacted: Reading._redacted,
    Cancelled: Reading._cancelled,
}
