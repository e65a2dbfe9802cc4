"""What a regular expression says. May know: the syntax that JSON schemas' patterns share. Decides: what is understood of it."""

from __future__ import annotations

import string
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

FOREVER = 1_000_000_000

_DIGITS = frozenset(string.digits)
WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\r\f\v")
_KNOWN = {"d": (_DIGITS, False), "w": (WORD, False), "s": (_SPACE, False), "D": (_DIGITS, True), "W": (WORD, True), "S": (_SPACE, True)}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_ASCII = frozenset(map(chr, range(128)))
_LIKED = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_./ " + string.punctuation


class Unsupported(Exception):
    """The pattern says something that is not understood here, or asks for too much."""


class Set(Struct, frozen=True, dict=True):
    """One character of these."""

    chars: frozenset[str]
    ranges: tuple[tuple[str, str], ...] = ()
    excluded: tuple[frozenset[str], ...] = ()  # each: everything but these
    negated: bool = False
    shortest: ClassVar[int] = 1

    @property
    def effort(self) -> int:
        """How much one character costs to look at."""
        return 1 + len(self.ranges) // 8

    def has(self, char: str) -> bool:
        """Whether this character is one of them."""
        return char in self._ascii if char < "\x80" else self._told(char)

    @cached_property
    def liked(self) -> str:
        """What is written if any will do: letters and digits, else signs, else something rare. Empty: nothing fits."""
        fitting = [char for char in _LIKED if char in self._ascii]
        if fitting:
            return "".join([char for char in fitting if char.isalnum()] or fitting)
        rare = (*sorted(self.chars), *(low for low, _ in self.ranges), "é", "\t")
        return next((char for char in rare if self.has(char) and not "\ud800" <= char <= "\udfff"), "")

    @cached_property
    def _ascii(self) -> frozenset[str]:
        told = set(self.chars) & _ASCII
        for low, high in self.ranges:
            told.update(map(chr, range(ord(low), min(ord(high), 127) + 1)))
        for out in self.excluded:
            told |= _ASCII - out
        return frozenset(_ASCII - told if self.negated else told)

    def _told(self, char: str) -> bool:
        in_range = any(low <= char <= high for low, high in self.ranges)
        return (char in self.chars or in_range or any(char not in out for out in self.excluded)) != self.negated


class Sequence(Struct, frozen=True, dict=True):
    """One after the other."""

    parts: tuple[Node, ...]

    @cached_property
    def shortest(self) -> int:
        """The least length of what matches."""
        return sum(part.shortest for part in self.parts)


class Either(Struct, frozen=True, dict=True):
    """One of these ways."""

    ways: tuple[Node, ...]

    @cached_property
    def shortest(self) -> int:
        """The least length of what matches."""
        return min(way.shortest for way in self.ways)


class Repeat(Struct, frozen=True, dict=True):
    """The same, so many times."""

    node: Node
    least: int
    most: int

    @cached_property
    def shortest(self) -> int:
        """The least length of what matches."""
        return self.least * self.node.shortest


class Look(Struct, frozen=True):
    """What must, or must not, stand before or after a place."""

    node: Node
    behind: bool
    negated: bool
    shortest: ClassVar[int] = 0


class Edge(Struct, frozen=True):
    """A kind of place."""

    kind: Literal["start", "end", "word", "inside"]
    shortest: ClassVar[int] = 0


Node: TypeAlias = Set | Sequence | Either | Repeat | Look | Edge


