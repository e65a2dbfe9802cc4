"""What models were sent, compared with what the raw facts say they should have been. May know: requests, and the reading of the facts.

Written apart from the views, as all of `promises.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from legato.core.facts import (
    AgentPrompted,
    AnyFact,
    Call,
    CallRef,
    Compacted,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Refusal,
    Words,
)
from legato.core.groups import AssistantEntry, OutputEntry, UserEntry
from legato.core.history_policies import Custom, Dialogue, Everything, Last, OwnTools, SinceHandoff, Summarised
from legato.core.messages import text_of
from legato.core.view import Request
from legato.models.base import Reply
from legato.testing.pauses import Landings, options_at
from legato.testing.recorded import Reading
from legato.testing.violations import Violation

_Token: TypeAlias = tuple[str, Any]


_Group: TypeAlias = tuple[list[_Token], str, str]
"""Tokens that are shown together, the agent that spoke, and the one control passed to."""


def expected(reading: Reading, upto: int, agent: str) -> list[_Group]:
    """The whole conversation up to a position, as groups of tokens, each with the agent that spoke and the one control passed to.

    A reply that was not accepted, and the objection to it, are for its own agent alone.
    """
    facts = reading.facts[: upto + 1]
    groups: list[_Group] = []
    waiting: list[int] = []
    handed = _handoffs(facts)
    withheld, objections = _not_let_pass(facts), _objections(facts)
    for position, fact in enumerate(facts):
        if isinstance(fact, MessageReceived) and position not in withheld:
            waiting.append(position)
        elif isinstance(fact, AgentPrompted) or (position in objections and _agent_of(facts, objections[position]) == agent):
            groups.append(([("synthetic", position)], "", ""))
        elif isinstance(fact, ModelReplied):
            groups += [_message_group(at) for at in waiting if at <= fact.upto]
            waiting = [at for at in waiting if at > fact.upto]
            hidden = position in objections.values() and fact.agent != agent  # it is not shown, and passed control all the same
            groups.append(([] if hidden else _reply_tokens(reading, position, fact), fact.agent, handed.get(position, "")))
    return groups + [_message_group(at) for at in waiting]


def _message_group(position: int) -> _Group:
    return [("user", position)], "", ""


def _handoffs(facts: Sequence[AnyFact]) -> dict[int, str]:
    """The agent that control passed to, by the reply that handed it over."""
    return {fact.call.position: fact.target for fact in facts if isinstance(fact, HandedOff)}


def _reply_tokens(reading: Reading, position: int, reply: ModelReplied) -> list[_Token]:
    own: list[_Token] = [("reply", position)] if reply.items else []
    return own + [("output", call.ref) for call in reading.by_reply.get(position, ())]


def _objections(facts: Sequence[AnyFact]) -> dict[int, int]:
    """Where a reply was not accepted: the position of the verdict, and of the reply."""
    return {at: fact.position for at, fact in enumerate(facts) if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}


def _agent_of(facts: Sequence[AnyFact], position: int) -> str:
    reply = facts[position]
    return reply.agent if isinstance(reply, ModelReplied) else ""


def _not_judged(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails have yet to judge."""
    messages = Landings()
    for position, fact in enumerate(facts):
        messages.landed(position, fact)
    return messages.outside


def _not_let_pass(facts: Sequence[AnyFact]) -> set[int]:
    """The messages that guardrails withhold, or have yet to judge."""
    return _not_judged(facts) | {
        fact.position for fact in facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }


def check_request(reading: Reading, request: Request, broken: list[Violation]) -> None:
    where = f"the request of {request.agent} that saw up to {request.upto}"
    if request.upto >= len(reading.facts):
        broken.append(Violation("C1", f"{where} saw more than was recorded"))
        return
    _check_client_tools(reading, request, where, broken)
    waiting = _not_judged(reading.facts[: request.upto + 1])
    if waiting:
        broken.append(Violation("C1", f"{where} was sent while the message at {min(waiting)} waited to be judged"))
    _Entries(reading, request, where, broken).check()


