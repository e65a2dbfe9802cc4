"""`make wirecost`: the cost of encoding and decoding per turn, beside the bare call of the SDK.

A conversation of 200 turns, in memory, over real HTTP to an emulator in another process, so that all CPU time measured here is the
client's. For every request of the last turns the time is split into parts; then the bare call is made with the same bodies.

    Legato   encode, check, decode: from a view to bytes, and from an answer's bytes to a reply
    bytes    the SDK sends the finished bytes and receives the answer's: the minimum of any client
    call     `client.responses.create(...)` and the like with the same body: the call of a program without Legato, which writes the body
             and reads the answer itself
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct

from legato.core.view import ModelRequest
from legato.models.anthropic import Anthropic
from legato.models.chat import OpenAIChat
from legato.models.model import Emit, Model, ModelReply
from legato.models.openai import OpenAIResponses
from tests.providers.long_conversation import make_desk, make_question, serve_in_process

MAX_COST_PERCENT = 10.0
"""The limit of the cost of encoding, checking and decoding at 200 turns, in percent of the bare call."""

MakeModel = Callable[[str, bool], Model]


def _responses(memory: Any) -> MakeModel:
    return lambda url, stream: OpenAIResponses("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", memory=memory, stream=stream)


FORMATS: dict[str, MakeModel] = {
    "responses inline": _responses("inline"),
    "responses chained": _responses("chained"),
    "responses conversation": _responses("conversation"),
    "chat": lambda url, stream: OpenAIChat("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", stream=stream),
    "chat compatible": lambda url, stream: OpenAIChat("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", compatible=True, stream=stream),
    "anthropic": lambda url, stream: Anthropic("claude-sonnet-4-5", base_url=url, api_key="sk-cost", thinking_tokens=1024, stream=stream),
    "anthropic binding": lambda url, stream: Anthropic("claude-opus-5-5", base_url=url, api_key="sk-cost", effort="low", stream=stream),
}


TIMED_FUNCTIONS = (
    *("find_usable_conversation", "encode_request", "check_request", "decode_json", "decode_reply"),
    *("ResponsesStreamDecoder", "ChatStreamDecoder", "AnthropicStreamDecoder"),
)
"""The functions and classes of formats and rules that the models use."""


class RequestCost(Struct):
    """The CPU seconds of one request, of Legato and of the SDK, and the bytes of its body."""

    legato_s: float = 0.0
    sdk_s: float = 0.0
    body_bytes: int = 0


def client_modules(model: type) -> list[ModuleType]:
    """Return the modules of a model's class and of its base classes."""
    return [sys.modules[cls.__module__] for cls in model.__mro__ if cls.__module__.startswith("legato.models.")]


