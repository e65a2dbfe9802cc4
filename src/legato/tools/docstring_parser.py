"""Parses the docstring of a tool: the summary, and the descriptions of its arguments.

It reads three styles: Google (`Args:`), NumPy (underlined `Parameters`) and Sphinx (`:param name:`). Other text is left out; a missing
description is not an error.
"""

from __future__ import annotations

import re
from itertools import zip_longest

from msgspec import Struct

_SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Keyword Arguments)\s*:?")
_UNDERLINE = re.compile(r"-{3,}\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*))?")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?::.*)?")
_SPHINX_ENTRY = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)")


class DocstringParts(Struct, frozen=True):
    """The first paragraph of a docstring in one line, and one line for each described argument."""

    summary: str
    arguments: dict[str, str]


def parse_docstring(docstring: str) -> DocstringParts:
    """Parse a docstring as `inspect.getdoc` returns it, without the indentation of the code around it.

    >>> parse_docstring('''Refund an order.
    ...
    ... Args:
    ...     cents (int): how much,
    ...         in cents
    ... ''')
    DocstringParts(summary='Refund an order.', arguments={'cents': 'how much, in cents'})
    """
    lines = docstring.splitlines()
    return DocstringParts(_parse_summary(lines), {name: " ".join(words) for name, words in _parse_entries(lines).items() if words})


def _parse_summary(lines: list[str]) -> str:
    first: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.fullmatch(line) or line.startswith(":"):
            break
        first.append(line.strip())
    return " ".join(first)


def _parse_entries(lines: list[str]) -> dict[str, list[str]]:
    reader = _EntryReader()
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        reader.read_line(line, after)
    return reader.words_by_name


class _EntryReader:
    """Reads the entries of a docstring line by line. `words_by_name` has the lines about each argument."""

    def __init__(self) -> None:
        self.words_by_name: dict[str, list[str]] = {}
        self._style: re.Pattern[str] | None = None  # of the current section, if any
        self._indent: int | None = None  # of the first entry in the section
        self._words: list[str] | None = None  # of the current entry

    def read_line(self, line: str, after: str) -> None:
        """Read a line. `after` is the next line, which may underline it."""
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if match := _SPHINX_ENTRY.fullmatch(text):
            self._style = None
            self._begin_entry(match)
        elif _UNDERLINE.fullmatch(line):
            return
        elif not depth and text and _UNDERLINE.fullmatch(after):
            self._begin_section(_NUMPY_ENTRY if _SECTION.fullmatch(text) else None, 0)
        elif not depth and _SECTION.fullmatch(text):
            self._begin_section(_GOOGLE_ENTRY, None)
        elif self._style is None:
            self._continue_sphinx_entry(depth, text)
        elif text:
            self._read_in_section(self._style, depth, text)

    def _begin_section(self, style: re.Pattern[str] | None, indent: int | None) -> None:
        self._style, self._indent, self._words = style, indent, None

    def _begin_entry(self, match: re.Match[str]) -> None:
        self._words = self.words_by_name.setdefault(match["name"], [])
        if text := match.groupdict().get("text"):
            self._words.append(text)

    def _continue_sphinx_entry(self, depth: int, text: str) -> None:
        if not depth or not text:  # the margin or a blank line ends a Sphinx entry
            self._words = None
        elif self._words is not None:
            self._words.append(text)

    def _read_in_section(self, style: re.Pattern[str], depth: int, text: str) -> None:
        if not depth and self._indent != 0:
            self._begin_section(None, None)  # the margin ends a Google section
            return
        self._indent = depth if self._indent is None else self._indent
        if depth > self._indent:
            if self._words is not None:
                self._words.append(text)
        elif match := style.fullmatch(text):
            self._begin_entry(match)
        else:
            self._words = None
