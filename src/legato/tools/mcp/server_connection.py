"""Connections to MCP servers over stdio and HTTP, and the outcome of calls on a broken connection.

A task of its own opens and closes each connection, since the task that opens one must close it. A failed call has one of three outcomes:
the server answered with an error; the call did not run, because nothing was sent or the server refused the request; or the outcome is
unknown. The `mcp` package distinguishes them by messages and codes of its own, which are classified here.
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
"""Legato's own error codes, for the outcome of an HTTP request without an MCP answer."""

REFUSAL_STATUSES = (401, 403, 407, 429)
"""HTTP statuses by which a server refuses a request without running it."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Bytes of one message of a server. Providers accept pictures of 5 to 20 MB, which are a third longer in a message; decoding 16 MiB of
JSON blocks the event loop for 0.1 s."""

MAX_STDERR_LINES = 12
"""Last lines of a server's standard error that an error contains if the server cannot be reached."""

OnEnd = Callable[[], None]


class Transport(Protocol):
    """A way to reach a server."""

    @property
    def display_name(self) -> str:
        """The name for errors and logs, without arguments and credentials."""
        ...

    @property
    def secrets(self) -> Iterator[str]:
        """The values that errors and logs must not contain."""
        ...

    def open_streams(self, on_end: OnEnd) -> AbstractAsyncContextManager[Any]:
        """Open the streams of a connection. `on_end` is called at their end."""
        ...

    @property
    def last_stderr(self) -> str:
        """The last lines of the server's standard error."""
        ...


class StdioTransport(Struct, frozen=True, eq=False, kw_only=True):
    """Starts the server as a process, and uses its standard input and output."""

    command: tuple[str, ...]
    env: dict[str, str]
    cwd: Path | None
    stderr_lines: deque[str]

    @property
    def display_name(self) -> str:
        return Path(self.command[0]).name

    @property
    def secrets(self) -> Iterator[str]:
        yield from self.env.values()

    @property
    def last_stderr(self) -> str:
        return " | ".join(self.stderr_lines)

    @asynccontextmanager
    async def open_streams(self, on_end: OnEnd) -> AsyncIterator[Any]:
        self.stderr_lines.clear()
        parameters = StdioServerParameters(
            command=self.command[0], args=list(self.command[1:]), env=self.env, cwd=self.cwd, encoding=_BOUNDED_UTF8
        )
        sink = _collect_stderr(self.stderr_lines)

        def refuse_line() -> None:
            self.stderr_lines.append(f"(a line of more than {MAX_MESSAGE_BYTES:,} bytes, which was not read)")
            on_end()

        _on_long_line.set(refuse_line)  # the tasks that start here inherit it
        try:
            async with stdio_client(parameters, errlog=sink) as (read, write):
                sink.close()  # the process has its own copy; when that closes, the reader sees the end
                yield _EndReportingStream(read, on_end), write
        finally:
            sink.close()


