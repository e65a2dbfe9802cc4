"""A file of schema 1, from before ledgers had birth names, becomes one of today's, whoever opens it and however many do at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from legato.core.codec import encode
from legato.errors import DamagedStore, UnknownLedger
from legato.stores import SQLiteStore, sqlite_file
from tests.stores.conftest import Child, said

FIRST_SCHEMA = (
    """CREATE TABLE ledgers(
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, parent INTEGER, shared INTEGER NOT NULL DEFAULT 0, origin INTEGER,
        length INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL, updated INTEGER NOT NULL DEFAULT 0,
        touched INTEGER NOT NULL DEFAULT 0, crc INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX ledgers_parent ON ledgers(parent) WHERE parent IS NOT NULL",
    "CREATE TABLE facts(key INTEGER PRIMARY KEY, format INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE contents(
        ledger INTEGER NOT NULL, digest TEXT NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL,
        UNIQUE(ledger, digest)
    )""",
    "CREATE TABLE epochs(floor INTEGER NOT NULL)",
    "INSERT INTO epochs VALUES (7)",
    "PRAGMA application_id=0x4C474154",
    "PRAGMA user_version=1",
)


def body_crc(ledger: int, position: int, body: bytes) -> int:
    crc = crc32(body, crc32(b"%d.%d.1" % (ledger, position)))
    return crc - (1 << 32) if crc >> 31 else crc


def make_first_version(path: Path) -> None:
    """A file as the first version left it: a ledger with a content, its fork, a ledger that is only leased, a damaged entry."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA journal_mode=WAL")
    for statement in FIRST_SCHEMA:
        file.execute(statement)
    #        id, name, parent, shared, origin, length, epoch, updated, touched, facts of its own
    rows = [
        (1, "s", None, 0, None, 3, 4, 1002, 50, {0: 0, 1: 1, 2: 2}),
        (2, "fork", 1, 2, 1, 3, 4, 1010, 60, {2: 10}),
        (3, "leased", None, 0, None, 0, 9, 0, 0, {}),
        (4, "damaged", None, 0, None, 1, 0, 1005, 40, {0: 5}),
    ]
    for id, name, parent, shared, origin, length, epoch, updated, touched, own in rows:
        columns = (name, id, parent, shared, origin, length, epoch, updated, touched)
        crc = crc32(repr(columns).encode()) ^ (name == "damaged")
        file.execute(
            "INSERT INTO ledgers(name, id, parent, shared, origin, length, epoch, updated, touched, crc) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (*columns, crc),
        )
        for position, number in own.items():
            body = encode(said(number)[0])
            file.execute("INSERT INTO facts VALUES (?, 1, ?, ?)", (id << 32 | position, body_crc(id, position, body), body))
    file.execute("INSERT INTO contents VALUES (1, 'd', 0, ?, ?)", (body_crc(1, 0, b"body"), b"body"))
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "store.db"
    make_first_version(made)
    return made


def version_of(path: Path) -> int:
    file = sqlite3.connect(path)
    try:
        return int(file.execute("PRAGMA user_version").fetchone()[0])
    finally:
        file.close()


async def test_everything_in_a_file_of_the_first_version_is_there_and_goes_on(path: Path) -> None:
    async with SQLiteStore(path) as store:
        assert await store.read("s") == said(0, 1, 2)
        assert await store.read("fork") == said(0, 1, 10)
        assert await store.content("fork", "d") == b"body"
        assert [(info.ledger, info.parent) for info in await store.list()] == [("fork", "s"), ("s", ""), ("damaged", "")]
        lease = await store.lease("leased")
        assert lease is not None
        assert lease.epoch == 10
        assert await store.append("s", 3, said(3), durable=True) == 4
        assert await store.append("leased", 0, said(0), born="its name") == 1
        assert await store.append("new", 0, said(0), born="new one") == 1
        assert (await store.born("leased"), await store.born("new")) == ("its name", "new one")
        await store.fork("s", 4, "another fork", said(11), born="branch")
    async with SQLiteStore(path) as store:
        assert await store.read("s") == said(0, 1, 2, 3)
        assert await store.read("another fork") == said(0, 1, 2, 3, 11)
        assert len(await store.verify()) == 1  # the entry that was damaged before
    assert version_of(path) == sqlite_file.VERSION == 5


