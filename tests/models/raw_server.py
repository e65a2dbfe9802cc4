"""A server that sends exactly the bytes that a test writes, over real connections: for what no HTTP framework would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress


class RawServer:
    """A server that calls `answer(writer)` for each request, until the client or `answer` closes the connection."""

    def __init__(self, answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._answer = answer
        self.url = ""
        self.connections = self.requests = 0
        self._open = 0
        self._changed = asyncio.Condition()

    async def wait_until_closed(self) -> None:
        """Wait until no client holds a connection."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self._open += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await _read_request(reader)
                    self.requests += 1
                    await self._answer(writer)
                    await writer.drain()
        finally:
            writer.close()
            async with self._changed:
                self._open -= 1
                self._changed.notify_all()


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(int(length))


@asynccontextmanager
async def serve_raw(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[RawServer]:
    """Run a raw server on a free port."""
    raw = RawServer(answer)
    async with await asyncio.start_server(raw.serve, "127.0.0.1", 0) as server:
        raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield raw
