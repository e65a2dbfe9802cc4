"""Server-sent events. May know: bytes. Decides: where an event ends."""

from __future__ import annotations

from collections.abc import Iterator


class EventReader:
    """Takes the bytes of a stream as they come and gives the data of each whole event.

    >>> reader = EventReader()
    >>> list(reader.feed(b'event: a\\ndata: {"x":')), list(reader.feed(b"1}\\n\\n"))
    ([], [b'{"x":1}'])
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the pieces of a line that has not ended: it may be long, and come in many
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of the events that end in this chunk."""
        first, *more = chunk.split(b"\n")
        self._rest.append(first)
        for piece in more:
            line = b"".join(self._rest).removesuffix(b"\r")
            self._rest = [piece]
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data = []

    @property
    def broken(self) -> bool:
        """Whether the stream stopped within an event."""
        return bool(b"".join(self._rest).strip() or self._data)
