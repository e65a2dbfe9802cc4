"""`legato serve` over a durable engine: it records and wakes, and workers elsewhere drive; its streams tell of it all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from legato.server import serve
from tests.engines.conftest import Place
from tests.engines.desk import desk
from tests.server.asking import Client


@asynccontextmanager
async def served(place: Place) -> AsyncIterator[Client]:
    """A server in this event loop, to which the engine's client belongs."""
    server = serve(desk, store=place.store, engine=place.engine)
    server.listen()
    running = asyncio.ensure_future(server.run())
    try:
        yield Client(server)
    finally:
        server.leave()
        await running


async def test_a_server_gives_what_it_is_given_to_workers_and_tells_what_they_do(place: Place) -> None:
    async with served(place) as client:
        assert (await asyncio.to_thread(client.get, "/api"))["drives"] is False
        await asyncio.to_thread(client.post, "/api/sessions", {"id": "customer-7", "message": "hello"}, 201)
        assert (await asyncio.to_thread(client.session, "customer-7"))["status"] == "running"  # no worker is there yet
        place.worker()
        waiting = await asyncio.to_thread(client.until, "customer-7", "waiting")
        assert waiting["messages"] == 2
        await asyncio.to_thread(client.post, "/api/sessions/customer-7/messages", {"message": "refund"}, 202)
        for request in (await asyncio.to_thread(client.until, "customer-7", "pending"))["pending"]:
            answer = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "not today"}
            await asyncio.to_thread(client.post, "/api/sessions/customer-7/answers", answer)
        assert (await asyncio.to_thread(client.until, "customer-7", "waiting"))["pending"] == []


async def test_a_session_that_workers_set_aside_is_taken_up_when_it_is_resumed_over_http(place: Place) -> None:
    (place.folder / "broken").touch()
    place.worker()
    async with served(place) as client:
        await asyncio.to_thread(client.post, "/api/sessions", {"id": "customer-8", "message": "hello"}, 201)
        async with asyncio.timeout(60):
            while not await place.engine.dead():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        (place.folder / "broken").unlink()
        await asyncio.to_thread(client.post, "/api/sessions/customer-8/resume", {}, 202)
        assert (await asyncio.to_thread(client.until, "customer-8", "waiting"))["messages"] == 2
