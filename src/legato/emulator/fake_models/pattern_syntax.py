"""A parser of regular expressions, for the syntax that patterns of JSON schemas share."""

from __future__ import annotations

import string
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

UNBOUNDED = 1_000_000_000

_DIGITS = frozenset(string.digits)
WORD_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\r\f\v")
_CLASS_ESCAPES = {
    "d": (_DIGITS, False),
    "w": (WORD_CHARACTERS, False),
    "s": (_SPACE, False),
    "D": (_DIGITS, True),
    "W": (WORD_CHARACTERS, True),
    "S": (_SPACE, True),
}
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_ASCII = frozenset(map(chr, range(128)))
_PREFERRED_CHARACTERS = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_./ " + string.punctuation


class UnsupportedPattern(Exception):
    """The pattern has syntax that is not supported, or takes too long."""


class CharacterSet(Struct, frozen=True, dict=True):
    """A character of a set."""

    chars: frozenset[str]
    ranges: tuple[tuple[str, str], ...] = ()
    excluded: tuple[frozenset[str], ...] = ()  # complements: everything but these
    is_negated: bool = False
    min_length: ClassVar[int] = 1

    @property
    def match_cost(self) -> int:
        """The steps that matching one character takes."""
        return 1 + len(self.ranges) // 8

    def contains(self, char: str) -> bool:
        """Return True if the set has this character."""
        return char in self._ascii if char < "\x80" else self._contains_non_ascii(char)

    @cached_property
    def preferred_characters(self) -> str:
        """The characters to write: letters and digits, else signs, else a rare one. Empty: no character fits."""
        allowed = [char for char in _PREFERRED_CHARACTERS if char in self._ascii]
        if allowed:
            return "".join([char for char in allowed if char.isalnum()] or allowed)
        rare_characters = (*sorted(self.chars), *(low for low, _ in self.ranges), "é", "\t")
        return next((char for char in rare_characters if self.contains(char) and not "\ud800" <= char <= "\udfff"), "")

    @cached_property
    def _ascii(self) -> frozenset[str]:
        characters = set(self.chars) & _ASCII
        for low, high in self.ranges:
            characters.update(map(chr, range(ord(low), min(ord(high), 127) + 1)))
        for excluded_set in self.excluded:
            characters |= _ASCII - excluded_set
        return frozenset(_ASCII - characters if self.is_negated else characters)

    def _contains_non_ascii(self, char: str) -> bool:
        in_range = any(low <= char <= high for low, high in self.ranges)
        return (char in self.chars or in_range or any(char not in excluded_set for excluded_set in self.excluded)) != self.is_negated


class PatternSequence(Struct, frozen=True, dict=True):
    """Nodes one after the other."""

    parts: tuple[Node, ...]

    @cached_property
    def min_length(self) -> int:
        """The length of the shortest match."""
        return sum(part.min_length for part in self.parts)


class Alternatives(Struct, frozen=True, dict=True):
    """One of several nodes."""

    options: tuple[Node, ...]

    @cached_property
    def min_length(self) -> int:
        """The length of the shortest match."""
        return min(option.min_length for option in self.options)


class Repetition(Struct, frozen=True, dict=True):
    """A node repeated some times."""

    node: Node
    min_times: int
    max_times: int

    @cached_property
    def min_length(self) -> int:
        """The length of the shortest match."""
        return self.min_times * self.node.min_length


class LookAround(Struct, frozen=True):
    """A condition on the text before or after a position."""

    node: Node
    is_behind: bool
    is_negated: bool
    min_length: ClassVar[int] = 0


class Boundary(Struct, frozen=True):
    """A condition on a position: the start or the end of the text, a word boundary, or none."""

    kind: Literal["start", "end", "word", "inside"]
    min_length: ClassVar[int] = 0


Node: TypeAlias = CharacterSet | PatternSequence | Alternatives | Repetition | LookAround | Boundary


