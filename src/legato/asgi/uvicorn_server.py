"""uvicorn as Legato's servers use it: sockets that listen, a prompt stop, and a server in a thread.

A server runs in the caller's event loop, or in a thread with a loop of its own: so programs and tests with and without an event loop can
use it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn

from legato.asgi import HANG_UP_SCOPE_KEY
from legato.errors import BadInput, LegatoError

SHUTDOWN_TIMEOUT_S = 1.0
"""Seconds that a stopping server waits for requests in progress."""

KEEP_ALIVE_TIMEOUT_S = 75
"""Seconds that a server keeps an idle connection. The client must close first: if both sides close after the same time (five seconds in the
SDKs and in uvicorn), a request may be sent into a connection that is just being closed."""


def open_listening_socket(host: str, port: int, listener_name: str) -> socket.socket:
    """Return a listening socket, or raise `BadInput`. `listener_name` is the server's name in the error message."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server_socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio sets TCP_NODELAY only then
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server_socket.bind((host.strip("[]"), port))
        server_socket.listen(1024)
    except (OSError, OverflowError) as error:
        server_socket.close()
        is_unknown_host = isinstance(error, socket.gaierror)
        do = "name an address of this machine: 127.0.0.1, ::1 or localhost" if is_unknown_host else "choose another port, or 0 for any"
        raise BadInput(f"{listener_name} cannot listen on {host}:{port}", found=str(error), do=do) from error
    return server_socket


def url_of_socket(server_socket: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = server_socket.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def with_hang_up(app: Any, method: Literal["close", "abort"] = "close") -> Any:
    """Return an ASGI application whose requests can close their connection, with the function under `HANG_UP_SCOPE_KEY`.

    uvicorn's `send` belongs to an object that has the connection's transport. "close" sends the bytes written so far, "abort" drops them.
    """

    async def hang_up_app(scope: Any, receive: Any, send: Any) -> None:
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        if transport is not None:
            scope[HANG_UP_SCOPE_KEY] = getattr(transport, method)
        await app(scope, receive, send)

    return hang_up_app


class StoppableServer(uvicorn.Server):
    """A uvicorn server that stops at once, where uvicorn looks for a stop ten times a second: tests start and stop many servers.

    Signals are left to the program. The application's shutdown begins before the requests in progress end, not afterwards: a response may
    be a stream that ends only when the application shuts down.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop_requested = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the program."""
        yield

    def request_stop(self) -> None:
        """Finish requests in progress, within `SHUTDOWN_TIMEOUT_S`, then stop. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    async def main_loop(self) -> None:
        """Serve until a stop is requested; the ticks keep the date in the headers."""
        self._loop = asyncio.get_running_loop()
        stopping, ticks = asyncio.ensure_future(self._stop_requested.wait()), 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.wait([stopping], timeout=0.1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections and wait for the others. Requests that take too long are cancelled when the event loop ends."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self.lifespan.shutdown()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)


class ThreadedServer:
    """A server in a thread of its own, from the construction of this object until `stop`."""

    def __init__(self, server: StoppableServer, server_socket: socket.socket, name: str) -> None:
        self._server = server
        self._error: BaseException | None = None
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server_socket, ready), name=name, daemon=True)
        self._thread.start()
        ready.wait(10)
        if not server.started:
            self.stop()
            raise LegatoError(f"{name} did not start within ten seconds") from self._error

    def _run(self, server_socket: socket.socket, ready: threading.Event) -> None:
        async def run() -> None:
            serving = asyncio.create_task(self._server.serve(sockets=[server_socket]))
            while not self._server.started and not serving.done():
                await asyncio.wait([serving], timeout=0.002)  # uvicorn has no event for being ready
            ready.set()
            await serving

        try:
            asyncio.run(run())
        except BaseException as error:
            self._error = error
            raise
        finally:
            ready.set()

    def stop(self, timeout_s: float = 10) -> None:
        """Finish requests in progress, then stop."""
        self._server.request_stop()
        self._thread.join(timeout_s)

    def wait(self) -> None:
        """Wait until the server is stopped. Ctrl-C ends the wait, not the server."""
        while self._thread.is_alive():
            self._thread.join(0.2)
