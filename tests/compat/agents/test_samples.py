"""The SDK's public kinds of samples, written anew from its documented API, run through the facade over HTTP: nothing is refused."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from legato.compat.agents import MeansNothingHere, set_default_store
from legato.emulator import serve
from legato.emulator.exchanges import Exchange
from legato.stores import MemoryStore
from tests.compat.agents import fake_models

PRINTED = {
    "routing": """
        [triage_agent] [french_agent] Je suis votre assistant.
        [french_agent] Au revoir !""",
    "handoff_with_input": """
        ['severity 3: the database is down']
        Support -> Engineer
        Engineer: Restarted.""",
    "message_filter": """
        Poet: I saw 5 things.
        Poet: I saw 3 things.""",
    "approval": """
        Weather assistant wants get_temperature with {"city": "Oakland"}
        Weather assistant wants send_postcard with {"city": "Oakland", "words": "Hi"}
        20 degrees in Oakland; sunny in Oakland; Not run: a person declined this call. No stamps left.""",
    "approval_streamed": """
        deleted a.txt
        deleted b.txt
        asked 1 time(s)
        Both are gone.""",
    "customer_service": """
        Handed off from Triage Agent to FAQ Agent
        FAQ Agent: calls faq_lookup_tool
        FAQ Agent: One bag of up to 50 pounds.
        FAQ Agent: One bag of up to 50 pounds.
        Handed off from FAQ Agent to Triage Agent
        Handed off from Triage Agent to Seat Booking Agent
        Seat Booking Agent: calls update_seat
        Seat Booking Agent: Seat 3A for ABC on FLT-123
        Seat Booking Agent: Done.
        Seat Booking Agent: You are welcome.
        3A FLT-123""",
    "agents_as_tools": """
        - I have 2 translations.
        Buenos días / Bonjour""",
    "guardrails": """
        Sacramento
        input: it says so
        output: {'phone': '650-123-4567'}""",
    "previous_response": """
        Brazil
        Brasilia
        Sao Paulo""",
    "sessions": """
        San Francisco
        California
        4 California
        assistant user
        2.7 km
        ['Which city is the Golden Gate Bridge in?', 'How long is it?']
        []""",
    "forcing_tool_use": """
        2 It is sunny in Tokyo, with wind.
        1 sunny in Tokyo, with wind
        1 sunny in Tokyo, with wind""",
    "judge": """
        Outline 1.
        needs_improvement
        Outline 2.
        pass""",
    "dynamic_instructions": """
        Chat agent: An old silent pond.
        Concierge: A joke for you, Sir.
        stopped after 3 replies
        There is nothing.""",
    "conversation": """
        Hello Ada.
        Ada; we have said 3 things.
        4""",
}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


@pytest.fixture(autouse=True)
def _use_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder and an empty store: two emulators give the same ids, as two providers never do."""
    monkeypatch.chdir(tmp_path)
    set_default_store(MemoryStore())


async def run(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    with serve(fake_model=getattr(fake_models, name)) as emulator:
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
        monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "gpt-5.1")
        sample: Any = importlib.reload(importlib.import_module(f"tests.compat.agents.samples.{name}"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeansNothingHere)
            await sample.main()
        return emulator.exchanges


@pytest.mark.parametrize("name", PRINTED)
async def test_sample_runs_without_refused_requests(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    exchanges = await run(name, monkeypatch)
    assert lines(capsys.readouterr().out) == lines(PRINTED[name])
    assert exchanges
    assert [(each.path, each.summary_line) for each in exchanges if each.status != 200 or each.violations or each.emulator_error] == []


async def test_approved_call_runs_once_while_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call of a batch that needs no decision runs once, while others wait."""
    first, second = [exchange for exchange in await run("approval", monkeypatch) if exchange.is_model_request]
    outputs = [item for item in second.request_body["input"] if item["type"] == "function_call_output"]
    made = [item["call_id"] for item in (first.reply_body or {})["output"] if item["type"] == "function_call"]
    assert [item["call_id"] for item in outputs] == made
    assert len(second.request_body["input"]) == 3


async def test_filtered_conversation_keeps_calls_with_their_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges = [each for each in await run("message_filter", monkeypatch) if each.is_model_request and each.prompt]
    poets = [each.prompt for each in exchanges if each.prompt and each.prompt.instructions == "Write a poem."]
    custom, quiet = poets
    assert all("Sora" not in heard.text for heard in custom.messages)
    assert [heard.role for heard in quiet.messages] == ["user", "assistant", "user"]
    assert not any(heard.calls for heard in quiet.messages)


async def test_empty_provider_conversation_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [each.request_body for each in await run("conversation", monkeypatch) if each.is_model_request]
    assert len({body["conversation"] for body in asked}) == 1
    assert [len(body["input"]) for body in asked] == [1, 1]


async def test_a_tripwire_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [each.prompt for each in await run("guardrails", monkeypatch) if each.is_model_request and each.prompt]
    # One check for each of three messages; the agent saw the two that passed, and was not asked again for the one it must not answer.
    assert [prompt.instructions for prompt in asked].count("Is this homework?") == 3
    assert [prompt.instructions for prompt in asked].count("Help the customer.") == 2
