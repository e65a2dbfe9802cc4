"""What was erased is sent to nobody again, on any wire, and nothing that a provider holds of it is gone on from (C4, S5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, tool
from legato.core.messages_to_model import ERASED, ERASED_ARGUMENTS
from legato.emulator.minds.base import Thought, Use, Words
from legato.stores.contract import Store
from tests.providers.failures.test_retries import greeter
from tests.providers.failures.wires import HELD, WIRES, answers, conversations, line

SECRET = "My name is Ann Xylophone."
WORDS = ["One.", "Two.", "Three.", "Four.", "Five."]
MIND: list[Any] = [[Thought(f"thought {word}"), Words(word)] for word in WORDS]


def bodies(exchanges: list[Any]) -> list[str]:
    return [json.dumps(exchange.request) for exchange in exchanges]


async def turns(session: Session, *words: str) -> None:
    for word in words:
        assert (await session.run(SECRET if word == "One." else "Go on")).text == word


@pytest.mark.parametrize("name", WIRES)
async def test_an_erased_message_goes_out_as_a_short_text_and_the_conversation_goes_on(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, MIND) as wire:
        session = greeter(wire.model(name)).session("s", store=store)
        await turns(session, "One.", "Two.")
        sent = len(await wire.exchanges())
        redaction = await session.redact(session.messages[0])
        await turns(session, "Three.", "Four.", "Five.")
        after = (await wire.exchanges())[sent:]
        assert [exchange.status for exchange in after] == [200] * 3
        assert not any("Xylophone" in body for body in bodies(after))
        assert ERASED in bodies(after)[0]
        assert "thought" not in str(session.facts[:6])
        kept = [fact.response_id for fact in answers(session)[:2] if fact.stored]
        assert set(redaction.providers) >= set(kept)


@pytest.mark.parametrize("name", HELD)
async def test_what_the_provider_holds_of_it_is_never_gone_on_from(name: str, stream: bool) -> None:
    async with line(stream, MIND) as wire:
        session = greeter(wire.model(name)).session("s")
        await turns(session, "One.", "Two.")
        before = {*conversations(session), *(fact.response_id for fact in answers(session))}
        sent = len(await wire.exchanges())
        redaction = await session.redact(1)
        await turns(session, "Three.", "Four.", "Five.")
        third, *later = (await wire.exchanges())[sent:]
        assert {third.request.get("previous_response_id"), third.request.get("conversation")}.isdisjoint(before)
        assert len(third.request["input"]) >= 5  # by value: three messages of the user, two replies
        assert all(exchange.request["input"] == [{"role": "user", "content": "Go on"}] for exchange in later)  # and leaned on again
        assert before <= {*redaction.providers, ""}


@pytest.mark.parametrize("name", HELD)
async def test_what_came_before_the_erased_words_may_be_gone_on_from(name: str, stream: bool) -> None:
    async with line(stream, MIND) as wire:
        session = greeter(wire.model(name)).session("s")
        await session.run("Go on")
        await session.run(SECRET)
        first = answers(session)[0]
        await session.redact(session.messages[2])
        await session.run("Go on")
        last = (await wire.exchanges())[-1].request
        if name != "responses conversation":  # a conversation only grows: that one holds the words
            assert last["previous_response_id"] == first.response_id
        assert "Xylophone" not in json.dumps(last)


@pytest.mark.parametrize("name", WIRES)
async def test_an_erased_call_and_its_output_stay_a_pair_on_every_wire(name: str, stream: bool) -> None:
    @tool
    async def look_up(who: str) -> str:
        """Look somebody up."""
        return f"{who} lives in Bremen"

    mind: list[Any] = [[Words("I look."), Use("look_up", '{"who": "Ann Xylophone"}')], [Words("Found.")], [Words("Still.")]]
    async with line(stream, mind) as wire:
        session = HandoffBuilder("hall", [Agent("greeter", model=wire.model(name), tools=[look_up])]).build().session("s")
        await session.run("Who is it?")
        sent = len(await wire.exchanges())
        await session.redact(*(await session.seen()).messages[1:3])
        assert (await session.run("Go on")).text == "Still."
        (last,) = (await wire.exchanges())[sent:]
        body = json.dumps(last.request)
        assert "Xylophone" not in body
        assert body.count(ERASED) == 2
        assert ERASED_ARGUMENTS in body.replace("\\", "").replace(" ", "")
        assert await wire.refused() == []
