"""The engine on a Restate server.

Restate gets session ids, numbers and kinds of errors, and no text of conversations. `virtual_objects.py` has the handlers that it calls.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from legato.engines.engine import Engine, ParkedSession, StepFunction, not_parked_error
from legato.engines.engine_urls import mask_credentials, mask_credentials_in_text, missing_package_error, parse_engine_url
from legato.engines.startup_connection import connect_with_retries
from legato.errors import BadInput, EngineUnavailable
from legato.http_logs import mask_logged_urls

try:
    import httpx2
    import restate
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    from legato.engines.restate.virtual_objects import make_session_object
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("httpx2", "hypercorn", "restate"):
        raise
    raise missing_package_error(missing.name or "restate-sdk", "restate") from None

ADMIN_ADVICE = "look at admin= and reached= in the address of the engine"
INGRESS_ADVICE = "see that the address of the engine is that of the server's ingress, and that a worker has registered there"


class RestateEngine(Engine):
    """The engine of sessions that a Restate server has driven by workers.

    `RestateEngine("restate://127.0.0.1:8080")`: the server's ingress for clients (`restates://` with TLS). `admin=` is the URL where
    workers register (http://host:9070), `listen=` the address where they listen (127.0.0.1:9080), `reached=` the URL at which the server
    reaches them, if it is another one (http://workers.internal:9080), and `service=` the name of their service (legato). Workers on one
    machine may share one port.
    """

    def __init__(self, url: str = "restate://127.0.0.1:8080") -> None:
        parts = parse_engine_url(url, ("restate", "restates"), 8080, ("admin", "listen", "reached", "service"))
        scheme = "https" if parts.scheme == "restates" else "http"
        self._ingress = f"{scheme}://{parts.host}:{parts.port}"
        self._admin = parts.options.get("admin", f"{scheme}://{parts.host}:9070").rstrip("/")
        self._listen = parts.options.get("listen", "127.0.0.1:9080")
        self._advertised = parts.options.get("reached", f"http://{self._listen}")
        self.service = parts.options.get("service", "legato")
        if not self._admin.startswith(("http://", "https://")) or not self._advertised.startswith(("http://", "https://")):
            raise BadInput("admin= and reached= are addresses", expected="http://host:port", found=repr(mask_credentials(url)))
        self._client: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<RestateEngine {self._ingress}, service {self.service!r} at {mask_credentials(self._advertised)}>"

    async def wake(self, session: str, priority: int = 0) -> None:
        """Send the session's virtual object a message. Restate has no priorities: messages are handled in order."""
        await self._send(session, "advance", 0)

    async def retry(self, session: str) -> None:
        """Resume a session that was set aside."""
        if not await self._query_parked(f" AND service_key = {_quote_sql(session)}"):
            raise not_parked_error(session)
        await self._send(session, "retry", 0)

    async def _send(self, session: str, handler: str, argument: int) -> None:
        await self._request(self._ingress, f"{self._object_path(session)}/{handler}/send", argument, INGRESS_ADVICE)

    def _object_path(self, session: str) -> str:
        """Return the path of a session's virtual object, escaped so that no two services share a path."""
        return f"{quote(self.service, safe='')}/{quote(session, safe='')}"

    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        """Return the sessions that were set aside, the latest first."""
        return sorted(await self._query_parked(), key=lambda each: -each.parked_at)[:limit]

    async def _query_parked(self, condition: str = "") -> list[ParkedSession]:
        query = f"SELECT service_key, value_utf8 FROM state WHERE service_name = {_quote_sql(self.service)} AND key = 'parked'{condition}"
        answer = await self._request(self._admin, "query", {"query": query}, ADMIN_ADVICE)
        found = [(row["service_key"], json.loads(row["value_utf8"])) for row in answer["rows"]]
        return [ParkedSession(session, parked["error"], parked["since"]) for session, parked in found]

    async def serve(
        self, run_step: StepFunction, stop: asyncio.Event, on_ready: Callable[[], None], concurrency: int, grace: float
    ) -> None:
        """Listen until `stop` is set, and register the address with the server."""
        config = Config()
        config.bind = [f"fd://{_open_socket(self._listen)}"]
        config.h2_max_concurrent_streams = concurrency
        config.graceful_timeout = grace + 2  # the steps end before that
        config.keep_alive_timeout = 3600
        config.errorlog = None
        app: Any = restate.app([make_session_object(self.service, run_step, stop, concurrency, grace)])
        await asyncio.to_thread(asyncio.run, _send_first_request(app))
        serving = asyncio.get_running_loop().create_task(serve(app, config, shutdown_trigger=stop.wait))
        try:
            if await connect_with_retries(self._register, stop):
                on_ready()
            await serving
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _register(self) -> bool:
        """Register the workers' URL with the server, and check that the ingress knows the service. All workers at one URL are one
        deployment."""
        await self._request(self._admin, "deployments", {"uri": self._advertised, "force": False}, ADMIN_ADVICE)
        services = (await self._request(self._ingress, "restate/health", None, INGRESS_ADVICE)).get("services", ())
        if self.service in services:
            return True
        raise EngineUnavailable(
            f"the Restate server at {self._ingress} does not know of workers that registered at {mask_credentials(self._admin)}",
            found=f"services: {', '.join(map(repr, services)) or 'none'}; not {self.service!r}",
            do=INGRESS_ADVICE,
        )

    async def _request(self, server: str, path: str, body: Any, do: str) -> dict[str, Any]:
        """Send a request to the server, a GET without a body, and return its JSON answer."""
        method = "GET" if body is None else "POST"
        try:
            url = httpx2.URL(f"{server}/{path}")
            who = httpx2.BasicAuth(url.username, url.password) if url.userinfo else httpx2.USE_CLIENT_DEFAULT
            plain = url.copy_with(userinfo=b"")  # the HTTP client logs the URL
            response = await self._http_client().request(method, plain, json=body, headers={"accept": "application/json"}, auth=who)
            answer = response.json() if response.is_success else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            found = mask_credentials_in_text(f"{type(error).__name__}: {error}")
            raise EngineUnavailable(f"no Restate server answers at {mask_credentials(server)}", found=found, do=do) from None
        if not isinstance(answer, dict):
            found = mask_credentials_in_text(f"{response.status_code} {response.text[:300]}".strip())
            raise EngineUnavailable(f"the Restate server at {mask_credentials(server)} refuses", found=found, do=do)
        return answer

    def _http_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            mask_logged_urls()
            self._client = httpx2.AsyncClient(timeout=5)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _quote_sql(text: str) -> str:
    """Return a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


async def _send_first_request(app: Any) -> None:
    """Send the SDK its first request, at which it would install a SIGTERM handler: in another thread it cannot, and goes without."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        """Ignore the response."""

    await app({"type": "http", "http_version": "2", "path": "/health", "headers": []}, receive, send)


def _open_socket(address: str) -> int:
    """Open a socket on an address that other workers of this machine may share. Return its file descriptor."""
    parts = urlsplit(f"//{address}")
    host, port = parts.hostname or "127.0.0.1", parts.port or 9080
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise BadInput(f"a worker cannot listen on {address}", found=str(error), do="choose another with listen=host:port") from None
    return sock.detach()
