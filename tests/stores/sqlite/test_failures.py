"""Failures of a SQLite store on real files: changed bytes, no room, no permission, a lock, another program's data."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from legato.core.facts import AnyFact, MessageReceived
from legato.errors import (
    BadInput,
    CodecError,
    DamagedStore,
    LedgerConflict,
    LegatoError,
    NewerFormat,
    StoreError,
    StoreFull,
    StoreLocked,
)
from legato.stores import SQLiteStore
from legato.stores.sqlite import ledgers
from tests.stores.conftest import StoreProcess, make_facts, wait_for_idle_writer, wait_until_writer_is_busy

Start = Callable[..., StoreProcess]


async def fill_store(path: Path) -> dict[str, list[AnyFact]]:
    """Write ledgers, a fork and a content, which need every part of the file. Return the facts of each ledger."""
    async with SQLiteStore(path) as store:
        for number in range(6):
            for position in range(20):
                await store.append(f"ledger {number}", position, make_facts(position, size=200))
        await store.append("ledger 0", 20, make_facts(20), contents={"digest": b"body" * 100})
        await store.fork("ledger 1", 10, "fork", make_facts(50))
        return {info.ledger: list(await store.read(info.ledger)) for info in await store.list()}


async def test_changed_byte_in_fact_raises_damaged_store(tmp_path: Path) -> None:
    """The error names the number of readable facts, and `salvage` returns them."""
    path = tmp_path / "store.db"
    facts = make_facts(*range(40), size=150)
    async with SQLiteStore(path) as store:
        await store.append("s", 0, facts)
        await store.append("t", 0, make_facts(0))
    intact = path.read_bytes()
    for position in (0, 1, 17, 39):
        changed = bytearray(intact)
        changed[intact.index(b"fact %d x" % position) + 2] ^= 0x04
        path.write_bytes(changed)
        async with SQLiteStore(path) as store:
            with pytest.raises(DamagedStore) as raised:
                await store.read("s")
            assert (raised.value.readable, raised.value.found) == (position, "session 's'")
            assert await store.salvage("s") == facts[:position]
            assert await store.read("s", position + 1) == facts[position + 1 :]
            assert await store.read("t") == make_facts(0)
            assert await store.append("t", 1, make_facts(1)) == 2
            assert len(await store.verify()) == 1
        path.write_bytes(intact)


async def test_no_changed_byte_reads_as_a_fact(tmp_path: Path) -> None:
    """Wherever a byte of the file changes, a read returns the recorded facts or raises an error."""
    path = tmp_path / "store.db"
    recorded = await fill_store(path)
    intact = path.read_bytes()
    error_count = 0
    for offset in range(3, len(intact), 173):
        changed = bytearray(intact)
        changed[offset] ^= 1 << offset % 8
        path.write_bytes(changed)
        store = SQLiteStore(path, busy_timeout=0.1)
        has_raised = False
        for ledger, facts in recorded.items():
            try:
                found = await store.read(ledger)
            except LegatoError:
                has_raised = True
                continue
            assert found == facts, f"the changed byte at {offset} changed what {ledger!r} reads as"
        error_count += has_raised
        await store.close()
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert error_count > 100


def page_of_index(path: Path, index: str) -> int:
    """Return the number of the first page of an index of names."""
    file = sqlite3.connect(path)
    try:
        return int(file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)).fetchone()[0])
    finally:
        file.close()


def put_page_back(path: Path, old: bytes, page: int) -> None:
    """Replace a page of a file by that of an older copy, as a disk does that lost a write."""
    stored = bytearray(path.read_bytes())
    stored[(page - 1) * 4096 : page * 4096] = old[(page - 1) * 4096 : page * 4096]
    path.write_bytes(stored)


async def test_stale_name_index_starts_no_second_conversation(tmp_path: Path) -> None:
    path, child = tmp_path / "store.db", f"s/{'a' * 32}:1.0"
    async with SQLiteStore(path) as store:
        await store.append("r", 0, make_facts(0))
    old = path.read_bytes()
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(1))
        await store.append(child, 0, make_facts(2))
    put_page_back(path, old, page_of_index(path, "sqlite_autoindex_ledgers_1"))
    async with SQLiteStore(path) as store:
        for name in ("s", child):
            for operation in (
                store.read(name),
                store.ledger_id(name),
                store.append(name, 0, make_facts(3)),
                store.fork("r", 1, name, make_facts(3)),
                store.lease(name),
                store.delete(name),
            ):
                with pytest.raises(DamagedStore, match="the index of names lacks ledger"):
                    await operation
        with pytest.raises(DamagedStore, match="the index of names lacks ledger"):
            await store.children("s")
        assert await store.salvage("s") == make_facts(1)
        assert await store.append("r", 1, make_facts(4)) == 2
        assert any("ledgers_1" in line for line in await store.verify())
    file = sqlite3.connect(path)
    assert file.execute("SELECT count(*) FROM ledgers NOT INDEXED").fetchone() == (3,), "no ledger was created"
    file.execute("REINDEX")
    file.close()
    async with SQLiteStore(path) as store:
        assert await store.read("s") == make_facts(1)
        assert await store.verify() == []


async def test_stale_second_name_index_hides_nothing(tmp_path: Path) -> None:
    path, child = tmp_path / "store.db", f"s/{'a' * 32}:1.0"
    async with SQLiteStore(path) as store:
        await store.append("r", 0, make_facts(0))
    old = path.read_bytes()
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(1))
        await store.append(child, 0, make_facts(2))
    put_page_back(path, old, page_of_index(path, "ledgers_names"))
    async with SQLiteStore(path) as store:
        assert await store.read("s") == make_facts(1)
        with pytest.raises(LedgerConflict):
            await store.append("s", 0, make_facts(3))
        with pytest.raises(DamagedStore, match="the index of names lacks ledger"):
            await store.children("s")
        assert any("ledgers_names" in line for line in await store.verify())


async def test_damaged_ledger_row_keeps_facts_salvageable(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0, 1, 2))
        await store.append("t", 0, make_facts(5))
        for column in ("length", "epoch", "updated"):
            await store._writer.submit(lambda connection, c=column: connection.execute(f"UPDATE ledgers SET {c} = {c} + 1"))
            with pytest.raises(DamagedStore, match="entry of ledger 's'"):
                await store.read("s")
            with pytest.raises(DamagedStore):
                await store.append("s", 3, make_facts(3))
            assert await store.salvage("s") == make_facts(0, 1, 2)
            assert len(await store.verify()) == 2
            await store._writer.submit(lambda connection, c=column: connection.execute(f"UPDATE ledgers SET {c} = {c} - 1"))
            assert await store.read("s") == make_facts(0, 1, 2)


async def test_changed_ledger_id_is_damage(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "new.db") as store:
        await store.append("s", 0, make_facts(0), ledger_id="first")
        for value in ("'another'", "''"):
            await store._writer.submit(lambda connection, v=value: connection.execute(f"UPDATE ledgers SET born = {v}"))
            with pytest.raises(DamagedStore, match="entry of ledger 's'"):
                await store.ledger_id("s")
            assert await store.salvage("s") == make_facts(0)


async def test_circle_of_parents_is_damage(tmp_path: Path) -> None:
    """A forged file can have valid checksums. Following the circle would take all memory."""
    path = tmp_path / "store.db"
    await fill_store(path)
    columns = ", ".join(ledgers.LedgerRow._fields).replace("ledger_id", "born")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        row = ledgers.LedgerRow._make(connection.execute(f"SELECT {columns} FROM ledgers WHERE name = 'fork'").fetchone())
        row = row._replace(parent=row.id)
        connection.execute("UPDATE ledgers SET parent = id, crc = ? WHERE id = ?", (ledgers._compute_row_crc(row), row.id))
        connection.commit()
    async with SQLiteStore(path) as store:
        with pytest.raises(DamagedStore, match="'fork' shares facts with a ledger that has none of them"):
            await store.read("fork")
        assert len(await store.read("ledger 1")) == 20


async def test_damaged_content_raises_damaged_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await fill_store(path)
    path.write_bytes(path.read_bytes().replace(b"bodybody", b"bodyBody", 1))
    async with SQLiteStore(path) as store:
        with pytest.raises(DamagedStore):
            await store.content("ledger 0", "digest")
        assert len(await store.verify()) == 1


async def test_restored_file_works_without_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(0))
    intact = path.read_bytes()
    path.write_bytes(b"not a database " * 100)
    async with SQLiteStore(path) as store:
        for _ in range(2):
            with pytest.raises(DamagedStore, match="restore the file"):
                await store.append("s", 1, make_facts(1))
            with pytest.raises(DamagedStore):
                await store.read("s")
        path.write_bytes(intact)
        assert await store.append("s", 1, make_facts(1)) == 2


async def test_store_recovers_from_page_limit(tmp_path: Path) -> None:
    """An append beyond the page limit raises `StoreFull`; appends work again once the limit is raised."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0))
        limit = await store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count").fetchone()[0])
        await store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count=12"))
        with pytest.raises(StoreFull, match="no room"):
            await store.append("s", 1, [MessageReceived(at=1, content="x" * 100_000)], contents={"d": b"body"})
        assert await store.read("s") == make_facts(0)
        assert await store.append("s", 1, make_facts(1)) == 2  # what fits is still recorded
        await store._writer.submit(lambda connection: connection.execute(f"PRAGMA max_page_count={limit}"))
        assert await store.append("s", 2, [MessageReceived(at=1, content="x" * 100_000)]) == 3
        with pytest.raises(StoreError, match="no content"):
            await store.content("s", "d")


