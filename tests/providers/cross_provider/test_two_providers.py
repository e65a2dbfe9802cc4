"""Agents with different formats in one workflow, in all pairs: everything but reasoning crosses over (story 16; C1-C5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.providers.failures.emulator_harness import FORMATS, find_replies, format_body, run_emulator

SCRIPT: list[Any] = [
    [ReplyThought("front 1"), ReplyCall("handoff_to_back", '{"reason": "they ask for orders"}')],
    [ReplyThought("back 1"), ReplyText("Let me see."), ReplyCall("look_up", '{"order": "A-17"}'), ReplyCall("look_up", '{"order": "B-2"}')],
    [ReplyThought("back 2"), ReplyCall("handoff_to_front")],
    [ReplyThought("front 2"), ReplyText("Two teapots.")],
    [ReplyThought("front 3"), ReplyText("One moment."), ReplyCall("handoff_to_back")],
    [ReplyThought("back 3"), ReplyText("Yes?")],
    [ReplyThought("back 4"), ReplyText("Good bye.")],
]
ONE_MODEL = {"responses inline", "responses chained", "responses conversation"}
"""The formats of one model at one address: it can read its own reasoning in each of them."""
PAIRS = list(itertools.permutations(FORMATS, 2))


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: one teapot"


def make_desk(front: Any, back: Any) -> Workflow:
    first = Agent("front", instructions="You greet.", model=front)
    second = Agent("back", instructions="You look things up.", model=back, tools=[look_up])
    return HandoffBuilder("desk", [first, second]).add_handoff(first, [second]).add_handoff(second, [first]).build()


def find_sealed_texts(value: Any) -> Iterator[str]:
    """Yield the texts in an answer that only its maker can read."""
    if isinstance(value, dict):
        yield from (text for name, text in value.items() if name in ("encrypted_content", "signature") and text)
        for each in value.values():
            yield from find_sealed_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from find_sealed_texts(each)


@pytest.mark.parametrize(("front", "back"), PAIRS, ids=[f"{front} and {back}" for front, back in PAIRS])
async def test_contents_cross_over_without_reasoning(front: str, back: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(harness.make_model(front), harness.make_model(back)).session("s")
        for message, words in (("Where are A-17 and B-2?", "Two teapots."), ("And C-3?", "Yes?"), ("Nothing.", "Good bye.")):
            result = await session.run(message)
            assert (result.error, result.text) == ("", words)
        await harness.check_sessions(session)
        exchanges = {exchange.reply_body["id"]: exchange for exchange in await harness.read_exchanges() if exchange.reply_body}
        assert len(exchanges) == len(SCRIPT)
        for maker in find_replies(session):
            blobs = list(find_sealed_texts(exchanges[maker.response_id].reply_body))
            assert bool(blobs) == (not maker.origin.startswith("chat"))
            for reader in find_replies(session):
                if reader.origin != maker.origin:
                    assert not [blob for blob in blobs if blob in format_body(exchanges[reader.response_id])]
        lost = {"front": front, "back": back} if not {front, back} <= ONE_MODEL else {}
        contents = [
            f"reasoning of {agent}: only the model that made it can read it" for agent, on in lost.items() if not on.startswith("chat")
        ]
        assert sorted(session.losses) == sorted(contents)  # each once, and no others


@pytest.mark.parametrize("front", ["responses inline", "anthropic"])
async def test_reasoning_returns_to_its_maker(front: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(harness.make_model(front), harness.make_model("chat")).session("s")
        await session.run("Where are A-17 and B-2?")
        first, elsewhere, _, home = (await harness.read_exchanges())[:4]
        (blob,) = find_sealed_texts(first.reply_body)
        assert blob not in format_body(elsewhere)
        assert blob in format_body(home)


@pytest.mark.parametrize("fault", ["constant_call_ids id=call_0", "duplicate_call_ids", "constant_call_ids id=a.b/c"])
@pytest.mark.parametrize(("front", "back"), [("chat", "anthropic"), ("anthropic", "responses chained"), ("responses inline", "chat")])
async def test_ids_illegal_in_another_format_are_replaced(front: str, back: str, fault: str, stream: bool) -> None:
    """One provider gives every call the same id, or an id that no other provider takes. Each call gets a unique id."""
    async with run_emulator(stream, SCRIPT, faults=[f"{fault}@1,2,3,5"]) as harness:
        session = make_desk(harness.make_model(front), harness.make_model(back)).session("s")
        assert (await session.run("Where are A-17 and B-2?")).text == "Two teapots."
        assert (await session.run("And C-3?")).text == "Yes?"
        await harness.check_sessions(session)
