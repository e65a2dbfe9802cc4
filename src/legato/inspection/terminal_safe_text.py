"""Text that is safe to print on a terminal or a page.

Messages of models, outputs of tools and ids come from elsewhere. A control character in them could move a terminal's cursor, or reverse the
order of characters. So it is replaced by its escape code.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

JOINERS = "\u200c\u200d"  # emoji and some scripts need them; they affect only the characters beside them


def escape_unprintable(text: str, joiners: str = JOINERS) -> str:
    """Replace each unprintable character except `joiners`, tabs and line ends by its escape code.

    >>> print(escape_unprintable("a\\x1b[2Jb\\u202ec"))
    a\\x1b[2Jb\\u202ec
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" or char in joiners else _escape_char(char) for char in text)


def encode_printable_json(document: Any) -> str:
    r"""Encode a document as JSON with unprintable characters escaped, so that a terminal can show it. It decodes to the same document.

    >>> print(encode_printable_json({"text": "a\x9bb\u202ec é"}))
    {"text":"a\u009bb\u202ec é"}
    """
    return escape_json(msgspec.json.encode(document, enc_hook=str))


def escape_json(data: bytes | str, indent: int | None = None) -> str:
    """Escape the unprintable characters of valid JSON."""
    text = data if isinstance(data, str) else data.decode()
    text = text if indent is None else msgspec.json.format(text, indent=indent)
    return text if text.isprintable() else _NOT_ASCII.sub(_escape_json_char, text)


def to_one_line(text: str, max_chars: int = 100) -> str:
    """Return the beginning of a text, in one line.

    >>> to_one_line("a\\n  b", 10), to_one_line("abcdefghijkl", 10)
    ('a b', 'abcdefghi…')
    """
    return truncate(" ".join(text.split()), max_chars)


def format_count(number: int, thing: str) -> str:
    """Return a number and its noun, in the singular or plural.

    >>> format_count(1, "message"), format_count(2, "message")
    ('1 message', '2 messages')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def truncate(text: str, max_chars: int) -> str:
    """Return the beginning of a text, with an ellipsis if there is more.

    >>> truncate("abcdefghijkl", 10)
    'abcdefghi…'
    """
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


_NOT_ASCII = re.compile("[^\n -~]")


def _escape_json_char(match: re.Match[str]) -> str:
    char = match[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
