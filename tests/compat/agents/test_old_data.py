"""Data that the SDK itself wrote, given to the facade: the error names the import command, and the run continues after it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from legato.cli.app import app
from legato.compat.agents import Agent, Runner, RunState, SQLiteSession, UserError
from legato.errors import CodecError
from tests.compat.agents.conftest import Provider

SAMPLES = Path(__file__).parents[1] / "samples"


def session_of(path: Path) -> str:
    with sqlite3.connect(path) as file:
        (id,) = file.execute("SELECT DISTINCT session_id FROM agent_messages").fetchone()
    return str(id)


@pytest.mark.parametrize("version", ["0.13.3", "0.24.0"])
async def test_sdk_state_error_names_the_import_command(version: str) -> None:
    text = (SAMPLES / f"run-state-{version}-approval.json").read_text()
    with pytest.raises(CodecError, match="legato import") as caught:
        await RunState.from_string(Agent(name="clerk"), text)
    assert "docs/migrate/index.md#the-conversations" in str(caught.value)


async def test_sdk_file_error_names_the_import_command(tmp_path: Path) -> None:
    """The error for a file that the SDK wrote names the import command; the file stays unchanged."""
    path = tmp_path / "old.db"
    shutil.copy(SAMPLES / "session-0.13.3.db", path)
    before = path.read_bytes()
    with pytest.raises(UserError, match="legato import") as caught:
        SQLiteSession("customer", path)
    assert "docs/migrate/index.md#the-conversations" in str(caught.value)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["old.db"]


def test_legato_files_and_new_files_open(tmp_path: Path) -> None:
    for _ in range(2):
        session = SQLiteSession("customer", tmp_path / "new.db")
        session.close()


async def test_what_the_message_says_works_for_a_session(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider(lambda prompt: f"I have heard {len(prompt.messages)} things.")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLES / "session-0.13.3.db", "old.db")
    id = session_of(Path("old.db"))
    with pytest.raises(UserError) as caught:
        SQLiteSession(id, "old.db")
    command = next(line for line in str(caught.value).splitlines() if line.strip().startswith("legato import"))
    done = await asyncio.to_thread(CliRunner().invoke, app, command.replace("NAME", "clerk").split()[1:])
    assert done.exit_code == 0, done.output
    session = SQLiteSession(id, "NEW.db")
    before = await session.get_items()
    assert before
    result = await Runner.run(Agent(name="clerk"), "Go on.", session=session)
    assert result.final_output == f"I have heard {len(before) + 1} things."
    session.close()


async def test_named_import_command_works_for_waiting_state(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that the error names imports a state that waits for a decision."""
    provider(lambda prompt: f"So: {prompt.messages[-1].text}")
    monkeypatch.chdir(tmp_path)
    path = SAMPLES / "run-state-0.24.0-approval.json"
    command = f"import {path} --store sqlite:NEW.db --session customer --workflow openai-agents"
    done = await asyncio.to_thread(CliRunner().invoke, app, command.split())
    assert done.exit_code == 0, done.output
    session = SQLiteSession("customer", "NEW.db")
    (names,) = [line.partition("agents: ")[2].split(", ") for line in done.output.splitlines() if "agents: " in line]
    agents = [Agent[Any](name=name) for name in names]
    agents[0].handoffs = list(agents[1:])
    state = await RunState.from_session(agents[0], session)
    items = state.get_interruptions()
    assert items
    for item in items:
        state.reject(item, rejection_message="Not today.")
    result = await Runner.run(agents[0], state)
    assert "Not today." in result.final_output
    session.close()
