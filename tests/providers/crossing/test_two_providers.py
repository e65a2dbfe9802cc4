"""Agents on different wires in one workflow, every wire with every other: reasoning stays at home, the rest goes over (story 16; C1-C5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.emulator.minds.base import Thought, Use, Words
from tests.providers.failures.wires import WIRES, answers, body_text, line

SCRIPT: list[Any] = [
    [Thought("front 1"), Use("handoff_to_back", '{"reason": "they ask for orders"}')],
    [Thought("back 1"), Words("Let me see."), Use("look_up", '{"order": "A-17"}'), Use("look_up", '{"order": "B-2"}')],
    [Thought("back 2"), Use("handoff_to_front")],
    [Thought("front 2"), Words("Two teapots.")],
    [Thought("front 3"), Words("One moment."), Use("handoff_to_back")],
    [Thought("back 3"), Words("Yes?")],
    [Thought("back 4"), Words("Good bye.")],
]
ONE_MODEL = {"responses inline", "responses chained", "responses conversation"}
"""These are one model at one address: what it made, it can read again, whoever keeps the conversation."""
PAIRS = list(itertools.permutations(WIRES, 2))


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def desk(front: Any, back: Any) -> Workflow:
    first = Agent("front", instructions="You greet.", model=front)
    second = Agent("back", instructions="You look things up.", model=back, tools=[look_up])
    return HandoffBuilder("desk", [first, second]).add_handoff(first, [second]).add_handoff(second, [first]).build()


def sealed(value: Any) -> Iterator[str]:
    """What in an answer only its maker can read."""
    if isinstance(value, dict):
        yield from (text for name, text in value.items() if name in ("encrypted_content", "signature") and text)
        for each in value.values():
            yield from sealed(each)
    elif isinstance(value, list):
        for each in value:
            yield from sealed(each)


@pytest.mark.parametrize(("front", "back"), PAIRS, ids=[f"{front} and {back}" for front, back in PAIRS])
async def test_what_was_said_and_done_goes_over_and_reasoning_stays_at_home(front: str, back: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(wire.model(front), wire.model(back)).session("s")
        for message, words in (("Where are A-17 and B-2?", "Two teapots."), ("And C-3?", "Yes?"), ("Nothing.", "Good bye.")):
            result = await session.run(message)
            assert (result.error, result.text) == ("", words)
        await wire.check(session)
        exchanges = {exchange.reply["id"]: exchange for exchange in await wire.exchanges() if exchange.reply}
        assert len(exchanges) == len(SCRIPT)
        for maker in answers(session):
            blobs = list(sealed(exchanges[maker.response_id].reply))
            assert bool(blobs) == (not maker.origin.startswith("chat"))
            for reader in answers(session):
                if reader.origin != maker.origin:
                    assert not [blob for blob in blobs if blob in body_text(exchanges[reader.response_id])]
        lost = {"front": front, "back": back} if not {front, back} <= ONE_MODEL else {}
        told = [f"reasoning of {agent}: only the model that made it can read it" for agent, on in lost.items() if not on.startswith("chat")]
        assert sorted(session.losses) == sorted(told)  # each once, and no other


@pytest.mark.parametrize("front", ["responses inline", "anthropic"])
async def test_reasoning_goes_back_to_its_maker_when_control_comes_home(front: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(wire.model(front), wire.model("chat")).session("s")
        await session.run("Where are A-17 and B-2?")
        first, elsewhere, _, home = (await wire.exchanges())[:4]
        (blob,) = sealed(first.reply)
        assert blob not in body_text(elsewhere)
        assert blob in body_text(home)


@pytest.mark.parametrize("fault", ["constant_call_ids id=call_0", "duplicate_call_ids", "constant_call_ids id=a.b/c"])
@pytest.mark.parametrize(("front", "back"), [("chat", "anthropic"), ("anthropic", "responses chained"), ("responses inline", "chat")])
async def test_ids_that_another_wire_would_refuse_are_mapped(front: str, back: str, fault: str, stream: bool) -> None:
    """One provider gives every call the same id, or one that no other takes. Each call is answered under one of its own."""
    async with line(stream, SCRIPT, faults=[f"{fault}@1,2,3,5"]) as wire:
        session = desk(wire.model(front), wire.model(back)).session("s")
        assert (await session.run("Where are A-17 and B-2?")).text == "Two teapots."
        assert (await session.run("And C-3?")).text == "Yes?"
        await wire.check(session)
