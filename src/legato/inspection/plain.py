"""Text as it may stand anywhere. May know: nothing. Decides: what of a text could do something to whatever shows it.

Words of models, outputs of tools and ids come from elsewhere. A control character in them could move a terminal's cursor, or turn the order
of letters around: it is shown by its code instead.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

JOINERS = "\u200c\u200d"  # what emoji and some scripts are put together with; they change nothing but their neighbours


def harmless(text: str, joiners: str = JOINERS) -> str:
    """The text with everything that is not printed shown by its code.

    >>> print(harmless("a\\x1b[2Jb\\u202ec"))
    a\\x1b[2Jb\\u202ec
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" or char in joiners else _code(char) for char in text)


def json_text(document: Any) -> str:
    r"""A document as JSON. Every reader gets the same document, and what is not printed is escaped, so that a terminal can show it.

    >>> print(json_text({"text": "a\x9bb\u202ec é"}))
    {"text":"a\u009bb\u202ec é"}
    """
    return escaped_json(msgspec.json.encode(document, enc_hook=str))


def escaped_json(data: bytes | str, indent: int | None = None) -> str:
    """Valid JSON, with escapes in place of what is not printed."""
    text = data if isinstance(data, str) else data.decode()
    text = text if indent is None else msgspec.json.format(text, indent=indent)
    return text if text.isprintable() else _NOT_ASCII.sub(_json_code, text)


def one_line(text: str, most: int = 100) -> str:
    """The beginning of a text, in one line.

    >>> one_line("a\\n  b", 10), one_line("abcdefghijkl", 10)
    ('a b', 'abcdefghi…')
    """
    return shortened(" ".join(text.split()), most)


def counted(number: int, thing: str) -> str:
    """How many there are.

    >>> counted(1, "message"), counted(2, "message")
    ('1 message', '2 messages')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """The beginning of a text.

    >>> shortened("abcdefghijkl", 10)
    'abcdefghi…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


_NOT_ASCII = re.compile("[^\n -~]")


def _json_code(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _code(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
