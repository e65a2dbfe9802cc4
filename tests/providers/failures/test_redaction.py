"""Redacted text is never sent again in any format, and stored history with it is never continued (C4, S5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Session, tool
from legato.core.texts_for_model import REDACTED_ARGUMENTS, REDACTED_TEXT
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import FORMATS, STORING_FORMATS, find_conversations, find_replies, run_emulator
from tests.providers.failures.test_retries import make_greeter

SECRET = "My name is Ann Xylophone."
ANSWERS = ["One.", "Two.", "Three.", "Four.", "Five."]
SCRIPT: list[Any] = [[ReplyThought(f"thought {word}"), ReplyText(word)] for word in ANSWERS]


def encode_bodies(exchanges: list[Any]) -> list[str]:
    return [json.dumps(exchange.request_body) for exchange in exchanges]


async def run_turns(session: Session, *words: str) -> None:
    for word in words:
        assert (await session.run(SECRET if word == "One." else "Go on")).text == word


@pytest.mark.parametrize("name", FORMATS)
async def test_redacted_message_is_sent_as_placeholder(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_greeter(harness.make_model(name)).session("s", store=store)
        await run_turns(session, "One.", "Two.")
        request_count = len(await harness.read_exchanges())
        redaction = await session.redact(session.messages[0])
        await run_turns(session, "Three.", "Four.", "Five.")
        after = (await harness.read_exchanges())[request_count:]
        assert [exchange.status for exchange in after] == [200] * 3
        assert not any("Xylophone" in body for body in encode_bodies(after))
        assert REDACTED_TEXT in encode_bodies(after)[0]
        assert "thought" not in str(session.facts[:6])
        stored_ids = [fact.response_id for fact in find_replies(session)[:2] if fact.stored]
        assert set(redaction.providers) >= set(stored_ids)


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_stored_history_with_redacted_text_is_abandoned(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        await run_turns(session, "One.", "Two.")
        before = {*find_conversations(session), *(fact.response_id for fact in find_replies(session))}
        request_count = len(await harness.read_exchanges())
        redaction = await session.redact(1)
        await run_turns(session, "Three.", "Four.", "Five.")
        third, *later = (await harness.read_exchanges())[request_count:]
        assert {third.request_body.get("previous_response_id"), third.request_body.get("conversation")}.isdisjoint(before)
        assert len(third.request_body["input"]) >= 5  # by value: three messages of the user, two replies
        assert all(exchange.request_body["input"] == [{"role": "user", "content": "Go on"}] for exchange in later)  # continued again
        assert before <= {*redaction.providers, ""}


@pytest.mark.parametrize("name", STORING_FORMATS)
async def test_stored_history_before_redacted_text_is_continued(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        await session.run("Go on")
        await session.run(SECRET)
        first = find_replies(session)[0]
        await session.redact(session.messages[2])
        await session.run("Go on")
        last = (await harness.read_exchanges())[-1].request_body
        if name != "responses conversation":  # a conversation only grows: that one has the redacted text
            assert last["previous_response_id"] == first.response_id
        assert "Xylophone" not in json.dumps(last)


@pytest.mark.parametrize("name", FORMATS)
async def test_redacted_call_keeps_its_output(name: str, stream: bool) -> None:
    @tool
    async def look_up(who: str) -> str:
        """Look somebody up."""
        return f"{who} lives in Bremen"

    script: list[Any] = [
        [ReplyText("I look."), ReplyCall("look_up", '{"who": "Ann Xylophone"}')],
        [ReplyText("Found.")],
        [ReplyText("Still.")],
    ]
    async with run_emulator(stream, script) as harness:
        session = HandoffBuilder("hall", [Agent("greeter", model=harness.make_model(name), tools=[look_up])]).build().session("s")
        await session.run("Who is it?")
        request_count = len(await harness.read_exchanges())
        await session.redact(*(await session.seen()).messages[1:3])
        assert (await session.run("Go on")).text == "Still."
        (last,) = (await harness.read_exchanges())[request_count:]
        body = json.dumps(last.request_body)
        assert "Xylophone" not in body
        assert body.count(REDACTED_TEXT) == 2
        assert REDACTED_ARGUMENTS in body.replace("\\", "").replace(" ", "")
        assert await harness.find_refusals() == []
