"""Escapes for text from models, users and tools in a Markdown page.

A heading, an image or HTML in such a text must not be rendered. A backslash before a special character makes it an ordinary one. It is
added only where the character has a meaning, so that the source of the page stays readable.
"""

from __future__ import annotations

import re

from legato.inspection.terminal_safe_text import escape_unprintable, to_one_line

_SPECIAL_CHARS = re.compile(
    r"[\\`*<\[\]~|$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word it has no meaning
    r"|&(?=[#a-zA-Z])"
)
_LINE_START = re.compile(r"^(\s*)([#>+=:-]|[0-9]+(?=[.)]))")


def escape_markdown(text: str) -> str:
    r"""Escape text that stands within a line of a page.

    >>> print(escape_markdown("<b> of [it](http://a.example) is *my_order*, 2 > 1"))
    &lt;b> of \[it\](http://a.example) is \*my_order\*, 2 > 1
    """
    return _SPECIAL_CHARS.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", escape_unprintable(text))


def escape_inline(text: str, max_chars: int = 100) -> str:
    """Escape the beginning of a text, in one line, for use within a line of a page."""
    return escape_markdown(to_one_line(escape_unprintable(text), max_chars))


def escape_paragraph(line: str) -> str:
    r"""Escape text that is a whole line of a page: it may not begin a heading, a list or the like.

    >>> print(escape_paragraph("# no heading"), escape_paragraph("1. no list"), escape_paragraph("- nor this"), sep=" / ")
    \# no heading / 1\. no list / \- nor this
    """
    return _LINE_START.sub(_escape_line_start, escape_markdown(line))


def _escape_line_start(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"
