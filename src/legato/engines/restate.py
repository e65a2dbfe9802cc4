"""Restate as an engine. May know: Restate's SDK and its two APIs. Decides: how a session is woken there, and how a worker of it is reached.

A virtual object per session is its single writer; an invocation is one step, and ends whenever the session rests. What Restate is given
is session ids, numbers, and kinds of errors.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from legato.engines.address import address, needs
from legato.engines.contract import Advance, Dead, Engine
from legato.errors import BadInput, StoreError

try:
    import httpx
    import restate
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from restate.retry_policy import InvocationRetryPolicy
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("httpx", "hypercorn", "restate"):
        raise
    raise needs(missing.name or "restate-sdk", "restate") from None

log = logging.getLogger("legato.worker")

LONGEST_STEP = timedelta(days=30)
"""A step lasts as long as the connection on which it was asked for; Restate wants an upper bound all the same."""

PATIENCE = InvocationRetryPolicy(
    initial_interval=timedelta(seconds=0.2), exponentiation_factor=2.0, max_interval=timedelta(seconds=10), max_attempts=1_000_000
)
"""For steps whose worker died, or could not reach the store: for ever, since neither is the session's fault."""


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
            raise BadInput("admin= and reached= are addresses", expected="http://host:port", found=repr(where))
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<RestateEngine {self._ingress}, service {self.service!r} at {self._reached}>"

    async def wake(self, session: str, priority: int = 0) -> None:
        """Send the session's object a message. Restate has no priorities: messages are taken as they come."""
        await self._send(session, "advance", 0)

    async def retry(self, session: str) -> None:
        """Take a session up again that was set aside."""
        await self._send(session, "retry", 0)

    async def _send(self, session: str, handler: str, given: int) -> None:
        response = await self._http().post(f"{self._ingress}/{self._place(session)}/{handler}/send", json=given)
        response.raise_for_status()

    def _place(self, session: str) -> str:
        """Where a session's object is: the keys of one service are not those of another, however they are spelled."""
        return f"{quote(self.service, safe='')}/{quote(session, safe='')}"

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        """The sessions that were set aside, the latest first."""
        query = f"SELECT service_key, value_utf8 FROM state WHERE service_name = '{self.service}' AND key = 'parked'"
        response = await self._http().post(f"{self._admin}/query", json={"query": query}, headers={"accept": "application/json"})
        response.raise_for_status()
        found = [(row["service_key"], json.loads(row["value_utf8"])) for row in response.json()["rows"]]
        dead = [Dead(session, parked["error"], parked["since"]) for session, parked in found]
        return sorted(dead, key=lambda each: -each.since)[:limit]

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        """Listen until `stop` is set, and have the server know where."""
        config = Config()
        config.bind = [f"fd://{_listening(self._listen)}"]
        config.h2_max_concurrent_streams = at_once
        config.graceful_timeout = grace + 2  # by then the steps have ended by themselves
        config.keep_alive_timeout = 3600
        config.errorlog = None
        app: Any = restate.app([_sessions(self.service, advance, stop, at_once, grace)])
        serving = asyncio.get_running_loop().create_task(serve(app, config, shutdown_trigger=stop.wait))
        try:
            await self._register()
            await _asked_once(app)
            ready()
            await serving
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _register(self) -> None:
        """Tell the server where workers are; a worker may be started before it. All who are reached there are one deployment to it."""
        found = ""
        for wait in (0.2, 0.5, 1, 2, 5, 5, 5, 5, 5, 0):
            try:
                response = await self._http().post(f"{self._admin}/deployments", json={"uri": self._reached, "force": False})
                if response.is_success:
                    return
                found = response.text[:500]
            except httpx.HTTPError as error:
                found = f"{type(error).__name__} {error}"
            log.warning("could not register with the Restate server at %s: %s", self._admin, found)
            await asyncio.sleep(wait)
        raise BadInput(f"the Restate server at {self._admin} does not take this worker", found=found, do="look at admin= and reached=")

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=5)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def _sessions(service: str, advance: Advance, stop: asyncio.Event, at_once: int, grace: float) -> restate.VirtualObject:
    """The virtual object. Its state: `tries`, which also number its timers so that the newest counts; and `parked`."""
    sessions = restate.VirtualObject(
        service,
        inactivity_timeout=LONGEST_STEP,
        abort_timeout=LONGEST_STEP,
        journal_retention=timedelta(0),
        invocation_retry_policy=PATIENCE,
    )
    places = asyncio.Semaphore(at_once)

    async def made(session: str, failed: int, broken: int) -> dict[str, Any]:
        leave = asyncio.Event()

        async def drive() -> dict[str, Any]:
            async with places:
                return asdict(await advance(session, failed, broken, leave))

        async def told_to_stop() -> None:
            await stop.wait()
            leave.set()
            await asyncio.sleep(grace)
            driving.cancel()

        driving, beside = (asyncio.get_running_loop().create_task(each) for each in (drive(), told_to_stop()))
        try:
            return await asyncio.shield(driving)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            if driving.cancelled():
                raise RuntimeError("this worker ends, and had no time to finish the step") from None
            # The server is gone, or has given the step to another worker. What runs is recorded, if there is time for it.
            leave.set()
            asyncio.get_running_loop().call_later(grace, driving.cancel)
            raise
        except StoreError as error:
            raise RuntimeError(f"the store: {error.code}") from None
        finally:
            beside.cancel()

    async def step(ctx: restate.ObjectContext, tries: dict[str, int]) -> None:
        done = await ctx.run_typed("advance", made, restate.RunOptions(), ctx.key(), tries["failed"], tries["broken"])
        if done["parked"]:
            ctx.set("parked", {"error": done["error"], "since": await ctx.run_typed("now", _now)})
            ctx.clear("tries")
        elif done["wait"] is None:
            if any(tries.values()):
                ctx.clear("tries")
        else:
            timer = tries["timer"] + 1
            ctx.set("tries", {"timer": timer, "failed": done["failed"], "broken": done["broken"]})
            ctx.object_send(run, ctx.key(), timer, send_delay=timedelta(seconds=done["wait"]))

    @sessions.handler("advance")
    async def run(ctx: restate.ObjectContext, timer: int) -> None:
        if await ctx.get("parked", type_hint=dict) is not None:
            return
        tries = await ctx.get("tries", type_hint=dict) or {"timer": 0, "failed": 0, "broken": 0}
        if timer in (0, tries["timer"]):  # else a timer that a later one has replaced
            await step(ctx, tries)

    @sessions.handler("retry")
    async def retry(ctx: restate.ObjectContext, _: int) -> None:
        ctx.clear("parked")
        await step(ctx, {"timer": 0, "failed": 0, "broken": 0})

    return sessions


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _asked_once(app: Any) -> None:
    """Let the SDK have its first request, at which it takes SIGTERM for itself: whoever is ready after that has the last word."""

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
