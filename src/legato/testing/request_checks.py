"""Checks of model requests: the model input must be what the raw facts say.

They do not use the views, like all of `promise_checks.py`.
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
    OutputText,
    Refusal,
)
from legato.core.groups import AssistantEntry, OutputEntry, UserEntry
from legato.core.history_policies import Custom, Dialogue, Everything, LastTurns, OwnTools, SinceHandoff, Summarised
from legato.core.messages import render_content
from legato.core.view import ModelRequest
from legato.models.model import ModelReply
from legato.testing.ledger_checker import LedgerChecker
from legato.testing.limit_checks import AdmittedMessages, find_run_options
from legato.testing.violations import Violation

_Token: TypeAlias = tuple[str, Any]
"""One entry of a model input: its kind, and a position or a call."""

_Group: TypeAlias = tuple[list[_Token], str, str]
"""Tokens that belong together, the agent that replied, and the agent that got control."""


def build_expected_groups(ledger: LedgerChecker, upto: int, agent: str) -> list[_Group]:
    """Return the whole conversation up to a position, as groups of tokens.

    A reply that an output guardrail rejected, and the guardrail's objection, are only for the agent that replied.
    """
    facts = ledger.facts[: upto + 1]
    groups: list[_Group] = []
    unseen: list[int] = []
    targets = _find_handoff_targets(facts)
    withheld, rejections = _find_withheld_messages(facts), _find_rejections(facts)
    for position, fact in enumerate(facts):
        if isinstance(fact, MessageReceived) and position not in withheld:
            unseen.append(position)
        elif isinstance(fact, AgentPrompted) or (position in rejections and _find_reply_agent(facts, rejections[position]) == agent):
            groups.append(([("synthetic", position)], "", ""))
        elif isinstance(fact, ModelReplied):
            groups += [_make_message_group(at) for at in unseen if at <= fact.upto]
            unseen = [at for at in unseen if at > fact.upto]
            is_hidden = position in rejections.values() and fact.agent != agent  # a hidden reply can still pass control
            groups.append(([] if is_hidden else _make_reply_tokens(ledger, position, fact), fact.agent, targets.get(position, "")))
    return groups + [_make_message_group(at) for at in unseen]


def _make_message_group(position: int) -> _Group:
    return [("user", position)], "", ""


def _find_handoff_targets(facts: Sequence[AnyFact]) -> dict[int, str]:
    """Return, by the position of the reply, the agent to which it handed over."""
    return {fact.call.position: fact.target for fact in facts if isinstance(fact, HandedOff)}


def _make_reply_tokens(ledger: LedgerChecker, position: int, reply: ModelReplied) -> list[_Token]:
    tokens: list[_Token] = [("reply", position)] if reply.items else []
    return tokens + [("output", call.ref) for call in ledger.calls_by_reply.get(position, ())]


def _find_rejections(facts: Sequence[AnyFact]) -> dict[int, int]:
    """Return the positions of output guardrails' rejections, each with that of the rejected reply."""
    return {at: fact.position for at, fact in enumerate(facts) if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}


def _find_reply_agent(facts: Sequence[AnyFact], position: int) -> str:
    reply = facts[position]
    return reply.agent if isinstance(reply, ModelReplied) else ""


def _find_unchecked_messages(facts: Sequence[AnyFact]) -> set[int]:
    """Return the positions of messages that wait for guardrails."""
    messages = AdmittedMessages()
    for position, fact in enumerate(facts):
        messages.apply(position, fact)
    return messages.unchecked


def _find_withheld_messages(facts: Sequence[AnyFact]) -> set[int]:
    """Return the positions of messages that guardrails withheld, or that wait for guardrails."""
    return _find_unchecked_messages(facts) | {
        fact.position for fact in facts if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }


def check_request(ledger: LedgerChecker, request: ModelRequest, violations: list[Violation]) -> None:
    """Check one model request, and add what is wrong to `violations`."""
    label = f"the request of {request.agent} that saw up to {request.upto}"
    if request.upto >= len(ledger.facts):
        violations.append(Violation("C1", f"{label} saw more than was recorded"))
        return
    _check_client_tools(ledger, request, label, violations)
    unchecked = _find_unchecked_messages(ledger.facts[: request.upto + 1])
    if unchecked:
        violations.append(Violation("C1", f"{label} was sent while the message at {min(unchecked)} waited for guardrails"))
    _RequestChecker(ledger, request, label, violations).check()


