"""A conversation too long for its model is summarised by policy, or pauses with a hint; nothing is cut silently (story 43)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow, history, tool
from legato.core.facts import Compacted, ModelReplied
from legato.emulator.fake_models.base import ModelPrompt, ReplyCall, ReplyText
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import FORMATS, find_failed_requests, find_replies, run_emulator

SMALL_MODELS = {"anthropic": "claude-haiku-4-5"}
"""The models with the smallest context windows: 128,000 or 200,000 tokens."""

LONG_TEXT = "tea " * 50_000
EXPECTED_HINT = "history=summarised(...)"


@tool
def count(words: str) -> str:
    """Count words."""
    return f"counted: {words}"


def reply_with_count(prompt: ModelPrompt) -> list[Any]:
    """Call the tool for each message, then report its output."""
    if prompt.messages[-1].role == "tool":
        return [ReplyText(f"I have {prompt.messages[-1].text}.")]
    return [ReplyCall("count", json.dumps({"words": prompt.last_user_text.rpartition("; ")[2].splitlines()[-1]}))]


def make_reader(model: Any, policy: history.History | None = None) -> Workflow:
    agent = Agent("reader", instructions="You count.", model=model, tools=[count], history=policy or history.everything())
    return HandoffBuilder("library", [agent]).build()


def small_model_options(name: str) -> dict[str, Any]:
    return {"model": SMALL_MODELS.get(name, "gpt-4o"), "effort": None} if not name.startswith("chat") else {"model": "gpt-4o"}


def summarise(text: str) -> str:
    return f"They spoke about tea, {text.count('I have counted:')} times."


@pytest.mark.parametrize("name", ["responses inline", "responses chained", "responses conversation", "chat", "anthropic"])
async def test_overflow_pauses_and_a_summary_resolves_it(name: str, place: tuple[bool, Store]) -> None:
    """A conversation too long for its model pauses with a hint, and continues with a history policy that summarises."""
    stream, store = place
    async with run_emulator(stream, reply_with_count) as harness:
        model = harness.make_model(name, **small_model_options(name))
        session = make_reader(model).session("s", store=store)
        turns = 0
        while (result := await session.run(f"{LONG_TEXT}; nr {turns}")).status == "waiting":
            turns += 1
            assert turns < 6
        assert turns >= 2
        (attempt,) = find_failed_requests(session)
        assert (result.status, attempt.final, EXPECTED_HINT in result.error) == ("failed", True, True)
        for exchange in await harness.read_exchanges():  # the provider was not asked to truncate
            assert "truncation" not in exchange.request_body
        message_count = len(session.messages)
        policy = history.summarised(60_000, by=summarise, keep=1)
        session = make_reader(model, policy).session("s", store=store)
        result = await session.run("nr 9")
        assert (result.status, result.text) == ("waiting", "I have counted: nr 9.")
        (compacted,) = [fact for fact in session.facts if isinstance(fact, Compacted)]
        assert compacted.summary == f"They spoke about tea, {turns} times."
        assert len(session.messages) == message_count + 2  # people still see all messages
        last = find_replies(session)[-1]
        raw, numbers = await harness.read_traffic()
        contents = raw.read_contents(numbers[last.response_id])
        assert [role for role, _ in contents] == ["user", "user", "call 0", "output 0"]
        assert compacted.summary in contents[0][1]
        assert raw.find_unpaired_calls(numbers[last.response_id]) == []


@pytest.mark.parametrize("name", FORMATS)
async def test_summaries_keep_a_conversation_within_the_window(name: str, place: tuple[bool, Store]) -> None:
    """Whole groups are summarised: no call loses its output, in any memory mode."""
    stream, store = place
    async with run_emulator(stream, reply_with_count) as harness:
        session = make_reader(harness.make_model(name), history.summarised(400, by=summarise, keep=1)).session("s", store=store)
        for turn in range(8):
            result = await session.run(f"{LONG_TEXT[:600]}; nr {turn}")
            assert (result.status, result.text) == ("waiting", f"I have counted: nr {turn}.")
        assert len([fact for fact in session.facts if isinstance(fact, Compacted)]) >= 3
        await harness.check_sessions(session)
        raw, numbers = await harness.read_traffic()
        assert max(len(raw.read_contents(numbers[fact.response_id])) for fact in find_replies(session)) <= 13
        assert len([message for message in session.messages if message.role == "user"]) == 8


@pytest.mark.parametrize("name", FORMATS)
async def test_overflow_is_not_retried_and_changes_nothing(name: str, stream: bool) -> None:
    async with run_emulator(stream, reply_with_count) as harness:
        session = make_reader(harness.make_model(name)).session("s")
        await session.run("first")
        harness.emulator.fault("context_length")
        before = [fact for fact in session.facts if isinstance(fact, ModelReplied)]
        result = await session.run("second")
        (attempt,) = find_failed_requests(session)
        assert (result.status, attempt.final, EXPECTED_HINT in result.error) == ("failed", True, True)
        assert find_replies(session) == before
        assert (await session.resume()).text == "I have counted: second."
        await harness.check_sessions(session)
