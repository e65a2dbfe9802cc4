"""The HTTP server with its worker: how it is assembled, started and stopped."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Self

import uvicorn

from legato.asgi.exposure import bracket_ipv6_host, check_exposure
from legato.asgi.request_bodies import drain_unread_bodies
from legato.asgi.server_context import ServerContext
from legato.asgi.tokens import check_token
from legato.asgi.uvicorn_server import (
    KEEP_ALIVE_TIMEOUT_S,
    StoppableServer,
    ThreadedServer,
    open_listening_socket,
    url_of_socket,
    with_hang_up,
)
from legato.engines.engine import Engine
from legato.engines.local_engine import LocalEngine
from legato.engines.retry_policy import RetryPolicy
from legato.engines.session_step import ContextFactory
from legato.engines.worker import DEFAULT_GRACE_S, Worker
from legato.errors import BadInput
from legato.server.app import make_app
from legato.server.connections import make_connection_class
from legato.server.request_guard import WILDCARD_HOSTS, make_access
from legato.server.request_limits import MAX_HEAD_BYTES, MAX_TARGET_CHARS, RequestLimits
from legato.server.session_registry import SessionRegistry
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.workflow.workflow import Workflow

DEFAULT_PORT = 8770
"""Differs from the ports of the emulator and of `legato mcp`, which often run beside it."""


class Server(ServerContext):
    """An HTTP server for workflows. Use it as a context manager, in sync or async programs; see `serve`.

    `engine`: its workers drive the sessions. Without one, this server drives them, and `context`, `retry_policy` and `grace` configure its
    worker. `log_tracebacks`: log tracebacks of the workflows' own code, which may contain text of conversations. `store_name` is shown to
    clients.
    """

    def __init__(
        self,
        workflows: Workflow | Iterable[Workflow],
        *,
        store: Store | None = None,
        engine: Engine | None = None,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        token: str = "",
        allow_hosts: Sequence[str] = (),
        allow_origins: Sequence[str] = (),
        limits: RequestLimits | None = None,
        store_name: str = "",
        context: ContextFactory | None = None,
        retry_policy: RetryPolicy | None = None,
        grace: float = DEFAULT_GRACE_S,
        log_tracebacks: bool = False,
    ) -> None:
        served = [workflows] if isinstance(workflows, Workflow) else list(workflows)
        check_exposure(host, token, "--token", "LEGATO_TOKEN")
        self.token = token or secrets.token_urlsafe(24)
        check_token(self.token)
        self.host, self.port = host, port
        store = store if store is not None else find_common_store(served) or MemoryStore()
        engine = engine if engine is not None else LocalEngine()
        is_local = isinstance(engine, LocalEngine)
        options: dict[str, Any] = {"context": context, "retry_policy": retry_policy, "grace": grace, "log_tracebacks": log_tracebacks}
        worker = Worker(served, engine=engine, store=store, **options) if is_local else None
        store_name = store_name or ("memory" if isinstance(store, MemoryStore) else repr(store))
        self.registry = SessionRegistry({each.name: each for each in served}, store, engine, store_name, is_local)
        self._worker = worker
        self._grace = grace
        self._allowed = allow_hosts, allow_origins
        self._limits = limits or RequestLimits()
        self._socket: socket.socket | None = None
        self._server: StoppableServer | None = None
        self._thread: ThreadedServer | None = None
        self._is_started = False
        self._error: BaseException | None = None  # why the worker stopped
        make_access(self.token, host, port, *self._allowed)  # raises now if a host or origin is invalid

    # -- addresses -----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base URL of the running server."""
        if self._socket is None:
            raise BadInput("this server is not running", do="use it in a with block: with serve(desk) as server: ...")
        if self.host in WILDCARD_HOSTS:
            return f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        return url_of_socket(self._socket)

    @property
    def console_url(self) -> str:
        """The console's URL, with the token in the fragment, which browsers do not send."""
        return f"{self.url}/#token={self.token}"

    # -- starting and stopping -----------------------------------------------------------------------------------------

    def _listen(self) -> tuple[StoppableServer, socket.socket]:
        if self._is_started:
            raise BadInput("this server was started before, and starts only once", do="create another one with serve(...)")
        self._is_started = True
        self._socket = open_listening_socket(self.host, self.port, "the server")
        access = make_access(self.token, self.host, self._socket.getsockname()[1], *self._allowed)
        app = make_app(self.registry, access, self._limits, self._worker, self._on_worker_failure)
        config = uvicorn.Config(
            with_hang_up(drain_unread_bodies(app, self._limits.io_timeout), "abort"),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="on",
            http=make_connection_class(self._limits),
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES + MAX_TARGET_CHARS,
        )
        self._server = StoppableServer(config)
        return self._server, self._socket

    def _on_worker_failure(self, error: BaseException) -> None:
        """Stop the server: it must not accept input that is not driven."""
        self._error = error
        self.request_stop()

    def start(self) -> Self:
        """Start serving in a thread, and return once requests are accepted."""
        server, listening = self._listen()
        try:
            self._thread = ThreadedServer(server, listening, "legato-server")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Accept no more requests, finish and record running steps, and complete open responses. Stopping twice is harmless."""
        if self._thread is not None:
            self._thread.stop(self._grace + 10)
            self._thread = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def listen(self) -> None:
        """Bind the port, so that errors are raised before `run()`. Raises `BadInput` if it cannot be bound."""
        self._listen()

    async def run(self) -> None:
        """Serve in this event loop until `request_stop()`. Raises the error that stopped the worker, if one did."""
        if self._server is None:
            self._listen()
        assert self._server is not None and self._socket is not None
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self.stop()
        if self._error is not None:
            raise self._error

    def request_stop(self) -> None:
        """Accept no more requests, finish and record running steps; then `run()` returns."""
        if self._server is not None:
            self._server.request_stop()

    def __repr__(self) -> str:
        return (
            f"<Server {self.url if self._socket else bracket_ipv6_host(self.host) + ', not running'}: {', '.join(self.registry.workflows)}>"
        )


def serve(workflows: Workflow | Iterable[Workflow], *, port: int = 0, **options: Any) -> Server:
    """Return a server for a `with` block, on any free port by default. The other options are those of `Server`.

    with serve(desk, store=SQLiteStore("desk.sqlite")) as server:
        httpx2.get(f"{server.url}/api", headers={"authorization": f"Bearer {server.token}"})
    """
    return Server(workflows, port=port, **options)


def find_common_store(workflows: Sequence[Workflow]) -> Store | None:
    """Return the store that workflows were built with, if any; raises `BadInput` if there are several."""
    stores = {id(each.store): each.store for each in workflows if each.store is not None}
    if len(stores) > 1:
        raise BadInput("these workflows were built with different stores", do="choose the one to serve: store=..., or --store")
    return next(iter(stores.values()), None)
