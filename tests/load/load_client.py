"""Asks a server, many times or at once, and prints how it went as JSON. Raw sockets' worth of client: what is measured is the server."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx2

BODY = {"model": "gpt-4.1", "input": "Where is my order A-17? Please tell me all that you know about it."}
HEADERS = {"authorization": "Bearer sk-load"}


async def streams(url: str, count: int) -> dict[str, float]:
    """So many streams, begun together; each is read to its last event."""
    limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx2.AsyncClient(limits=limits, timeout=60, headers=HEADERS) as client:
        begun = time.perf_counter()
        ended = await asyncio.gather(*(one(client, url) for _ in range(count)), return_exceptions=True)
        whole = sum(end is True for end in ended)
        return {"whole": whole, "failed": count - whole, "seconds": time.perf_counter() - begun}


async def one(client: httpx2.AsyncClient, url: str) -> bool:
    async with client.stream("POST", f"{url}/responses", json={**BODY, "stream": True}) as answer:
        return answer.status_code == 200 and "response.completed" in (await answer.aread()).decode()


def each(url: str, count: int, *, stream: bool) -> dict[str, float]:
    """So many requests, one after another."""
    with httpx2.Client(timeout=60, headers=HEADERS) as client:
        for _ in range(10):
            client.post(f"{url}/responses", json={**BODY, "stream": stream}).raise_for_status()
        begun = time.perf_counter()
        for _ in range(count):
            client.post(f"{url}/responses", json={**BODY, "stream": stream}).raise_for_status()
        return {"each": (time.perf_counter() - begun) / count}


if __name__ == "__main__":
    what, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(json.dumps(asyncio.run(streams(url, count)) if what == "streams" else each(url, count, stream=what == "streamed")))
