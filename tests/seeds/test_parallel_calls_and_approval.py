"""A run with three parallel calls, two of which wait for a person, written down, rejected and gone on with.

The program is the second part of the document in programs/: its text, with the indentation that the document had lost. Nothing of it is
changed but what it imports; its client is the one that the environment names.
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
from legato.emulator.minds import Prompt, Use, Words
from legato.emulator.running import Emulator
from legato.stores import MemoryStore

PROGRAM = (Path(__file__).parent / "programs" / "004_part_2.txt").read_text(encoding="utf-8")
CLEANUP_1, DIAGNOSTIC, CLEANUP_2 = "call_CLEANUP1", "call_DIAG", "call_CLEANUP2"
DONE = "The diagnostic is fine; the two clean-ups were not approved."


def mind(prompt: Prompt) -> Any:
    """Greets; makes the three calls at once when it is asked to; sums up when it has their outputs."""
    if prompt.heard[-1].who == "tool":
        return DONE
    if "in parallel" not in prompt.said:
        return "Hello, I am here when you need me."
    return [
        Use("run_cleanup", '{"target": "temp_files"}', CLEANUP_1),
        Use("run_diagnostic", '{"check_name": "thermal_snapshot"}', DIAGNOSTIC),
        Use("run_cleanup", '{"target": "winsxs_cache"}', CLEANUP_2),
    ]


async def run(program: str, monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> str:
    set_default_store(MemoryStore())  # two emulators give the same ids, as two providers never do
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
    module = types.ModuleType("live_api_repro")
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)  # where dataclasses look names up
    exec(compile(program, "004_part_2.txt", "exec"), module.__dict__)
    out = io.StringIO()
    with redirect_stdout(out):
        await module.live_api_repro()
    return out.getvalue()


def moved(program: str) -> str:
    """The program with its imports changed: one line."""
    assert program.count("from agents import") == 1
    return program.replace("from agents import", "from legato.compat.agents import")


async def test_the_program_runs_with_its_import_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(mind=mind) as emulator:
        printed = await run(moved(PROGRAM), monkeypatch, emulator)
        asked = [exchange for exchange in emulator.exchanges if exchange.asks]
        assert all(exchange.status == 200 and not exchange.verdict for exchange in emulator.exchanges)
    assert "Attempt 1: 2 interruption(s)" in printed
    assert printed.count("Rejecting: run_cleanup") == 2
    assert f"Resume OK — output: {DONE}" in printed
    assert "FAILED" not in printed
    greeting, batch, resumed = (exchange.request for exchange in asked)
    assert all(body["stream"] for body in (batch, resumed))
    # The second run goes on from the first, the third from the second: each sends what is new, and nothing else.
    assert "previous_response_id" not in greeting
    assert batch["previous_response_id"] == asked[0].reply["id"]  # type: ignore[index]
    assert resumed["previous_response_id"] == asked[1].reply["id"]  # type: ignore[index]
    assert [item["role"] for item in batch["input"]] == ["user"]
    outputs = resumed["input"]
    assert [item["type"] for item in outputs] == ["function_call_output"] * 3
    assert [item["call_id"] for item in outputs] == [CLEANUP_1, DIAGNOSTIC, CLEANUP_2]
    assert outputs[1]["output"] == "Diagnostic 'thermal_snapshot' completed. CPU load: 23%, Temp: 72C."
    assert all("Not approved." in outputs[place]["output"] for place in (0, 2))


async def test_each_tool_ran_or_did_not_as_the_ledger_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(mind=mind) as emulator:
        await run(moved(PROGRAM), monkeypatch, emulator)
    newest, *_ = await default_store().list(limit=1)
    facts = await default_store().read(newest.ledger)
    reply = next(fact for fact in facts if isinstance(fact, ModelReplied) and len(fact.items) == 3)
    place = facts.index(reply)
    assert [fact.call.index for fact in facts if isinstance(fact, CallStarted)] == [1]
    assert [fact.call.index for fact in facts if isinstance(fact, CallReturned)] == [1]
    assert sorted((fact.call.index, fact.needed) for fact in facts if isinstance(fact, ApprovalChecked)) == [
        (0, True),
        (1, False),
        (2, True),
    ]
    decided = [fact for fact in facts if isinstance(fact, Decided)]
    assert [(fact.verdict, fact.words) for fact in decided] == [("reject", "Not approved.")] * 2
    # The diagnostic's output was there before anybody decided, and was not waited with.
    assert facts.index(next(fact for fact in facts if isinstance(fact, CallReturned))) < facts.index(decided[0])
    assert place < facts.index(decided[0])


async def test_if_only_one_call_waits_the_program_asks_again_from_the_same_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program retries until two calls wait. Every attempt goes on from the same reply, and none sees another."""

    def hesitant(prompt: Prompt) -> Any:
        calls = mind(prompt)
        hesitates = isinstance(calls, list) and len([each for each in emulator.exchanges if each.asks]) < 3
        return Words("One at a time, please.") if hesitates else calls

    with serve(mind=hesitant) as emulator:
        printed = await run(moved(PROGRAM), monkeypatch, emulator)
        asked = [exchange.request for exchange in emulator.exchanges if exchange.asks]
        assert all(exchange.status == 200 for exchange in emulator.exchanges)
    assert "retrying..." in printed
    assert "Resume OK" in printed
    attempts = asked[1:-1]
    assert len(attempts) > 1
    assert len({body["previous_response_id"] for body in attempts}) == 1
    assert all([item["role"] for item in body["input"]] == ["user"] for body in attempts)
