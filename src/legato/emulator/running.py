"""The emulator as a running server. May know: uvicorn and threads. Decides: how it starts and stops.

It runs in a thread with an event loop of its own, so a program, a test with an event loop and one without can all use it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Self

import uvicorn

from legato.asgi.blocks import InBlock
from legato.asgi.bodies import DRAIN_SECONDS, draining
from legato.asgi.running import KEEP_ALIVE, InThread, Leaving, bound, can_hang_up, url_of
from legato.emulator.app import LOOPBACK, make_app
from legato.emulator.exchanges import Exchange, Exchanges
from legato.emulator.options import Options
from legato.emulator.turn import Cut
from legato.errors import BadInput


class Emulator(InBlock):
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
        self._running: InThread | None = None
        self._socket: socket.socket | None = None

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it answers: Anthropic's `base_url`, Azure's `azure_endpoint`."""
        if self._socket is None:
            raise BadInput("this emulator is not running", do="use it in a with block: with serve() as emulator: ...")
        return url_of(self._socket)

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

    def start(self) -> Self:
        """Begin to answer; returns when it does."""
        if self._stopped or self._running is not None:
            told = "was stopped" if self._stopped else "is running already"
            raise BadInput(f"this emulator {told}", do="make another with serve(); what is to outlive one goes into a file: state=...")
        try:
            self._socket = bound(self.options.host, self.options.port, "the emulator")
        except BadInput:
            self.stop()
            raise
        config = uvicorn.Config(
            can_hang_up(draining(self._app.asgi, DRAIN_SECONDS)),
            log_config=None,
            log_level="error",
            lifespan="off",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        logging.getLogger("uvicorn.error").addFilter(_not_on_purpose)
        try:
            self._running = InThread(Leaving(config), self._socket, "legato-emulator")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Answer what is being answered, then stop. Stopping twice is harmless."""
        if self._running is not None:
            self._running.stop()
        self._running = None
        self._stopped = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._app.close()

    def wait(self) -> None:
        """Until it is stopped (Ctrl-C ends the wait, not the server)."""
        if self._running is not None:
            self._running.wait()

    def __repr__(self) -> str:
        return f"<Emulator {self.url if self._socket else 'not running'}: {self.log.requests} requests>"


def _not_on_purpose(record: logging.LogRecord) -> bool:
    """A connection that a fault broke is no error of ours, nor is one that was open when the emulator was stopped."""
    return not (record.exc_info and isinstance(record.exc_info[1], Cut | asyncio.CancelledError))
