"""Restate as an engine. May know: Restate's SDK and its two APIs. Decides: how a session is woken there, and how a worker of it is reached.

What Restate is given is session ids, numbers, and kinds of errors. `restate_objects.py` has what it calls for a session.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

from legato.engines.address import address, needs, shown, shown_within
from legato.engines.contract import Advance, Dead, Engine, not_aside
from legato.engines.reaching import reached
from legato.errors import BadInput, EngineUnavailable
from legato.http_logs import mask_logged_urls

try:
    import httpx2
    import restate
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    from legato.engines.restate_objects import sessions_of
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("httpx2", "hypercorn", "restate"):
        raise
    raise needs(missing.name or "restate-sdk", "restate") from None

LOOK_AT_ADMIN = "look at admin= and reached= in the address of the engine"
LOOK_AT_INGRESS = "see that the address of the engine is that of the server's ingress, and that a worker has registered there"


class RestateEngine(Engine):
    """Sessions driven by workers that a Restate server calls.

    `RestateEngine("restate://127.0.0.1:8080")`: where clients reach the server (`restates://` with TLS). `admin=` says where workers
    register (http://host:9070), `listen=` where they listen (127.0.0.1:9080), `reached=` how the server reaches them, if not there
    (http://workers.internal:9080), and `service=` the name of their service (legato). Workers on one machine may share one port.
    """

    def __init__(self, where: str = "restate://127.0.0.1:8080") -> None:
        parts = address(where, ("restate", "restates"), 8080, ("admin", "listen", "reached", "service"))
        scheme = "https" if parts.scheme == "restates" else "http"
        self._ingress = f"{scheme}://{parts.host}:{parts.port}"
        self._admin = parts.options.get("admin", f"{scheme}://{parts.host}:9070").rstrip("/")
        self._listen = parts.options.get("listen", "127.0.0.1:9080")
        self._reached = parts.options.get("reached", f"http://{self._listen}")
        self.service = parts.options.get("service", "legato")
        if not self._admin.startswith(("http://", "https://")) or not self._reached.startswith(("http://", "https://")):
            raise BadInput("admin= and reached= are addresses", expected="http://host:port", found=repr(shown(where)))
        self._client: httpx2.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<RestateEngine {self._ingress}, service {self.service!r} at {shown(self._reached)}>"

    async def wake(self, session: str, priority: int = 0) -> None:
        """Send the session's object a message. Restate has no priorities: messages are taken as they come."""
        await self._send(session, "advance", 0)

    async def retry(self, session: str) -> None:
        """Take a session up again that was set aside."""
        if not await self._parked(f" AND service_key = {_quoted(session)}"):
            raise not_aside(session)
        await self._send(session, "retry", 0)

    async def _send(self, session: str, handler: str, given: int) -> None:
        await self._asked(self._ingress, f"{self._place(session)}/{handler}/send", given, LOOK_AT_INGRESS)

    def _place(self, session: str) -> str:
        """Where a session's object is: the keys of one service are not those of another, however they are spelled."""
        return f"{quote(self.service, safe='')}/{quote(session, safe='')}"

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        """The sessions that were set aside, the latest first."""
        return sorted(await self._parked(), key=lambda each: -each.since)[:limit]

    async def _parked(self, among: str = "") -> list[Dead]:
        query = f"SELECT service_key, value_utf8 FROM state WHERE service_name = {_quoted(self.service)} AND key = 'parked'{among}"
        answer = await self._asked(self._admin, "query", {"query": query}, LOOK_AT_ADMIN)
        found = [(row["service_key"], json.loads(row["value_utf8"])) for row in answer["rows"]]
        return [Dead(session, parked["error"], parked["since"]) for session, parked in found]

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        """Listen until `stop` is set, and have the server know where."""
        config = Config()
        config.bind = [f"fd://{_listening(self._listen)}"]
        config.h2_max_concurrent_streams = at_once
        config.graceful_timeout = grace + 2  # by then the steps have ended by themselves
        config.keep_alive_timeout = 3600
        config.errorlog = None
        app: Any = restate.app([sessions_of(self.service, advance, stop, at_once, grace)])
        await asyncio.to_thread(asyncio.run, _asked_once(app))
        serving = asyncio.get_running_loop().create_task(serve(app, config, shutdown_trigger=stop.wait))
        try:
            if await reached(self._known, stop):
                ready()
            await serving
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _known(self) -> bool:
        """Tell the server where workers are, and see that its clients find them. All who are reached there are one deployment to it."""
        await self._asked(self._admin, "deployments", {"uri": self._reached, "force": False}, LOOK_AT_ADMIN)
        services = (await self._asked(self._ingress, "restate/health", None, LOOK_AT_INGRESS)).get("services", ())
        if self.service in services:
            return True
        raise EngineUnavailable(
            f"the Restate server at {self._ingress} does not know of workers that registered at {shown(self._admin)}",
            found=f"services: {', '.join(map(repr, services)) or 'none'}; not {self.service!r}",
            do=LOOK_AT_INGRESS,
        )

    async def _asked(self, server: str, path: str, given: Any, do: str) -> dict[str, Any]:
        """What the server answers to what it is given, or to a look."""
        method = "GET" if given is None else "POST"
        try:
            url = httpx2.URL(f"{server}/{path}")
            who = httpx2.BasicAuth(url.username, url.password) if url.userinfo else httpx2.USE_CLIENT_DEFAULT
            plain = url.copy_with(userinfo=b"")  # the client logs what it asks for
            response = await self._http().request(method, plain, json=given, headers={"accept": "application/json"}, auth=who)
            answer = response.json() if response.is_success else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            found = shown_within(f"{type(error).__name__}: {error}")
            raise EngineUnavailable(f"no Restate server answers at {shown(server)}", found=found, do=do) from None
        if not isinstance(answer, dict):
            found = shown_within(f"{response.status_code} {response.text[:300]}".strip())
            raise EngineUnavailable(f"the Restate server at {shown(server)} refuses", found=found, do=do)
        return answer

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            mask_logged_urls()
            self._client = httpx2.AsyncClient(timeout=5)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _quoted(text: str) -> str:
    """Text as a query has it."""
    return "'" + text.replace("'", "''") + "'"


async def _asked_once(app: Any) -> None:
    """Let the SDK have its first request, at which it would take SIGTERM for itself: in a thread that may not, it goes without."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        """Nobody hears it."""

    await app({"type": "http", "http_version": "2", "path": "/health", "headers": []}, receive, send)


def _listening(where: str) -> int:
    """The number of a socket on an address that other workers of this machine may share."""
    parts = urlsplit(f"//{where}")
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
        raise BadInput(f"a worker cannot listen on {where}", found=str(error), do="choose another with listen=host:port") from None
    return sock.detach()
