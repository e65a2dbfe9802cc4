"""What a docstring says. May know: text. Decides: which words describe the function and which an argument.

Reads the three styles in use: Google (`Args:`), NumPy (underlined `Parameters`) and Sphinx (`:param name:`). What it does
not understand it leaves out: a missing description is no error.
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


class Description(Struct, frozen=True):
    """The first paragraph in one line, and one line for each argument that is described."""

    summary: str
    arguments: dict[str, str]


def describe(docstring: str) -> Description:
    """Read a docstring as `inspect.getdoc` gives it: without the indentation of the code around it.

    >>> describe('''Refund an order.
    ...
    ... Args:
    ...     cents (int): how much,
    ...         in cents
    ... ''')
    Description(summary='Refund an order.', arguments={'cents': 'how much, in cents'})
    """
    lines = docstring.splitlines()
    return Description(_summary(lines), {name: " ".join(words) for name, words in _entries(lines).items() if words})


def _summary(lines: list[str]) -> str:
    first: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.fullmatch(line) or line.startswith(":"):
            break
        first.append(line.strip())
    return " ".join(first)


def _entries(lines: list[str]) -> dict[str, list[str]]:
    reader = _EntryReader()
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        reader.read(line, after)
    return reader.found


class _EntryReader:
    """Reads the entries of a docstring line by line: `found` has the words about each argument."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self._style: re.Pattern[str] | None = None  # of the section we are in, if we are in one
        self._indent: int | None = None  # how far its entries are indented; the first one says
        self._words: list[str] | None = None  # of the entry we are in

    def read(self, line: str, after: str) -> None:
        """Read a line. `after` is the next one, which may underline it."""
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
        self._words = self.found.setdefault(match["name"], [])
        if text := match.groupdict().get("text"):
            self._words.append(text)

    def _continue_sphinx_entry(self, depth: int, text: str) -> None:
        if not depth or not text:  # back at the margin, or a blank line, which ends a Sphinx entry and nothing else
            self._words = None
        elif self._words is not None:
            self._words.append(text)

    def _read_in_section(self, style: re.Pattern[str], depth: int, text: str) -> None:
        if not depth and self._indent != 0:
            self._begin_section(None, None)  # back at the margin: the Google section is over
            return
        self._indent = depth if self._indent is None else self._indent
        if depth > self._indent:
            if self._words is not None:
                self._words.append(text)
        elif match := style.fullmatch(text):
            self._begin_entry(match)
        else:
            self._words = None
