"""How much an agent is shown, in letters. May know: the state, policies. Decides: what counts as a letter, and that none is counted twice.

For estimates of a part of a request, of which only the whole is known in tokens. A long conversation may be handed over a thousand
times, and looking at all of it each time would cost its square: so sums are kept as it grows.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.core.facts import Call, Content, Hosted, Refusal, Text, Words
from legato.core.frame import Frame
from legato.core.groups import Group
from legato.core.history import Custom, Dialogue, HistorySpec, Last, OwnTools, SinceHandoff, Summarised, arrival, last_turns
from legato.core.state import State
from legato.core.view import visible

PICTURE = 3_000
"""Letters that a picture or a file counts for: some 750 tokens, the order of what providers charge for one."""


class Letters:
    """The letters of one conversation, which may grow between two questions."""

    def __init__(self) -> None:
        self._whole = [0]  # all letters of the first n groups
        self._words = [0]  # the same without tool traffic
        self._traffic: dict[str, int] = {}  # by agent: the tool traffic among them

    def of_view(self, state: State, spec: HistorySpec, agent: str, kept: tuple[tuple[int, int], ...] | None) -> tuple[int, int]:
        """What an agent is shown: how much of it was there when the newest reply had been made, and how much came since.

        The outputs of that reply's calls came since.
        """
        if state.withheld or state.rejections:  # seldom: then not all groups are for everybody, and sums over all say little
            return by_looking(state, visible(state, spec, agent, kept))
        groups, known = [*state.groups, *state.tail], _known(state)
        self._count(groups[len(self._whole) - 1 : known])
        newest = groups[known - 1] if known else None
        match spec:
            case Dialogue():
                return self._words[known], sum(map(_words, groups[known:]))
            case OwnTools():
                old, new = self._words[known] + self._traffic.get(agent, 0), 0
                for group in groups[known:]:
                    new += _all(group) if group.agent == agent else _words(group)
                came = _returned(newest) if newest is not None and newest.agent == agent else 0
            case _:
                runs = _runs(groups, state, spec, agent, kept)
                old = sum(self._whole[min(high, known)] - self._whole[min(low, known)] for low, high in runs)
                new = sum(_all(group) for low, high in runs for group in groups[max(low, known) : high])
                came = _returned(newest) if newest is not None and any(low < known <= high for low, high in runs) else 0
        return old - came, new + came

    def _count(self, groups: Sequence[Group]) -> None:
        for group in groups:
            self._whole.append(self._whole[-1] + _all(group))
            self._words.append(self._words[-1] + _words(group))
            self._traffic[group.agent] = self._traffic.get(group.agent, 0) + _all(group) - _words(group)


def by_looking(state: State, shown: Sequence[Group]) -> tuple[int, int]:
    """The same, from what is shown itself."""
    since = {group.position for group in (*state.groups[_known(state) :], *state.tail)}
    old = new = 0
    for group in shown:
        if group.position in since:
            new += _all(group)
        else:
            came = _returned(group) if state.reply is not None and group.position == state.reply.position else 0
            old, new = old + _all(group) - came, new + came
    return old, new


def _known(state: State) -> int:
    """How many groups there were with the newest reply. What was said while it was made follows it: it had seen none of that."""
    known = len(state.groups)
    while known and state.groups[known - 1] is not state.reply:
        known -= 1
    return known


def of_frame(frame: Frame) -> int:
    """The letters of what surrounds the conversation."""
    tools = sum(len(tool.name) + len(tool.description) + len(tool.parameters) for tool in frame.tools)
    return len(frame.instructions) + sum(map(len, frame.messages)) + tools + len(frame.output)


def _runs(
    groups: Sequence[Group], state: State, spec: HistorySpec, agent: str, kept: tuple[tuple[int, int], ...] | None
) -> list[tuple[int, int]]:
    """Which groups a policy shows whole, as runs of indexes."""
    start = 0
    match spec:
        case Custom():
            return [(low, high + 1) for low, high in kept or ()]
        case SinceHandoff():
            start = arrival(groups, agent)
        case Last(turns=turns):
            start = last_turns(groups, turns)
        case Summarised():
            upto = state.summaries[agent].upto if agent in state.summaries else -1
            start = len(groups)
            while start and groups[start - 1].position > upto:
                start -= 1
    return [(start, len(groups))]


def _all(group: Group) -> int:
    """Of a group as a policy shows it, which may be its words alone: those have no calls."""
    if group.fact is None:
        return _letters(group.content)
    said = 0
    for item in group.fact.items:
        match item:
            case Words(text=text) | Refusal(text=text):
                said += len(text)
            case Call(tool=tool, arguments=arguments) if group.calls:
                said += len(tool) + len(arguments)
            case Hosted(body=body):
                said += len(body)
    return said + _returned(group)


def _words(group: Group) -> int:
    words = group.words()
    return _all(words) if words is not None else 0


def _returned(group: Group) -> int:
    return sum(_letters(call.output.content) for call in group.calls if call.output is not None)


def _letters(content: Content) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part.text) if isinstance(part, Text) else PICTURE for part in content)