async def test_appends_of_failed_commit_run_alone(tmp_path: Path) -> None:
    """If the commit that several appends share fails, each append is tried in a transaction of its own."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0))
        await store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count=20"))
        results = await asyncio.gather(
            *[store.append(f"small {number}", 0, make_facts(number)) for number in range(5)],
            store.append("large", 0, [MessageReceived(at=1, content="x" * 100_000)]),
            *[store.append(f"more {number}", 0, make_facts(number)) for number in range(5)],
            store.append("s", 0, make_facts(9)),
            return_exceptions=True,
        )
        assert results[:5] == results[6:11] == [1] * 5
        assert isinstance(results[5], StoreFull)
        assert isinstance(results[11], LedgerConflict)
        assert len(await store.list()) == 11


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of half a megabyte. Yield False where that is not permitted: then the test limits the file itself."""
    folder.mkdir()
    mount = shutil.which("mount")
    is_mounted = bool(mount) and os.geteuid() == 0
    is_mounted = is_mounted and subprocess.run([mount, "-t", "tmpfs", "-o", "size=512k", "none", folder]).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", folder], check=True)


async def test_store_recovers_from_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk) as is_mounted:
        async with SQLiteStore(disk / "store.db") as store:
            length = await store.append("s", 0, make_facts(0))
            (disk / "other").write_bytes(bytes(200_000))
            if not is_mounted:
                await store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count=60"))
            with contextlib.suppress(StoreFull):
                while length < 1000:
                    length = await store.append("s", length, [MessageReceived(at=1, content="x" * 5_000)])
            assert length < 1000
            assert len(await store.read("s")) == length
            (disk / "other").unlink()
            if not is_mounted:
                await store._writer.submit(lambda connection: connection.execute("PRAGMA max_page_count=10000"))
            assert await store.append("s", length, make_facts(1)) == length + 1
        async with SQLiteStore(disk / "store.db") as store:
            assert len(await store.read("s")) == length + 1
            assert await store.verify() == []


