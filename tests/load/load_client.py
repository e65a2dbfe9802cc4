"""A client that sends requests in sequence or at once, and prints a report as JSON. It does little else, to measure the server."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx2

BODY = {"model": "gpt-4.1", "input": "Where is my order A-17? Please tell me all that you know about it."}
HEADERS = {"authorization": "Bearer sk-load"}


async def open_streams(url: str, count: int) -> dict[str, float]:
    """Open this many streams at the same time, and read each to its last event."""
    limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx2.AsyncClient(limits=limits, timeout=60, headers=HEADERS) as client:
        begun = time.perf_counter()
        results = await asyncio.gather(*(is_stream_complete(client, url) for _ in range(count)), return_exceptions=True)
        whole = sum(result is True for result in results)
        return {"whole": whole, "failed": count - whole, "seconds": time.perf_counter() - begun}


async def is_stream_complete(client: httpx2.AsyncClient, url: str) -> bool:
    """Read one stream; return True if it is complete."""
    async with client.stream("POST", f"{url}/responses", json={**BODY, "stream": True}) as answer:
        return answer.status_code == 200 and "response.completed" in (await answer.aread()).decode()


def measure_request_time(url: str, count: int, *, stream: bool) -> dict[str, float]:
    """Send this many requests, one after another; return the mean time of one."""
    with httpx2.Client(timeout=60, headers=HEADERS) as client:
        for _ in range(10):
            client.post(f"{url}/responses", json={**BODY, "stream": stream}).raise_for_status()
        begun = time.perf_counter()
        for _ in range(count):
            client.post(f"{url}/responses", json={**BODY, "stream": stream}).raise_for_status()
        return {"each": (time.perf_counter() - begun) / count}


if __name__ == "__main__":
    mode, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(
        json.dumps(
            asyncio.run(open_streams(url, count)) if mode == "streams" else measure_request_time(url, count, stream=mode == "streamed")
        )
    )
