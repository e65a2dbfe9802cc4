"""The emulator as a running server.

It runs in a thread with an event loop of its own, so programs and tests with and without an event loop can use it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Self

import uvicorn

from legato.asgi.request_bodies import DRAIN_TIMEOUT_S, drain_unread_bodies
from legato.asgi.server_context import ServerContext
from legato.asgi.uvicorn_server import (
    KEEP_ALIVE_TIMEOUT_S,
    StoppableServer,
    ThreadedServer,
    open_listening_socket,
    url_of_socket,
    with_hang_up,
)
from legato.emulator.app import LOOPBACK_HOSTS, make_app
from legato.emulator.exchanges import Exchange, ExchangeLog
from legato.emulator.open_exchange import ConnectionCut
from legato.emulator.options import EmulatorOptions
from legato.errors import BadInput


class Emulator(ServerContext):
    """A strict provider on this machine. Use it as a context manager, in either kind of program; see `serve`."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        if options.host not in LOOPBACK_HOSTS and not options.accepted_keys:
            raise BadInput(
                "an emulator that other machines can reach needs a key",
                found=f"host {options.host!r} and no keys",
                do="name the keys it accepts (keys=[...], --key KEY), or use the host 127.0.0.1",
            )
        self._app = make_app(options)
        self._is_stopped = False
        self._server_thread: ThreadedServer | None = None
        self._socket: socket.socket | None = None

    # -- addresses -----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The emulator's address: Anthropic's `base_url`, Azure's `azure_endpoint`."""
        if self._socket is None:
            raise BadInput("this emulator is not running", do="use it in a with block: with serve() as emulator: ...")
        return url_of_socket(self._socket)

    @property
    def openai_url(self) -> str:
        """OpenAI's `base_url`."""
        return f"{self.url}/v1"

    @property
    def page(self) -> str:
        """The address of the live page, with its token."""
        return f"{self.url}/_emulator?token={self._app.token}"

    # -- exchanges and faults ------------------------------------------------------------------------------------------

    @property
    def log(self) -> ExchangeLog:
        """The log of all exchanges, with totals."""
        return self._app.exchange_log

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges so far, in the order of their ends: requests for a model's reply (`is_model_request`) and all others."""
        return self._app.exchange_log.list_ended_after()

    def fault(self, text: str) -> None:
        """Apply a fault to the next request: `emulator.fault("rate_limit retry_after=2")`."""
        self._app.fault_plan.add(text)

    def summary(self) -> str:
        """Return the totals in words: requests, statuses, and refusals by rule."""
        return self._app.exchange_log.summary()

    # -- start and stop ------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server. Returns when it accepts requests."""
        if self._is_stopped or self._server_thread is not None:
            state = "was stopped" if self._is_stopped else "is running already"
            raise BadInput(f"this emulator {state}", do="make another with serve(); stored objects survive in a file: state=...")
        try:
            self._socket = open_listening_socket(self.options.host, self.options.port, "the emulator")
        except BadInput:
            self.stop()
            raise
        config = uvicorn.Config(
            with_hang_up(drain_unread_bodies(self._app.asgi, DRAIN_TIMEOUT_S)),
            log_config=None,
            log_level="error",
            lifespan="off",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        )
        logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
        try:
            self._server_thread = ThreadedServer(StoppableServer(config), self._socket, "legato-emulator")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Finish requests in progress, then stop. Stopping twice is harmless."""
        if self._server_thread is not None:
            self._server_thread.stop()
        self._server_thread = None
        self._is_stopped = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._app.close()

    def wait(self) -> None:
        """Wait until the emulator is stopped. Ctrl-C ends the wait, not the emulator."""
        if self._server_thread is not None:
            self._server_thread.wait()

    def __repr__(self) -> str:
        return f"<Emulator {self.url if self._socket else 'not running'}: {self.log.requests} requests>"


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for a connection that a fault broke, or that was open when the emulator was stopped: these are not logged."""
    return not (record.exc_info and isinstance(record.exc_info[1], ConnectionCut | asyncio.CancelledError))
