"""What a docstring says. May know: text. Decides: which words describe the function and which an argument.

Reads the three styles in use: Google (`Args:`), NumPy (underlined `Parameters`) and Sphinx (`:param name:`). What it does
not understand it leaves out: a missing description is no error.
"""

from __future__ import annotations

import re

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
    found: dict[str, list[str]] = {}
    entry: re.Pattern[str] | None = None  # the style of the section we are in, if we are in one
    indent: int | None = None  # how far its entries are indented; the first one says
    words: list[str] | None = None  # of the entry we are in
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        text = line.strip()
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if match := _SPHINX_ENTRY.fullmatch(text):
            entry, words = None, found.setdefault(match["name"], [])
            words += [match["text"]] if match["text"] else []
        elif _UNDERLINE.fullmatch(line):
            continue
        elif not depth and text and _UNDERLINE.fullmatch(after):
            entry, indent, words = _NUMPY_ENTRY if _SECTION.fullmatch(text) else None, 0, None
        elif not depth and _SECTION.fullmatch(text):
            entry, indent, words = _GOOGLE_ENTRY, None, None
        elif not text:
            words = words if entry else None  # a blank line ends a Sphinx entry, and nothing else
        elif entry is None:
            words = words if depth else None
            if words is not None:
                words.append(text)
        elif not depth and indent != 0:
            entry, words = None, None  # back at the margin: the Google section is over
        elif depth <= (indent := depth if indent is None else indent):
            match = entry.fullmatch(text)
            words = found.setdefault(match["name"], []) if match else None
            if match and words is not None and match.groupdict().get("text"):
                words.append(match["text"])
        elif words is not None:
            words.append(text)
    return found
