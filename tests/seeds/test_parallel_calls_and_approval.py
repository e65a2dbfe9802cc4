"""A run with three parallel calls, two of which wait for a person; it is serialized, they are rejected, and it continues.

The program is the second part of the document of seed 004, in programs/, with its lost indentation restored. Only its import is changed;
the environment names its provider.
"""

from __future__ import annotations

import io
import types
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from legato.compat.agents import default_store, set_default_store
from legato.core.facts import ApprovalChecked, CallReturned, CallStarted, Decided, ModelReplied
from legato.emulator import serve
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText
from legato.emulator.server import Emulator
from legato.stores import MemoryStore

PROGRAM = (Path(__file__).parent / "programs" / "004_part_2.txt").read_text(encoding="utf-8")
CLEANUP_1, DIAGNOSTIC, CLEANUP_2 = "call_CLEANUP1", "call_DIAG", "call_CLEANUP2"
SUMMARY = "The diagnostic is fine; the two clean-ups were not approved."


def reply_as_support(prompt: ModelPrompt) -> Any:
    """Reply with a greeting, with three parallel calls on request, or with a summary of their outputs."""
    if prompt.messages[-1].role == "tool":
        return SUMMARY
    if "in parallel" not in prompt.last_user_text:
        return "Hello, I am here when you need me."
    return [
        ReplyCall("run_cleanup", '{"target": "temp_files"}', CLEANUP_1),
        ReplyCall("run_diagnostic", '{"check_name": "thermal_snapshot"}', DIAGNOSTIC),
        ReplyCall("run_cleanup", '{"target": "winsxs_cache"}', CLEANUP_2),
    ]


async def run_program(program: str, monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> str:
    set_default_store(MemoryStore())  # two emulators give equal ids, unlike two providers
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
    module = types.ModuleType("live_api_repro")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)  # dataclasses look names up there
    exec(compile(program, "004_part_2.txt", "exec"), module.__dict__)
    out = io.StringIO()
    with redirect_stdout(out):
        await module.live_api_repro()
    return out.getvalue()


def change_imports(program: str) -> str:
    """Return the program with its import line changed."""
    assert program.count("from agents import") == 1
    return program.replace("from agents import", "from legato.compat.agents import")


async def test_the_program_runs_with_its_import_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(fake_model=reply_as_support) as emulator:
        printed = await run_program(change_imports(PROGRAM), monkeypatch, emulator)
        requests = [exchange for exchange in emulator.exchanges if exchange.is_model_request]
        assert all(exchange.status == 200 and not exchange.violations for exchange in emulator.exchanges)
    assert "Attempt 1: 2 interruption(s)" in printed
    assert printed.count("Rejecting: run_cleanup") == 2
    assert f"Resume OK — output: {SUMMARY}" in printed
    assert "FAILED" not in printed
    greeting, batch, resumed = (exchange.request_body for exchange in requests)
    assert all(body["stream"] for body in (batch, resumed))
    # The second request continues the first one, the third the second: each sends only the new items.
    assert "previous_response_id" not in greeting
    assert batch["previous_response_id"] == requests[0].reply_body["id"]  # type: ignore[index]
    assert resumed["previous_response_id"] == requests[1].reply_body["id"]  # type: ignore[index]
    assert [item["role"] for item in batch["input"]] == ["user"]
    outputs = resumed["input"]
    assert [item["type"] for item in outputs] == ["function_call_output"] * 3
    assert [item["call_id"] for item in outputs] == [CLEANUP_1, DIAGNOSTIC, CLEANUP_2]
    assert outputs[1]["output"] == "Diagnostic 'thermal_snapshot' completed. CPU load: 23%, Temp: 72C."
    assert all("Not approved." in outputs[index]["output"] for index in (0, 2))


async def test_ledger_records_which_tools_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(fake_model=reply_as_support) as emulator:
        await run_program(change_imports(PROGRAM), monkeypatch, emulator)
    newest, *_ = await default_store().list(limit=1)
    facts = await default_store().read(newest.ledger)
    reply = next(fact for fact in facts if isinstance(fact, ModelReplied) and len(fact.items) == 3)
    position = facts.index(reply)
    assert [fact.call.index for fact in facts if isinstance(fact, CallStarted)] == [1]
    assert [fact.call.index for fact in facts if isinstance(fact, CallReturned)] == [1]
    assert sorted((fact.call.index, fact.needed) for fact in facts if isinstance(fact, ApprovalChecked)) == [
        (0, True),
        (1, False),
        (2, True),
    ]
    decisions = [fact for fact in facts if isinstance(fact, Decided)]
    assert [(fact.verdict, fact.reason) for fact in decisions] == [("reject", "Not approved.")] * 2
    # The diagnostic ran before the decisions, without waiting for them.
    assert facts.index(next(fact for fact in facts if isinstance(fact, CallReturned))) < facts.index(decisions[0])
    assert position < facts.index(decisions[0])


async def test_program_retries_from_the_same_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program retries until two calls wait. Every attempt continues the same reply, and none includes another."""

    def reply_hesitantly(prompt: ModelPrompt) -> Any:
        calls = reply_as_support(prompt)
        hesitates = isinstance(calls, list) and len([each for each in emulator.exchanges if each.is_model_request]) < 3
        return ReplyText("One at a time, please.") if hesitates else calls

    with serve(fake_model=reply_hesitantly) as emulator:
        printed = await run_program(change_imports(PROGRAM), monkeypatch, emulator)
        bodies = [exchange.request_body for exchange in emulator.exchanges if exchange.is_model_request]
        assert all(exchange.status == 200 for exchange in emulator.exchanges)
    assert "retrying..." in printed
    assert "Resume OK" in printed
    attempts = bodies[1:-1]
    assert len(attempts) > 1
    assert len({body["previous_response_id"] for body in attempts}) == 1
    assert all([item["role"] for item in body["input"]] == ["user"] for body in attempts)