async def test_long_lock_blocks_no_loop_or_reader(tmp_path: Path, start_process: Start) -> None:
    """An append behind a lock of another process raises `StoreLocked`; the event loop and readers go on meanwhile."""
    path = tmp_path / "store.db"
    async with SQLiteStore(path, busy_timeout=300) as patient, SQLiteStore(path, busy_timeout=0.4) as store:
        await patient.append("s", 0, make_facts(0))
        await store.read("s")
        holder = start_process("lock", path)
        assert holder.read_line() == "locked"
        wait_for_idle_writer(patient)
        appending = asyncio.ensure_future(patient.append("s", 1, make_facts(1)))
        await wait_until_writer_is_busy(patient)  # an event loop that waited for the lock would get here after five minutes
        assert await patient.read("s") == make_facts(0)  # while the writer waits
        assert not appending.done()
        with pytest.raises(StoreLocked, match="locked"):
            await store.append("s", 1, make_facts(1))
        holder.write_line("go")
        assert await appending == 2


async def test_failed_lease_write_holds_no_lease(tmp_path: Path, start_process: Start) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path, busy_timeout=0.1) as store, SQLiteStore(path, busy_timeout=300) as patient:
        await store.append("s", 0, make_facts(0))
        await patient.append("t", 0, make_facts(0))
        holder = start_process("lock", path)
        assert holder.read_line() == "locked"
        with pytest.raises(StoreLocked):
            await store.lease("s")
        wait_for_idle_writer(patient)
        waiting = asyncio.ensure_future(patient.lease("s"))
        await wait_until_writer_is_busy(patient)
        waiting.cancel()
        holder.write_line("go")
        assert holder.read_line() == "free"
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await patient.lease("s") is not None


