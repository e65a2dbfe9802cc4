"""Retirement of old sessions: into an archive, or for good; never of a session in use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from legato.core.child_session_ids import make_child_session_id
from legato.core.facts import MessageReceived, Opened
from legato.errors import BadInput
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store, copy, retire
from legato.testing import Died, FailingStore, Fault

NOW = 4_000_000_000_000  # in the future
MONTHS = timedelta(days=90)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        opened: Store = PostgresStore(request.getfixturevalue("database"))
    else:
        opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


async def write_session(store: Store, name: str, at: int, *words: str) -> None:
    """Write a session with facts of this time."""
    facts = [Opened(at=at, ledger_id=f"id of {name}", workflow="w"), *(MessageReceived(at=at, content=each) for each in words)]
    await store.append(name, 0, facts, ledger_id=f"id of {name}")


async def list_names(store: Store) -> list[str]:
    return sorted(info.ledger for info in await store.list())


async def test_old_session_is_archived_and_restorable(store: Store, tmp_path: Path) -> None:
    await write_session(store, "old", 1000, "hello")
    await write_session(store, "new", NOW, "hi")
    done = await retire(store, MONTHS, archive=tmp_path)
    assert (done.retired, done.archived, done.busy) == (("old",), 1, ())
    assert await list_names(store) == ["new"]
    async with SQLiteStore(tmp_path / "archive.db") as archive:
        assert await list_names(archive) == ["old"]
        await copy(archive, store, sessions="old")
    assert await store.ledger_id("old") == "id of old"
    assert (await store.read("old"))[1].content == "hello"  # type: ignore[union-attr]


async def test_dry_run_names_sessions_and_changes_nothing(store: Store) -> None:
    await write_session(store, "old", 1000, "hello")
    assert (await retire(store, 90, dry_run=True)).retired == ("old",)
    assert await list_names(store) == ["old"]


async def test_without_archive_old_sessions_are_erased(store: Store) -> None:
    """Their bytes are gone from a SQLite file too."""
    await write_session(store, "old", 1000, "xylophone")
    await write_session(store, "new", NOW, "hi")
    await retire(store, MONTHS)
    assert await list_names(store) == ["new"]
    if isinstance(store, SQLiteStore):
        assert not any(b"xylophone" in path.read_bytes() for path in Path(store.path).parent.glob("s.db*"))


async def test_driven_session_is_kept(store: Store) -> None:
    for name in ("driven", "idle"):
        await write_session(store, name, 1000, "hello")
    lease = await store.lease("driven")
    done = await retire(store, MONTHS)
    assert (done.retired, done.busy) == (("idle",), ("driven",))
    assert lease is not None
    await store.release(lease)
    assert (await retire(store, MONTHS)).retired == ("driven",)


async def test_session_growing_during_archiving_is_kept(store: Store) -> None:
    await write_session(store, "s", 1000, "hello")

    class Late(MemoryStore):
        async def append(self, ledger, expected, facts, **options):  # type: ignore[no-untyped-def]
            length = await super().append(ledger, expected, facts, **options)
            if ledger == "s" and expected == 0:
                await store.append("s", 2, [MessageReceived(at=2000, content="wait")], ledger_id="id of s")
            return length

    archive = Late()
    done = await retire(store, MONTHS, archive=archive)
    assert (done.retired, done.busy) == ((), ("s",))
    assert len(await store.read("s")) == 3
    assert (await retire(store, MONTHS, archive=archive)).retired == ("s",)
    assert len(await archive.read("s")) == 3


async def test_facts_shared_by_forks_are_kept(store: Store) -> None:
    """The fork keeps the shared facts, and the archive shares them too."""
    await write_session(store, "s", 1000, "hello", "again")
    await store.fork("s", 2, "old fork", [MessageReceived(at=1500, content="branch")], ledger_id="f1")
    await store.fork("s", 2, "new fork", [MessageReceived(at=NOW, content="branch")], ledger_id="f2")
    archive = MemoryStore()
    done = await retire(store, MONTHS, archive=archive)
    assert sorted(done.retired) == ["old fork", "s"]
    assert [getattr(fact, "content", "") for fact in await store.read("new fork")] == ["", "hello", "branch"]
    assert {info.ledger: info.parent for info in await archive.list()} == {"s": "", "old fork": "s"}


async def test_child_sessions_retire_with_their_parent(store: Store) -> None:
    """A child stays while its parent is newer, and goes when its parent goes."""
    child = {name: make_child_session_id(name, f"{'0' * 32}:2.0") for name in "stu"}
    for name, at in {"s": NOW, "t": 1000, "u": 1000}.items():
        await write_session(store, name, at, "hello")
        await write_session(store, child[name], 1000, "task")
    lease = await store.lease("u")
    assert lease is not None
    done = await retire(store, MONTHS)
    await store.release(lease)
    assert (done.retired, done.busy) == (("t", child["t"]), ("u",))
    assert {info.ledger for info in await store.list()} == {"s", child["s"], "u", child["u"]}


async def test_session_diverged_from_archive_is_kept(store: Store) -> None:
    archive = MemoryStore()
    await write_session(archive, "s", 500, "something else")
    await write_session(store, "s", 1000, "hello")
    done = await retire(store, MONTHS, archive=archive)
    assert (done.retired, done.diverged) == ((), ("s",))
    assert await list_names(store) == ["s"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_retirement_loses_nothing(when: str) -> None:
    """The retirement is killed at every operation in turn; the next run completes it."""
    for at in range(1, 40):
        store, archive = MemoryStore(), MemoryStore()
        for name in ("s", "t"):
            await write_session(store, name, 1000, "hello")
        await store.fork("s", 2, "f", [MessageReceived(at=1500, content="branch")], ledger_id="f")
        dying = FailingStore(store, [Fault(at, when, Died)])  # type: ignore[arg-type]
        try:
            await retire(dying, MONTHS, archive=archive)
        except Died:
            await dying.release_leases()
            assert {*await list_names(store), *await list_names(archive)} >= {"s", "t", "f"}
            await retire(store, MONTHS, archive=archive)
        assert await list_names(store) == []
        assert await list_names(archive) == ["f", "s", "t"]
        if not dying.is_dead:
            break
    else:
        raise AssertionError("no run completed")


@pytest.mark.parametrize("age", [0, -1, True, "90d", timedelta(0)])
async def test_invalid_age_is_refused(age: object) -> None:
    with pytest.raises(BadInput, match="older_than is a timedelta"):
        await retire(MemoryStore(), age)  # type: ignore[arg-type]


async def test_invalid_archive_is_refused() -> None:
    with pytest.raises(BadInput, match="an archive is a store"):
        await retire(MemoryStore(), 90, archive=7)  # type: ignore[arg-type]
