"""`make wirecost`: what a wire costs per turn, next to the bare call of the SDK.

A conversation of 200 turns, in memory, over real HTTP to an emulator in another process, so that all CPU time measured here is the
client's. In every request of the last turns the time is split where it is spent; then the bare call is made with the very same bodies.

    Legato   compile, check, read: from a view to bytes, and from an answer's bytes to a reply
    bytes    the SDK sends the finished bytes and gets the answer's: the least that any client needs
    call     `client.responses.create(...)` and its like with the same body: what a program without Legato calls, which writes the body
             and reads the answer by itself
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

from legato.core.view import Request
from legato.models.anthropic import Anthropic
from legato.models.base import Emit, Model, Reply
from legato.models.chat import OpenAIChat
from legato.models.openai import OpenAIResponses
from tests.providers.longtalk import desk, question, served

GOAL = 10.0
"""Percent of the bare call that compiling, checking and reading may cost at 200 turns."""

Make = Callable[[str, bool], Model]


def _responses(memory: Any) -> Make:
    return lambda url, stream: OpenAIResponses("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", memory=memory, stream=stream)


WIRES: dict[str, Make] = {
    "responses inline": _responses("inline"),
    "responses chained": _responses("chained"),
    "responses conversation": _responses("conversation"),
    "chat": lambda url, stream: OpenAIChat("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", stream=stream),
    "chat compatible": lambda url, stream: OpenAIChat("gpt-5", base_url=f"{url}/v1", api_key="sk-cost", compatible=True, stream=stream),
    "anthropic": lambda url, stream: Anthropic("claude-sonnet-4-5", base_url=url, api_key="sk-cost", thinking_tokens=1024, stream=stream),
    "anthropic binding": lambda url, stream: Anthropic("claude-opus-5-5", base_url=url, api_key="sk-cost", effort="low", stream=stream),
}


PARTS = ("usable_conversation", "compile_request", "check", "json_of", "read_reply", "StreamReader")
"""Where the clients call the wires and the law books."""


class Spent(Struct):
    """CPU seconds of one request: of Legato, and of the SDK; and how many bytes were sent."""

    legato: float = 0.0
    bytes: float = 0.0
    sent: int = 0


def client_modules(model: type) -> list[ModuleType]:
    """The modules of a model's class and of what it inherits from."""
    return [sys.modules[cls.__module__] for cls in model.__mro__ if cls.__module__.startswith("legato.models.")]


class Timed:
    """A model that notes what each of its requests costs."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.spent: list[Spent] = []
        self.options_text: str = model.options_text
        self.name = model.name
        self.profile: cProfile.Profile | None = None
        self.bodies: list[bytes] | None = None  # kept once nothing is measured any more: memory that nobody gives back costs time
        self._now = Spent()
        self._post: Any = None
        for module in client_modules(type(model)):
            for name in PARTS:
                if hasattr(module, name):
                    setattr(module, name, self._timed(getattr(module, name)))

    def _timed(self, part: Any) -> Any:
        if isinstance(part, type):
            methods = [name for name in ("take", "reply", "body") if hasattr(part, name)]
            return type(part.__name__, (part,), {name: self._timed(getattr(part, name)) for name in methods})

        def timed(*given: Any, **more: Any) -> Any:
            begun = time.process_time()
            if self.profile:
                self.profile.enable()
            try:
                return part(*given, **more)
            finally:
                if self.profile:
                    self.profile.disable()
                self._now.legato += time.process_time() - begun

        return timed

    async def conversation_for(self, request: Request) -> str:
        self._now = Spent()
        keeps = getattr(self.model, "conversation_for", None)
        return await keeps(request) if keeps else ""

    async def reply(self, request: Request, emit: Emit) -> Reply:
        client = self.model._clients()
        if self._post is None:
            self._post, client.post = client.post, self._posted
        reply: Reply = await self.model.reply(request, emit)
        self.spent.append(self._now)
        return reply

    async def _posted(self, path: str, *, content: bytes, **more: Any) -> Any:
        begun = time.process_time()
        answer = await self._post(path, content=content, **more)
        self._now.bytes += time.process_time() - begun
        self._now.sent = len(content)
        if self.bodies is not None:
            self.bodies.append(content)
        return answer

    async def call(self, body: dict[str, Any]) -> float:
        """The CPU time of the bare call with this body."""
        client = self.model._clients()
        client.post = self._post
        if isinstance(self.model, Anthropic):
            create = client.messages.create
        else:
            create = client.responses.create if isinstance(self.model, OpenAIResponses) else client.chat.completions.create
        known = ("cache_control",) if isinstance(self.model, Anthropic) else ()
        extra = {name: body.pop(name) for name in known if name in body}
        if "conversation" in body:  # what the old one holds by now, the body does not fit
            body["conversation"] = (await client.conversations.create()).id
        begun = time.process_time()
        answer = await create(**body, extra_body=extra or None)
        if body.get("stream"):
            async for _ in answer:
                pass
        return time.process_time() - begun


@contextmanager
def restored() -> Iterator[None]:
    """Afterwards the clients' modules are as they were."""
    modules = {module for cls in (OpenAIResponses, OpenAIChat, Anthropic) for module in client_modules(cls)}
    before = [(module, name, getattr(module, name)) for module in modules for name in PARTS if hasattr(module, name)]
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


