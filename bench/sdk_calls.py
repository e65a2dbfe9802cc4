"""W7: calls through the real `openai` SDK after 200 turns, and the bare SDK call with the very same body, in one process.

Needs `openai`, in whichever version the system's environment has: the comparison is within one environment.
"""

from __future__ import annotations

import gc
import importlib
import json
import statistics
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bench.measuring import Figures, Options
from bench.workloads import CALLS, MARK, QUESTION, compare

MODEL = "gpt-5.1"
KEY = "sk-bench"

Say = Callable[[str], Awaitable[Any]]


async def w7(options: Options, conversation: Callable[[str, bool], Awaitable[Say]]) -> AsyncIterator[Figures]:
    """`conversation(base_url, stream)` begins one in memory, and gives what says the user's next message and awaits the whole answer."""
    for variant in ("whole", "streamed"):
        if options.wants(variant):
            say = await conversation(f"{options.url}/v1", variant == "streamed")
            yield await after_long_talk(say, options, variant)


async def after_long_talk(say: Say, options: Options, variant: str) -> Figures:
    calls, base_url = min(CALLS, 2 * options.n), f"{options.url}/v1"
    middle, end = options.n + calls // 2, options.n + calls

    async def ask(number: int) -> None:
        await say(f"[[user-{number}]] {QUESTION}")

    for number in range(options.n):
        await ask(number)
    # The bare calls get the body from the middle of those measured, since each is a little longer than the one before.
    costs = await costs_of(ask, range(options.n, middle))
    raw = last_body(options.url)
    costs += await costs_of(ask, range(middle, end))
    lost, doubled = compare([f"user-{number}" for number in range(end)], MARK.findall(last_body(options.url).decode()))
    body = json.loads(raw)
    spent, wall = medians(costs)
    bare, _ = medians(await costs_of(bare_call(base_url, body), range(calls)))
    least, _ = medians(await costs_of(finished_bytes(base_url, raw), range(calls)))
    extra = {
        "bare_sdk_ms": bare,
        "to_bare_sdk": spent / bare,
        "sdk_bytes_ms": least,
        "to_sdk_bytes": spent / least,
        "body_bytes": len(raw),
        "api": "responses" if "input" in body else "chat",
    }
    return Figures(options.n, variant, spent, wall, lost=len(lost), doubled=len(doubled), extra=extra)


def last_body(url: str) -> bytes:
    with urllib.request.urlopen(f"{url}/last") as answer:
        body: bytes = answer.read()
    return body


async def costs_of(call: Callable[[int], Awaitable[Any]], numbers: range) -> list[tuple[float, float]]:
    """CPU and wall milliseconds of each call."""
    spent = []
    gc.collect()
    for number in numbers:
        wall, cpu = time.perf_counter(), time.process_time()
        await call(number)
        spent.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
    return spent


def medians(costs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(cpu for cpu, _ in costs), statistics.median(wall for _, wall in costs)


def bare_call(base_url: str, body: dict[str, Any]) -> Callable[[int], Awaitable[Any]]:
    """The call that a program without any framework makes: this body through the SDK, the answer read to its end."""
    import openai

    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    create = client.responses.create if "input" in body else client.chat.completions.create

    async def call(_: int) -> Any:
        answer = await create(**body)
        if body.get("stream"):
            async for _event in answer:
                pass
        return answer

    return call


def finished_bytes(base_url: str, body: bytes) -> Callable[[int], Awaitable[Any]]:
    """The least that anybody needs who uses the SDK: it sends bytes that are written already, and what comes back is not looked at."""
    import openai

    http = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")  # what the SDK sits on

    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    path = "/responses" if b'"input"' in body else "/chat/completions"

    async def call(_: int) -> Any:
        return await client.post(path, content=body, cast_to=http.Response, options={"headers": {"Content-Type": "application/json"}})

    return call
