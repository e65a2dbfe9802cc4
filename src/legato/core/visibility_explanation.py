"""Explanations of why each group of a conversation is in a model request, or not.

`select_groups` (view.py) alone decides which groups a request contains. An explanation looks each group up in its result, so the two cannot
disagree, and normal requests pay nothing for explanations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core.facts import GuardrailJudged
from legato.core.groups import Group
from legato.core.history_policies import (
    Custom,
    Dialogue,
    Everything,
    HistoryPolicy,
    LastTurns,
    OwnTools,
    SinceHandoff,
    Summarised,
    find_handoff_index,
)
from legato.core.state import State
from legato.core.view import select_groups

Visibility: TypeAlias = Literal["whole", "words", "no"]
"""The part of a group that an agent sees: "whole", its "words" without tool traffic and reasoning, or "no" part."""

VISIBILITY_SIGNS: dict[Visibility, str] = {"whole": "+", "words": "~", "no": "-"}


class GroupExplanation(Struct, frozen=True):
    """The explanation for one group: the part of it that the agent sees, and the rule for that.

    Printed with `+` if the agent sees the whole group, `~` if it sees the words, `-` if it does not see the group.
    """

    group: Group
    visibility: Visibility
    rule: str

    @property
    def position(self) -> int:
        """The position of the message or the reply."""
        return self.group.position

    @property
    def author(self) -> str:
        """The agent or the user that wrote it; for a prompt or an objection, which have no author, the kind of the group."""
        if self.group.kind == "said":
            return self.group.author or "user"
        return self.group.agent if self.group.kind == "reply" else self.group.kind

    def __str__(self) -> str:
        return f"{VISIBILITY_SIGNS[self.visibility]} {self.position} {self.author}: {self.rule}"


def explain_groups(
    state: State,
    policy: HistoryPolicy,
    agent: str,
    kept_groups: tuple[tuple[int, int], ...] | None = None,
    redacted_at: Mapping[int, int] | None = None,
) -> list[GroupExplanation]:
    """Explain every group of the conversation, in conversational order, for one agent and policy.

    `redacted_at`: facts that were redacted later, and the position of the redaction.
    """
    selected = {group.position: group for group in select_groups(state, policy, agent, kept_groups)}
    explainer = _GroupExplainer(state, policy, agent)
    explanations = []
    for group in (*state.groups, *state.new_messages, *state.unchecked_messages):
        part = selected.get(group.position)
        visibility: Visibility = "no" if part is None else "whole" if part is group else "words"
        remark = _describe_redaction(group, redacted_at) if redacted_at else ""
        explanations.append(GroupExplanation(group, visibility, explainer.explain(group, visibility) + remark))
    return explanations


def describe_policy(policy: HistoryPolicy) -> str:
    """Return a phrase that describes what an agent sees under a policy.

    >>> describe_policy(LastTurns(2))
    'the last 2 messages of the user and all that followed them'
    """
    match policy:
        case Everything():
            return "the whole conversation"
        case Dialogue():
            return "all words, no tool traffic"
        case SinceHandoff():
            return "all from the reply on that handed over to this agent"
        case LastTurns(turns=turns):
            return f"{_describe_turns(turns)} and all that followed {'it' if turns <= 1 else 'them'}"
        case OwnTools():
            return "all words, and this agent's own tool traffic"
        case Summarised(tokens=tokens, keep=keep):
            return f"all of it; above {tokens} tokens, a summary in place of all but the last {keep} turns"
        case Custom(name=name):
            return f"what the function {name!r} chose"


class _GroupExplainer:
    """Finds the rule for each group of a state. Facts about the whole conversation are looked up once."""

    def __init__(self, state: State, policy: HistoryPolicy, agent: str) -> None:
        self._policy = policy
        self._agent = agent
        self._unchecked = {group.position for group in state.unchecked_messages}
        self._withholding_guardrails: dict[int, str] = {}  # by message: the guardrail that withholds it
        if state.withheld_message_count:
            self._withholding_guardrails = {
                fact.position: fact.guardrail
                for fact in state.facts
                if type(fact) is GuardrailJudged and fact.kind == "input" and fact.stop
            }
        self._handoff: Group | None = None  # the reply that handed over
        self._summary_end = -1  # where the summary ends
        if type(policy) is SinceHandoff:
            groups = [*state.groups, *state.new_messages]
            reply = groups[find_handoff_index(groups, agent)] if groups else None
            self._handoff = reply if reply is not None and reply.handed_to == agent else None
        elif type(policy) is Summarised and agent in state.summaries:
            self._summary_end = state.summaries[agent].upto

    def explain(self, group: Group, visibility: Visibility) -> str:
        if group.position in self._unchecked:
            return "waits to be checked by a guardrail"
        if group.withheld:
            return f"withheld by the guardrail {self._withholding_guardrails.get(group.position, '')!r}"
        if group.agent != self._agent and (group.rejected or group.kind == "feedback"):
            kind = "a reply that was not accepted" if group.rejected else "an objection to a reply"
            return f"{kind}: only {group.agent!r}, whose reply it was, sees it"
        return self._explain_by_policy(group, visibility)

    def _explain_by_policy(self, group: Group, visibility: Visibility) -> str:
        match self._policy:
            case Everything():
                return "everything: the whole conversation"
            case Dialogue():
                return {
                    "whole": "dialogue: words",
                    "words": "dialogue: only the words; tool traffic is left out",
                    "no": "dialogue: only tool traffic, which is left out",
                }[visibility]
            case SinceHandoff():
                if self._handoff is None:
                    return "since_handoff: no agent handed over to this one, so it sees the whole conversation"
                passed = f"{self._handoff.agent} handed over at position {self._handoff.position}"
                return f"since_handoff: {'before' if visibility == 'no' else 'since'} {passed}"
            case LastTurns(turns=turns):
                older, within = f"older than {_describe_turns(turns)}", f"within {_describe_turns(turns)} and what followed"
                return f"last({turns}): {older if visibility == 'no' else within}"
            case OwnTools():
                if group.agent == self._agent:
                    return "own_tools: this agent's own"
                return {
                    "whole": "own_tools: words",
                    "words": "own_tools: only the words; another agent's tool traffic is left out",
                    "no": "own_tools: only another agent's tool traffic, which is left out",
                }[visibility]
            case Summarised():
                if self._summary_end < 0:
                    return "summarised: the whole conversation, because there is no summary yet"
                relation = "replaced by" if visibility == "no" else "after"
                return f"summarised: {relation} the summary, which covers all up to position {self._summary_end}"
            case Custom(name=name):
                return f"custom {name!r}: {'not chosen' if visibility == 'no' else 'chosen'}"


def _describe_redaction(group: Group, redacted_at: Mapping[int, int]) -> str:
    """Return the remark that text which the agent saw was erased later; empty if none was."""
    positions = [group.position, *(call.output.position for call in group.calls if call.output is not None)]
    at = [redacted_at[position] for position in positions if position in redacted_at]
    return f"; words of it were erased later, at position {max(at)}" if at else ""


def _describe_turns(turns: int) -> str:
    return "the last message of the user" if turns <= 1 else f"the last {turns} messages of the user"
