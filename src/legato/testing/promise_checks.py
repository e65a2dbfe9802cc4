"""Checks of the promises on recorded facts.

The checks read raw facts by themselves. They use neither the fold nor the planner nor the views, so that a mistake there is noticed here.
(`fold` is called once, to check that it accepts the ledger.)

>>> from legato.core.facts import MessageReceived, Opened
>>> first, second = MessageReceived(at=1, content="hello", key="k"), MessageReceived(at=2, content="hi", key="k")
>>> check_promises([Opened(at=0, ledger_id="a", workflow="desk"), first, second])[0]
Violation(D6: the key 'k' was recorded twice, at 1 and 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from legato.core.facts import AnyFact, ModelReplied, OutputText, Redacted, Refusal
from legato.core.state import fold
from legato.core.view import ModelRequest
from legato.errors import LegatoError
from legato.models.model import ModelReply
from legato.testing.ledger_checker import LedgerChecker
from legato.testing.limit_checks import check_limits
from legato.testing.request_checks import check_replies, check_request
from legato.testing.violations import ToolExecution, Violation, WorkflowRules

__all__ = ["RecordedRequest", "ToolExecution", "Violation", "WorkflowRules", "check_promises", "check_streamed_text"]

RecordedRequest: TypeAlias = ModelRequest | tuple[ModelRequest, ModelReply | None]
"""A model request, alone or with the model's reply (None: it did not reply)."""


def check_promises(
    facts: Sequence[AnyFact],
    requests: Iterable[RecordedRequest] = (),
    executions: Iterable[ToolExecution | tuple[str, str]] = (),
    *,
    rules: WorkflowRules | None = None,
    acknowledged: Iterable[tuple[int, Sequence[AnyFact]]] = (),
    session: str = "",
) -> list[Violation]:
    """Return every promise that a ledger breaks, together with its model requests and tool executions.

    `executions` are `ToolExecution`s, or the pairs in `World.effects`. `acknowledged` has the confirmed appends, as positions and facts.
    """
    violations: list[Violation] = []
    checker = LedgerChecker(facts, rules or WorkflowRules(), violations)
    checker.check()
    replies: dict[str, tuple[ModelRequest, ModelReply]] = {}
    for each in requests:
        request, reply = each if isinstance(each, tuple) else (each, None)
        if not session or request.session_id == session:
            check_request(checker, request, violations)
        if reply is not None and reply.response_id:
            replies[reply.response_id] = request, reply
    if replies:
        check_replies(checker, replies, violations)
    checker.check_executions(executions)
    violations += [Violation(promise, description) for promise, description in check_limits(facts, checker.rules.limits)]
    for position, confirmed in acknowledged:
        if not is_recorded(checker.facts, position, confirmed):
            violations.append(Violation("D1", f"the facts acknowledged at {position} are not recorded"))
    try:
        fold(facts, session)
    except LegatoError as error:
        violations.append(Violation("fold", f"the ledger cannot be folded: {error.summary}"))
    except Exception as error:
        violations.append(Violation("fold", f"the ledger cannot be folded: {error!r}"))
    return violations


def is_recorded(facts: Sequence[AnyFact], position: int, confirmed: Sequence[AnyFact]) -> bool:
    """Return True if acknowledged facts are recorded at this position, as they were or redacted."""
    recorded = facts[position : position + len(confirmed)]
    if len(recorded) != len(confirmed):
        return False
    if all(now == then for now, then in zip(recorded, confirmed, strict=True)):
        return True
    has_redactions = any(isinstance(fact, Redacted) for fact in facts)
    return has_redactions and all(now == then or _may_be_redacted_from(now, then) for now, then in zip(recorded, confirmed, strict=True))


def _may_be_redacted_from(now: AnyFact, then: AnyFact) -> bool:
    """Return True if one fact may be the redacted form of the other. `LedgerChecker` checks redactions exactly."""
    return type(now) is type(then) and now.at == then.at


def check_streamed_text(events: Iterable[Any], facts: Sequence[AnyFact]) -> list[Violation]:
    """Check C6 for one observer: the streamed text that was not withdrawn is the recorded text."""
    violations: list[Violation] = []
    pieces: list[str] = []
    redacted = {position for fact in facts if isinstance(fact, Redacted) for position in fact.positions}  # the recorded text is gone
    for event in events:
        if event.type == "output" and event.data.delta:
            pieces.append(event.data.text)
        elif event.type == "output_reset":
            pieces.clear()
        elif event.type == "message" and isinstance(fact := facts[event.position], ModelReplied):  # else a guardrail's text
            recorded, streamed = _join_reply_text(fact), "".join(pieces)
            if pieces and streamed != recorded and event.position not in redacted:
                violations.append(Violation("C6", f"{streamed!r} was streamed for the reply at {event.position}, which says {recorded!r}"))
            pieces.clear()
    if pieces:
        violations.append(Violation("C6", f"{''.join(pieces)!r} was streamed, and neither withdrawn nor recorded"))
    return violations


def _join_reply_text(reply: ModelReplied) -> str:
    return "".join(item.text for item in reply.items if isinstance(item, (OutputText, Refusal)))
