"""Checks of session trees on raw facts: no child session is orphaned or started again, and all usage is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from legato.core.child_session_ids import list_parent_calls, make_child_session_id
from legato.core.facts import (
    NO_USAGE,
    AnyFact,
    CallLost,
    CallRef,
    CallReturned,
    CallStarted,
    ChildUsageReported,
    ModelReplied,
    ModelRequestFailed,
    Opened,
)
from legato.core.state import State, fold
from legato.errors import IllegalFact
from legato.testing.effect_log import find_idempotency_key
from legato.testing.violations import Violation


def check_session_trees(
    ledgers: Mapping[str, Sequence[AnyFact]], *, allow_orphans: bool = False, allow_late_attempts: bool = False
) -> Iterator[Violation]:
    """Yield the promises broken between sessions and their child sessions. `ledgers` are all ledgers of one store.

    `allow_orphans`: child sessions may exist without their parent session, because a copy was killed before it brought the parent. (An
    interrupted fork or start may leave them too, but then without model requests.) `allow_late_attempts`: an attempt that was declared lost
    may have started a child session after the next attempt began.
    """
    for name, facts in ledgers.items():
        parent = next(list_parent_calls(name), None)
        if parent is not None and parent[0] not in ledgers:
            if allow_orphans or not any(isinstance(fact, (ModelReplied, ModelRequestFailed)) for fact in facts[_find_own_start(facts) :]):
                continue
            yield Violation("D2", f"the child session {name} exists without its parent session")
        elif parent is not None and not allow_late_attempts:
            yield from _check_child_start(name, facts, parent[2], ledgers[parent[0]])
        with suppress(IllegalFact):  # `check_promises` reports it
            yield from _check_usage(name, facts, ledgers)


def _find_own_start(facts: Sequence[AnyFact]) -> int:
    """Return the position of the first fact that a branch does not share with its parent."""
    return max((at for at, fact in enumerate(facts) if isinstance(fact, Opened)), default=0)


def _check_child_start(name: str, facts: Sequence[AnyFact], call: CallRef, parent: Sequence[AnyFact]) -> Iterator[Violation]:
    """Check that a child session started in the first attempt of its call, or after a person decided about a missing one."""
    missing = {fact.attempt for fact in parent if isinstance(fact, CallLost) and fact.call == call and fact.missing}
    possible = _list_possible_attempts(facts[0].at, call, parent, missing)
    if possible and not any(attempt == 1 or attempt - 1 in missing for attempt in possible):
        yield Violation("D2", f"the child session {name} was started again in attempt {possible[0]}, without asking a person")


def _list_possible_attempts(started_at: int, call: CallRef, parent: Sequence[AnyFact], missing: set[int]) -> list[int]:
    """Return the attempts that may have started a child session at this time. An attempt that found it missing did not."""
    starts = [fact for fact in parent if isinstance(fact, CallStarted) and fact.call == call and fact.attempt not in missing]
    before = [start.attempt for start in starts if start.at < started_at]
    return [*before[-1:], *(start.attempt for start in starts if start.at == started_at)]


def _check_usage(name: str, facts: Sequence[AnyFact], ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """Check that a session counts its usage with that of its child sessions, and that child sessions that returned reported all."""
    counted, reported = _count_usage(facts)
    missing = {fact.call for fact in facts if isinstance(fact, CallLost) and fact.missing}
    usage = fold(facts).usage_totals.total
    if not missing and usage.total != counted:
        yield Violation("usage", f"{name} counts {usage.total} tokens, its facts {counted}")
    for fact in facts[_find_own_start(facts) :]:
        if not isinstance(fact, CallReturned) or fact.status not in ("ok", "error") or fact.late or fact.call in missing:
            continue
        child = ledgers.get(make_child_session_id(name, find_idempotency_key(list(facts), fact.call)))
        if child is not None:
            yield from _check_returned_child(name, fact, fold(child), reported.get(fact.call, 0))


def _count_usage(facts: Sequence[AnyFact]) -> tuple[int, dict[CallRef, int]]:
    """Return the tokens used by a session and its child sessions, and the tokens that the child session of each call reported last."""
    counted = sum((fact.usage for fact in facts if isinstance(fact, (ModelReplied, ModelRequestFailed))), NO_USAGE).total
    reported: dict[CallRef, int] = {}
    for fact in facts:
        if isinstance(fact, ChildUsageReported):
            total = sum(usage.total for _, usage in fact.agents)
            counted += max(0, total - reported.get(fact.call, 0))  # in a branch the child session may be shorter than before
            reported[fact.call] = total
    return counted, reported


def _check_returned_child(name: str, fact: CallReturned, child: State, reported: int) -> Iterator[Violation]:
    """Compare the result of a call with its child session."""
    if fact.status == "error":
        if child.failed_request is not None and child.failed_request.final:
            yield Violation("D4", f"call {fact.call} of {name} has an output, although its child session has only failed")
    elif (usage := child.usage_totals.total.total) != reported:
        yield Violation("usage", f"call {fact.call} of {name} returned, and reported {reported} of the {usage} tokens of its child session")
