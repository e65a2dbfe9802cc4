"""A conversation too long for its model is compacted by policy, or pauses and says what to do; nothing is cut in silence (story 43)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, tool
from legato.core.facts import Compacted, ModelReplied
from legato.emulator.minds.base import Prompt, Use, Words
from legato.stores.contract import Store
from tests.providers.failures.wires import WIRES, answers, attempts, line

SMALL = {"anthropic": "claude-haiku-4-5"}
"""Models with the smallest windows there are: 128,000 tokens, or 200,000."""

LONG = "tea " * 50_000
DO = "history=summarised(...)"


@tool
def count(words: str) -> str:
    """Count words."""
    return f"counted: {words}"


def reply(prompt: Prompt) -> list[Any]:
    """Uses the tool for each message, then says so."""
    if prompt.heard[-1].who == "tool":
        return [Words(f"I have {prompt.heard[-1].text}.")]
    return [Use("count", json.dumps({"words": prompt.said.rpartition("; ")[2].splitlines()[-1]}))]


def reader(model: Any, policy: history.History | None = None) -> Workflow:
    agent = Agent("reader", instructions="You count.", model=model, tools=[count], history=policy or history.everything())
    return HandoffBuilder("library", [agent]).build()


def model_of(name: str) -> dict[str, Any]:
    return {"model": SMALL.get(name, "gpt-4o"), "effort": None} if not name.startswith("chat") else {"model": "gpt-4o"}


def summarise(text: str) -> str:
    return f"They spoke about tea, {text.count('I have counted:')} times."


@pytest.mark.parametrize("name", ["responses inline", "responses chained", "responses conversation", "chat", "anthropic"])
async def test_a_conversation_that_outgrows_its_model_pauses_says_what_to_do_and_goes_on_with_a_summary(
    name: str, place: tuple[bool, Store]
) -> None:
    stream, store = place
    async with line(stream, reply) as wire:
        model = wire.model(name, **model_of(name))
        session = reader(model).session("s", store=store)
        turns = 0
        while (result := await session.run(f"{LONG}; nr {turns}")).status == "waiting":
            turns += 1
            assert turns < 6
        assert turns >= 2
        (attempt,) = attempts(session)
        assert (result.status, attempt.final, DO in result.error) == ("failed", True, True)
        for exchange in await wire.exchanges():  # nobody asked the provider to leave something out
            assert "truncation" not in exchange.request
        said = len(session.messages)
        policy = history.summarised(60_000, by=summarise, keep=1)
        session = reader(model, policy).session("s", store=store)
        result = await session.run("nr 9")
        assert (result.status, result.text) == ("waiting", "I have counted: nr 9.")
        (compacted,) = [fact for fact in session.facts if isinstance(fact, Compacted)]
        assert compacted.summary == f"They spoke about tea, {turns} times."
        assert len(session.messages) == said + 2  # people still see everything
        last = answers(session)[-1]
        raw, numbers = await wire.raw()
        heard = raw.heard(numbers[last.response_id])
        assert [role for role, _ in heard] == ["user", "user", "call 0", "output 0"]
        assert compacted.summary in heard[0][1]
        assert raw.unpaired(numbers[last.response_id]) == []


@pytest.mark.parametrize("name", WIRES)
async def test_a_policy_keeps_a_long_conversation_within_the_window(name: str, place: tuple[bool, Store]) -> None:
    """Whole groups are summarised: no call loses its output, whoever keeps the conversation."""
    stream, store = place
    async with line(stream, reply) as wire:
        session = reader(wire.model(name), history.summarised(400, by=summarise, keep=1)).session("s", store=store)
        for turn in range(8):
            result = await session.run(f"{LONG[:600]}; nr {turn}")
            assert (result.status, result.text) == ("waiting", f"I have counted: nr {turn}.")
        assert len([fact for fact in session.facts if isinstance(fact, Compacted)]) >= 3
        await wire.check(session)
        raw, numbers = await wire.raw()
        assert max(len(raw.heard(numbers[fact.response_id])) for fact in answers(session)) <= 13
        assert len([message for message in session.messages if message.role == "user"]) == 8


@pytest.mark.parametrize("name", WIRES)
async def test_an_overflow_is_told_once_is_not_tried_again_and_leaves_the_conversation_as_it_was(name: str, stream: bool) -> None:
    async with line(stream, reply) as wire:
        session = reader(wire.model(name)).session("s")
        await session.run("first")
        wire.emulator.fault("context_length")
        before = [fact for fact in session.facts if isinstance(fact, ModelReplied)]
        result = await session.run("second")
        (attempt,) = attempts(session)
        assert (result.status, attempt.final, DO in result.error) == ("failed", True, True)
        assert answers(session) == before
        assert (await session.resume()).text == "I have counted: second."
        await wire.check(session)
