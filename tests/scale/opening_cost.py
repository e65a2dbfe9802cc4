"""The cost of opening a session: `python -m tests.scale.opening_cost`. A turn is a message of about 20 tokens and a reply of about 100.

Opening is everything from a new `SQLiteStore` on the file until the conversation can continue: read, check, decode, fold, `status`.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from legato import Agent, HandoffBuilder, Usage, Workflow
from legato.core.facts import OutputText
from legato.core.view import ModelRequest
from legato.models import ModelReply
from legato.models.model import Emit
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from tests.scale.size_measurements import REPLY

MESSAGE = "Could you please check for me whether order 4711 was sent on Monday, and where it is at this moment? "


class TalkingModel:
    """A model that costs nothing. `has_provider_ids`: its replies have all the ids that a provider adds."""

    name = "talking"

    def __init__(self, has_provider_ids: bool) -> None:
        self._has_provider_ids = has_provider_ids

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        n = request.reply_count
        if not self._has_provider_ids:
            return ModelReply(items=(OutputText(REPLY),), usage=Usage(input=120 * n, output=100), model="fake")
        return ModelReply(
            items=(OutputText(REPLY, item_id=f"msg_{n:048x}"),),
            usage=Usage(input=120 * n, output=100, cached=110 * n, cost=12_345),
            model="gpt-5.1-2025-11-13",
            response_id=f"resp_{n:048x}",
            origin="responses https://api.openai.com/v1 gpt-5.1",
            request_id=f"req_{n:032x}",
        )


def build_desk(store: Store, has_provider_ids: bool) -> Workflow:
    agent = Agent("support", "You help.", TalkingModel(has_provider_ids))
    return HandoffBuilder("desk", [agent]).with_checkpointing(store).build()


async def record_turns(path: Path, turns: int, has_provider_ids: bool) -> None:
    async with SQLiteStore(path, "process") as store:
        session = build_desk(store, has_provider_ids).session("s")
        for _ in range(turns):
            await session.run(MESSAGE)


async def measure_opening(path: Path) -> tuple[float, float]:
    """Return the wall and CPU milliseconds of opening the session."""
    wall, cpu = time.perf_counter(), time.process_time()
    async with SQLiteStore(path) as store:
        session = build_desk(store, False).session("s")
        await session.refresh()
        assert session.status == "waiting"
        return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for has_provider_ids in (False, True):
            found: list[tuple[int, float]] = []
            for turns in (10, 100, 1_000, 10_000):
                path = Path(folder) / f"{turns}-{has_provider_ids}.db"
                asyncio.run(record_turns(path, turns, has_provider_ids))
                runs = [asyncio.run(measure_opening(path)) for _ in range(11)]
                wall, cpu = (statistics.median(each) for each in zip(*runs, strict=True))
                size_ratio = path.stat().st_size / (turns * (len(MESSAGE) + len(REPLY)))
                suffix = " with provider ids" if has_provider_ids else ""
                print(f"{turns:6} turns{suffix}: {cpu:6.1f} ms CPU, {wall:6.1f} ms, {size_ratio:.2f} bytes per byte of text")
                found.append((turns, cpu))
            steps = [math.log(b[1] / a[1]) / math.log(b[0] / a[0]) for a, b in pairwise(found)]
            print("exponents from step to step:", ", ".join(f"{step:.2f}" for step in steps))


if __name__ == "__main__":
    main()