@lru_cache(maxsize=256)
def parse_pattern(pattern: str) -> Node:
    """Parse a pattern. Raises `UnsupportedPattern`."""
    if len(pattern) > 2_000:
        raise UnsupportedPattern("the pattern is too long")
    parser = _PatternParser(pattern)
    node = parser.parse_alternatives(0)
    if parser.position < len(pattern):
        raise UnsupportedPattern("a parenthesis is closed that was not opened")
    return node


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def _take_character(self) -> str:
        if self.position >= len(self.pattern):
            raise UnsupportedPattern("the pattern ends too early")
        self.position += 1
        return self.pattern[self.position - 1]

    def _skip(self, *options: str) -> str:
        for option in options:
            if self.pattern.startswith(option, self.position):
                self.position += len(option)
                return option
        return ""

    def parse_alternatives(self, depth: int) -> Node:
        if depth > 30:
            raise UnsupportedPattern("the pattern is nested too deeply")
        options = [self._parse_sequence(depth)]
        while self._skip("|"):
            options.append(self._parse_sequence(depth))
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _parse_sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.position < len(self.pattern) and self.pattern[self.position] not in "|)":
            parts.append(self._parse_repetition(self._parse_atom(depth)))
        return PatternSequence(tuple(parts))

    def _parse_repetition(self, node: Node) -> Node:
        match self._skip("*", "+", "?", "{"):
            case "*":
                node = Repetition(node, 0, UNBOUNDED)
            case "+":
                node = Repetition(node, 1, UNBOUNDED)
            case "?":
                node = Repetition(node, 0, 1)
            case "{":
                count, closed, _ = self.pattern[self.position :].partition("}")
                low, comma, high = count.partition(",")
                if not closed or len(count) > 15 or not (low.isdecimal() and (not high or high.isdecimal())):
                    raise UnsupportedPattern("a brace that is no count")
                self.position += len(count) + 1
                min_times = int(low)
                node = Repetition(node, min_times, int(high) if high else UNBOUNDED if comma else min_times)
            case _:
                return node
        self._skip("?")  # lazy or not, the same texts match
        if self.position < len(self.pattern) and self.pattern[self.position] in "*+?{":
            raise UnsupportedPattern("a repetition of a repetition")
        return node

    def _parse_atom(self, depth: int) -> Node:
        char = self._take_character()
        if char == "^":
            return Boundary("start")
        if char == "$":
            return Boundary("end")
        if char == ".":
            return CharacterSet(frozenset("\n\r"), is_negated=True)
        if char == "[":
            return self._parse_class()
        if char == "(":
            return self._parse_group(depth)
        if char == "\\":
            return self._parse_escape()
        if char in "*+?{":
            raise UnsupportedPattern("a repetition of nothing")
        return CharacterSet(frozenset(char))

    def _parse_group(self, depth: int) -> Node:
        look_around = ""
        if self._skip("?"):
            look_around = self._skip("<=", "<!", "=", "!")
            if not look_around and not self._skip(":"):
                if not self._skip("P<", "<"):
                    raise UnsupportedPattern("an unknown kind of group")
                self.position = self.pattern.find(">", self.position) + 1 or len(self.pattern)
        node = self.parse_alternatives(depth + 1)
        if self._take_character() != ")":
            raise UnsupportedPattern("a parenthesis is not closed")
        return LookAround(node, look_around[0] == "<", look_around[-1] == "!") if look_around else node

    def _parse_escape(self) -> Node:
        char = self._take_character()
        if char in _CLASS_ESCAPES:
            chars, negated = _CLASS_ESCAPES[char]
            return CharacterSet(chars, is_negated=negated)
        if char in "bB":
            return Boundary("word" if char == "b" else "inside")
        if char in "AZz":
            return Boundary("start" if char == "A" else "end")
        return CharacterSet(frozenset(self._parse_escaped_character(char)))

    def _parse_escaped_character(self, char: str) -> str:
        if char in "xu":
            digits = self.pattern[self.position : self.position + (2 if char == "x" else 4)]
            self.position += len(digits)
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise UnsupportedPattern("a number that is none") from None
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        if char.isascii() and char.isalnum():
            raise UnsupportedPattern(f"\\{char}")
        return char

    def _parse_class(self) -> Node:
        negated = bool(self._skip("^"))
        chars: set[str] = set()
        ranges: list[tuple[str, str]] = []
        excluded: list[frozenset[str]] = []
        first = True
        while first or self.pattern[self.position : self.position + 1] != "]":
            first = False
            char = self._take_character()
            if char == "\\":
                char = self._take_character()
                if char in _CLASS_ESCAPES:
                    class_characters, is_complement = _CLASS_ESCAPES[char]
                    excluded.append(class_characters) if is_complement else chars.update(class_characters)
                    continue
                char = "\b" if char == "b" else self._parse_escaped_character(char)
            rest = self.pattern[self.position : self.position + 2]
            if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
                self.position += 1
                high = self._take_character()
                if high == "\\":
                    high = self._parse_escaped_character(self._take_character())
                if high < char:
                    raise UnsupportedPattern("a range that runs backwards")
                ranges.append((char, high))
            else:
                chars.add(char)
        self.position += 1
        return CharacterSet(frozenset(chars), tuple(ranges), tuple(excluded), negated)
