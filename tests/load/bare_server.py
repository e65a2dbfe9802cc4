"""A server that does nothing: it reads the request and sends a recorded answer in the same pieces."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.load.load_client import BODY, HEADERS


@contextmanager
def serve_bare(emulator: str) -> Iterator[str]:
    """Serve answers that were recorded from the emulator at this URL; yield the bare server's URL."""
    whole = httpx2.post(f"{emulator}/responses", json=BODY, headers=HEADERS).content
    stream = httpx2.post(f"{emulator}/responses", json={**BODY, "stream": True}, headers=HEADERS).content
    pieces = [piece + b"\n\n" for piece in stream.split(b"\n\n") if piece]

    async def answer(request: Request) -> Response:
        body = await request.json()
        if not body.get("stream"):
            return Response(whole, media_type="application/json")

        async def events() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        return StreamingResponse(events(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/responses", answer, methods=["POST"])])
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
