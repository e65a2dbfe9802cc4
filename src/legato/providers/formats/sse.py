"""Server-sent events, as the WHATWG defines them. May know: bytes. Decides: where a line and an event end, and what an event says.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

BOM = b"\xef\xbb\xbf"


class ServerSentEvent(Struct, frozen=True):
    """One event. Its data are bytes: what is no UTF-8 must fail where it is read, and not become other words."""

    data: bytes
    type: str = "message"
    id: str = ""
    """The last id of the stream so far: it stays until another one comes."""


class EventReader:
    """Takes the bytes of a stream as they come and gives each whole event.

    Lines end with CR, LF or CRLF. `retry` is ignored: nobody connects again to a stream that is read with this.

    >>> reader = EventReader()
    >>> list(reader.feed(b'event: a\\ndata: {"x":')), list(reader.feed(b"1}\\n\\n"))
    ([], [ServerSentEvent(data=b'{"x":1}', type='a', id='')])
    """

    def __init__(self) -> None:
        self._start: bytes | None = b""  # what may be the beginning of a BOM; None once the stream has begun
        self._after_cr = False
        self._rest: list[bytes] = []  # the pieces of a line that has not ended: it may be long, and come in many
        self._data: list[bytes] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that end in this chunk."""
        if self._start is not None:
            chunk = self._start + chunk
            if chunk != BOM and BOM.startswith(chunk):
                self._start = chunk
                return
            self._start, chunk = None, chunk.removeprefix(BOM)
        if not chunk:
            return
        after_cr, self._after_cr = self._after_cr, chunk.endswith(b"\r")
        if after_cr:
            chunk = chunk.removeprefix(b"\n")  # of a CRLF: the line ended with its CR
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *more = chunk.split(b"\n")
        self._rest.append(first)
        for piece in more:
            line = b"".join(self._rest)
            self._rest = [piece]
            if line:
                self._take(line)
                continue
            if self._data:
                yield ServerSentEvent(b"\n".join(self._data), self._type or "message", self._id)
            self._data, self._type = [], ""

    def _take(self, line: bytes) -> None:
        """The next line of an event. One that begins with a colon is a comment; fields of other names are ignored."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
