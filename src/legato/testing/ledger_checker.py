"""The checker of one ledger: reads its raw facts once, and reports the promises that they break.

It does not use the fold, like all of `promise_checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from legato.core.digests import digest_arguments
from legato.core.facts import (
    SOURCE_STANDING_APPROVAL,
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
    StandingApproval,
)
from legato.core.redaction import redact_fact
from legato.core.view import ModelRequest
from legato.testing.limit_checks import AdmittedMessages, find_run_options
from legato.testing.violations import ToolExecution, Violation, WorkflowRules


class CheckedCall:
    """One call, as the raw facts describe it so far."""

    def __init__(self, ref: CallRef, call: Call, reply_position: int, ledger_id: str) -> None:
        self.ref = ref
        self.tool = call.tool
        self.arguments = self.recorded_arguments = call.arguments
        self.reply_position = reply_position
        self.ledger_id = ledger_id  # the ledger's id when the call was recorded
        self.approval_check: ApprovalChecked | None = None
        self.approved_digest = ""  # the digest of the approved arguments
        self.is_cancelled = False
        self.redacted_at = -1  # the position of the redaction of its arguments, if it had no output then
        self.decisions: list[tuple[str, str, int]] = []  # kind, verdict, position
        self.starts: list[int] = []
        self.lost_attempts: list[int] = []
        self.paused_attempts: list[int] = []
        self.settled_attempts: set[int] = set()  # attempts whose outcome is recorded
        self.outputs: list[tuple[int, Content | None]] = []  # position and content (None: any)
        self.is_for_client = False  # the client of the run offered its tool

    @property
    def key(self) -> str:
        return f"{self.ledger_id}:{self.ref}"


class LedgerChecker:
    """Reads the facts once, from first to last, and adds broken promises to `violations`."""

    def __init__(self, facts: Sequence[AnyFact], rules: WorkflowRules, violations: list[Violation]) -> None:
        self.facts = facts
        self.rules = rules
        self.violations = violations
        self.calls: dict[CallRef, CheckedCall] = {}
        self.calls_by_reply: dict[int, list[CheckedCall]] = {}
        self.replies: dict[str, int] = {}  # response id -> position
        self.has_options = any(isinstance(fact, (MessageReceived, Decided)) and fact.options is not None for fact in facts)
        self.redactions = {
            position: at for at, fact in enumerate(facts) if isinstance(fact, Redacted) for position in (*fact.positions, *fact.derived)
        }  # position of a redacted fact -> position of its last redaction
        # The state up to the current fact:
        self._keys: dict[str, int] = {}
        self._ledger_id = ""
        self._latest_reply = -1
        self._standing_approvals: set[StandingApproval] = set()
        self._messages = AdmittedMessages()
        self._unseen: set[int] = set()
        self._cancelled_at = -1  # the position of the last cancel, until a reply follows

    def report(self, promise: str, description: str) -> None:
        self.violations.append(Violation(promise, description))

    def find_redaction(self, position: int) -> int:
        """Return the position at which the redaction of a fact is recorded; -1 if it was not redacted."""
        return self.redactions.get(position, -1)

    def is_redacted_since(self, position: int, request: ModelRequest) -> bool:
        """Return True if a fact was redacted after a request was made. Only then may the request contain another text."""
        return self.find_redaction(position) > request.upto

    def check(self) -> None:
        """Check the facts, in order."""
        for position, fact in enumerate(self.facts):
            self._unseen = self._messages.unseen
            self._messages.apply(position, fact)
            self._check_key(position, fact)
            if (check := _FACT_CHECKS.get(type(fact))) is not None:
                check(self, position, fact)

    def _check_key(self, position: int, fact: AnyFact) -> None:
        key = fact.key if isinstance(fact, (MessageReceived, Decided)) else ""
        if key:
            if key in self._keys:
                self.report("D6", f"the key {key!r} was recorded twice, at {self._keys[key]} and {position}")
            self._keys[key] = position

    def _check_opened(self, position: int, fact: Opened) -> None:
        self._ledger_id = fact.ledger_id
        if fact.origin is None or fact.origin.kind != "move":
            self._standing_approvals = set()
            self._void_consents(self._keys)

    def _check_reply(self, position: int, fact: ModelReplied) -> None:
        self._check_reply_order(position, fact)
        self._cancelled_at = -1
        self._latest_reply = position
        if fact.response_id:
            if fact.response_id in self.replies:
                self.report("C1", f"one reply was recorded twice, at {self.replies[fact.response_id]} and {position}")
            self.replies[fact.response_id] = position
        items = [(CallRef(position, index), item) for index, item in enumerate(fact.items) if isinstance(item, Call)]
        calls = self.calls_by_reply[position] = [CheckedCall(ref, item, position, self._ledger_id) for ref, item in items]
        self.calls.update((call.ref, call) for call in calls)
        if self.has_options:
            offered = find_run_options(self.facts[: fact.upto + 1])
            for call in calls:
                call.is_for_client = offered.offers(call.tool)

    def _check_reply_order(self, position: int, fact: ModelReplied) -> None:
        """Check that all earlier calls have outputs, and that after a cancel the user sent a message first."""
        open_calls = [call for call in self.calls_by_reply.get(self._latest_reply, ()) if not call.outputs]
        if open_calls:
            self.report("C3", f"the reply at {position} came before call {open_calls[0].ref} had its output")
        if self._cancelled_at >= 0 and not any(self._cancelled_at < message <= fact.upto for message in self._unseen):
            self.report("D4", f"the reply at {position} came after a cancel, without a new message of the user")

    def _check_approval_check(self, position: int, fact: ApprovalChecked) -> None:
        if call := self._find_call(fact.call, position):
            if call.approval_check is not None:
                self.report("D3", f"the need of call {call.ref} for approval was checked twice")
            call.approval_check = fact

    def _check_lost(self, position: int, fact: CallLost) -> None:
        if call := self._find_call(fact.call, position):
            if call.outputs or fact.attempt != len(call.starts):
                self.report("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was lost, which was not open")
            call.lost_attempts.append(fact.attempt)
            if fact.missing and fact.attempt in call.paused_attempts:
                call.paused_attempts.remove(fact.attempt)

    def _check_pause(self, position: int, fact: CallPaused) -> None:
        if call := self._find_call(fact.call, position):
            if call.outputs or fact.attempt != len(call.starts) or fact.attempt in (*call.lost_attempts, *call.paused_attempts):
                self.report("D2", f"at {position} attempt {fact.attempt} of call {call.ref} paused, which was not open")
            call.paused_attempts.append(fact.attempt)

    def _check_judgement(self, position: int, fact: GuardrailJudged) -> None:
        if fact.kind == "tool" and fact.stop and (call := self._find_call(CallRef(fact.position, fact.index), position)):
            self._add_output(call, position, None)

    def _check_cancel(self, position: int, fact: Cancelled) -> None:
        self._cancelled_at = position
        for call in self.calls_by_reply.get(self._latest_reply, ()):
            call.is_cancelled = True

    def _void_consents(self, keys: dict[str, int]) -> None:
        """Void the unused consents at the beginning of a fork or a copy."""
        for key in [key for key, at in keys.items() if isinstance(self.facts[at], Decided)]:
            del keys[key]
        for call in self.calls.values():
            if not call.outputs:
                call.approved_digest = ""
                call.decisions = [each for each in call.decisions if each[1] not in ("approve", "edit")]
                if not call.starts:
                    call.arguments = call.recorded_arguments

    def _check_redaction(self, position: int, fact: Redacted) -> None:
        for at in fact.positions:
            if (redacted := self.facts[at]) != redact_fact(redacted):
                self.report("S5", f"the redaction at {position} names the fact at {at}, which still has text")
        for later, reply in enumerate(self.facts[position:], position):
            if isinstance(reply, ModelReplied) and reply.upto < position:
                self.report("S5", f"the reply at {later} was made from text that was redacted at {position}")
        for at, earlier in enumerate(self.facts[:position]):
            if isinstance(earlier, ModelReplied) and earlier.stored_digest and earlier.upto >= min(fact.positions):
                self.report("S5", f"the reply at {at} keeps a digest of text that was redacted at {position}")
        for call in self.calls.values():
            if call.reply_position in fact.positions and not call.outputs:
                call.redacted_at = position

    def _find_call(self, ref: CallRef | None, position: int) -> CheckedCall | None:
        call = self.calls.get(ref) if ref is not None else None
        if call is None:
            self.report("D3", f"the fact at {position} is about call {ref}, which does not exist")
        return call

    def _add_output(self, call: CheckedCall, position: int, content: Content | None) -> None:
        if call.outputs:
            self.report("D3", f"call {call.ref} ({call.tool}) got a second output at {position}; the first was at {call.outputs[0][0]}")
        call.outputs.append((position, content))

    def _check_decision(self, position: int, fact: Decided) -> None:
        if fact.kind == "standing" and fact.standing:
            self._standing_approvals.discard(fact.standing)
        if fact.kind in ("limit", "standing") or (call := self._find_call(fact.call, position)) is None:
            return
        self._check_decided_once(call, position, fact)
        self._check_consent(call, position, fact)
        call.decisions.append((fact.kind, fact.verdict, position))
        if fact.verdict in ("answer", "reject"):
            self._add_output(call, position, fact.output if fact.verdict == "answer" else None)
        elif fact.kind in ("outcome", "approval"):
            if fact.kind == "approval" and fact.verdict == "edit":
                call.arguments = fact.arguments
            call.approved_digest = digest_arguments(call.arguments)
            if fact.kind == "approval" and fact.standing:
                self._standing_approvals.add(fact.standing)

    def _check_decided_once(self, call: CheckedCall, position: int, fact: Decided) -> None:
        """Check that the call has no output, and no earlier decision of this kind. Outcomes are decided once for each lost attempt."""
        if call.outputs:
            self.report("D3", f"at {position} call {call.ref} was decided, which had its output at {call.outputs[0][0]}")
        before = sum(1 for kind, _, _ in call.decisions if kind == fact.kind)
        if before and (fact.kind != "outcome" or before >= len(call.lost_attempts)):
            self.report("D3", f"the {fact.kind} of call {call.ref} was decided again at {position}")
        if fact.kind == "outcome" and len(call.starts) not in call.lost_attempts:
            self.report("D2", f"at {position} the outcome of call {call.ref} was decided, which was not lost")

    def _check_consent(self, call: CheckedCall, position: int, fact: Decided) -> None:
        """Check that the call needed approval, that the digest is that of its arguments, and that a standing approval is in force."""
        if fact.kind == "approval" and not (call.approval_check and call.approval_check.needed):
            self.report("S2", f"at {position} call {call.ref} was decided, which needed no approval")
        if fact.digest != digest_arguments(call.arguments):
            self.report("S2", f"at {position} call {call.ref} was decided for other arguments")
        reply = self.facts[call.reply_position]
        agent = reply.agent if isinstance(reply, ModelReplied) else ""
        if fact.source == SOURCE_STANDING_APPROVAL and StandingApproval(agent, call.tool) not in self._standing_approvals:
            self.report("S2", f"at {position} call {call.ref} was approved by a standing approval that is not in force")

    def _check_start(self, position: int, fact: CallStarted) -> None:
        call = self._find_call(fact.call, position)
        if call is None:
            return
        self._check_may_start(call, position)
        if fact.attempt != len(call.starts) + 1:
            self.report("D2", f"at {position} attempt {fact.attempt} of call {call.ref} was started after {len(call.starts)} others")
        if call.starts and len(call.starts) not in call.paused_attempts:
            self._check_restart(call, position)
        is_required = call.approval_check is not None and call.approval_check.needed
        needs_approval = call.tool in self.rules.tools_needing_approval or is_required
        if needs_approval and not call.approved_digest:
            self.report("S2", f"at {position} call {call.ref} of {call.tool} was started without approval")
        elif needs_approval and fact.digest != call.approved_digest:
            self.report("S2", f"at {position} call {call.ref} was started with other arguments than were approved")
        call.starts.append(position)

    def _check_may_start(self, call: CheckedCall, position: int) -> None:
        """Check that the call is open, and not for a client's tool."""
        if call.is_for_client:
            self.report("S3", f"at {position} call {call.ref} of {call.tool} was started, which is a tool of the client")
        if call.outputs:
            self.report("D2", f"at {position} call {call.ref} was started, which had its output at {call.outputs[0][0]}")
        if call.is_cancelled:
            self.report("D4", f"at {position} call {call.ref} was started, which had been cancelled")
        if call.redacted_at >= 0:
            self.report("S5", f"at {position} call {call.ref} was started, whose arguments had been redacted")

    def _check_restart(self, call: CheckedCall, position: int) -> None:
        """Check that the attempt before was lost, and that a person allowed the restart of a tool that is not idempotent."""
        if len(call.starts) not in call.lost_attempts:
            self.report("D2", f"at {position} call {call.ref} was started while another attempt was open")
        since = call.starts[-1]
        is_allowed = any(kind == "outcome" and verdict == "approve" and at > since for kind, verdict, at in call.decisions)
        idempotent_tools = self.rules.idempotent_tools
        if not is_allowed and idempotent_tools is not None and call.tool not in idempotent_tools:
            self.report("D2", f"at {position} {call.tool}, which is not idempotent, was started again without asking")

    def _check_return(self, position: int, fact: CallReturned) -> None:
        call = self._find_call(fact.call, position)
        if call is None:
            return
        if fact.attempt > len(call.starts):
            self.report("D2", f"at {position} attempt {fact.attempt} of call {call.ref} returned, which was never started")
        if fact.attempt in call.paused_attempts:
            self.report("D2", f"at {position} attempt {fact.attempt} of call {call.ref} returned, which had paused")
        if not fact.attempt and fact.status == "ok":
            self.report("D2", f"at {position} call {call.ref} has a result, but never ran")
        if fact.attempt and fact.status in ("ok", "error"):
            if fact.attempt in call.settled_attempts:
                self.report("D3", f"at {position} attempt {fact.attempt} of call {call.ref} has a second outcome")
            call.settled_attempts.add(fact.attempt)
        if not fact.late:
            self._add_output(call, position, fact.output)

    def _check_handoff(self, position: int, fact: HandedOff) -> None:
        handoff = self._find_call(fact.call, position)
        if handoff is None:
            return
        if self.rules.allowed_handoffs is not None and (fact.source, fact.target) not in self.rules.allowed_handoffs:
            self.report("S3", f"at {position} {fact.source} handed to {fact.target}, which is not allowed")
        self._check_taken_handoff(handoff, position)
        for call in self.calls_by_reply.get(handoff.reply_position, ()):
            self._check_other_call(call, handoff, position)

    def _check_taken_handoff(self, handoff: CheckedCall, position: int) -> None:
        """Check that the handoff is of the newest reply, is approved if necessary, and never ran as a tool."""
        if handoff.reply_position != self._latest_reply:
            self.report("D3", f"at {position} a handoff of an earlier reply was taken")
        if handoff.is_cancelled:
            self.report("D4", f"at {position} a handoff was taken, which had been cancelled")
        if handoff.approval_check and handoff.approval_check.needed and not handoff.approved_digest:
            self.report("S2", f"at {position} a handoff that needs approval was taken without it")
        if handoff.starts:
            self.report("D3", f"at {position} call {handoff.ref} was taken as a handoff, although it ran as a tool")

    def _check_other_call(self, call: CheckedCall, handoff: CheckedCall, position: int) -> None:
        """Check one call of the handoff's reply. Tools must have their outputs before; the other handoffs get theirs with the handoff."""
        if call is handoff or not call.outputs:
            if not call.tool.startswith("handoff_to_"):
                self.report("C3", f"at {position} control passed before call {call.ref} of {call.tool} had its output")
            elif call.ref < handoff.ref:
                self.report("C3", f"at {position} handoff {handoff.ref} was taken, although {call.ref} came first and was not declined")
            self._add_output(call, position, None)
        elif call.ref < handoff.ref and any(kind == "handoff" for kind, _, _ in call.decisions):
            self.report("D3", f"at {position} two handoffs of one reply were taken")

    # -- tool executions -------------------------------------------------------------------------------------------------

    def check_executions(self, executions: Iterable[ToolExecution | tuple[str, str]]) -> None:
        """Check that the start of every execution was recorded before it, and that no start led to two executions."""
        calls = {call.key: call for call in self.calls.values()}
        attempt_counts: dict[tuple[str, str, int], int] = {}
        effect_counts: dict[tuple[str, str], int] = {}
        for each in executions:
            execution = each if isinstance(each, ToolExecution) else ToolExecution(*each)
            tool, attempt, length = execution.tool, execution.attempt, execution.ledger_length
            call = calls.get(execution.key)
            if call is None:
                if isinstance(each, ToolExecution):
                    self.report("D2", f"{tool} ran for {execution.key}, a call that is not in the ledger")
                continue
            if attempt:
                starts = [at for at in call.starts[attempt - 1 : attempt] if length < 0 or at < length]
                if not starts:
                    self.report("D2", f"{tool} ran as attempt {attempt} of call {call.ref} before its start was recorded")
                slot = (execution.session, execution.key, attempt)
                attempt_counts[slot] = attempt_counts.get(slot, 0) + 1
                if attempt_counts[slot] == 2:
                    self.report("D2", f"attempt {attempt} of call {call.ref} of {tool} ran twice")
            else:
                pair = (execution.key, tool)
                effect_counts[pair] = effect_counts.get(pair, 0) + 1
                if effect_counts[pair] == len(call.starts) + 1:
                    self.report("D2", f"{tool} ran {effect_counts[pair]} times for call {call.ref}, started {len(call.starts)} times")


_FACT_CHECKS: dict[type, Callable[[LedgerChecker, int, Any], None]] = {
    Opened: LedgerChecker._check_opened,
    ModelReplied: LedgerChecker._check_reply,
    ApprovalChecked: LedgerChecker._check_approval_check,
    Decided: LedgerChecker._check_decision,
    CallStarted: LedgerChecker._check_start,
    CallLost: LedgerChecker._check_lost,
    CallPaused: LedgerChecker._check_pause,
    CallReturned: LedgerChecker._check_return,
    GuardrailJudged: LedgerChecker._check_judgement,
    HandedOff: LedgerChecker._check_handoff,
    Redacted: LedgerChecker._check_redaction,
    Cancelled: LedgerChecker._check_cancel,
}
