"""What runs on another machine than the test: a process that drives one session, until it is done or killed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import Words
from legato.core.view import Request
from legato.models import Reply
from legato.models.base import Emit
from legato.stores import PostgresStore, SQLiteStore, Store

ANSWER = [f"word {number} " for number in range(40)]


class Slow:
    """Says the same each time, a word every few milliseconds; how many, depends on who is asked."""

    name = "slow"

    def __init__(self, pause: float, stops_after: int = 0) -> None:
        self._pause = pause
        self._stops_after = stops_after

    async def reply(self, request: Request, emit: Emit) -> Reply:
        for number, word in enumerate(ANSWER):
            emit(word)
            if number + 1 == self._stops_after:
                await asyncio.sleep(3600)
            await asyncio.sleep(self._pause)
        return Reply(items=(Words("".join(ANSWER)),))


def chat(store: Store, pause: float = 0.01, stops_after: int = 0) -> Workflow:
    return HandoffBuilder("chat", [Agent("a", model=Slow(pause, stops_after))]).with_checkpointing(store).build()


def opened(where: str) -> Any:
    """The store at a path or a DSN."""
    return SQLiteStore(where) if where.endswith(".db") else PostgresStore(where, lease_seconds=1.5)


async def drive(where: str, message: str, pause: float, stops_after: int) -> None:
    async with opened(where) as store:
        session = chat(store, pause, stops_after).session("s")
        await (session.run(message, key=message) if message else session.resume())


if __name__ == "__main__":
    place, said, between, stop = sys.argv[1:]
    asyncio.run(drive(place, said, float(between), int(stop)))
