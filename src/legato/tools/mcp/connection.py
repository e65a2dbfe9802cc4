"""How a server is reached. May know: the `mcp` package, processes, HTTP. Decides: what is certain when a connection breaks.

A connection is owned by a task of its own, because what opens it must close it. Three things can be known of a call that failed: the
server answered with an error; it was never run, because nothing was sent or the sending was refused; or nobody knows. The `mcp` package
tells them apart by words and codes of its own, so they are sorted here, once.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, TextIO
from urllib.parse import parse_qsl, urlsplit

import httpx2
import msgspec
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, ToolListChangedNotification
from msgspec import Struct

from legato.errors import MCPFailed
from legato.http_logs import mask_logged_urls

NOT_SENT, REFUSED, UNKNOWN = -32050, -32051, -32052
"""Codes of our own, for what HTTP says of a request besides an answer to it."""

REFUSALS = (401, 403, 407, 429)
"""Statuses by which a server refuses a request without looking at it."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Bytes of one message of a server. Providers take pictures of 5 to 20 MB, which are a third longer in a message; reading 16 MiB of JSON
holds the event loop for 0.1 s."""

LINES = 12
"""How many of a server's last words on its standard error are told when it cannot be reached."""

Ended = Callable[[], None]


class Way(Protocol):
    """How to reach a server."""

    @property
    def shown(self) -> str:
        """What may be told of it: no arguments, no credentials."""
        ...

    @property
    def hidden(self) -> Iterator[str]:
        """What may be told nowhere."""
        ...

    def streams(self, ended: Ended) -> AbstractAsyncContextManager[Any]:
        """Open it. `ended` is called when it is over."""
        ...

    @property
    def last_words(self) -> str:
        """What the server said besides the protocol, before it went."""
        ...


class Command(Struct, frozen=True, eq=False, kw_only=True):
    """A process that is started, and spoken to over its standard input and output."""

    command: tuple[str, ...]
    env: dict[str, str]
    cwd: Path | None
    words: deque[str]

    @property
    def shown(self) -> str:
        return Path(self.command[0]).name

    @property
    def hidden(self) -> Iterator[str]:
        yield from self.env.values()

    @property
    def last_words(self) -> str:
        return " | ".join(self.words)

    @asynccontextmanager
    async def streams(self, ended: Ended) -> AsyncIterator[Any]:
        self.words.clear()
        parameters = StdioServerParameters(
            command=self.command[0], args=list(self.command[1:]), env=self.env, cwd=self.cwd, encoding=_BOUNDED_UTF8
        )
        sink = _listening(self.words)

        def refuse_line() -> None:
            self.words.append(f"(a line of more than {MAX_MESSAGE_BYTES:,} bytes, which was not read)")
            ended()

        _on_long_line.set(refuse_line)  # for the tasks that are started from here
        try:
            async with stdio_client(parameters, errlog=sink) as (read, write):
                sink.close()  # the process has its own: when it is gone, whoever listens hears the end
                yield _Watched(read, ended), write
        finally:
            sink.close()