def test_read_only_file_can_still_be_read(start_process: Start) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, which other users cannot enter
        os.chmod(folder, 0o755)
        path = Path(folder, "store.db")
        store = SQLiteStore(path)

        async def begin() -> None:
            await store.append("s", 0, make_facts(0))
            await store.close()

        asyncio.run(begin())
        path.chmod(0o444)
        os.chmod(folder, 0o555)
        reader = start_process("without_rights", path)
        append, lease, read, new = (reader.read_line() for _ in range(4))
        assert (append, lease, new) == ("read_only", "read_only", "read_only")
        assert read in ("1", "read_only")  # without the files of its log, SQLite cannot open a read-only file
        os.chmod(folder, 0o777)
        path.chmod(0o666)
        reader.write_line("go")
        assert reader.wait_for_output() == ("2\n", "")


async def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE ledgers(id)")
    other.commit()
    other.close()
    before = path.read_bytes()
    async with SQLiteStore(path) as store:
        for operation in (lambda: store.append("s", 0, make_facts(0)), lambda: store.read("s"), lambda: store.lease("s")):
            with pytest.raises(StoreError, match="another program"):
                await operation()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]


async def test_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(0))
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version=99")
    newer.close()
    async with SQLiteStore(path) as store:
        with pytest.raises(NewerFormat, match=r"schema 99.*newer Legato") as raised:
            await store.read("s")
    assert "upgrade" in raised.value.do


@pytest.mark.parametrize("version", [0, -5])
async def test_impossible_schema_version_is_damage(tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(0))
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version={version}")
    async with SQLiteStore(path) as store:
        with pytest.raises(DamagedStore, match=f"schema {version}"):
            await store.read("s")


async def test_file_of_a_development_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE ledgers(id)")
        file.execute("PRAGMA application_id=0x4C474154")
        file.execute("PRAGMA user_version=5")
    before = path.read_bytes()
    async with SQLiteStore(path) as store:
        for operation in (lambda: store.append("s", 0, make_facts(0)), lambda: store.read("s"), lambda: store.list()):
            with pytest.raises(StoreError, match=r"store\.db was made by a development version of Legato(?s:.*)to_string"):
                await operation()
    assert path.read_bytes() == before


async def test_newer_fact_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(0))

        def write_newer_fact(connection: sqlite3.Connection) -> None:
            row, body = ledgers.find_row(connection, "s"), b'{"fact":"sung","at":1}'
            assert row is not None
            crc = ledgers.compute_crc(row.id, 1, body, 2)
            connection.execute("INSERT INTO facts VALUES (?, 2, ?, ?)", (row.id << 32 | 1, crc, body))
            ledgers._save_row(connection, row._replace(length=2))

        await store._writer.submit(write_newer_fact)
        with pytest.raises(NewerFormat, match="format 2"):
            await store.read("s")


async def test_unencodable_fact_leaves_nothing_of_its_append(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        with pytest.raises(CodecError):
            await store.append("s", 0, [*make_facts(0), MessageReceived(at=1, content="\ud800")], contents={"d": b""})
        assert await store.read("s") == []


@pytest.mark.parametrize("path", [":memory:", ""])
def test_memory_path_names_the_memory_store(path: str) -> None:
    with pytest.raises(BadInput, match="MemoryStore"):
        SQLiteStore(path)


def test_unknown_durability_is_refused() -> None:
    with pytest.raises(BadInput, match="'full' or 'effects' or 'process'"):
        SQLiteStore("x", "sometimes")  # type: ignore[arg-type]


async def test_folder_instead_of_file_is_refused(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path) as store:
        with pytest.raises(StoreError, match="could not use"):
            await store.read("s")


@pytest.mark.parametrize("mode", [None, 0o660], ids=["a new file", "a file that a group shares"])
async def test_sqlite_files_have_one_mode(tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "store.db"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    store = SQLiteStore(path)
    await store.append("s", 0, make_facts(0))
    assert await store.lease("s") is not None
    files = list(tmp_path.iterdir())
    assert {each.name for each in files} == {"store.db", "store.db-wal", "store.db-shm", "store.db-leases"}
    assert {each.stat().st_mode & 0o777 for each in files} == {mode or 0o600}
    await store.close()


async def test_dangling_link_makes_private_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    store = SQLiteStore(tmp_path / "link.db")
    await store.append("s", 0, make_facts(0))
    await store.close()
    assert (tmp_path / "store.db").stat().st_mode & 0o777 == 0o600
