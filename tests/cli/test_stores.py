"""`legato redact`, `legato retire` and `legato copy`, as people type them."""

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


def legato(*words: str, code: int = 0) -> str:
    done = subprocess.run([*LEGATO, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


async def filled(path: Path, sessions: int = 3, messages: int = 2, at: int = 1000) -> None:
    async with SQLiteStore(path, "process") as store:
        for number in range(sessions):
            name = f"s{number}"
            said = [MessageReceived(at=at, content=f"secret {number}.{each}") for each in range(messages)]
            await store.append(name, 0, [Opened(at=at, ledger=name, workflow="w"), *said], born=name)


async def contents_of(store: Store) -> dict[str, list[object]]:
    return {info.ledger: list(await store.read(info.ledger)) for info in await store.list(10_000)}


async def in_file(path: Path) -> dict[str, list[object]]:
    async with SQLiteStore(path) as store:
        return await contents_of(store)


def test_words_are_erased_and_it_is_said_what_remains(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path / "desk.db"))
    store = str(tmp_path / "desk.db")
    told = legato("redact", "s1", "--position", "1", "--reason", "asked for", "--store", store)
    assert "erased in 's1': position 1" in told
    assert "key" in told
    assert b"secret 1.0" not in (tmp_path / "desk.db").read_bytes()
    assert "gone already" in legato("redact", "s1", "--position", "1", "--store", store)
    assert json.loads(legato("redact", "s1", "--all", "--json", "--store", f"sqlite:///{store}"))["positions"] == [2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["redact", "s1", "--store", "desk.db"], "--position N, or --all"),
        (["redact", "s1", "--all"], "--store, or LEGATO_STORE"),
        (["redact", "nobody", "--all", "--store", "desk.db"], "no session 'nobody'"),
        (["retire", "--older-than", "soon", "--store", "desk.db"], "90d"),
        (["copy", "desk.db", "ftp://x"], "no kind of store named 'ftp'"),
        (["copy", "desk.db", "other.db", "--session", "nobody"], "no session 'nobody'"),
    ],
)
def test_what_is_wrong_is_told_without_a_traceback(words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(filled(tmp_path / "desk.db"))
    said = legato(*words, code=2)
    assert told in said
    assert "Traceback" not in said


def test_old_sessions_are_retired_into_an_archive_and_one_is_brought_back(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path / "desk.db"))
    store, archive = str(tmp_path / "desk.db"), tmp_path / "archive"
    assert "3 sessions would be retired" in legato("retire", "--older-than", "90d", "--dry-run", "--store", store)
    assert "3 sessions retired, 3 of them archived" in legato("retire", "--older-than", "90d", "--archive", str(archive), "--store", store)
    assert asyncio.run(in_file(tmp_path / "desk.db")) == {}
    assert "1 sessions: 1 new" in legato("copy", str(archive / "archive.db"), store, "--session", "s2")
    assert list(asyncio.run(in_file(tmp_path / "desk.db"))) == ["s2"]


def test_a_tenants_sessions_are_looked_at_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    asyncio.run(filled(path))

    async def said() -> None:
        async with SQLiteStore(path) as store:
            facts = [Opened(at=1, ledger="hers", workflow="w"), MessageReceived(at=1, content="hello")]
            await store.tenant("acme").append("hers", 0, facts, born="hers")

    asyncio.run(said())
    listed = legato("ls", "--store", str(path), "--tenant", "acme")
    assert "hers" in listed
    assert "s1" not in listed
    assert "hello" in legato("show", "hers", "--store", str(path), "--tenant", "acme")
    assert "tenant acme" in legato("show", "s1", "--store", str(path), "--tenant", "acme", code=2)


def test_a_store_is_copied_to_postgres_and_back(tmp_path: Path, database: str) -> None:
    asyncio.run(filled(tmp_path / "desk.db"))
    url = database if "://" in database else _url(database)
    assert "3 sessions: 3 new" in legato("copy", str(tmp_path / "desk.db"), url)
    assert "3 sessions: 0 new, 0 have grown, 3 as they were; 0 facts" in legato("copy", str(tmp_path / "desk.db"), url)
    legato("copy", url, str(tmp_path / "back.db"))
    assert asyncio.run(in_file(tmp_path / "back.db")) == asyncio.run(in_file(tmp_path / "desk.db"))


def _url(dsn: str) -> str:
    from urllib.parse import quote

    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(dsn)
    host = quote(str(parts["host"]), safe="")
    return f"postgresql://{parts.get('user', '')}@/{parts['dbname']}?host={host}&port={parts.get('port', 5432)}"


def _ledgers(path: Path) -> int:
    """How many are there so far; none while the file is being made."""
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM ledgers").fetchone()[0])
    return 0


def test_a_copy_that_is_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    asyncio.run(filled(tmp_path / "desk.db", sessions=400, messages=20))
    words = [*LEGATO, "copy", str(tmp_path / "desk.db"), str(tmp_path / "other.db")]
    kills = 0
    for share in (1, 100, 200, 300):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and _ledgers(tmp_path / "other.db") < share:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    legato("copy", str(tmp_path / "desk.db"), str(tmp_path / "other.db"))
    assert kills
    assert asyncio.run(in_file(tmp_path / "other.db")) == asyncio.run(in_file(tmp_path / "desk.db"))