class _RequestChecker:
    """Compares one request, entry by entry, with the recorded facts."""

    def __init__(self, ledger: LedgerChecker, request: ModelRequest, label: str, violations: list[Violation]) -> None:
        self._ledger = ledger
        self._request = request
        self._label = label
        self._violations = violations
        self._tokens: list[_Token] = []
        self._open_calls: dict[CallRef, Call] = {}
        self._answered_calls: set[CallRef] = set()

    def check(self) -> None:
        for entry in self._request.entries:
            match entry:
                case UserEntry():
                    self._check_user_entry(entry)
                case AssistantEntry():
                    self._check_assistant_entry(entry)
                case OutputEntry():
                    self._check_output_entry(entry)
        if unanswered := [ref for ref in self._open_calls if ref not in self._answered_calls]:
            self._report("C3", f"has no output for call {unanswered[0]}")
        _compare_text_markers(self._ledger, self._request, self._tokens, self._label, self._violations)

    def _report(self, promise: str, problem: str) -> None:
        self._violations.append(Violation(promise, f"{self._label} {problem}"))

    def _find_fact(self, position: int) -> AnyFact | None:
        return self._ledger.facts[position] if position < len(self._ledger.facts) else None

    def _check_user_entry(self, entry: UserEntry) -> None:
        if entry.position < 0:
            return  # part of the turn context
        fact = self._find_fact(entry.position)
        if not isinstance(fact, MessageReceived) or entry.synthetic:
            self._tokens.append(("synthetic", entry.position))
            return
        self._tokens.append(("user", entry.position))
        if fact.content != entry.content and not self._ledger.is_redacted_since(entry.position, self._request):
            self._report("C1", f"has another text for the message at {entry.position}")

    def _check_assistant_entry(self, entry: AssistantEntry) -> None:
        self._tokens.append(("reply", entry.position))
        fact = self._find_fact(entry.position)
        items = fact.items if isinstance(fact, ModelReplied) else ()
        text_items = tuple(item for item in items if isinstance(item, (OutputText, Refusal)))
        if entry.items not in (items, text_items) and not self._ledger.is_redacted_since(entry.position, self._request):
            self._report("C2", f"has other items for the reply at {entry.position}")
        calls = ((CallRef(entry.position, index), item) for index, item in enumerate(entry.items) if isinstance(item, Call))
        self._open_calls.update(calls)

    def _check_output_entry(self, entry: OutputEntry) -> None:
        self._tokens.append(("output", entry.ref))
        if entry.ref in self._answered_calls:
            self._report("C3", f"has two outputs for call {entry.ref}")
        elif entry.ref not in self._open_calls:
            self._report("C3", f"has an output for call {entry.ref}, but not the call before it")
        self._answered_calls.add(entry.ref)
        call = self._ledger.calls.get(entry.ref)
        answers = [(at, content) for at, content in call.outputs if at <= self._request.upto] if call else []
        if not answers:
            self._report("C2", f"has an output for call {entry.ref} that was never recorded")
            return
        at, content = answers[0]
        is_other = content is not None and render_content(content) not in render_content(entry.content)
        if is_other and not self._ledger.is_redacted_since(at, self._request):
            self._report("C2", f"has another output for call {entry.ref} than was recorded")


def _check_client_tools(ledger: LedgerChecker, request: ModelRequest, label: str, violations: list[Violation]) -> None:
    """Check that a request has the tools that its client offers now, and no others of its client."""
    ever_offered = {
        tool.name for fact in ledger.facts if isinstance(fact, (MessageReceived, Decided)) and fact.options for tool in fact.options.tools
    }
    if not ever_offered:
        return
    offered, in_request = (
        {tool.name for tool in find_run_options(ledger.facts[: request.upto + 1]).tools},
        {tool.name for tool in request.turn_context.tools},
    )
    if missing := offered - in_request:
        violations.append(Violation("C2", f"{label} does not offer {min(missing)}, a tool of its client"))
    if unexpected := (ever_offered - offered) & in_request:
        violations.append(Violation("S3", f"{label} offers {min(unexpected)}, which its client does not offer now"))


def _compare_text_markers(
    ledger: LedgerChecker, request: ModelRequest, tokens: list[_Token], label: str, violations: list[Violation]
) -> None:
    groups = _apply_history_policy(ledger, request, build_expected_groups(ledger, request.upto, request.agent), tokens)
    expected = [token for group_tokens, _, _ in groups for token in group_tokens]
    if expected != tokens:
        promise, difference = _describe_difference(expected, tokens)
        violations.append(Violation(promise, f"{label} {difference}"))