class HTTPTransport(Struct, frozen=True, eq=False, kw_only=True):
    """Reaches a server over streamable HTTP."""

    url: str
    headers: dict[str, str]

    @property
    def display_name(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def secrets(self) -> Iterator[str]:
        parts = urlsplit(self.url)
        yield from (value for value in (parts.username, parts.password, parts.query) if value)
        for query in (parts.query, parts.query.replace("+", "%2B")):  # servers disagree whether "+" is a space
            yield from (value for _, value in parse_qsl(query))
        for value in self.headers.values():
            yield value
            yield value.split()[-1] if value.split() else value  # "Bearer x": also x

    @property
    def last_stderr(self) -> str:
        return ""

    @asynccontextmanager
    async def open_streams(self, on_end: OnEnd) -> AsyncIterator[Any]:
        # No read timeout: the tool's own timeout limits a call.
        timeout = httpx2.Timeout(30.0, read=None)
        mask_logged_urls()
        headers = httpx2.Headers(self.headers)
        headers["Accept-Encoding"] = "identity"  # 400 KB of gzip may be 400 MB, decompressed at once
        async with (
            _ErrorToResponseClient(headers=headers, timeout=timeout) as http,
            streamable_http_client(self.url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams


class _ErrorToResponseClient(httpx2.AsyncClient):
    """Answers a failed request with an error response. An exception would end the connection, and all other calls on it."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            return await self._send_bounded(request, **options)
        try:
            return await self._post(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol) as error:
            return _make_error_response(request, NOT_SENT, f"no connection ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _make_error_response(request, UNKNOWN, f"the connection broke ({type(error).__name__})")
        except httpx2.StreamError as error:
            return _make_error_response(request, UNKNOWN, str(error))

    async def _post(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = await self._send_bounded(request, **options)
        if response.status_code in (400, 404) and MCP_SESSION_ID in request.headers and b"session" in (await response.aread()).lower():
            # A restarted server does not know the session. The `mcp` package recognises only a 404 without a body; its own server sends a
            # body (2.3), and the TypeScript one sends 400 (1.32).
            return httpx2.Response(404, request=request)
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            return response
        if response.status_code >= 500 or response.status_code in REFUSAL_STATUSES:
            await response.aclose()
            return _make_error_response(request, UNKNOWN if response.status_code >= 500 else REFUSED, f"HTTP {response.status_code}")
        return response

    async def _send_bounded(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and bound the answer to the size of one message. An event stream is not bounded: each of its events is."""
        response = await super().send(request, **options)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _make_error_response(request, UNKNOWN, "the answer is compressed, which was not asked for")
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if not (is_events and response.status_code == 200 and request.method in ("GET", "POST")):
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of an answer, up to the size of one message."""

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
    """A UTF-8 decoder that returns whole lines, and stops at a line longer than a message may be.

    The `mcp` package buffers a line until it ends, however long it is, and copies all of it for each piece. The encoding is the only part
    of this that can be configured.
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


def _make_error_response(request: httpx2.Request, code: int, words: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": words}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(503, headers=headers, content=msgspec.json.encode(body), request=request)


class _EndReportingStream:
    """The messages of a server; calls a function at the end of the stream."""

    def __init__(self, stream: Any, on_end: OnEnd) -> None:
        self._stream = stream
        self._on_end = on_end

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except Exception:
            self._on_end()
            raise

    async def aclose(self) -> None:
        self._on_end()
        await self._stream.aclose()

    def __aiter__(self) -> _EndReportingStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> _EndReportingStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        self._on_end()
        left: bool | None = await self._stream.__aexit__(*error)
        return left


def _collect_stderr(words: deque[str]) -> TextIO:
    """Return a file for a process's standard error. A thread keeps its last lines."""
    read, write = os.pipe()

    def listen() -> None:
        with open(read, errors="replace") as lines:
            while line := lines.readline(MAX_MESSAGE_BYTES):
                if line.strip():
                    words.append(line.strip()[:300])

    threading.Thread(target=listen, name="legato-mcp-stderr", daemon=True).start()
    return open(write, "w")


class ServerConnection:
    """One connection to a server, until it ends or is closed."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._close_requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self.has_ended = False
        self.tools_checked_at = float("-inf")
        """The time of the last comparison with the accepted tools."""

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    async def open(self, seconds: float) -> ServerConnection:
        """Connect, or raise the first error."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Client] = loop.create_future()
        self._task = loop.create_task(self._run(ready), name="legato-mcp")
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
        """Close the connection. The outcome of running calls is unknown then."""
        self._end()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _end(self) -> None:
        self.has_ended = True
        self._close_requested.set()

    async def _run(self, ready: asyncio.Future[Client]) -> None:
        try:
            async with Client(self._transport.open_streams(self._end), message_handler=self._on_message, cache=None) as client:
                # It would match the server's patterns with `re`, and nothing uses its result.
                client.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
                if not ready.done():
                    ready.set_result(client)
                await self._close_requested.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # anyio raises groups with any exception in them
            if not ready.done():
                ready.set_exception(find_first_error(error))
        finally:
            self._end()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.tools_checked_at = float("-inf")


async def _accept_result(name: str, result: object) -> None:
    """Accept any result: it becomes text for a model, whatever its output schema says."""


def find_first_error(error: BaseException) -> Exception:
    """Return the first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(type(error).__name__)


def mask_secrets(transport: Transport, text: str) -> str:
    """Replace a transport's secrets in a text by asterisks."""
    for value in sorted(set(transport.secrets), key=len, reverse=True):
        if len(value) >= 4:  # shorter ones are not credentials, and occur in ordinary words
            text = re.sub(re.escape(value), "***", text)
    return text


def make_unreachable_error(server: str, transport: Transport, error: BaseException) -> MCPFailed:
    """Return the error for a server that cannot be reached; nothing was run."""
    reason = "it did not answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    stderr = f"; it said: {transport.last_stderr}" if transport.last_stderr else ""
    return MCPFailed(
        f"MCP server {server!r} cannot be reached, and nothing was run",
        expected=transport.display_name,
        found=mask_secrets(transport, f"{reason}{stderr}"),
        do="see that it runs; it is connected to again with the next call",
    )


def is_certainly_not_run(error: MCPError) -> bool:
    """Return True if a call was certainly not run: it was not sent, or refused at once."""
    return error.code in (NOT_SENT, REFUSED) or is_unknown_session(error)


def is_unknown_session(error: MCPError) -> bool:
    """Return True if the server does not know the session, because it was restarted: a new connection helps."""
    return error.code == INVALID_REQUEST and error.message == "Session terminated"


def is_outcome_unknown(error: MCPError, connection: ServerConnection) -> bool:
    """Return True if a call was sent and may have run. Servers use the code of a closed connection for their own errors, too."""
    is_closed = error.code == CONNECTION_CLOSED and (connection.has_ended or error.message.startswith(("SSE stream", "Connection closed")))
    return error.code == UNKNOWN or is_closed
