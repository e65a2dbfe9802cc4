"""What models were sent, compared with what the raw facts say they should have been. May know: requests, and the reading of the facts.

Written apart from the views, as all of `promises.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from legato.core.facts import (
    Answered,
    AnyFact,
    Call,
    CallRef,
    Compacted,
    Decided,
    HandedOff,
    Judged,
    Prompted,
    Refusal,
    Said,
    Words,
)
from legato.core.groups import AssistantEntry, OutputEntry, UserEntry
from legato.core.history import Custom, Dialogue, Everything, Last, OwnTools, SinceHandoff, Summarised
from legato.core.messages import text_of
from legato.core.view import Request
from legato.models.base import Reply
from legato.testing.pauses import Landings, options_at
from legato.testing.recorded import Reading
from legato.testing.violations import Violation

_Token: TypeAlias = tuple[str, Any]


def expected(reading: Reading, upto: int, agent: str) -> list[tuple[list[_Token], str, str]]:
    """The whole conversation up to a position, as groups of tokens, each with the agent that spoke and the one control passed to.

    A reply that was not accepted, and the objection to it, are for its own agent alone.
    """
    groups: list[tuple[list[_Token], str, str]] = []
    waiting: list[tuple[int, list[_Token]]] = []
    handed = {fact.call.position: fact.target for fact in reading.facts[: upto + 1] if isinstance(fact, HandedOff)}
    withheld = _not_let_pass(reading.facts[: upto + 1])
    refused: set[int] = set()
    objections: dict[int, str] = {}
    for position, fact in enumerate(reading.facts[: upto + 1]):
        if isinstance(fact, Judged) and fact.kind == "output" and fact.stop:
            about = reading.facts[fact.position]
            refused.add(fact.position)
            objections[position] = about.agent if isinstance(about, Answered) else ""
    for position, fact in enumerate(reading.facts[: upto + 1]):
        if isinstance(fact, Said):
            if position not in withheld:
                waiting.append((position, [("user", position)]))
        elif isinstance(fact, Prompted) or (isinstance(fact, Judged) and position in objections and objections[position] == agent):
            groups.append(([("synthetic", position)], "", ""))
        elif isinstance(fact, Answered):
            groups += [(tokens, "", "") for at, tokens in waiting if at <= fact.upto]
            waiting = [(at, tokens) for at, tokens in waiting if at > fact.upto]
            if position in refused and fact.agent != agent:
                groups.append(([], fact.agent, handed.get(position, "")))  # it is not shown, and passed control all the same
                continue
            reply: list[_Token] = [("reply", position)] if fact.items else []
            calls = reading.by_reply.get(position, ())
            groups.append((reply + [("output", call.ref) for call in calls], fact.agent, handed.get(position, "")))
    groups += [(tokens, "", "") for _, tokens in waiting]
    return groups


def _not_judged(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails have yet to judge."""
    messages = Landings()
    for position, fact in enumerate(facts):
        messages.landed(position, fact)
    return messages.outside