async def test_what_was_damaged_in_it_is_damaged_still_and_can_be_salvaged(path: Path) -> None:
    async with SQLiteStore(path) as store:
        with pytest.raises(DamagedStore, match="entry of ledger 'damaged'"):
            await store.read("damaged")
        assert await store.salvage("damaged") == said(5)


async def test_a_ledger_from_before_birth_names_has_one_too_so_that_its_replacement_is_noticed(path: Path) -> None:
    async with SQLiteStore(path) as store:
        names = [await store.born(ledger) for ledger in ("s", "fork", "leased", "unknown")]
        assert all(names[:2])
        assert names[0] != names[1]
        assert names[2:] == ["", ""]
        assert await store.append("s", 3, said(3), born=names[0]) == 4
        assert await store.read("s", 3, born=names[0]) == said(3)
        assert await store.born("s") == names[0]
    async with SQLiteStore(path) as store:
        assert await store.born("s") == names[0]
        await store.delete("s")
        await store.append("s", 0, said(*range(20, 24)))
        with pytest.raises(UnknownLedger, match="another made under the same name"):
            await store.append("s", 4, said(4), born=names[0])
        assert await store.read("s") == said(*range(20, 24))
        assert await store.read("fork", born=names[1]) == said(0, 1, 10)


async def test_many_processes_may_open_a_file_of_the_first_version_at_once(path: Path, child: Callable[..., Child]) -> None:
    racers = [child("race", path, str(number), 20) for number in range(4)]
    assert [racer.hear() for racer in racers] == ["ready"] * 4
    for racer in racers:
        racer.tell("go")
    assert [racer.end() for racer in racers] == [("", "")] * 4
    async with SQLiteStore(path) as store:
        assert len(await store.read("s")) == 3 + 80
        assert len(await store.verify()) == 1
    assert version_of(path) == sqlite_file.VERSION


async def test_a_store_that_has_the_old_file_open_and_one_that_upgrades_it_do_not_disturb_each_other(path: Path) -> None:
    old = sqlite3.connect(path, isolation_level=None)  # as a process of the first version has it
    old.execute("BEGIN")
    assert old.execute("SELECT length FROM ledgers WHERE name = 's'").fetchone() == (3,)
    stores = [SQLiteStore(path) for _ in range(3)]
    assert await asyncio.gather(*[store.read("fork") for store in stores]) == [said(0, 1, 10)] * 3
    assert await stores[0].append("s", 3, said(3)) == 4
    old.execute("COMMIT")
    # The first version writes the columns that it knows.
    columns = ("made by it", 9, None, 0, None, 0, 0, 0, 0)
    old.execute("INSERT INTO ledgers(name, id, epoch, crc) VALUES ('made by it', 9, 0, ?)", (crc32(repr(columns).encode()),))
    old.close()
    assert await stores[1].append("made by it", 0, said(0), born="name") == 1
    assert await stores[2].born("made by it") == "name"
    for store in stores:
        await store.close()


async def test_an_upgrade_that_cannot_be_written_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sqlite_file.UPGRADES, 1, (*sqlite_file.UPGRADES[1], "INSERT INTO nowhere VALUES (1)"))
    async with SQLiteStore(path) as store:
        with pytest.raises(Exception, match="nowhere"):
            await store.read("s")
    assert version_of(path) == 1
    monkeypatch.undo()
    async with SQLiteStore(path) as store:
        assert await store.read("s") == said(0, 1, 2)
    assert version_of(path) == sqlite_file.VERSION


async def test_a_birth_name_that_was_changed_is_told_as_damage(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "new.db") as store:
        await store.append("s", 0, said(0), born="first")
        for value in ("'another'", "''", "NULL"):
            await store._writer.submit(lambda connection, v=value: connection.execute(f"UPDATE ledgers SET born = {v}"))
            with pytest.raises(DamagedStore, match="entry of ledger 's'"):
                await store.born("s")
            assert await store.salvage("s") == said(0)


@pytest.mark.parametrize("version", [0, -5])
async def test_a_schema_that_there_never_was_is_told_as_damage(path: Path, version: int) -> None:
    file = sqlite3.connect(path)
    file.execute(f"PRAGMA user_version={version}")
    file.close()
    async with SQLiteStore(path) as store:
        with pytest.raises(DamagedStore, match=f"schema {version}"):
            await store.read("s")