class _Entries:
    """What is in one request, read entry by entry and compared with what was recorded."""

    def __init__(self, reading: Reading, request: Request, where: str, broken: list[Violation]) -> None:
        self._reading = reading
        self._request = request
        self._where = where
        self._broken = broken
        self._seen: list[_Token] = []
        self._open_calls: dict[CallRef, Call] = {}
        self._answered: set[CallRef] = set()

    def check(self) -> None:
        for entry in self._request.entries:
            match entry:
                case UserEntry():
                    self._read_words(entry)
                case AssistantEntry():
                    self._read_reply(entry)
                case OutputEntry():
                    self._read_output(entry)
        if unanswered := [ref for ref in self._open_calls if ref not in self._answered]:
            self._say("C3", f"has no output for call {unanswered[0]}")
        _compare(self._reading, self._request, self._seen, self._where, self._broken)

    def _say(self, promise: str, what: str) -> None:
        self._broken.append(Violation(promise, f"{self._where} {what}"))

    def _fact_at(self, position: int) -> AnyFact | None:
        return self._reading.facts[position] if position < len(self._reading.facts) else None

    def _read_words(self, entry: UserEntry) -> None:
        if entry.position < 0:
            return  # of the frame
        fact = self._fact_at(entry.position)
        if not isinstance(fact, MessageReceived) or entry.synthetic:
            self._seen.append(("synthetic", entry.position))
            return
        self._seen.append(("user", entry.position))
        if fact.content != entry.content and not self._reading.erased_since(entry.position, self._request):
            self._say("C1", f"has other words for the message at {entry.position}")

    def _read_reply(self, entry: AssistantEntry) -> None:
        self._seen.append(("reply", entry.position))
        fact = self._fact_at(entry.position)
        whole = fact.items if isinstance(fact, ModelReplied) else ()
        spoken = tuple(item for item in whole if isinstance(item, (Words, Refusal)))
        if entry.items not in (whole, spoken) and not self._reading.erased_since(entry.position, self._request):
            self._say("C2", f"has other words for the reply at {entry.position}")
        calls = ((CallRef(entry.position, index), item) for index, item in enumerate(entry.items) if isinstance(item, Call))
        self._open_calls.update(calls)

    def _read_output(self, entry: OutputEntry) -> None:
        self._seen.append(("output", entry.ref))
        if entry.ref in self._answered:
            self._say("C3", f"has two outputs for call {entry.ref}")
        elif entry.ref not in self._open_calls:
            self._say("C3", f"has an output for call {entry.ref}, which it does not show before it")
        self._answered.add(entry.ref)
        call = self._reading.calls.get(entry.ref)
        answers = [(at, content) for at, content in call.answers if at <= self._request.upto] if call else []
        if not answers:
            self._say("C2", f"has an output for call {entry.ref} that was never recorded")
            return
        at, content = answers[0]
        other = content is not None and text_of(content) not in text_of(entry.content)
        if other and not self._reading.erased_since(at, self._request):
            self._say("C2", f"has another output for call {entry.ref} than was recorded")


def _check_client_tools(reading: Reading, request: Request, where: str, broken: list[Violation]) -> None:
    """A request offers the tools of its client, and none that it has taken back."""
    known = {
        tool.name for fact in reading.facts if isinstance(fact, (MessageReceived, Decided)) and fact.options for tool in fact.options.tools
    }
    if not known:
        return
    offered, sent = {tool.name for tool in options_at(reading.facts[: request.upto + 1]).tools}, {tool.name for tool in request.frame.tools}
    if lacking := offered - sent:
        broken.append(Violation("C2", f"{where} does not offer {min(lacking)}, a tool of its client"))
    if strange := (known - offered) & sent:
        broken.append(Violation("S3", f"{where} offers {min(strange)}, which its client does not offer now"))