def _not_let_pass(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails withhold, or have yet to judge."""
    return _not_judged(facts) | {fact.position for fact in facts if isinstance(fact, Judged) and fact.kind == "input" and fact.stop}


def check_request(reading: Reading, request: Request, broken: list[Violation]) -> None:
    where = f"the request of {request.agent} that saw up to {request.upto}"
    facts = reading.facts
    if request.upto >= len(facts):
        broken.append(Violation("C1", f"{where} saw more than was recorded"))
        return
    _check_client_tools(reading, request, where, broken)
    waiting = _not_judged(facts[: request.upto + 1])
    if waiting:
        broken.append(Violation("C1", f"{where} was sent while the message at {min(waiting)} waited to be judged"))
    seen: list[_Token] = []
    open_calls: dict[CallRef, Call] = {}
    answered: set[CallRef] = set()
    for entry in request.entries:
        if isinstance(entry, UserEntry):
            if entry.position < 0:
                continue  # of the frame
            fact = facts[entry.position] if entry.position < len(facts) else None
            if isinstance(fact, Said) and not entry.synthetic:
                seen.append(("user", entry.position))
                if fact.content != entry.content and not reading.erased_since(entry.position, request):
                    broken.append(Violation("C1", f"{where} has other words for the message at {entry.position}"))
            else:
                seen.append(("synthetic", entry.position))
        elif isinstance(entry, AssistantEntry):
            seen.append(("reply", entry.position))
            fact = facts[entry.position] if entry.position < len(facts) else None
            whole = fact.items if isinstance(fact, Answered) else ()
            spoken = tuple(item for item in whole if isinstance(item, (Words, Refusal)))
            if entry.items not in (whole, spoken) and not reading.erased_since(entry.position, request):
                broken.append(Violation("C2", f"{where} has other words for the reply at {entry.position}"))
            open_calls.update((CallRef(entry.position, index), item) for index, item in enumerate(entry.items) if isinstance(item, Call))
        else:
            assert isinstance(entry, OutputEntry)
            seen.append(("output", entry.ref))
            if entry.ref in answered:
                broken.append(Violation("C3", f"{where} has two outputs for call {entry.ref}"))
            elif entry.ref not in open_calls:
                broken.append(Violation("C3", f"{where} has an output for call {entry.ref}, which it does not show before it"))
            answered.add(entry.ref)
            _check_output(reading, request, entry, where, broken)
    if unanswered := [ref for ref in open_calls if ref not in answered]:
        broken.append(Violation("C3", f"{where} has no output for call {unanswered[0]}"))
    _compare(reading, request, seen, where, broken)


def _check_client_tools(reading: Reading, request: Request, where: str, broken: list[Violation]) -> None:
    """A request offers the tools of its client, and none that it has taken back."""
    known = {tool.name for fact in reading.facts if isinstance(fact, (Said, Decided)) and fact.options for tool in fact.options.tools}
    if not known:
        return
    offered, sent = {tool.name for tool in options_at(reading.facts[: request.upto + 1]).tools}, {tool.name for tool in request.frame.tools}
    if lacking := offered - sent:
        broken.append(Violation("C2", f"{where} does not offer {min(lacking)}, a tool of its client"))
    if strange := (known - offered) & sent:
        broken.append(Violation("S3", f"{where} offers {min(strange)}, which its client does not offer now"))


def _check_output(reading: Reading, request: Request, entry: OutputEntry, where: str, broken: list[Violation]) -> None:
    call = reading.calls.get(entry.ref)
    answers = [(at, content) for at, content in call.answers if at <= request.upto] if call else []
    if not answers:
        broken.append(Violation("C2", f"{where} has an output for call {entry.ref} that was never recorded"))
        return
    at, content = answers[0]
    if content is not None and text_of(content) not in text_of(entry.content) and not reading.erased_since(at, request):
        broken.append(Violation("C2", f"{where} has another output for call {entry.ref} than was recorded"))


def _compare(reading: Reading, request: Request, seen: list[_Token], where: str, broken: list[Violation]) -> None:
    groups = expected(reading, request.upto, request.agent)
    policy = request.frame.history
    match policy:
        case Everything():
            pass
        case Dialogue() | OwnTools():
            groups = [_worded(reading, group, request.agent if isinstance(policy, OwnTools) else "") for group in groups]
        case Last(turns=turns):
            starts = [index for index, (tokens, _, _) in enumerate(groups) if tokens and tokens[0][0] == "user"]
            groups = groups[starts[-turns] :] if len(starts) >= turns else groups
        case SinceHandoff():
            arrivals = [index for index, (_, _, target) in enumerate(groups) if target == request.agent]
            groups = groups[arrivals[-1] :] if arrivals else groups
        case Summarised():
            compacted = [(at, fact) for at, fact in enumerate(reading.facts[: request.upto + 1]) if isinstance(fact, Compacted)]
            void = {at for at, _ in compacted if -1 < reading.erased_at(at) <= request.upto}
            covered = [fact.upto for at, fact in compacted if fact.agent == request.agent and at not in void]
            groups = [group for group in groups if not covered or not group[0] or _at(group[0][0]) > covered[-1]]
        case Custom():
            shown = set(seen)
            groups = [group for group in groups if group[0] and group[0][0] in shown]
    wanted = [token for tokens, _, _ in groups for token in tokens]
    if wanted == seen:
        return
    for kind, promise in (("user", "C1"), ("synthetic", "C1"), ("reply", "C2"), ("output", "C2")):
        want, have = [token for token in wanted if token[0] == kind], [token for token in seen if token[0] == kind]
        if lost := [token for token in want if token not in have]:
            broken.append(Violation(promise, f"{where} lacks the {kind} at {lost[0][1]}"))
            return
        if strange := [token for token in have if token not in want]:
            broken.append(Violation(promise, f"{where} has the {kind} at {strange[0][1]}, which does not belong there"))
            return
        if len(have) != len(set(have)):
            broken.append(Violation(promise, f"{where} has a {kind} twice"))
            return
    broken.append(Violation("C1", f"{where} has everything, but not in order: {seen} instead of {wanted}"))


def _worded(reading: Reading, group: tuple[list[_Token], str, str], own: str) -> tuple[list[_Token], str, str]:
    tokens, agent, target = group
    if not tokens or tokens[0][0] != "reply" or (own and agent == own):
        return group
    fact = reading.facts[tokens[0][1]]
    spoken = isinstance(fact, Answered) and any(isinstance(item, (Words, Refusal)) and item.text for item in fact.items)
    return (tokens[:1] if spoken else [], agent, target)


def _at(token: _Token) -> int:
    return token[1].position if isinstance(token[1], CallRef) else int(token[1])


def check_replies(reading: Reading, given: Mapping[str, tuple[Request, Reply]], broken: list[Violation]) -> None:
    """Every recorded reply is one that a model gave, as it gave it, for what it was given for."""
    for position, fact in enumerate(reading.facts):
        if not isinstance(fact, Answered):
            continue
        if fact.response_id not in given:
            broken.append(Violation("D1", f"the reply at {position} was never given by a model"))
            continue
        request, reply = given[fact.response_id]
        if fact.items != reply.items and not reading.erased_at(position):
            broken.append(Violation("D1", f"the reply at {position} is not what the model said"))
        if fact.upto != request.upto:
            broken.append(Violation("C1", f"the reply at {position} says that it saw up to {fact.upto}; it saw up to {request.upto}"))
        if fact.agent != request.agent or (fact.frame != request.frame_digest and not reading.erased_at(position)):
            broken.append(Violation("C2", f"the reply at {position} is recorded for another agent or frame than was asked"))
