"""Why each part of a conversation is in a request, or not. May know: the state, policies. Decides: how the rule that decided is told.

What is in is decided by `visible` (view.py) alone. An explanation asks it, and looks each group up in its answer: so the two cannot
disagree, and whoever is not asked to explain pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core.facts import GuardrailJudged
from legato.core.groups import Group
from legato.core.history_policies import Custom, Dialogue, Everything, HistorySpec, Last, OwnTools, SinceHandoff, Summarised, arrival
from legato.core.state import State
from legato.core.view import visible

Mark: TypeAlias = Literal["whole", "words", "no"]
"""Whether an agent is shown a group: all of it, its words without tool traffic and reasoning, or nothing."""


SIGNS: dict[Mark, str] = {"whole": "+", "words": "~", "no": "-"}


class Explained(Struct, frozen=True):
    """One group of the conversation: whether the agent was shown it, and why. Printed with `+` if whole, `~` if its words, `-` if not."""

    group: Group
    shown: Mark
    rule: str

    @property
    def position(self) -> int:
        """Where the message, or the reply, is recorded."""
        return self.group.position

    @property
    def author(self) -> str:
        """Who said it: an agent, or the user. Of what nobody said (a prompt, an objection), what it is."""
        if self.group.kind == "said":
            return self.group.author or "user"
        return self.group.agent if self.group.kind == "reply" else self.group.kind

    def __str__(self) -> str:
        return f"{SIGNS[self.shown]} {self.position} {self.author}: {self.rule}"


def explained(
    state: State, spec: HistorySpec, agent: str, kept: tuple[tuple[int, int], ...] | None = None, erased: Mapping[int, int] | None = None
) -> list[Explained]:
    """Every group of the conversation, in conversational order: what this policy makes of it for this agent, and why.

    `erased`: facts that have lost their words since, and where that is recorded.
    """
    seen = {group.position: group for group in visible(state, spec, agent, kept)}
    told = _Telling(state, spec, agent)
    found = []
    for group in (*state.groups, *state.tail, *state.waiting):
        shown = seen.get(group.position)
        mark: Mark = "no" if shown is None else "whole" if shown is group else "words"
        found.append(Explained(group, mark, told.why(group, mark) + (_erased(group, erased) if erased else "")))
    return found


def policy_told(spec: HistorySpec) -> str:
    """What a policy lets an agent see, in words.

    >>> policy_told(Last(2))
    'the last 2 messages of the user and all that followed them'
    """
    match spec:
        case Everything():
            return "the whole conversation"
        case Dialogue():
            return "all words, no tool traffic"
        case SinceHandoff():
            return "all from the reply on that handed over to this agent"
        case Last(turns=turns):
            return f"{_messages(turns)} and all that followed {'it' if turns <= 1 else 'them'}"
        case OwnTools():
            return "all words, and this agent's own tool traffic"
        case Summarised(tokens=tokens, keep=keep):
            return f"all of it; above {tokens} tokens, a summary in place of all but the last {keep} turns"
        case Custom(name=name):
            return f"what the function {name!r} chose"


class _Telling:
    """Tells of every group of a state by which rule it is in or out. What a rule needs to know of the whole is found once."""

    def __init__(self, state: State, spec: HistorySpec, agent: str) -> None:
        self._spec = spec
        self._agent = agent
        self._waiting = {group.position for group in state.waiting}
        self._judges: dict[int, str] = {}  # by message: the guardrail that withholds it
        if state.withheld:
            self._judges = {
                fact.position: fact.by for fact in state.facts if type(fact) is GuardrailJudged and fact.kind == "input" and fact.stop
            }
        self._from: Group | None = None  # the reply that handed over
        self._upto = -1  # where the summary ends
        if type(spec) is SinceHandoff:
            groups = [*state.groups, *state.tail]
            at = groups[arrival(groups, agent)] if groups else None
            self._from = at if at is not None and at.handed_to == agent else None
        elif type(spec) is Summarised and agent in state.summaries:
            self._upto = state.summaries[agent].upto

    def why(self, group: Group, mark: Mark) -> str:
        if group.position in self._waiting:
            return "waits for a guardrail to look at it"
        if group.blocked:
            return f"withheld by the guardrail {self._judges.get(group.position, '')!r}"
        if group.agent != self._agent and (group.rejected or group.kind == "feedback"):
            what = "a reply that was not accepted" if group.rejected else "an objection to a reply"
            return f"{what}: only {group.agent!r}, whose reply it was, sees it"
        return self._by_policy(group, mark)

    def _by_policy(self, group: Group, mark: Mark) -> str:
        match self._spec:
            case Everything():
                return "everything: the whole conversation"
            case Dialogue():
                return {
                    "whole": "dialogue: words",
                    "words": "dialogue: only the words; tool traffic is left out",
                    "no": "dialogue: only tool traffic, which is left out",
                }[mark]
            case SinceHandoff():
                if self._from is None:
                    return "since_handoff: nobody handed over to this agent, so it is shown the whole conversation"
                passed = f"{self._from.agent} handed over at position {self._from.position}"
                return f"since_handoff: {'before' if mark == 'no' else 'since'} {passed}"
            case Last(turns=turns):
                older, within = f"older than {_messages(turns)}", f"within {_messages(turns)} and what followed"
                return f"last({turns}): {older if mark == 'no' else within}"
            case OwnTools():
                if group.agent == self._agent:
                    return "own_tools: this agent's own"
                return {
                    "whole": "own_tools: words",
                    "words": "own_tools: only the words; another agent's tool traffic is left out",
                    "no": "own_tools: only another agent's tool traffic, which is left out",
                }[mark]
            case Summarised():
                if self._upto < 0:
                    return "summarised: the whole conversation, for there is no summary yet"
                return f"summarised: {'told by' if mark == 'no' else 'after'} the summary, which covers all up to position {self._upto}"
            case Custom(name=name):
                return f"custom {name!r}: {'not chosen' if mark == 'no' else 'chosen'}"


def _erased(group: Group, erased: Mapping[int, int]) -> str:
    """What is to be said of words that were erased since: the agent had been shown them, and nobody can tell any more what they were."""
    made_of = [group.position, *(call.output.position for call in group.calls if call.output is not None)]
    at = [erased[position] for position in made_of if position in erased]
    return f"; words of it were erased later, at position {max(at)}" if at else ""


def _messages(turns: int) -> str:
    return "the last message of the user" if turns <= 1 else f"the last {turns} messages of the user"