def _describe_difference(expected: list[_Token], tokens: list[_Token]) -> tuple[str, str]:
    """Return the promise that a wrong model input breaks, and its first difference from the expected one."""
    for kind, promise in (("user", "C1"), ("synthetic", "C1"), ("reply", "C2"), ("output", "C2")):
        expected_of_kind, of_kind = [token for token in expected if token[0] == kind], [token for token in tokens if token[0] == kind]
        if missing := [token for token in expected_of_kind if token not in of_kind]:
            return promise, f"lacks the {kind} at {missing[0][1]}"
        if unexpected := [token for token in of_kind if token not in expected_of_kind]:
            return promise, f"has the {kind} at {unexpected[0][1]}, which does not belong there"
        if len(of_kind) != len(set(of_kind)):
            return promise, f"has a {kind} twice"
    return "C1", f"has everything, but in the wrong order: {tokens} instead of {expected}"


def _apply_history_policy(ledger: LedgerChecker, request: ModelRequest, groups: list[_Group], tokens: list[_Token]) -> list[_Group]:
    """Return the groups that the request's history policy selects. A custom policy may select any, so its own choice is used."""
    match policy := request.turn_context.history:
        case Everything():
            return groups
        case Dialogue() | OwnTools():
            return [_strip_tool_traffic(ledger, group, request.agent if isinstance(policy, OwnTools) else "") for group in groups]
        case LastTurns(turns=turns):
            return _select_last_turns(groups, turns)
        case SinceHandoff():
            return _select_since_handoff(groups, request.agent)
        case Summarised():
            return _select_not_summarised(ledger, request, groups)
        case Custom():
            selected = set(tokens)
            return [group for group in groups if group[0] and group[0][0] in selected]


def _select_last_turns(groups: list[_Group], turns: int) -> list[_Group]:
    starts = [index for index, (tokens, _, _) in enumerate(groups) if tokens and tokens[0][0] == "user"]
    return groups[starts[-turns] :] if len(starts) >= turns else groups


def _select_since_handoff(groups: list[_Group], agent: str) -> list[_Group]:
    arrivals = [index for index, (_, _, target) in enumerate(groups) if target == agent]
    return groups[arrivals[-1] :] if arrivals else groups


def _select_not_summarised(ledger: LedgerChecker, request: ModelRequest, groups: list[_Group]) -> list[_Group]:
    """Return the groups after those that the agent's newest summary covers. A redacted summary covers nothing."""
    summaries = [(at, fact) for at, fact in enumerate(ledger.facts[: request.upto + 1]) if isinstance(fact, Compacted)]
    redacted = {at for at, _ in summaries if -1 < ledger.find_redaction(at) <= request.upto}
    covered = [fact.upto for at, fact in summaries if fact.agent == request.agent and at not in redacted]
    return [group for group in groups if not covered or not group[0] or _get_position(group[0][0]) > covered[-1]]


def _strip_tool_traffic(ledger: LedgerChecker, group: _Group, own_agent: str) -> _Group:
    """Return the group without calls and outputs, and without a reply that has no text; replies of `own_agent` stay whole."""
    tokens, agent, target = group
    if not tokens or tokens[0][0] != "reply" or (own_agent and agent == own_agent):
        return group
    fact = ledger.facts[tokens[0][1]]
    has_text = isinstance(fact, ModelReplied) and any(isinstance(item, (OutputText, Refusal)) and item.text for item in fact.items)
    return (tokens[:1] if has_text else [], agent, target)


def _get_position(token: _Token) -> int:
    return token[1].position if isinstance(token[1], CallRef) else int(token[1])


def check_replies(ledger: LedgerChecker, replies: Mapping[str, tuple[ModelRequest, ModelReply]], violations: list[Violation]) -> None:
    """Check that every recorded reply is a model's reply, unchanged, and names the request that it answers.

    `replies` has requests and replies by response id.
    """
    for position, fact in enumerate(ledger.facts):
        if not isinstance(fact, ModelReplied):
            continue
        if fact.response_id not in replies:
            violations.append(Violation("D1", f"the reply at {position} comes from no model"))
            continue
        request, reply = replies[fact.response_id]
        if fact.items != reply.items and not ledger.find_redaction(position):
            violations.append(Violation("D1", f"the reply at {position} is not what the model replied"))
        if fact.upto != request.upto:
            violations.append(
                Violation("C1", f"the reply at {position} names the model input up to {fact.upto}; it was up to {request.upto}")
            )
        if fact.agent != request.agent or (fact.context_digest != request.context_digest and not ledger.find_redaction(position)):
            violations.append(Violation("C2", f"the reply at {position} is recorded for another agent or turn context than its request"))
