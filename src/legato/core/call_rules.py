"""What becomes of calls: rules 4 to 7 of the state machine. May know: facts. Decides: which fact may follow for a call.

The rules are told at the top of `state.py`; this is the part of them that is about one call of the open batch.
"""

from __future__ import annotations

from typing import NoReturn

from legato.core import wording
from legato.core.digest import digest_arguments
from legato.core.facts import (
    MAX_COUNT,
    NO_USAGE,
    AnyFact,
    CallRef,
    Content,
    Decided,
    Gated,
    Lost,
    Paused,
    Returned,
    Started,
    Text,
    UsageReported,
)
from legato.core.folded import Folded
from legato.core.groups import Attempt, CallState, Output
from legato.core.messages import text_of
from legato.core.requests import VERDICTS
from legato.errors import IllegalFact


class CallRules(Folded):
    """How calls are gated, decided, started and answered."""

    def _refuse(self, fact: AnyFact, why: str) -> NoReturn:
        where = f"position {self.length}"
        batch = ", ".join(f"{call.ref} {call.call.tool}" for call in self.batch if call.output is None)
        raise IllegalFact(
            f"{type(fact).__name__} cannot follow here: {why}",
            found=f"{where}, control with {self.active or 'nobody yet'}, unanswered calls: {batch or 'none'}",
            do="nothing was recorded; refresh the session and look at what is pending",
        )

    def _open_call(self, fact: AnyFact, ref: CallRef | None) -> CallState:
        reply = self.reply
        call = reply.call(ref.index) if ref and reply and reply.unanswered and reply.position == ref.position else None
        if call is None:
            self._refuse(fact, f"there is no call {ref} in the open batch")
        if call.output is not None:
            self._refuse(fact, f"call {ref} has its output already ({call.output.status})")
        return call

    def _gated(self, fact: Gated) -> None:
        call = self._open_call(fact, fact.call)
        if call.gate is not None or call.attempts:
            self._refuse(fact, f"whether call {fact.call} needs approval was decided before")
        if fact.digest != digest_arguments(call.arguments):
            self._refuse(fact, "the digest is not that of the recorded arguments")
        call.gate = fact.needed
        call.decisions += (self.length,)
        self.open.changed.append(call)

    def _decided_call(self, fact: Decided, call: CallState) -> None:
        if fact.digest != digest_arguments(call.arguments):
            self._refuse(fact, f"it was given for other arguments of call {call.ref}")
        asked = self._asked(call)
        if fact.kind != asked or fact.verdict not in VERDICTS[asked]:
            self._refuse(fact, f"call {call.ref} waits for {asked or 'nobody'}, not for {fact.verdict} of its {fact.kind}")
        if fact.verdict == "edit" and fact.standing:
            self._refuse(fact, "an edited call stands for itself alone")
        call.decisions += (self.length,)
        if fact.verdict == "answer":
            ran = fact.output if fact.kind != "outcome" else with_arguments(call, fact.output)
            self._output(call, Output(ran, "ok", self.length))
        elif fact.verdict == "reject":
            words = {"approval": wording.rejected, "outcome": wording.failed_by_person, "result": wording.no_result}[fact.kind]
            self._output(call, Output(words(fact.words), "rejected", self.length))
        elif fact.kind == "outcome":
            call.redo = call.approved = True  # consent to these arguments, also where an earlier one was void
        else:
            if fact.verdict == "edit":
                call.arguments, call.edited = fact.arguments, True
            if fact.standing:
                self.standing.add(fact.standing)
            call.approved = True
            self.open.changed.append(call)

    def _asked(self, call: CallState) -> str:
        """What a call waits for, as far as the ledger alone can tell."""
        if call.lost:
            return "outcome"
        if call.gate and not call.approved:
            return "approval"
        return "" if call.attempts else "result"

    def _started(self, fact: Started) -> None:
        call = self._open_call(fact, fact.call)
        if call.stopped:
            self._refuse(fact, f"call {fact.call} was stopped ({call.stopped})")
        if call.refused:
            self._refuse(fact, f"call {fact.call} is beyond a limit ({call.refused})")
        if running := call.running:
            self._refuse(fact, f"attempt {running.number} of call {fact.call} is running")
        if fact.attempt != len(call.attempts) + 1:
            self._refuse(fact, f"the next attempt of call {fact.call} is number {len(call.attempts) + 1}")
        if fact.epoch < self.epoch:
            self._refuse(fact, f"its driver's epoch {fact.epoch} is over; the ledger is in epoch {self.epoch}")
        if call.gate and not (call.approved and fact.digest == digest_arguments(call.arguments)):
            self._refuse(fact, f"call {fact.call} is not approved for these arguments")
        self.tally.tool_calls += call.paused is None  # one that waited goes on, and is no other call
        call.attempts += (Attempt(fact.attempt, fact.epoch),)
        call.redo = False
        self.open.changed.append(call)
        self.epoch = fact.epoch

    def _returned(self, fact: Returned) -> None:
        call = self.call(fact.call)
        if call is None:
            self._refuse(fact, f"there is no call {fact.call}")
        attempt = None
        if fact.attempt:
            if not 1 <= fact.attempt <= len(call.attempts):
                self._refuse(fact, f"call {fact.call} has no attempt {fact.attempt}")
            attempt = call.attempts[fact.attempt - 1]
            if attempt.known:
                self._refuse(fact, f"how attempt {fact.attempt} of call {fact.call} ended is recorded already")
        elif call.running or fact.status == "ok":
            self._refuse(fact, "an output without an attempt is for a call that does not run, and not of status ok")
        overtaken = call.output is not None or (attempt is not None and (attempt is not call.attempts[-1] or call.redo))
        if fact.late != overtaken:
            self._refuse(fact, "it is late" if overtaken else "it is in time")
        if overtaken and attempt is None:
            self._refuse(fact, f"call {fact.call} has its output already")
        self._work(fact.at, fact.took)
        if attempt is not None:
            # A time-out or a cancel answers the call without telling how the attempt really ended.
            attempt.known = fact.late or fact.status in ("ok", "error")
        if fact.late:
            self.late.append(fact)
            return
        content: Content = fact.output
        if attempt is not None:
            content = with_arguments(call, content)
        self._output(call, Output(content, fact.status, len(self.facts)))

    def _lost(self, fact: Lost) -> None:
        attempt = self._open_attempt(fact)
        attempt.lost, attempt.missing, attempt.paused, attempt.known = True, fact.missing, None, False
        call = self._open_call(fact, fact.call)
        call.decisions += (self.length,)
        if fact.missing:
            call.reported = None  # the next child session counts from nothing

    def _usage_reported(self, fact: UsageReported) -> None:
        call = self.call(fact.call)
        if call is None or not call.attempts:
            self._refuse(fact, f"call {fact.call} has no child session")
        before = dict(call.reported.agents) if call.reported else {}
        for agent, usage in fact.agents:
            self.spent.spend_in_child(agent, usage.increase_over(before.get(agent, NO_USAGE)))
        turns = max(0, fact.turns - (call.reported.turns if call.reported else 0))
        self.spent.turns = min(self.spent.turns + turns, MAX_COUNT)
        self.tally.turns += turns
        call.reported = fact

    def _paused(self, fact: Paused) -> None:
        attempt = self._open_attempt(fact)
        attempt.paused, attempt.known = fact, True
        self._work(fact.at, fact.took)
        if self.halt == "limit" and fact.needed != NO_USAGE:
            self._open_call(fact, fact.call).stopped = "limit"  # a limit was refused meanwhile, and is not asked about again

    def _open_attempt(self, fact: Lost | Paused) -> Attempt:
        call = self._open_call(fact, fact.call)
        waiting = call.attempts[-1] if call.paused and isinstance(fact, Lost) and fact.missing else None
        attempt = waiting or call.running
        if attempt is None or attempt.number != fact.attempt:
            self._refuse(fact, f"attempt {fact.attempt} of call {fact.call} is not open")
        return attempt

    def _output(self, call: CallState, output: Output) -> None:
        assert self.reply is not None
        call.output = output
        self.open.changed.append(call)
        self.reply.unanswered -= 1
        self._heard(output.content)

    def _heard(self, content: Content) -> None:
        """Something was said or returned."""
        if type(content) is str:
            self.spent.letters += len(content)
        else:
            self.pictured = True
            self.spent.letters += len(text_of(content))

    def _work(self, at: int, took: int) -> None:
        """Time that was worked."""
        self.tally.active_ms += self.work.add(at - took, at)


def with_arguments(call: CallState, output: Content) -> Content:
    """The output of a call that ran, with the arguments that ran where a person changed them, whoever tells the outcome."""
    if not call.edited:
        return output
    return wording.edited(call.arguments, output) if isinstance(output, str) else (Text(wording.edited(call.arguments, "")), *output)
