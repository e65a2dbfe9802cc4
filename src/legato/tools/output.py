"""What a model reads of a tool's result. May know: pydantic's serializer. Decides: how any Python value becomes text.

Never raises: the tool has run, and whatever it returned, its call must be answered.
"""

from __future__ import annotations

import json

import msgspec

from legato.core.facts import Content
from legato.core.messages import Attachment, content_from
from legato.errors import BadInput

NOTHING = "(no output)"
"""Said for None and for empty text: some providers refuse an empty output, and to a model it reads like a failure."""


def tool_output(value: object) -> str:
    """The text of a result: text as it is, data as compact JSON, anything else as a short description.

    >>> tool_output("refunded")
    'refunded'
    >>> tool_output({"cents": 250, "by": None})
    '{"cents":250,"by":null}'
    >>> tool_output(None)
    '(no output)'
    >>> tool_output(b"abc")
    '(3 bytes of binary data)'
    """
    try:
        return _writable(_text(value)) or NOTHING
    except Exception:  # a circular value, a serializer of the user's that fails, a repr that fails
        return f"<{type(value).__name__}>"


def tool_content(value: object) -> tuple[Content, dict[str, bytes]]:
    """A result as the model is given it, and the bytes that go with it: what `image(...)` and `file(...)` made is kept as what it is.

    >>> from legato import image
    >>> tool_content([image("https://example.com/7.png"), "order 7"])[0]
    (Image(media_type='image/png', url='https://example.com/7.png', digest=''), Text(text='order 7'))
    >>> tool_content("refunded")
    ('refunded', {})
    """
    if isinstance(value, str):  # as most tools return
        return tool_output(value), {}
    pieces = list(value) if type(value) in (list, tuple) else [value]  # type: ignore[call-overload]
    if any(isinstance(piece, Attachment) for piece in pieces):
        try:
            return content_from([piece if isinstance(piece, Attachment) else tool_output(piece) for piece in pieces])
        except BadInput:  # a part that says something of itself that cannot be written down
            pass
    return tool_output(value), {}


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return str.__str__(value)  # of an enum of strings this is the value, not the name
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({memoryview(value).nbytes} bytes of binary data)"
    from pydantic_core import to_jsonable_python  # text, which is most of what tools return, does without

    try:
        plain = to_jsonable_python(value, fallback=_unknown, bytes_mode="base64", inf_nan_mode="strings")
    except Exception:
        return _repr(value)
    # A date or an unknown object is text of its own; only data is JSON.
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _unknown(value: object) -> object:
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else _repr(value)


def _repr(value: object) -> str:
    if type(value).__repr__ is object.__repr__:
        return f"<{type(value).__name__}>"  # the default adds only a memory address
    return repr(value)


def _writable(text: str) -> str:
    """Text that the ledger can hold: paired surrogates are joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
