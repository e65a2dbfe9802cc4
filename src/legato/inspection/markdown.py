"""Words in a page of Markdown. May know: nothing. Decides: how a text is written so that a page shows it and it does nothing else.

What models, people and tools write is theirs: a heading, a picture that is fetched from somewhere, or HTML in it is to be read as it was
written. A backslash before a sign of Markdown makes it an ordinary one. It stands only where a sign could mean something, so that the page
can be read without being rendered, too.
"""

from __future__ import annotations

import re

from legato.inspection.plain import harmless, one_line

_SIGNS = re.compile(
    r"[\\`*<\[\]~|$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word it is a letter
    r"|&(?=[#a-zA-Z])"
)
_FIRST = re.compile(r"^(\s*)([#>+=:-]|[0-9]+(?=[.)]))")


def words(text: str) -> str:
    r"""A line of text within a line of a page.

    >>> print(words("<b> of [it](http://a.example) is *my_order*, 2 > 1"))
    &lt;b> of \[it\](http://a.example) is \*my_order\*, 2 > 1
    """
    return _SIGNS.sub(lambda sign: "&lt;" if sign[0] == "<" else f"\\{sign[0]}", harmless(text))


def in_line(text: str, most: int = 100) -> str:
    """The beginning of a text, within a line of a page."""
    return words(one_line(harmless(text), most))


def paragraph(line: str) -> str:
    r"""A line of text that is a line of its own.

    >>> print(paragraph("# no heading"), paragraph("1. no list"), paragraph("- nor this"), sep=" / ")
    \# no heading / 1\. no list / \- nor this
    """
    return _FIRST.sub(_first, words(line))


def _first(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}\\" if found[2].isdigit() else f"{found[1]}\\{found[2]}"