class TimedModel:
    """A model that measures the cost of each of its requests."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.costs: list[RequestCost] = []
        self.options_text: str = model.options_text
        self.name = model.name
        self.profile: cProfile.Profile | None = None
        self.bodies: list[bytes] | None = None  # recorded after the measurements: memory that is not freed costs time
        self._now = RequestCost()
        self._post: Any = None
        for module in client_modules(type(model)):
            for name in TIMED_FUNCTIONS:
                if hasattr(module, name):
                    setattr(module, name, self._time_function(getattr(module, name)))

    def _time_function(self, part: Any) -> Any:
        if isinstance(part, type):
            methods = [name for name in ("feed", "build_reply", "build_message") if hasattr(part, name)]
            return type(part.__name__, (part,), {name: self._time_function(getattr(part, name)) for name in methods})

        def timed(*arguments: Any, **more: Any) -> Any:
            started_at = time.process_time()
            if self.profile:
                self.profile.enable()
            try:
                return part(*arguments, **more)
            finally:
                if self.profile:
                    self.profile.disable()
                self._now.legato_s += time.process_time() - started_at

        return timed

    async def conversation_for(self, request: ModelRequest) -> str:
        self._now = RequestCost()
        keeps = getattr(self.model, "conversation_for", None)
        return await keeps(request) if keeps else ""

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        client = self.model._clients()
        if self._post is None:
            self._post, client.post = client.post, self._post_timed
        reply: ModelReply = await self.model.reply(request, emit)
        self.costs.append(self._now)
        return reply

    async def _post_timed(self, path: str, *, content: bytes, **more: Any) -> Any:
        started_at = time.process_time()
        answer = await self._post(path, content=content, **more)
        self._now.sdk_s += time.process_time() - started_at
        self._now.body_bytes = len(content)
        if self.bodies is not None:
            self.bodies.append(content)
        return answer

    async def time_bare_call(self, body: dict[str, Any]) -> float:
        """Make the bare call with this body, and return its CPU time."""
        client = self.model._clients()
        client.post = self._post
        if isinstance(self.model, Anthropic):
            create = client.messages.create
        else:
            create = client.responses.create if isinstance(self.model, OpenAIResponses) else client.chat.completions.create
        known = ("cache_control",) if isinstance(self.model, Anthropic) else ()
        extra = {name: body.pop(name) for name in known if name in body}
        if "conversation" in body:  # the old conversation has grown since
            body["conversation"] = (await client.conversations.create()).id
        started_at = time.process_time()
        answer = await create(**body, extra_body=extra or None)
        if body.get("stream"):
            async for _ in answer:
                pass
        return time.process_time() - started_at


@contextmanager
def restore_modules() -> Iterator[None]:
    """Restore the models' modules at the end."""
    modules = {module for cls in (OpenAIResponses, OpenAIChat, Anthropic) for module in client_modules(cls)}
    before = [(module, name, getattr(module, name)) for module in modules for name in TIMED_FUNCTIONS if hasattr(module, name)]
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


async def measure(
    make: MakeModel, url: str, turns: int, last: int, stream: bool, profile: bool = False
) -> tuple[list[RequestCost], list[float]]:
    """Measure the requests of the last turns of a long conversation, and bare calls with the same bodies."""
    model = TimedModel(make(url, stream))
    session = make_desk(model).session("s")
    for number in range(1, turns + 1):
        if number == turns - last + 1:
            model.costs.clear()
            gc.collect()
            gc.disable()  # a collection would count for the request in which it happens
            model.profile = cProfile.Profile() if profile else None
        await session.run(make_question(number))
    if model.profile:
        pstats.Stats(model.profile).sort_stats("cumulative").print_stats(45)
        model.profile = None
    spent, model.bodies = [*model.costs], []
    for number in range(turns + 1, turns + 11):
        await session.run(make_question(number))
    bodies = [json.loads(body) for body in model.bodies]
    calls = [await model.time_bare_call(body) for body in bodies if not ("conversation" in body and "call_id" in body["input"][0])]
    gc.enable()
    await model.model.close()
    return spent, calls


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wirecost", description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--last", type=int, default=40, help="the number of turns at the end that are measured")
    parser.add_argument("--format", action="append", choices=FORMATS, help="measure only this format")
    parser.add_argument("--stream", action="store_true", help="stream the answers; the limit is for unstreamed ones")
    parser.add_argument("--profile", action="store_true", help="profile Legato's part")
    arguments = parser.parse_args()
    print(f"CPU time per request after {arguments.turns} turns (medians over the last {arguments.last})")
    print(f"{'format':24}{'sent':>10}{'Legato':>11}{'bytes':>11}{'call':>11}{'Legato/call':>13}{'Legato/bytes':>14}")
    over = 0
    with serve_in_process() as url:
        for name in arguments.format or FORMATS:
            with restore_modules():
                spent, calls = asyncio.run(
                    measure(FORMATS[name], url, arguments.turns, arguments.last, arguments.stream, arguments.profile)
                )
            legato, least = (statistics.median(each) for each in ([one.legato_s for one in spent], [one.sdk_s for one in spent]))
            sent, call = statistics.median(one.body_bytes for one in spent), statistics.median(calls)
            over += legato / call > MAX_COST_PERCENT / 100
            times = "".join(f"{seconds * 1e6:>8,.0f} us" for seconds in (legato, least, call))
            print(f"{name:24}{sent:>8,.0f} B{times}{100 * legato / call:>11.1f} %{100 * legato / least:>12.1f} %", flush=True)
    return 1 if over and not arguments.stream else 0


if __name__ == "__main__":
    sys.exit(main())