def _compare(reading: Reading, request: Request, seen: list[_Token], where: str, broken: list[Violation]) -> None:
    groups = _under_policy(reading, request, expected(reading, request.upto, request.agent), seen)
    wanted = [token for tokens, _, _ in groups for token in tokens]
    if wanted != seen:
        promise, what = _difference(wanted, seen)
        broken.append(Violation(promise, f"{where} {what}"))


def _difference(wanted: list[_Token], seen: list[_Token]) -> tuple[str, str]:
    """How what was shown differs from what should have been: the promise that this breaks, and the first difference of a kind."""
    for kind, promise in (("user", "C1"), ("synthetic", "C1"), ("reply", "C2"), ("output", "C2")):
        want, have = [token for token in wanted if token[0] == kind], [token for token in seen if token[0] == kind]
        if lost := [token for token in want if token not in have]:
            return promise, f"lacks the {kind} at {lost[0][1]}"
        if strange := [token for token in have if token not in want]:
            return promise, f"has the {kind} at {strange[0][1]}, which does not belong there"
        if len(have) != len(set(have)):
            return promise, f"has a {kind} twice"
    return "C1", f"has everything, but not in order: {seen} instead of {wanted}"


def _under_policy(reading: Reading, request: Request, groups: list[_Group], seen: list[_Token]) -> list[_Group]:
    """What the history policy of the request leaves of the whole conversation."""
    match policy := request.frame.history:
        case Everything():
            return groups
        case Dialogue() | OwnTools():
            return [_worded(reading, group, request.agent if isinstance(policy, OwnTools) else "") for group in groups]
        case Last(turns=turns):
            return _last_turns(groups, turns)
        case SinceHandoff():
            return _since_handoff(groups, request.agent)
        case Summarised():
            return _not_summarised(reading, request, groups)
        case Custom():
            shown = set(seen)
            return [group for group in groups if group[0] and group[0][0] in shown]


def _last_turns(groups: list[_Group], turns: int) -> list[_Group]:
    starts = [index for index, (tokens, _, _) in enumerate(groups) if tokens and tokens[0][0] == "user"]
    return groups[starts[-turns] :] if len(starts) >= turns else groups


def _since_handoff(groups: list[_Group], agent: str) -> list[_Group]:
    arrivals = [index for index, (_, _, target) in enumerate(groups) if target == agent]
    return groups[arrivals[-1] :] if arrivals else groups


def _not_summarised(reading: Reading, request: Request, groups: list[_Group]) -> list[_Group]:
    """The groups after those that the agent's newest summary covers. One whose words were erased covers nothing."""
    compacted = [(at, fact) for at, fact in enumerate(reading.facts[: request.upto + 1]) if isinstance(fact, Compacted)]
    void = {at for at, _ in compacted if -1 < reading.erased_at(at) <= request.upto}
    covered = [fact.upto for at, fact in compacted if fact.agent == request.agent and at not in void]
    return [group for group in groups if not covered or not group[0] or _at(group[0][0]) > covered[-1]]


def _worded(reading: Reading, group: _Group, own: str) -> _Group:
    tokens, agent, target = group
    if not tokens or tokens[0][0] != "reply" or (own and agent == own):
        return group
    fact = reading.facts[tokens[0][1]]
    spoken = isinstance(fact, ModelReplied) and any(isinstance(item, (Words, Refusal)) and item.text for item in fact.items)
    return (tokens[:1] if spoken else [], agent, target)


def _at(token: _Token) -> int:
    return token[1].position if isinstance(token[1], CallRef) else int(token[1])


def check_replies(reading: Reading, given: Mapping[str, tuple[Request, Reply]], broken: list[Violation]) -> None:
    """Every recorded reply is one that a model gave, as it gave it, for what it was given for."""
    for position, fact in enumerate(reading.facts):
        if not isinstance(fact, ModelReplied):
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
