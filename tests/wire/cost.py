"""`make wirecost`: what a wire costs per turn, next to the bare call of the SDK.

A conversation of 200 turns, in memory, over real HTTP to an emulator in another process, so that all CPU time measured here is the
client's. In every request of the last turns the time is split where it is spent: the *bare call* is the SDK sending this very body to
this very server and reading its answer; what comes before it (compile, check) and after it (read) is Legato's.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from legato.core.view import Request
from legato.models.anthropic import Anthropic
from legato.models.base import Emit, Model, Reply
from legato.models.chat import OpenAIChat
from legato.models.openai import OpenAIResponses
from tests.wire.longtalk import desk, question, served

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


class Spent(Struct):
    """CPU seconds of one request: all of it, and the part that was the SDK's."""

    whole: float = 0.0
    bare: float = 0.0
    sent: int = 0

    @property
    def ours(self) -> float:
        return self.whole - self.bare


class Timed:
    """A model that notes what each of its requests costs."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.spent: list[Spent] = []
        self.options_text: str = model.options_text
        self.name = model.name
        self._now = Spent()
        self._before = 0.0
        self._post: Any = None
        self.profile: cProfile.Profile | None = None

    async def reply(self, request: Request, emit: Emit) -> Reply:
        client = self.model._clients()
        if self._post is None:
            self._post, client.post = client.post, self._posted
        self._now = Spent()
        if self.profile:
            self.profile.enable()
        begun = time.process_time()
        reply: Reply = await self.model.reply(request, emit)
        self._now.whole = time.process_time() - begun + self._before
        if self.profile:
            self.profile.disable()
        self.spent.append(self._now)
        return reply

    async def _posted(self, path: str, *, content: bytes, **more: Any) -> Any:
        if self.profile:
            self.profile.disable()
        begun = time.process_time()
        answer = await self._post(path, content=content, **more)
        self._now.bare += time.process_time() - begun
        self._now.sent = len(content)
        if self.profile:
            self.profile.enable()
        return answer

    async def conversation_for(self, request: Request) -> str:
        keeps = getattr(self.model, "conversation_for", None)
        begun = time.process_time()
        found = await keeps(request) if keeps else ""
        self._before = time.process_time() - begun  # none is made while it is measured: the one that there is goes on
        return found


async def measured(make: Make, url: str, turns: int, last: int, stream: bool, profile: bool = False) -> list[Spent]:
    """The requests of the last turns of a long conversation."""
    model = Timed(make(url, stream))
    session = desk(model).session("s")
    for number in range(1, turns + 1):
        if number == turns - last + 1:
            model.spent.clear()
            gc.collect()
            gc.disable()  # a collection would be counted against whichever request it falls into
            model.profile = cProfile.Profile() if profile else None
        await session.run(question(number))
    gc.enable()
    await model.model.close()
    if model.profile:
        pstats.Stats(model.profile).sort_stats("cumulative").print_stats(45)
    return model.spent


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wirecost", description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--last", type=int, default=40, help="how many turns at the end are measured")
    parser.add_argument("--wire", action="append", choices=WIRES, help="only this one")
    parser.add_argument("--stream", action="store_true", help="streamed; then the time of reading the events is counted as Legato's")
    parser.add_argument("--profile", action="store_true", help="show where Legato's part goes")
    given = parser.parse_args()
    print(f"CPU time per request after {given.turns} turns (median of the last {given.last} turns' requests)")
    print(f"{'wire':24}{'sent':>10}{'Legato':>12}{'bare call':>12}{'ratio':>9}")
    over = 0
    with served() as url:
        for name in given.wire or WIRES:
            spent = asyncio.run(measured(WIRES[name], url, given.turns, given.last, given.stream, given.profile))
            ours, bare = (statistics.median(values) for values in ([each.ours for each in spent], [each.bare for each in spent]))
            sent = statistics.median(each.sent for each in spent)
            ratio = 100 * ours / bare
            over += ratio > GOAL
            print(f"{name:24}{sent:>8,.0f} B{ours * 1e6:>9,.0f} us{bare * 1e6:>9,.0f} us{ratio:>7.1f} %", flush=True)
    return 1 if over and not given.stream else 0


if __name__ == "__main__":
    sys.exit(main())