async def measured(make: Make, url: str, turns: int, last: int, stream: bool, profile: bool = False) -> tuple[list[Spent], list[float]]:
    """The requests of the last turns of a long conversation, and bare calls with the same bodies."""
    model = Timed(make(url, stream))
    session = desk(model).session("s")
    for number in range(1, turns + 1):
        if number == turns - last + 1:
            model.spent.clear()
            gc.collect()
            gc.disable()  # a collection would be counted against whichever request it falls into
            model.profile = cProfile.Profile() if profile else None
        await session.run(question(number))
    if model.profile:
        pstats.Stats(model.profile).sort_stats("cumulative").print_stats(45)
        model.profile = None
    spent, model.bodies = [*model.spent], []
    for number in range(turns + 1, turns + 11):
        await session.run(question(number))
    bodies = [json.loads(body) for body in model.bodies]
    calls = [await model.call(body) for body in bodies if not ("conversation" in body and "call_id" in body["input"][0])]
    gc.enable()
    await model.model.close()
    return spent, calls


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wirecost", description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--last", type=int, default=40, help="how many turns at the end are measured")
    parser.add_argument("--wire", action="append", choices=WIRES, help="only this one")
    parser.add_argument("--stream", action="store_true", help="streamed; the goal is for answers in one piece")
    parser.add_argument("--profile", action="store_true", help="show where Legato's part goes")
    given = parser.parse_args()
    print(f"CPU time per request after {given.turns} turns (medians over the last {given.last})")
    print(f"{'wire':24}{'sent':>10}{'Legato':>11}{'bytes':>11}{'call':>11}{'Legato/call':>13}{'Legato/bytes':>14}")
    over = 0
    with served() as url:
        for name in given.wire or WIRES:
            with restored():
                spent, calls = asyncio.run(measured(WIRES[name], url, given.turns, given.last, given.stream, given.profile))
            legato, least = (statistics.median(each) for each in ([one.legato for one in spent], [one.bytes for one in spent]))
            sent, call = statistics.median(one.sent for one in spent), statistics.median(calls)
            over += legato / call > GOAL / 100
            times = "".join(f"{seconds * 1e6:>8,.0f} us" for seconds in (legato, least, call))
            print(f"{name:24}{sent:>8,.0f} B{times}{100 * legato / call:>11.1f} %{100 * legato / least:>12.1f} %", flush=True)
    return 1 if over and not given.stream else 0


if __name__ == "__main__":
    sys.exit(main())
