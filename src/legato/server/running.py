"""The API as a running server. May know: uvicorn, threads, workers. Decides: what is put together, and how it starts and stops."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Self

import uvicorn

from legato.asgi.blocks import InBlock
from legato.asgi.bodies import draining
from legato.asgi.hosts import bracketed, check_reach, check_token
from legato.asgi.running import KEEP_ALIVE, InThread, Leaving, bound, can_hang_up, url_of
from legato.engines.advance import MakeContext
from legato.engines.contract import Engine
from legato.engines.local import LocalEngine
from legato.engines.pace import Pace
from legato.engines.worker import GRACE, Worker
from legato.errors import BadInput
from legato.server.access import ANYWHERE, access_of
from legato.server.app import make_app
from legato.server.connections import connection_kind
from legato.server.limits import LONGEST_HEAD, LONGEST_TARGET, Limits
from legato.server.serving import Serving
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

PORT = 8770
"""Not the emulator's, nor that of `legato mcp`: they are often run side by side."""


class Server(InBlock):
    """The API of some workflows, on this machine. Use it as a context manager, in either kind of program; see `serve`.

    `engine`: whose workers drive; without one, this server does, and `context`, `pace` and `grace` are those of its worker. `tracebacks`:
    log those of the workflows' own code; what they say may be words of a conversation.
    """

    def __init__(
        self,
        workflows: Workflow | Iterable[Workflow],
        *,
        store: Store | None = None,
        engine: Engine | None = None,
        host: str = "127.0.0.1",
        port: int = PORT,
        token: str = "",
        allow_hosts: Sequence[str] = (),
        allow_origins: Sequence[str] = (),
        limits: Limits | None = None,
        place: str = "",
        context: MakeContext | None = None,
        pace: Pace | None = None,
        grace: float = GRACE,
        tracebacks: bool = False,
    ) -> None:
        given = [workflows] if isinstance(workflows, Workflow) else list(workflows)
        check_reach(host, token, "--token", "LEGATO_TOKEN")
        self.token = token or secrets.token_urlsafe(24)
        check_token(self.token)
        self.host, self.port = host, port
        at = store if store is not None else one_store(given) or MemoryStore()
        driven = engine if engine is not None else LocalEngine()
        own = isinstance(driven, LocalEngine)
        options: dict[str, Any] = {"context": context, "pace": pace, "grace": grace, "tracebacks": tracebacks}
        worker = Worker(given, engine=driven, store=at, **options) if own else None
        shown = place or ("memory" if isinstance(at, MemoryStore) else repr(at))
        self.serving = Serving({each.name: each for each in given}, at, driven, shown, own)
        self._worker = worker
        self._grace = grace
        self._named = allow_hosts, allow_origins
        self._limits = limits or Limits()
        self._socket: socket.socket | None = None
        self._server: Leaving | None = None
        self._thread: InThread | None = None
        self._used = False
        self._error: BaseException | None = None  # why nothing is driven
        access_of(self.token, host, port, *self._named)  # what is wrong with these is told now

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it answers."""
        if self._socket is None:
            raise BadInput("this server is not running", do="use it in a with block: with serve(desk) as server: ...")
        if self.host in ANYWHERE:
            return f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        return url_of(self._socket)

    @property
    def console(self) -> str:
        """The console's address, with the token behind `#`: browsers keep that to themselves."""
        return f"{self.url}/#token={self.token}"

    # -- its life ------------------------------------------------------------------------------------------------------

    def _listen(self) -> tuple[Leaving, socket.socket]:
        if self._used:
            raise BadInput("this server was started before", do="make another with serve(...)")
        self._used = True
        self._socket = bound(self.host, self.port, "the server")
        access = access_of(self.token, self.host, self._socket.getsockname()[1], *self._named)
        app = make_app(self.serving, access, self._limits, self._worker, self._failed)
        config = uvicorn.Config(
            can_hang_up(draining(app, self._limits.reading), "abort"),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="on",
            http=connection_kind(self._limits),
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            h11_max_incomplete_event_size=LONGEST_HEAD + LONGEST_TARGET,
        )
        self._server = Leaving(config)
        return self._server, self._socket

    def _failed(self, error: BaseException) -> None:
        """Nobody drives: then nobody should think so."""
        self._error = error
        self.leave()

    def start(self) -> Self:
        """Begin to answer in a thread of its own; returns when it does."""
        server, listening = self._listen()
        try:
            self._thread = InThread(server, listening, "legato-server")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take no more, finish and record what runs, answer what is being answered. Stopping twice is harmless."""
        if self._thread is not None:
            self._thread.stop(self._grace + 10)
            self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def listen(self) -> None:
        """Take the port: `BadInput` says why not. `run()` begins to answer."""
        self._listen()

    async def run(self) -> None:
        """Answer in this event loop, until `leave()`. Raises what keeps its worker from working."""
        if self._server is None:
            self._listen()
        assert self._server is not None and self._socket is not None
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self.stop()
        if self._error is not None:
            raise self._error

    def leave(self) -> None:
        """Take no more; finish and record what runs; then `run()` returns."""
        if self._server is not None:
            self._server.leave()

    def __repr__(self) -> str:
        return f"<Server {self.url if self._socket else bracketed(self.host) + ', not running'}: {', '.join(self.serving.workflows)}>"


def serve(workflows: Workflow | Iterable[Workflow], *, port: int = 0, **options: Any) -> Server:
    """A server for a with block, on any port that is free unless one is named. The other options are those of `Server`.

    with serve(desk, store=SQLiteStore("desk.sqlite")) as server:
        httpx2.get(f"{server.url}/api", headers={"authorization": f"Bearer {server.token}"})
    """
    return Server(workflows, port=port, **options)


def one_store(workflows: Sequence[Workflow]) -> Store | None:
    """The store that they were built with, if any was; `BadInput` if they are several."""
    stores = {id(each.store): each.store for each in workflows if each.store is not None}
    if len(stores) > 1:
        raise BadInput("these workflows were built with different stores", do="say which one is served: store=..., or --store")
    return next(iter(stores.values()), None)
