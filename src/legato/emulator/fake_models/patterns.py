"""Matching of regular expressions with a budget of steps, and texts that match.

Patterns come from clients, so none is given to `re`: a pattern can keep `re` busy for years. The matcher here follows all alternatives at
once and counts its steps, and all matching for one schema shares one `PatternBudget`. Patterns with unsupported syntax (such as a back
reference), and those that take too long, raise `UnsupportedPattern`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from legato.emulator.fake_models.pattern_syntax import (
    WORD_CHARACTERS,
    Alternatives,
    Boundary,
    CharacterSet,
    LookAround,
    Node,
    PatternSequence,
    Repetition,
    UnsupportedPattern,
    parse_pattern,
)

__all__ = ["MAX_TEXT_CHARS", "Draw", "PatternBudget", "UnsupportedPattern", "is_match", "make_matching_text"]

MAX_TEXT_CHARS = 20_000
MAX_STEPS = 50_000  # of all matching and making for one schema
_MAX_CACHED_TEXT_CHARS = 200  # results for longer texts are not cached
_EXTRA_REPETITIONS = (1, 0, 2, 3, 5, 8, 13)
_SEPARATORS = (" ", "-")

Draw: TypeAlias = Callable[[int], int]  # returns a random number below its argument


class PatternBudget:
    """The steps that are left for one schema, with a cache of results."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps_left = steps
        self.steps_spent = 0
        self.match_results: dict[tuple[str, str], bool] = {}
        self.impossible_texts: set[tuple[str, int, int]] = set()
        self._nodes: dict[str, Node | None] = {}

    def spend(self, steps: int) -> None:
        """Spend steps. Raises `UnsupportedPattern` if there are none left."""
        if self.steps_left <= 0:
            raise UnsupportedPattern("it takes too many steps")
        self.steps_left -= steps
        self.steps_spent += steps

    def parse(self, pattern: str) -> Node:
        """Parse a pattern. Steps are spent once per pattern, also for an unsupported one."""
        if pattern not in self._nodes:
            self.spend(1 + len(pattern) // 2)
            self._nodes[pattern] = None
            self._nodes[pattern] = parse_pattern(pattern)
        node = self._nodes[pattern]
        if node is None:
            raise UnsupportedPattern("it is not understood")
        return node


def is_match(pattern: str, text: str, budget: PatternBudget | None = None) -> bool:
    """Return True if a pattern is found in a text. Raises `UnsupportedPattern` if that cannot be decided.

    >>> is_match("^[A-Z]-[0-9]+$", "A-17"), is_match("^[A-Z]-[0-9]+$", "A-")
    (True, False)
    """
    budget = budget or PatternBudget()
    key = pattern, text
    if key in budget.match_results:
        return budget.match_results[key]
    node = budget.parse(pattern)
    if len(text) > MAX_TEXT_CHARS:
        raise UnsupportedPattern("the text is too long")
    is_found = len(text) >= node.min_length and _search(node, text, budget)
    if len(text) <= _MAX_CACHED_TEXT_CHARS:
        budget.match_results[key] = is_found
    return is_found


def _search(node: Node, text: str, budget: PatternBudget) -> bool:
    matcher = _Matcher(text, budget)
    return bool(matcher.find_ends(node, {0}) or matcher.find_ends(node, set(range(1, len(text) + 1))))


def make_matching_text(pattern: str, draw: Draw, min_length: int = 0, max_length: int = 1_000, budget: PatternBudget | None = None) -> str:
    """Return a text of an allowed length that matches a pattern. Raises `UnsupportedPattern` if none was found."""
    budget = budget or PatternBudget()
    node, max_length = budget.parse(pattern), min(max_length, MAX_TEXT_CHARS)
    if node.min_length <= max_length and (pattern, min_length, max_length) not in budget.impossible_texts:
        for text in _make_candidates(node, draw, min_length, max_length, budget):
            if min_length <= len(text) <= max_length and is_match(pattern, text, budget):
                return text
        budget.impossible_texts.add((pattern, min_length, max_length))
    raise UnsupportedPattern(f"no text was found for {pattern!r}")


def _make_candidates(node: Node, draw: Draw, min_length: int, max_length: int, budget: PatternBudget) -> Iterator[str]:
    """Yield random texts, then texts of the wanted length, then texts with padding before or after."""

    def try_make(maker: _TextMaker) -> Iterator[str]:
        try:
            yield maker.make_text(node)
        except _TextTooLong:
            return

    for extra_repetitions in _EXTRA_REPETITIONS:
        for _ in range(3):
            yield from try_make(_TextMaker(draw, budget, max_length, extra_repetitions))
    for length in (*range(max(min_length, node.min_length), min(max_length, max(min_length, node.min_length) + 8) + 1), max_length):
        yield from try_make(_TextMaker(draw, budget, max_length, 0, extra_chars=length - node.min_length))
    for extra_repetitions in (min_length, max(0, min_length - 1), min_length // 2 + 1):
        yield from try_make(_TextMaker(draw, budget, max_length, extra_repetitions))
    for text in (*try_make(_TextMaker(draw, budget, max_length, 1)), *try_make(_TextMaker(draw, budget, max_length, 0))):
        missing_chars = min_length - len(text)
        for padding in ("a" * missing_chars, "0" * missing_chars) if missing_chars > 0 else ():
            yield from (text + padding, padding + text)
            yield from (part for separator in _SEPARATORS for part in (text + separator + padding[1:], padding[1:] + separator + text))


class _Matcher:
    def __init__(self, text: str, budget: PatternBudget) -> None:
        self.text = text
        self.budget = budget

    def find_ends(self, node: Node, starts: set[int]) -> set[int]:
        """Return all positions at which a node may end if it starts at one of these."""
        self.budget.spend(1 + len(starts))
        match node:
            case CharacterSet():
                return self._find_ends_of_character(node, starts)
            case PatternSequence():
                for part in node.parts:
                    starts = self.find_ends(part, starts) if starts else starts
                return starts
            case Alternatives():
                return set().union(*(self.find_ends(option, starts) for option in node.options))
            case Repetition():
                return self._find_ends_of_repetition(node, starts)
            case LookAround():
                return {position for position in starts if self._is_look_around_met(node, position) != node.is_negated}
            case Boundary():
                return {position for position in starts if self._is_boundary(node, position)}

    def _find_ends_of_character(self, node: CharacterSet, starts: set[int]) -> set[int]:
        self.budget.spend(len(starts) * (node.match_cost - 1))
        return {position + 1 for position in starts if position < len(self.text) and node.contains(self.text[position])}

    def _find_ends_of_repetition(self, node: Repetition, starts: set[int]) -> set[int]:
        all_ends = set(starts) if node.min_times == 0 else set()
        starts_now, times = starts, 0
        while starts_now and times < node.max_times:
            ends = self.find_ends(node.node, starts_now)
            times += 1
            if times >= node.min_times:
                starts_now = ends - all_ends
                all_ends |= ends
            elif ends == starts_now:  # the node may match nothing, so it can be repeated any number of times
                all_ends |= ends
                break
            else:
                starts_now = ends
        return all_ends

    def _is_look_around_met(self, node: LookAround, position: int) -> bool:
        if node.is_behind:
            return any(position in self.find_ends(node.node, {start}) for start in range(position + 1))
        return bool(self.find_ends(node.node, {position}))

    def _is_boundary(self, node: Boundary, position: int) -> bool:
        if node.kind in ("start", "end"):
            return position == (0 if node.kind == "start" else len(self.text))
        follows_word = position > 0 and self.text[position - 1] in WORD_CHARACTERS
        precedes_word = position < len(self.text) and self.text[position] in WORD_CHARACTERS
        return (follows_word != precedes_word) == (node.kind == "word")


class _TextTooLong(Exception):
    """The text would be longer than allowed."""


class _TextMaker:
    """Makes one text that matches a node.

    `extra_repetitions` are added to every repetition that allows them. With `extra_chars` instead, the text has so many characters more
    than the shortest one: the first repetitions get them, and every alternative is the shortest one.
    """

    def __init__(self, draw: Draw, budget: PatternBudget, max_length: int, extra_repetitions: int, extra_chars: int | None = None) -> None:
        self.draw = draw
        self.budget = budget
        self.max_length = max_length
        self.extra_repetitions = extra_repetitions
        self.extra_chars = extra_chars
        self.length = 0

    def make_text(self, node: Node) -> str:
        self.budget.spend(1)
        match node:
            case CharacterSet():
                return self._choose_character(node)
            case PatternSequence():
                return "".join([self.make_text(part) for part in node.parts])
            case Alternatives():
                return self.make_text(self._choose_option(node))
            case Repetition():
                return "".join([self.make_text(node.node) for _ in range(self._choose_times(node))])
            case LookAround() | Boundary():
                return ""

    def _choose_option(self, node: Alternatives) -> Node:
        if self.extra_chars is not None:
            return min(node.options, key=lambda option: option.min_length)
        return node.options[self.draw(len(node.options))]

    def _choose_times(self, node: Repetition) -> int:
        # A node that may match nothing need not be repeated: the empty match counts any number of times.
        required = node.min_times if node.node.min_length else min(node.min_times, 1)
        if self.extra_chars is None:
            return min(node.max_times, required + self.extra_repetitions)
        more_times = max(0, min(node.max_times - node.min_times, self.extra_chars // node.node.min_length)) if node.node.min_length else 0
        self.extra_chars -= more_times * node.node.min_length
        return required + more_times

    def _choose_character(self, node: CharacterSet) -> str:
        self.length += 1
        if self.length > self.max_length:
            raise _TextTooLong
        if not node.preferred_characters:
            raise UnsupportedPattern("no character fits")
        return node.preferred_characters[self.draw(len(node.preferred_characters))]
