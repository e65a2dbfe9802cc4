"""A process that drives one session until it is done or killed, for tests of followers in other processes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from legato import Agent, HandoffBuilder, Workflow
from legato.core.facts import OutputText
from legato.core.view import ModelRequest
from legato.models import ModelReply
from legato.models.model import Emit
from legato.stores import PostgresStore, SQLiteStore, Store

ANSWER = [f"word {number} " for number in range(40)]


class SlowModel:
    """A model with one answer, which emits a word every `pause` seconds and may stop after some words."""

    name = "slow"

    def __init__(self, pause: float, stops_after: int = 0) -> None:
        self._pause = pause
        self._stops_after = stops_after

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        for number, word in enumerate(ANSWER):
            emit(word)
            if number + 1 == self._stops_after:
                await asyncio.sleep(3600)
            await asyncio.sleep(self._pause)
        return ModelReply(items=(OutputText("".join(ANSWER)),))


def chat(store: Store, pause: float = 0.01, stops_after: int = 0) -> Workflow:
    return HandoffBuilder("chat", [Agent("a", model=SlowModel(pause, stops_after))]).with_checkpointing(store).build()


def open_store(location: str) -> Any:
    """Return the store at a path or a DSN."""
    return SQLiteStore(location) if location.endswith(".db") else PostgresStore(location, lease_seconds=1.5)


async def drive(location: str, message: str, pause: float, stops_after: int) -> None:
    async with open_store(location) as store:
        session = chat(store, pause, stops_after).session("s")
        await (session.run(message, key=message) if message else session.resume())


if __name__ == "__main__":
    location, message, pause, stops_after = sys.argv[1:]
    asyncio.run(drive(location, message, float(pause), int(stops_after)))
