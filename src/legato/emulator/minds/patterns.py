"""Texts for a regular expression. May know: what the expression says. Decides: a short text that matches, if it can.

The patterns come from whoever sends a request, so none is given to `re`: a pattern can be written that keeps `re` busy for years.
Matching here follows all ways at once, in steps that are counted, and all that is asked about one schema shares one `Budget` of them.
What is not understood (a back reference, say) and what takes too long is `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from legato.emulator.minds.pattern_syntax import WORD, Edge, Either, Look, Node, Repeat, Sequence, Set, Unsupported, parsed

__all__ = ["LONGEST", "Budget", "Draw", "Unsupported", "matches", "text_for"]

LONGEST = 20_000  # of a text that is made
STEPS = 50_000  # of all matching and making for one schema
_REMEMBERED = 200  # texts up to this length are matched once
_EXTRA = (1, 0, 2, 3, 5, 8, 13)
_GLUE = (" ", "-")

Draw: TypeAlias = Callable[[int], int]  # a number below the one given


class Budget:
    """The steps that may still be made, and what came of those that were."""

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps
        self.spent = 0
        self.known: dict[tuple[str, str], bool] = {}
        self.hopeless: set[tuple[str, int, int]] = set()
        self._read: dict[str, Node | None] = {}

    def spend(self, steps: int) -> None:
        """Make so many steps. `Unsupported` if there are none left."""
        if self.left <= 0:
            raise Unsupported("it takes too many steps")
        self.left -= steps
        self.spent += steps

    def node(self, pattern: str) -> Node:
        """What a pattern says. Reading it costs, once; that it is not understood is found out once."""
        if pattern not in self._read:
            self.spend(1 + len(pattern) // 2)
            self._read[pattern] = None
            self._read[pattern] = parsed(pattern)
        node = self._read[pattern]
        if node is None:
            raise Unsupported("it is not understood")
        return node


def matches(pattern: str, text: str, budget: Budget | None = None) -> bool:
    """Whether the pattern is found in the text. `Unsupported` if that cannot be said.

    >>> matches("^[A-Z]-[0-9]+$", "A-17"), matches("^[A-Z]-[0-9]+$", "A-")
    (True, False)
    """
    budget = budget or Budget()
    key = pattern, text
    if key in budget.known:
        return budget.known[key]
    node = budget.node(pattern)
    if len(text) > LONGEST:
        raise Unsupported("the text is too long")
    found = len(text) >= node.shortest and _found(node, text, budget)
    if len(text) <= _REMEMBERED:
        budget.known[key] = found
    return found


def _found(node: Node, text: str, budget: Budget) -> bool:
    match = _Match(text, budget)
    return bool(match.ends(node, {0}) or match.ends(node, set(range(1, len(text) + 1))))


def text_for(pattern: str, draw: Draw, least: int = 0, most: int = 1_000, budget: Budget | None = None) -> str:
    """A text of a fitting length that matches. `Unsupported` if none was found."""
    budget = budget or Budget()
    node, most = budget.node(pattern), min(most, LONGEST)
    if node.shortest <= most and (pattern, least, most) not in budget.hopeless:
        for text in _candidates(node, draw, least, most, budget):
            if least <= len(text) <= most and matches(pattern, text, budget):
                return text
        budget.hopeless.add((pattern, least, most))
    raise Unsupported(f"no text was found for {pattern!r}")


def _candidates(node: Node, draw: Draw, least: int, most: int, budget: Budget) -> Iterator[str]:
    """As chance has it; then as long as is asked for; then with something that need not be there before or after it."""

    def made(make: _Make) -> Iterator[str]:
        try:
            yield make.text(node)
        except _TooLong:
            return

    for extra in _EXTRA:
        for _ in range(3):
            yield from made(_Make(draw, budget, most, extra))
    for length in (*range(max(least, node.shortest), min(most, max(least, node.shortest) + 8) + 1), most):
        yield from made(_Make(draw, budget, most, 0, room=length - node.shortest))
    for extra in (least, max(0, least - 1), least // 2 + 1):
        yield from made(_Make(draw, budget, most, extra))
    for text in (*made(_Make(draw, budget, most, 1)), *made(_Make(draw, budget, most, 0))):
        missing = least - len(text)
        for filling in ("a" * missing, "0" * missing) if missing > 0 else ():
            yield from (text + filling, filling + text)
            yield from (part for glue in _GLUE for part in (text + glue + filling[1:], filling[1:] + glue + text))


class _Match:
    def __init__(self, text: str, budget: Budget) -> None:
        self.text = text
        self.budget = budget

    def ends(self, node: Node, starts: set[int]) -> set[int]:
        """Where the node may end if it starts at any of these."""
        self.budget.spend(1 + len(starts))
        match node:
            case Set():
                return self._after_character(node, starts)
            case Sequence():
                for part in node.parts:
                    starts = self.ends(part, starts) if starts else starts
                return starts
            case Either():
                return set().union(*(self.ends(way, starts) for way in node.ways))
            case Repeat():
                return self._repeated(node, starts)
            case Look():
                return {at for at in starts if self._looks(node, at) != node.negated}
            case Edge():
                return {at for at in starts if self._is_edge(node, at)}

    def _after_character(self, node: Set, starts: set[int]) -> set[int]:
        self.budget.spend(len(starts) * (node.effort - 1))
        return {at + 1 for at in starts if at < len(self.text) and node.has(self.text[at])}

    def _repeated(self, node: Repeat, starts: set[int]) -> set[int]:
        reached = set(starts) if node.least == 0 else set()
        now, times = starts, 0
        while now and times < node.most:
            after = self.ends(node.node, now)
            times += 1
            if times >= node.least:
                now = after - reached
                reached |= after
            elif after == now:  # it may match nothing, so it can be repeated as often as is asked
                reached |= after
                break
            else:
                now = after
        return reached

    def _looks(self, node: Look, at: int) -> bool:
        if node.behind:
            return any(at in self.ends(node.node, {start}) for start in range(at + 1))
        return bool(self.ends(node.node, {at}))

    def _is_edge(self, node: Edge, at: int) -> bool:
        if node.kind in ("start", "end"):
            return at == (0 if node.kind == "start" else len(self.text))
        before = at > 0 and self.text[at - 1] in WORD
        after = at < len(self.text) and self.text[at] in WORD
        return (before != after) == (node.kind == "word")


class _TooLong(Exception):
    """The text that is being made would not be allowed."""


class _Make:
    """One text. `extra`: how often more than it must something is repeated, if it may. `room`, instead: so many characters more than
    it must have, given to whatever comes first, and of all ways the shortest."""

    def __init__(self, draw: Draw, budget: Budget, most: int, extra: int, room: int | None = None) -> None:
        self.draw = draw
        self.budget = budget
        self.most = most
        self.extra = extra
        self.room = room
        self.length = 0

    def text(self, node: Node) -> str:
        self.budget.spend(1)
        match node:
            case Set():
                return self._char(node)
            case Sequence():
                return "".join([self.text(part) for part in node.parts])
            case Either():
                return self.text(self._way(node))
            case Repeat():
                return "".join([self.text(node.node) for _ in range(self._times(node))])
            case Look() | Edge():
                return ""

    def _way(self, node: Either) -> Node:
        if self.room is not None:
            return min(node.ways, key=lambda way: way.shortest)
        return node.ways[self.draw(len(node.ways))]

    def _times(self, node: Repeat) -> int:
        # What may be nothing is as good as repeated when it stands there less often than is asked.
        must = node.least if node.node.shortest else min(node.least, 1)
        if self.room is None:
            return min(node.most, must + self.extra)
        more = max(0, min(node.most - node.least, self.room // node.node.shortest)) if node.node.shortest else 0
        self.room -= more * node.node.shortest
        return must + more

    def _char(self, node: Set) -> str:
        self.length += 1
        if self.length > self.most:
            raise _TooLong
        if not node.liked:
            raise Unsupported("no character fits")
        return node.liked[self.draw(len(node.liked))]
