"""A server as it runs. May know: uvicorn, sockets and threads. Decides: how one starts to listen, and how it stops.

It runs in the event loop that asks, or in a thread with a loop of its own, so that a program, a test with an event loop and one without can
all use it.
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

from legato.asgi import HANG_UP
from legato.errors import BadInput, LegatoError

PATIENCE = 1.0
"""Seconds that a server waits, when it is stopped, for what it is answering."""

KEEP_ALIVE = 75
"""Seconds that a server keeps a connection on which nothing is asked. Clients must be the first to let go: if both do after the same time
(five seconds, the SDKs' number and uvicorn's), a request may be sent into a connection that is just being closed."""


def bound(host: str, port: int, what: str) -> socket.socket:
    """A socket that listens; `BadInput` if that cannot be. `what` is who wants to, in a sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio sets TCP_NODELAY only then
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        unknown = isinstance(error, socket.gaierror)
        do = "name an address of this machine: 127.0.0.1, ::1 or localhost" if unknown else "choose another port, or 0 for any"
        raise BadInput(f"{what} cannot listen on {host}:{port}", found=str(error), do=do) from error
    return listening


def url_of(listening: socket.socket) -> str:
    """Where it answers."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def can_hang_up(app: Any, how: Literal["close", "abort"] = "close") -> Any:
    """An ASGI application whose every request has the means to close its connection. uvicorn's `send` belongs to an object that has it.

    To close it sends what is written so far, to abort it does not wait for that.
    """

    async def outermost(scope: Any, receive: Any, send: Any) -> None:
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        if transport is not None:
            scope[HANG_UP] = getattr(transport, how)
        await app(scope, receive, send)

    return outermost


class Leaving(uvicorn.Server):
    """uvicorn's, but it leaves as soon as it is told to, where uvicorn looks ten times in a second: tests start and stop many.

    Signals are for whoever runs it. The application is told that it ends while what is being answered goes on, and not afterwards: an
    answer may be a stream that ends when the application does.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave them alone."""
        yield

    def leave(self) -> None:
        """Answer what is being answered, for a second at most, then end. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._leaving.set)

    async def main_loop(self) -> None:
        """Serve until told to leave; the ticks keep the date in the headers."""
        self._loop = asyncio.get_running_loop()
        leaving, ticks = asyncio.ensure_future(self._leaving.wait()), 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.wait([leaving], timeout=0.1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is idle and wait for what is not. What takes too long is broken off when the event loop ends."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self.lifespan.shutdown()
        until = time.monotonic() + PATIENCE
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)


class InThread:
    """A server that answers in a thread of its own, from when this is made until `stop`."""

    def __init__(self, server: Leaving, listening: socket.socket, name: str) -> None:
        self._server = server
        self._error: BaseException | None = None
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(listening, ready), name=name, daemon=True)
        self._thread.start()
        ready.wait(10)
        if not server.started:
            self.stop()
            raise LegatoError(f"{name} did not start within ten seconds") from self._error

    def _run(self, listening: socket.socket, ready: threading.Event) -> None:
        async def run() -> None:
            serving = asyncio.create_task(self._server.serve(sockets=[listening]))
            while not self._server.started and not serving.done():
                await asyncio.wait([serving], timeout=0.002)  # uvicorn tells nobody when it is ready
            ready.set()
            await serving

        try:
            asyncio.run(run())
        except BaseException as error:
            self._error = error
            raise
        finally:
            ready.set()

    def stop(self, within: float = 10) -> None:
        """Answer what is being answered, then stop."""
        self._server.leave()
        self._thread.join(within)

    def wait(self) -> None:
        """Until it is stopped (Ctrl-C ends the wait, not the server)."""
        while self._thread.is_alive():
            self._thread.join(0.2)