class Address(Struct, frozen=True, eq=False, kw_only=True):
    """A server that is spoken to over HTTP."""

    url: str
    headers: dict[str, str]

    @property
    def shown(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def hidden(self) -> Iterator[str]:
        parts = urlsplit(self.url)
        yield from (value for value in (parts.username, parts.password, parts.query) if value)
        for query in (parts.query, parts.query.replace("+", "%2B")):  # servers disagree whether a plus sign is a space
            yield from (value for _, value in parse_qsl(query))
        for value in self.headers.values():
            yield value
            yield value.split()[-1] if value.split() else value  # "Bearer x": also x

    @property
    def last_words(self) -> str:
        return ""

    @asynccontextmanager
    async def streams(self, ended: Ended) -> AsyncIterator[Any]:
        # A call may take its time: how long, the tool's own time limit says.
        timeout = httpx2.Timeout(30.0, read=None)
        mask_logged_urls()
        headers = httpx2.Headers(self.headers)
        headers["Accept-Encoding"] = "identity"  # 400 KB of gzip may be 400 MB, unpacked in one go
        async with (
            _Candid(headers=headers, timeout=timeout) as http,
            streamable_http_client(self.url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams


class _Candid(httpx2.AsyncClient):
    """Tells what became of a request as an answer to it. An exception would end the connection, and with it every other call on it."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await self._send_bounded(request, **options)
        try:
            return await self._post(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol) as error:
            return _answer(request, NOT_SENT, f"no connection ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _answer(request, UNKNOWN, f"the connection broke ({type(error).__name__})")
        except httpx2.StreamError as error:
            return _answer(request, UNKNOWN, str(error))

    async def _post(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await self._send_bounded(request, **options)
        if response.status_code in (400, 404) and MCP_SESSION_ID in request.headers and b"session" in (await response.aread()).lower():
            # A server that was restarted does not know us any more. The `mcp` package reads it from a bare 404 alone; its own server
            # adds words of its own (2.3), and the TypeScript one says 400 (1.32).
            return httpx2.Response(404, request=request)
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            return response
        if response.status_code >= 500 or response.status_code in REFUSALS:
            await response.aclose()
            return _answer(request, UNKNOWN if response.status_code >= 500 else REFUSED, f"HTTP {response.status_code}")
        return response

    async def _send_bounded(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send it, and let no more than one message be read of the answer. A stream of events may go on: each event is bounded."""
        response = await super().send(request, **options)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _answer(request, UNKNOWN, "the answer is compressed, which was not asked for")
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not (is_events and response.status_code == 200 and request.method in ("GET", "POST")):
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """An answer's bytes, up to the length of one message."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_MESSAGE_BYTES:
                raise httpx2.StreamError(f"the answer is longer than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


_BOUNDED_UTF8 = "legato-bounded-utf-8"
_on_long_line: ContextVar[Callable[[], None]] = ContextVar("legato_mcp_on_long_line")


class _BoundedLineDecoder(codecs.IncrementalDecoder):
    """UTF-8 in whole lines, that stops at a line longer than a message may be.

    The `mcp` package keeps a line until it ends, however long it is, and copies all of it for each piece that comes. Its encoding is the
    one part of that which is ours to choose.
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._pieces: list[bytes] = []
        self._line_bytes = 0
        self._on_long_line = _on_long_line.get()

    def decode(self, data: Any, final: bool = False) -> str:
        if self._line_bytes > MAX_MESSAGE_BYTES:
            return ""
        *whole, rest = bytes(data).rsplit(b"\n", 1)
        lines = b""
        if whole:
            lines = b"".join([*self._pieces, *whole, b"\n"])
            self._pieces.clear()
            self._line_bytes = 0
        self._pieces.append(rest)
        self._line_bytes += len(rest)
        if self._line_bytes > MAX_MESSAGE_BYTES:
            self._pieces.clear()
            self._on_long_line()
        return lines.decode("utf-8", self.errors)


def _find_codec(name: str) -> codecs.CodecInfo | None:
    if name != _BOUNDED_UTF8.replace("-", "_"):
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementaldecoder=_BoundedLineDecoder, name=_BOUNDED_UTF8)


codecs.register(_find_codec)


def _answer(request: httpx2.Request, code: int, words: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": words}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(503, headers=headers, content=msgspec.json.encode(body), request=request)


class _Watched:
    """A stream of what a server says, that notes its end."""

    def __init__(self, stream: Any, ended: Ended) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except Exception:
            self._ended()
            raise

    async def aclose(self) -> None:
        self._ended()
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        self._ended()
        left: bool | None = await self._stream.__aexit__(*error)
        return left


def _listening(words: deque[str]) -> TextIO:
    """A file that a process may complain to; the last lines are kept."""
    read, write = os.pipe()

    def listen() -> None:
        with open(read, errors="replace") as lines:
            while line := lines.readline(MAX_MESSAGE_BYTES):
                if line.strip():
                    words.append(line.strip()[:300])

    threading.Thread(target=listen, name="legato-mcp-stderr", daemon=True).start()
    return open(write, "w")


class Connection:
    """One connection to a server, open until it ends or is closed."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.over = False
        self.looked = float("-inf")
        """When the server's tools were last compared with those that were accepted."""

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def open(self, seconds: float) -> Connection:
        """Connect, or raise what was in the way."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Client] = loop.create_future()
        self._task = loop.create_task(self._own(ready), name="legato-mcp")
        try:
            async with asyncio.timeout(seconds):
                self._client = await asyncio.shield(ready)
        except BaseException:
            ready.cancel()
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        return self

    async def close(self) -> None:
        """End it. What is being called there ends as unknown."""
        self._end()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _end(self) -> None:
        self.over = True
        self._leave.set()

    async def _own(self, ready: asyncio.Future[Client]) -> None:
        try:
            async with Client(self._way.streams(self._end), message_handler=self._heard, cache=None) as client:
                # It would match the server's patterns against the server's words with `re`, and nobody relies on its answer.
                client.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
                if not ready.done():
                    ready.set_result(client)
                await self._leave.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # anyio tells the end of a connection in groups, and may put anything into them
            if not ready.done():
                ready.set_exception(first_of(error))
        finally:
            self._end()

    async def _heard(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.looked = float("-inf")


async def _accept_result(name: str, result: object) -> None:
    """Check nothing: what a server's tool returns is words for a model, whatever its output schema says."""


def first_of(error: BaseException) -> Exception:
    """The first cause in a group of groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def hide(way: Way, text: str) -> str:
    """The text without anything that may be told nowhere."""
    for value in sorted(set(way.hidden), key=len, reverse=True):
        if len(value) >= 4:  # shorter ones are in every other word, and no credentials
            text = re.sub(re.escape(value), "***", text)
    return text


def unreachable(server: str, way: Way, error: BaseException) -> MCPFailed:
    """What to say when a server cannot be reached. Nothing was run."""
    found = "it did not answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    words = f"; it said: {way.last_words}" if way.last_words else ""
    return MCPFailed(
        f"MCP server {server!r} cannot be reached, and nothing was run",
        expected=way.shown,
        found=hide(way, f"{found}{words}"),
        do="see that it runs; it is connected to again with the next call",
    )


def never_ran(error: MCPError) -> bool:
    """Whether a call was certainly not run: it was not sent, or refused before anybody looked at it."""
    return error.code in (NOT_SENT, REFUSED) or began_anew(error)


def began_anew(error: MCPError) -> bool:
    """Whether the server does not know this connection, because it was restarted: another one will do."""
    return error.code == INVALID_REQUEST and error.message == "Session terminated"


def nobody_knows(error: MCPError, connection: Connection) -> bool:
    """Whether a call was sent and may have been run. Servers use the code of a closed connection for errors of their own, too."""
    closed = error.code == CONNECTION_CLOSED and (connection.over or error.message.startswith(("SSE stream", "Connection closed")))
    return error.code == UNKNOWN or closed
