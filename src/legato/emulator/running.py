"""The emulator as a running server. May know: uvicorn and threads. Decides: how it starts and stops.

It runs in a thread with an event loop of its own, so a program, a test with an event loop and one without can all use it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from legato.emulator.app import LOOPBACK, make_app
from legato.emulator.exchanges import Exchange, Exchanges
from legato.emulator.options import Options
from legato.emulator.turn import HANG_UP, Cut
from legato.errors import BadInput, LegatoError

PATIENCE = 1.0
"""Seconds that an emulator waits, when it is stopped, for what it is answering."""

KEEP_ALIVE = 75
"""Seconds that it keeps a connection on which nothing is asked. Clients must be the first to let go: if both do after the same time (five
seconds, the SDKs' number and uvicorn's), a request may be sent into a connection that is just being closed."""


class Emulator:
    """A strict provider on this machine. Use it as a context manager, in either kind of program; see `serve`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        if options.host not in LOOPBACK and not options.keys:
            raise BadInput(
                "an emulator that others can reach needs a key",
                found=f"host {options.host!r} and no keys",
                do="name the keys it accepts (keys=[...], --key KEY), or use the host 127.0.0.1",
            )
        self._app = make_app(options)
        self._stopped = False
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it answers: Anthropic's `base_url`, Azure's `azure_endpoint`."""
        if self._socket is None:
            raise BadInput("this emulator is not running", do="use it in a with block: with serve() as emulator: ...")
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def openai_url(self) -> str:
        """OpenAI's `base_url`."""
        return f"{self.url}/v1"

    @property
    def page(self) -> str:
        """The live page, with the token that opens it."""
        return f"{self.url}/_emulator?token={self._app.token}"

    # -- what happened -------------------------------------------------------------------------------------------------

    @property
    def log(self) -> Exchanges:
        """Every exchange and the sums over them."""
        return self._app.exchanges

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges so far, in the order in which they ended; those for replies, and all others (`exchange.asks` tells)."""
        return self._app.exchanges.after()

    def fault(self, text: str) -> None:
        """Let something go wrong with the next request: `emulator.fault("rate_limit retry_after=2")`."""
        self._app.faults.add(text)

    def summary(self) -> str:
        """How many requests, and what was refused by which clause."""
        return self._app.exchanges.summary()

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self) -> Emulator:
        """Begin to answer; returns when it does."""
        if self._stopped or self._thread is not None:
            told = "was stopped" if self._stopped else "is running already"
            raise BadInput(f"this emulator {told}", do="make another with serve(); what is to outlive one goes into a file: state=...")
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio sets TCP_NODELAY only then
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((self.options.host, self.options.port))
            self._socket.listen(1024)
        except (OSError, OverflowError) as error:
            self.stop()
            where, unknown = f"{self.options.host}:{self.options.port}", isinstance(error, socket.gaierror)
            do = "name an address of this machine: 127.0.0.1, ::1 or localhost" if unknown else "choose another port, or 0 for any"
            raise BadInput(f"the emulator cannot listen on {where}", found=str(error), do=do) from error
        config = uvicorn.Config(
            _can_hang_up(self._app.asgi),
            log_config=None,
            log_level="error",
            lifespan="off",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        logging.getLogger("uvicorn.error").addFilter(_not_on_purpose)
        self._server = _Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="legato-emulator", daemon=True)
        self._thread.start()
        ready.wait(10)
        if not self._server.started:
            self.stop()
            raise LegatoError("the emulator did not start within ten seconds")
        return self

    def _run(self, ready: threading.Event) -> None:
        server, listening = self._server, self._socket
        assert server is not None and listening is not None

        async def run() -> None:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started and not serving.done():
                await asyncio.wait([serving], timeout=0.002)  # uvicorn tells nobody when it is ready
            ready.set()
            await serving

        try:
            asyncio.run(run())
        finally:
            ready.set()

    def stop(self) -> None:
        """Answer what is being answered, then stop. Stopping twice is harmless."""
        if self._server is not None and self._thread is not None:
            self._server.leave()
            self._thread.join(10)
        self._server = self._thread = None
        self._stopped = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._app.close()

    def wait(self) -> None:
        """Until it is stopped (Ctrl-C ends the wait, not the server)."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.2)

    def __enter__(self) -> Emulator:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Emulator:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        return f"<Emulator {self.url if self._socket else 'not running'}: {self.log.requests} requests>"


class _Server(uvicorn.Server):
    """uvicorn's, but it leaves as soon as it is told to, where uvicorn looks ten times in a second: tests start and stop many."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

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
        until = time.monotonic() + PATIENCE
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < until:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)


def _can_hang_up(app: ASGIApp) -> ASGIApp:
    """Give every request the means to close its connection. uvicorn's `send` belongs to an object that has it."""

    async def outermost(scope: Scope, receive: Receive, send: Send) -> None:
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        if transport is not None:
            scope[HANG_UP] = transport.close
        await app(scope, receive, send)

    return outermost


def _not_on_purpose(record: logging.LogRecord) -> bool:
    """A connection that a fault broke is no error of ours, nor is one that was open when the emulator was stopped."""
    return not (record.exc_info and isinstance(record.exc_info[1], Cut | asyncio.CancelledError))
