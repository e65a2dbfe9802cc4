"""`legato redact`, `legato retire` and `legato copy`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from legato.core.facts import MessageReceived, Opened
from legato.stores import SQLiteStore, Store

LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]


def run_legato(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([*LEGATO, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


async def fill_store(path: Path, sessions: int = 3, messages: int = 2, at: int = 1000) -> None:
    async with SQLiteStore(path, "process") as store:
        for number in range(sessions):
            name = f"s{number}"
            message_facts = [MessageReceived(at=at, content=f"secret {number}.{each}") for each in range(messages)]
            await store.append(name, 0, [Opened(at=at, ledger_id=name, workflow="w"), *message_facts], ledger_id=name)


async def read_sessions(store: Store) -> dict[str, list[object]]:
    return {info.ledger: list(await store.read(info.ledger)) for info in await store.list(10_000)}


async def read_store_file(path: Path) -> dict[str, list[object]]:
    async with SQLiteStore(path) as store:
        return await read_sessions(store)


def test_redact_erases_text_and_reports_it(tmp_path: Path) -> None:
    asyncio.run(fill_store(tmp_path / "desk.db"))
    store = str(tmp_path / "desk.db")
    text = run_legato("redact", "s1", "--position", "1", "--reason", "asked for", "--store", store)
    assert "erased in 's1': position 1" in text
    assert "key" in text
    assert b"secret 1.0" not in (tmp_path / "desk.db").read_bytes()
    assert "erased already" in run_legato("redact", "s1", "--position", "1", "--store", store)
    assert json.loads(run_legato("redact", "s1", "--all", "--json", "--store", f"sqlite:///{store}"))["positions"] == [2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["redact", "s1", "--store", "desk.db"], "--position N, or --all"),
        (["redact", "s1", "--all"], "--store, or LEGATO_STORE"),
        (["redact", "nobody", "--all", "--store", "desk.db"], "no session 'nobody'"),
        (["retire", "--older-than", "soon", "--store", "desk.db"], "90d"),
        (["copy", "desk.db", "ftp://x"], "no kind of store named 'ftp'"),
        (["copy", "desk.db", "other.db", "--session", "nobody"], "no session 'nobody'"),
    ],
)
def test_mistakes_are_reported_without_traceback(arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(fill_store(tmp_path / "desk.db"))
    message_facts = run_legato(*arguments, code=2)
    assert text in message_facts
    assert "Traceback" not in message_facts


def test_retired_session_is_restored_from_archive(tmp_path: Path) -> None:
    asyncio.run(fill_store(tmp_path / "desk.db"))
    store, archive = str(tmp_path / "desk.db"), tmp_path / "archive"
    assert "3 sessions would be retired" in run_legato("retire", "--older-than", "90d", "--dry-run", "--store", store)
    assert "3 sessions retired, 3 of them archived" in run_legato(
        "retire", "--older-than", "90d", "--archive", str(archive), "--store", store
    )
    assert asyncio.run(read_store_file(tmp_path / "desk.db")) == {}
    assert "1 sessions: 1 new" in run_legato("copy", str(archive / "archive.db"), store, "--session", "s2")
    assert list(asyncio.run(read_store_file(tmp_path / "desk.db"))) == ["s2"]


def test_tenant_option_selects_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    asyncio.run(fill_store(path))

    async def message_facts() -> None:
        async with SQLiteStore(path) as store:
            facts = [Opened(at=1, ledger_id="hers", workflow="w"), MessageReceived(at=1, content="hello")]
            await store.tenant("acme").append("hers", 0, facts, ledger_id="hers")

    asyncio.run(message_facts())
    listed = run_legato("ls", "--store", str(path), "--tenant", "acme")
    assert "hers" in listed
    assert "s1" not in listed
    assert "hello" in run_legato("show", "hers", "--store", str(path), "--tenant", "acme")
    assert "tenant acme" in run_legato("show", "s1", "--store", str(path), "--tenant", "acme", code=2)


def test_store_is_copied_to_postgres_and_back(tmp_path: Path, database: str) -> None:
    asyncio.run(fill_store(tmp_path / "desk.db"))
    url = database if "://" in database else _make_postgres_url(database)
    assert "3 sessions: 3 new" in run_legato("copy", str(tmp_path / "desk.db"), url)
    assert "3 sessions: 0 new, 0 grown, 3 unchanged; 0 facts" in run_legato("copy", str(tmp_path / "desk.db"), url)
    run_legato("copy", url, str(tmp_path / "back.db"))
    assert asyncio.run(read_store_file(tmp_path / "back.db")) == asyncio.run(read_store_file(tmp_path / "desk.db"))


def _make_postgres_url(dsn: str) -> str:
    from urllib.parse import quote

    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    host = quote(str(parts["host"]), safe="")
    return f"postgresql://{parts.get('user', '')}@/{parts['dbname']}?host={host}&port={parts.get('port', 5432)}"


def _count_ledgers(path: Path) -> int:
    """Count the ledgers so far; 0 while the file is being created."""
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM ledgers").fetchone()[0])
    return 0


def test_killed_copy_continues_where_it_stopped(tmp_path: Path) -> None:
    asyncio.run(fill_store(tmp_path / "desk.db", sessions=400, messages=20))
    arguments = [*LEGATO, "copy", str(tmp_path / "desk.db"), str(tmp_path / "other.db")]
    kills = 0
    for share in (1, 100, 200, 300):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and _count_ledgers(tmp_path / "other.db") < share:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    run_legato("copy", str(tmp_path / "desk.db"), str(tmp_path / "other.db"))
    assert kills
    assert asyncio.run(read_store_file(tmp_path / "other.db")) == asyncio.run(read_store_file(tmp_path / "desk.db"))
