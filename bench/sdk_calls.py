"""W7: calls through the real `openai` SDK after 200 turns, and the bare SDK call with the same body, in one process.

Needs `openai`, in any version: both calls are made in the same environment.
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

from bench.script_harness import Figures, Options
from bench.workloads import MARK, QUESTION, SDK_CALL_COUNT, find_lost_and_doubled

MODEL = "gpt-5.1"
KEY = "sk-bench"

SendMessage = Callable[[str], Awaitable[Any]]


async def measure_sdk_calls(options: Options, start_conversation: Callable[[str, bool], Awaitable[SendMessage]]) -> AsyncIterator[Figures]:
    """Measure W7. `start_conversation(base_url, stream)` returns a function that sends the user's next message and awaits the answer."""
    for variant in ("whole", "streamed"):
        if options.is_selected(variant):
            send_message = await start_conversation(f"{options.url}/v1", variant == "streamed")
            yield await measure_after_history(send_message, options, variant)


async def measure_after_history(send_message: SendMessage, options: Options, variant: str) -> Figures:
    calls, base_url = min(SDK_CALL_COUNT, 2 * options.n), f"{options.url}/v1"
    middle, end = options.n + calls // 2, options.n + calls

    async def send_numbered_message(number: int) -> None:
        await send_message(f"[[user-{number}]] {QUESTION}")

    for number in range(options.n):
        await send_numbered_message(number)
    # The bare calls send the body from the middle of the measured ones, because each body is a little longer than the one before.
    costs = await measure_calls(send_numbered_message, range(options.n, middle))
    raw = fetch_last_body(options.url)
    costs += await measure_calls(send_numbered_message, range(middle, end))
    lost, doubled = find_lost_and_doubled([f"user-{number}" for number in range(end)], MARK.findall(fetch_last_body(options.url).decode()))
    body = json.loads(raw)
    spent, wall = calculate_medians(costs)
    bare, _ = calculate_medians(await measure_calls(make_bare_call(base_url, body), range(calls)))
    least, _ = calculate_medians(await measure_calls(make_byte_call(base_url, raw), range(calls)))
    extra = {
        "bare_sdk_ms": bare,
        "to_bare_sdk": spent / bare,
        "sdk_bytes_ms": least,
        "to_sdk_bytes": spent / least,
        "body_bytes": len(raw),
        "api": "responses" if "input" in body else "chat",
    }
    return Figures(options.n, variant, spent, wall, lost=len(lost), doubled=len(doubled), extra=extra)


def fetch_last_body(url: str) -> bytes:
    with urllib.request.urlopen(f"{url}/last") as answer:
        body: bytes = answer.read()
    return body


async def measure_calls(call: Callable[[int], Awaitable[Any]], numbers: range) -> list[tuple[float, float]]:
    """Return the CPU and wall milliseconds of each call."""
    spent = []
    gc.collect()
    for number in numbers:
        wall, cpu = time.perf_counter(), time.process_time()
        await call(number)
        spent.append(((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3))
    return spent


def calculate_medians(costs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(cpu for cpu, _ in costs), statistics.median(wall for _, wall in costs)


def make_bare_call(base_url: str, body: dict[str, Any]) -> Callable[[int], Awaitable[Any]]:
    """Return the call of a program without a framework: it sends this body through the SDK, and reads the answer to its end."""
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


def make_byte_call(base_url: str, body: bytes) -> Callable[[int], Awaitable[Any]]:
    """Return the cheapest call through the SDK: it sends bytes that are encoded already, and does not decode the answer."""
    import openai

    http = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")  # the SDK's HTTP client

    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    path = "/responses" if b'"input"' in body else "/chat/completions"

    async def call(_: int) -> Any:
        return await client.post(path, content=body, cast_to=http.Response, options={"headers": {"Content-Type": "application/json"}})

    return call
