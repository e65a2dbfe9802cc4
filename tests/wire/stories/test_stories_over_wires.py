"""Every story over every wire: nothing is refused, and what went over HTTP is what each agent should have seen (C1, C2, C3, C4, C6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.models.base import Model
from legato.models.openai import OpenAIResponses
from legato.stores import MemoryStore
from legato.stores.contract import Store
from legato.testing.story import Story, World
from tests.stories.all import STORIES
from tests.wire.stories.raw import Ledgerless, seen
from tests.wire.stories.wired import Mouth, Wire

WIRES: dict[str, Callable[[Emulator, bool], Model]] = {
    f"responses {memory}": lambda emulator, stream, memory=memory: OpenAIResponses(  # type: ignore[misc]
        "gpt-5", base_url=emulator.openai_url, api_key="sk-story", memory=memory, stream=stream
    )
    for memory in ("inline", "chained", "conversation")
}


async def all_since(emulator: Emulator, begun: int) -> list[Exchange]:
    """The exchanges, once the server has noted them all: the last byte of an answer is read before it has."""
    for _ in range(1000):
        exchanges = sorted((exchange for exchange in emulator.log.after() if exchange.asks), key=lambda exchange: exchange.number)
        if len(exchanges) == emulator.log.requests:
            return exchanges[begun:]
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator has not noted every exchange")


@pytest.fixture(scope="module")
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture(scope="module")
def emulator(mouth: Mouth):  # type: ignore[no-untyped-def]
    with serve(mind=mouth, keep=100_000, longest=None) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("story", [pytest.param(story, id=title) for title, story in STORIES.items()])
async def test_a_story_is_the_same_over_a_wire(story: Story, wire: str, stream: bool, emulator: Emulator, mouth: Mouth) -> None:
    store = MemoryStore()
    begun = emulator.log.requests
    spoken = Wire(emulator, mouth, lambda running: WIRES[wire](running, stream))

    def build(store: Store, world: World):  # type: ignore[no-untyped-def]
        return spoken.over(story.build(store, world))

    try:
        await replace(story, build=build).tell(store, stream)
    finally:
        await spoken.close()
    exchanges = await all_since(emulator, begun)
    assert [str(exchange) for exchange in exchanges if exchange.status != 200] == []
    raw = Ledgerless(exchanges, begun + 1)
    for request, number in spoken.asked:
        assert raw.heard(number) == seen(request, wire == "responses inline")
        if wire != "responses inline":
            assert all(text in raw.instructions(number) for text in request.frame.messages)
        assert raw.unpaired(number) == []
        assert raw.item_ids(number) == []