@lru_cache(maxsize=256)
def parsed(pattern: str) -> Node:
    """What a pattern says. `Unsupported` if that is not understood."""
    if len(pattern) > 2_000:
        raise Unsupported("the pattern is too long")
    parser = _Parser(pattern)
    node = parser.ways(0)
    if parser.at < len(pattern):
        raise Unsupported("a parenthesis is closed that was not opened")
    return node


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise Unsupported("the pattern ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def _eat(self, *options: str) -> str:
        for option in options:
            if self.pattern.startswith(option, self.at):
                self.at += len(option)
                return option
        return ""

    def ways(self, depth: int) -> Node:
        if depth > 30:
            raise Unsupported("the pattern is nested too deeply")
        ways = [self._sequence(depth)]
        while self._eat("|"):
            ways.append(self._sequence(depth))
        return ways[0] if len(ways) == 1 else Either(tuple(ways))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts.append(self._repeats(self._atom(depth)))
        return Sequence(tuple(parts))

    def _repeats(self, node: Node) -> Node:
        match self._eat("*", "+", "?", "{"):
            case "*":
                node = Repeat(node, 0, FOREVER)
            case "+":
                node = Repeat(node, 1, FOREVER)
            case "?":
                node = Repeat(node, 0, 1)
            case "{":
                inside, closed, _ = self.pattern[self.at :].partition("}")
                low, comma, high = inside.partition(",")
                if not closed or len(inside) > 15 or not (low.isdecimal() and (not high or high.isdecimal())):
                    raise Unsupported("a brace that is no count")
                self.at += len(inside) + 1
                least = int(low)
                node = Repeat(node, least, int(high) if high else FOREVER if comma else least)
            case _:
                return node
        self._eat("?")  # lazy or not, the same texts match
        if self.at < len(self.pattern) and self.pattern[self.at] in "*+?{":
            raise Unsupported("a repetition of a repetition")
        return node

    def _atom(self, depth: int) -> Node:
        char = self._next()
        if char == "^":
            return Edge("start")
        if char == "$":
            return Edge("end")
        if char == ".":
            return Set(frozenset("\n\r"), negated=True)
        if char == "[":
            return self._class()
        if char == "(":
            return self._group(depth)
        if char == "\\":
            return self._escape()
        if char in "*+?{":
            raise Unsupported("a repetition of nothing")
        return Set(frozenset(char))

    def _group(self, depth: int) -> Node:
        look = ""
        if self._eat("?"):
            look = self._eat("<=", "<!", "=", "!")
            if not look and not self._eat(":"):
                if not self._eat("P<", "<"):
                    raise Unsupported("an unknown kind of group")
                self.at = self.pattern.find(">", self.at) + 1 or len(self.pattern)
        node = self.ways(depth + 1)
        if self._next() != ")":
            raise Unsupported("a parenthesis is not closed")
        return Look(node, look[0] == "<", look[-1] == "!") if look else node

    def _escape(self) -> Node:
        char = self._next()
        if char in _KNOWN:
            chars, negated = _KNOWN[char]
            return Set(chars, negated=negated)
        if char in "bB":
            return Edge("word" if char == "b" else "inside")
        if char in "AZz":
            return Edge("start" if char == "A" else "end")
        return Set(frozenset(self._escaped(char)))

    def _escaped(self, char: str) -> str:
        if char in "xu":
            digits = self.pattern[self.at : self.at + (2 if char == "x" else 4)]
            self.at += len(digits)
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise Unsupported("a number that is none") from None
        if char in _CONTROL:
            return _CONTROL[char]
        if char.isascii() and char.isalnum():
            raise Unsupported(f"\\{char}")
        return char

    def _class(self) -> Node:
        negated = bool(self._eat("^"))
        chars: set[str] = set()
        ranges: list[tuple[str, str]] = []
        excluded: list[frozenset[str]] = []
        first = True
        while first or self.pattern[self.at : self.at + 1] != "]":
            first = False
            char = self._next()
            if char == "\\":
                char = self._next()
                if char in _KNOWN:
                    known, negates = _KNOWN[char]
                    excluded.append(known) if negates else chars.update(known)
                    continue
                char = "\b" if char == "b" else self._escaped(char)
            rest = self.pattern[self.at : self.at + 2]
            if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
                self.at += 1
                high = self._next()
                if high == "\\":
                    high = self._escaped(self._next())
                if high < char:
                    raise Unsupported("a range that runs backwards")
                ranges.append((char, high))
            else:
                chars.add(char)
        self.at += 1
        return Set(frozenset(chars), tuple(ranges), tuple(excluded), negated)
