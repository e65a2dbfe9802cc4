"""The output of a tool: any Python value as text for the model.

Nothing here raises: the tool has run, and its call needs an output whatever it returned.
"""

from __future__ import annotations

import json

import msgspec

from legato.core.facts import Content
from legato.core.messages import Attachment, parse_message
from legato.errors import BadInput

EMPTY_OUTPUT = "(no output)"
"""The output for None and for empty text: some providers refuse an empty output, and models take it for a failure."""


def tool_output(value: object) -> str:
    """Return a result as text: text unchanged, data as compact JSON, anything else as a short description.

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
        return _replace_lone_surrogates(_render_value(value)) or EMPTY_OUTPUT
    except Exception:  # a circular value, a failing serializer, a failing repr
        return f"<{type(value).__name__}>"


def tool_content(value: object) -> tuple[Content, dict[str, bytes]]:
    """Return a result as content for the model, and its bytes by digest. Values of `image(...)` and `file(...)` stay attachments.

    >>> from legato import image
    >>> tool_content([image("https://example.com/7.png"), "order 7"])[0]
    (Image(media_type='image/png', url='https://example.com/7.png', digest=''), Text(text='order 7'))
    >>> tool_content("refunded")
    ('refunded', {})
    """
    if isinstance(value, str):  # the usual case
        return tool_output(value), {}
    pieces = list(value) if type(value) in (list, tuple) else [value]  # type: ignore[call-overload]
    if any(isinstance(piece, Attachment) for piece in pieces):
        try:
            return parse_message([piece if isinstance(piece, Attachment) else tool_output(piece) for piece in pieces])
        except BadInput:  # an attachment with invalid metadata
            pass
    return tool_output(value), {}


def _render_value(value: object) -> str:
    if value is None:
        return EMPTY_OUTPUT
    if isinstance(value, str):
        return str.__str__(value)  # the value of a string enum, not its name
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({memoryview(value).nbytes} bytes of binary data)"
    from pydantic_core import to_jsonable_python  # not needed for text, which most tools return

    try:
        plain = to_jsonable_python(value, fallback=_describe_unknown, bytes_mode="base64", inf_nan_mode="strings")
    except Exception:
        return _safe_repr(value)
    # A date or an unknown object is plain text; only data is JSON.
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _describe_unknown(value: object) -> object:
    return msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else _safe_repr(value)


def _safe_repr(value: object) -> str:
    if type(value).__repr__ is object.__repr__:
        return f"<{type(value).__name__}>"  # the default repr adds only a memory address
    return repr(value)


def _replace_lone_surrogates(text: str) -> str:
    """Return text that can be encoded: paired surrogates are joined, lone ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
