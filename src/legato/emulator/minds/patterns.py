"""Texts for a regular expression. May know: the syntax that JSON schemas' patterns share. Decides: a short text that matches, if it can.

The patterns come from whoever sends a request, so none is given to `re`: a pattern can be written that keeps `re` busy for years.
Matching here follows all ways at once, in steps that are counted. What is not understood (a back reference, say) is `Unsupported`.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

LONGEST = 20_000  # of a text that is made
STEPS = 50_000  # of one match, or of one making
_FOREVER = 1_000_000_000

_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\r\f\v")
_KNOWN = {"d": (_DIGITS, False), "w": (_WORD, False), "s": (_SPACE, False), "D": (_DIGITS, True), "W": (_WORD, True), "S": (_SPACE, True)}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_LIKED = string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_./ " + string.punctuation

Draw: TypeAlias = Callable[[int], int]  # a number below the one given


class Unsupported(Exception):
    """The pattern says something that is not understood here, or asks for too much."""


class _Set(Struct, frozen=True):
    chars: frozenset[str]
    ranges: tuple[tuple[str, str], ...] = ()
    excluded: tuple[frozenset[str], ...] = ()  # each: everything but these
    negated: bool = False

    def has(self, char: str) -> bool:
        in_range = any(low <= char <= high for low, high in self.ranges)
        return (char in self.chars or in_range or any(char not in out for out in self.excluded)) != self.negated


class _All(Struct, frozen=True):
    parts: tuple[_Node, ...]


class _Any(Struct, frozen=True):
    ways: tuple[_Node, ...]


class _Repeat(Struct, frozen=True):
    node: _Node
    least: int
    most: int


class _Look(Struct, frozen=True):
    node: _Node
    behind: bool
    negated: bool


class _Edge(Struct, frozen=True):
    kind: Literal["start", "end", "word", "inside"]


_Node: TypeAlias = _Set | _All | _Any | _Repeat | _Look | _Edge


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text. `Unsupported` if that cannot be said.

    >>> matches("^[A-Z]-[0-9]+$", "A-17"), matches("^[A-Z]-[0-9]+$", "A-")
    (True, False)
    """
    if len(text) > LONGEST:
        raise Unsupported("the text is too long")
    return bool(_Match(text).ends(_parsed(pattern), set(range(len(text) + 1))))


