"""`legato serve` over a durable engine: it records input and wakes the engine, workers drive, and its streams show their work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from legato.server import serve
from tests.engines.conftest import EngineSetup
from tests.engines.desk import desk
from tests.server.api_client import ApiClient


@asynccontextmanager
async def run_server(setup: EngineSetup) -> AsyncIterator[ApiClient]:
    """Run a server in this event loop, to which the engine's client belongs."""
    server = serve(desk, store=setup.store, engine=setup.engine)
    server.listen()
    running = asyncio.ensure_future(server.run())
    try:
        yield ApiClient(server)
    finally:
        server.request_stop()
        await running


async def test_server_passes_input_to_workers(setup: EngineSetup) -> None:
    async with run_server(setup) as client:
        assert (await asyncio.to_thread(client.get, "/api"))["drives"] is False
        await asyncio.to_thread(client.post, "/api/sessions", {"id": "customer-7", "message": "hello"}, 201)
        assert (await asyncio.to_thread(client.get_session, "customer-7"))["status"] == "running"  # there is no worker yet
        setup.start_worker()
        waiting = await asyncio.to_thread(client.wait_for_status, "customer-7", "waiting")
        assert waiting["messages"] == 2
        await asyncio.to_thread(client.post, "/api/sessions/customer-7/messages", {"message": "refund"}, 202)
        for request in (await asyncio.to_thread(client.wait_for_status, "customer-7", "pending"))["pending"]:
            answer = {"request": request["id"], "digest": request["digest"], "verdict": "reject", "words": "not today"}
            await asyncio.to_thread(client.post, "/api/sessions/customer-7/answers", answer)
        assert (await asyncio.to_thread(client.wait_for_status, "customer-7", "waiting"))["pending"] == []


async def test_parked_session_is_retried_over_http(setup: EngineSetup) -> None:
    (setup.folder / "broken").touch()
    setup.start_worker()
    async with run_server(setup) as client:
        await asyncio.to_thread(client.post, "/api/sessions", {"id": "customer-8", "message": "hello"}, 201)
        async with asyncio.timeout(60):
            while not await setup.engine.list_parked():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)
        (setup.folder / "broken").unlink()
        await asyncio.to_thread(client.post, "/api/sessions/customer-8/resume", {}, 202)
        assert (await asyncio.to_thread(client.wait_for_status, "customer-8", "waiting"))["messages"] == 2
