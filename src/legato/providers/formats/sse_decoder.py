"""Incremental decoder of server-sent events, as the WHATWG defines them.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

BOM = b"\xef\xbb\xbf"


class ServerSentEvent(Struct, frozen=True):
    """One event. Its data are bytes: invalid UTF-8 must fail when the JSON is decoded, and not become other words."""

    data: bytes
    type: str = "message"
    id: str = ""
    """The last id in the stream so far, as the standard has it: an id applies until the next one."""


class SSEDecoder:
    """Decodes a stream of bytes into events, chunk by chunk.

    Lines end with CR, LF or CRLF. `retry` is ignored: Legato never reconnects to a stream.

    >>> decoder = SSEDecoder()
    >>> list(decoder.feed(b'event: a\\ndata: {"x":')), list(decoder.feed(b"1}\\n\\n"))
    ([], [ServerSentEvent(data=b'{"x":1}', type='a', id='')])
    """

    def __init__(self) -> None:
        self._bom_prefix: bytes | None = b""  # a possible beginning of a BOM; None once the stream has begun
        self._after_cr = False
        self._line_pieces: list[bytes] = []  # the pieces of the unfinished line, which may be long
        self._data: list[bytes] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that end in this chunk."""
        if self._bom_prefix is not None:
            chunk = self._bom_prefix + chunk
            if chunk != BOM and BOM.startswith(chunk):
                self._bom_prefix = chunk
                return
            self._bom_prefix, chunk = None, chunk.removeprefix(BOM)
        if not chunk:
            return
        after_cr, self._after_cr = self._after_cr, chunk.endswith(b"\r")
        if after_cr:
            chunk = chunk.removeprefix(b"\n")  # of a CRLF: the line ended with its CR
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *more = chunk.split(b"\n")
        self._line_pieces.append(first)
        for piece in more:
            line = b"".join(self._line_pieces)
            self._line_pieces = [piece]
            if line:
                self._read_line(line)
                continue
            if self._data:
                yield ServerSentEvent(b"\n".join(self._data), self._type or "message", self._id)
            self._data, self._type = [], ""

    def _read_line(self, line: bytes) -> None:
        """Read one line of an event. A line that begins with a colon is a comment; unknown fields are ignored."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