def text_for(pattern: str, draw: Draw, least: int = 0, most: int = 1_000) -> str:
    """A text of a fitting length that matches. `Unsupported` if none was found."""
    node = _parsed(pattern)
    for extra in (1, 0, 2, 3, 5, 8, 13, least, max(0, least - 1), least // 2 + 1):
        for _ in range(3):
            text = _Make(draw, extra).text(node)
            if len(text) < least:
                text = _padded(pattern, text, least)
            if least <= len(text) <= most and matches(pattern, text):
                return text
    raise Unsupported(f"no text was found for {pattern!r}")


def _padded(pattern: str, text: str, least: int) -> str:
    missing = min(least, LONGEST) - len(text)
    for padded in (text + "a" * missing, "a" * missing + text, text + "0" * missing, "0" * missing + text):
        if matches(pattern, padded):
            return padded
    return text


class _Match:
    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0

    def ends(self, node: _Node, starts: set[int]) -> set[int]:
        """Where the node may end if it starts at any of these."""
        self.steps += 1 + len(starts)
        if self.steps > STEPS:
            raise Unsupported("it takes too many steps")
        match node:
            case _Set():
                return {at + 1 for at in starts if at < len(self.text) and node.has(self.text[at])}
            case _All():
                for part in node.parts:
                    starts = self.ends(part, starts) if starts else starts
                return starts
            case _Any():
                return set().union(*(self.ends(way, starts) for way in node.ways))
            case _Repeat():
                return self._repeated(node, starts)
            case _Look():
                return {at for at in starts if self._looks(node, at) != node.negated}
            case _Edge():
                return {at for at in starts if self._is_edge(node, at)}

    def _repeated(self, node: _Repeat, starts: set[int]) -> set[int]:
        reached = starts if node.least == 0 else set()
        now, seen, times = starts, set(reached), 0
        while now and times < node.most:
            after = self.ends(node.node, now)
            times += 1
            if times >= node.least:
                now = after - seen
                seen |= after
                reached = reached | after
            elif after == now:  # it may match nothing, so it can be repeated as often as is asked
                reached = reached | after
                break
            else:
                now = after
        return reached

    def _looks(self, node: _Look, at: int) -> bool:
        if node.behind:
            return any(at in self.ends(node.node, {start}) for start in range(at + 1))
        return bool(self.ends(node.node, {at}))

    def _is_edge(self, node: _Edge, at: int) -> bool:
        if node.kind in ("start", "end"):
            return at == (0 if node.kind == "start" else len(self.text))
        before = at > 0 and self.text[at - 1] in _WORD
        after = at < len(self.text) and self.text[at] in _WORD
        return (before != after) == (node.kind == "word")


class _Make:
    def __init__(self, draw: Draw, extra: int) -> None:
        self.draw = draw
        self.extra = extra  # how often more than it must something is repeated, if it may
        self.steps = 0

    def text(self, node: _Node) -> str:
        self.steps += 1
        if self.steps > LONGEST:
            raise Unsupported("the text would be too long")
        match node:
            case _Set():
                return self._char(node)
            case _All():
                return "".join(self.text(part) for part in node.parts)
            case _Any():
                return self.text(node.ways[self.draw(len(node.ways))]) if node.ways else ""
            case _Repeat():
                return "".join(self.text(node.node) for _ in range(min(node.most, node.least + self.extra)))
            case _Look() | _Edge():
                return ""

    def _char(self, node: _Set) -> str:
        fitting = [char for char in _LIKED if node.has(char)]
        kind = [char for char in fitting if char.isalnum()] or fitting
        if kind:
            return kind[self.draw(len(kind))]
        for char in (*sorted(node.chars), *(low for low, _ in node.ranges), "é", "\t"):
            if node.has(char) and not "\ud800" <= char <= "\udfff":
                return char
        raise Unsupported("no character fits")


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> _Node:
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

    def ways(self, depth: int) -> _Node:
        if depth > 30:
            raise Unsupported("the pattern is nested too deeply")
        ways = [self._sequence(depth)]
        while self._eat("|"):
            ways.append(self._sequence(depth))
        return ways[0] if len(ways) == 1 else _Any(tuple(ways))

    def _sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts.append(self._repeats(self._atom(depth)))
        return _All(tuple(parts))

    def _repeats(self, node: _Node) -> _Node:
        match self._eat("*", "+", "?", "{"):
            case "*":
                node = _Repeat(node, 0, _FOREVER)
            case "+":
                node = _Repeat(node, 1, _FOREVER)
            case "?":
                node = _Repeat(node, 0, 1)
            case "{":
                inside, closed, _ = self.pattern[self.at :].partition("}")
                low, comma, high = inside.partition(",")
                if not closed or len(inside) > 15 or not (low.isdecimal() and (not high or high.isdecimal())):
                    raise Unsupported("a brace that is no count")
                self.at += len(inside) + 1
                least = int(low)
                node = _Repeat(node, least, int(high) if high else _FOREVER if comma else least)
            case _:
                return node
        self._eat("?")  # lazy or not, the same texts match
        if self.at < len(self.pattern) and self.pattern[self.at] in "*+?{":
            raise Unsupported("a repetition of a repetition")
        return node

    def _atom(self, depth: int) -> _Node:
        char = self._next()
        if char == "^":
            return _Edge("start")
        if char == "$":
            return _Edge("end")
        if char == ".":
            return _Set(frozenset("\n\r"), negated=True)
        if char == "[":
            return self._class()
        if char == "(":
            return self._group(depth)
        if char == "\\":
            return self._escape()
        if char in "*+?{":
            raise Unsupported("a repetition of nothing")
        return _Set(frozenset(char))

    def _group(self, depth: int) -> _Node:
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
        return _Look(node, look[0] == "<", look[-1] == "!") if look else node

    def _escape(self) -> _Node:
        char = self._next()
        if char in _KNOWN:
            chars, negated = _KNOWN[char]
            return _Set(chars, negated=negated)
        if char in "bB":
            return _Edge("word" if char == "b" else "inside")
        if char in "AZz":
            return _Edge("start" if char == "A" else "end")
        return _Set(frozenset(self._escaped(char)))

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

    def _class(self) -> _Node:
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
        return _Set(frozenset(chars), tuple(ranges), tuple(excluded), negated)
