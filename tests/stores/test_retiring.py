"""Retiring sessions that nobody has used for long: into an archive, or for good; never one that is in use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from legato.core.child_session_ids import child_session_id
from legato.core.facts import MessageReceived, Opened
from legato.errors import BadInput
from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store, copy, retire
from legato.testing import Died, FailingStore, Fault

NOW = 4_000_000_000_000  # in a future that no clock here has reached
MONTHS = timedelta(days=90)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "postgres":
        made: Store = PostgresStore(request.getfixturevalue("database"))
    else:
        made = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield made
    await made.close()


async def said(store: Store, name: str, at: int, *words: str) -> None:
    """A session whose facts are of this time."""
    facts = [Opened(at=at, ledger=f"born {name}", workflow="w"), *(MessageReceived(at=at, content=each) for each in words)]
    await store.append(name, 0, facts, born=f"born {name}")


async def names(store: Store) -> list[str]:
    return sorted(info.ledger for info in await store.list())


async def test_what_nobody_has_used_for_so_long_goes_into_the_archive_and_can_be_brought_back(store: Store, tmp_path: Path) -> None:
    await said(store, "old", 1000, "hello")
    await said(store, "new", NOW, "hi")
    done = await retire(store, MONTHS, archive=tmp_path)
    assert (done.retired, done.archived, done.busy) == (("old",), 1, ())
    assert await names(store) == ["new"]
    async with SQLiteStore(tmp_path / "archive.db") as archive:
        assert await names(archive) == ["old"]
        await copy(archive, store, sessions="old")
    assert await store.born("old") == "born old"
    assert (await store.read("old"))[1].content == "hello"  # type: ignore[union-attr]


async def test_a_dry_run_says_which_and_changes_nothing(store: Store) -> None:
    await said(store, "old", 1000, "hello")
    assert (await retire(store, 90, dry_run=True)).retired == ("old",)
    assert await names(store) == ["old"]


async def test_without_an_archive_they_are_gone_and_from_the_file_too(store: Store) -> None:
    await said(store, "old", 1000, "xylophone")
    await said(store, "new", NOW, "hi")
    await retire(store, MONTHS)
    assert await names(store) == ["new"]
    if isinstance(store, SQLiteStore):
        assert not any(b"xylophone" in path.read_bytes() for path in Path(store.path).parent.glob("s.db*"))


async def test_one_that_somebody_drives_stays(store: Store) -> None:
    for name in ("driven", "idle"):
        await said(store, name, 1000, "hello")
    lease = await store.lease("driven")
    done = await retire(store, MONTHS)
    assert (done.retired, done.busy) == (("idle",), ("driven",))
    assert lease is not None
    await store.release(lease)
    assert (await retire(store, MONTHS)).retired == ("driven",)


async def test_one_that_grows_while_it_is_archived_stays_with_what_was_said(store: Store) -> None:
    await said(store, "s", 1000, "hello")

    class Late(MemoryStore):
        async def append(self, ledger, expected, facts, **options):  # type: ignore[no-untyped-def]
            length = await super().append(ledger, expected, facts, **options)
            if ledger == "s" and expected == 0:
                await store.append("s", 2, [MessageReceived(at=2000, content="wait")], born="born s")
            return length

    archive = Late()
    done = await retire(store, MONTHS, archive=archive)
    assert (done.retired, done.busy) == ((), ("s",))
    assert len(await store.read("s")) == 3
    assert (await retire(store, MONTHS, archive=archive)).retired == ("s",)
    assert len(await archive.read("s")) == 3


async def test_what_forks_share_stays_with_them_and_is_shared_in_the_archive(store: Store) -> None:
    await said(store, "s", 1000, "hello", "again")
    await store.fork("s", 2, "old fork", [MessageReceived(at=1500, content="branch")], born="f1")
    await store.fork("s", 2, "new fork", [MessageReceived(at=NOW, content="branch")], born="f2")
    archive = MemoryStore()
    done = await retire(store, MONTHS, archive=archive)
    assert sorted(done.retired) == ["old fork", "s"]
    assert [getattr(fact, "content", "") for fact in await store.read("new fork")] == ["", "hello", "branch"]
    assert {info.ledger: info.parent for info in await archive.list()} == {"s": "", "old fork": "s"}


async def test_child_sessions_retire_with_their_parent(store: Store) -> None:
    """A child stays while its parent is newer, and goes when its parent goes."""
    child = {name: child_session_id(name, f"{'0' * 32}:2.0") for name in "stu"}
    for name, at in {"s": NOW, "t": 1000, "u": 1000}.items():
        await said(store, name, at, "hello")
        await said(store, child[name], 1000, "task")
    lease = await store.lease("u")
    assert lease is not None
    done = await retire(store, MONTHS)
    await store.release(lease)
    assert (done.retired, done.busy) == (("t", child["t"]), ("u",))
    assert {info.ledger for info in await store.list()} == {"s", child["s"], "u", child["u"]}


async def test_one_of_which_the_archive_has_another_stays_and_is_named(store: Store) -> None:
    archive = MemoryStore()
    await said(archive, "s", 500, "something else")
    await said(store, "s", 1000, "hello")
    done = await retire(store, MONTHS, archive=archive)
    assert (done.retired, done.diverged) == ((), ("s",))
    assert await names(store) == ["s"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_operation_nothing_is_lost_and_the_next_run_finishes(when: str) -> None:
    for at in range(1, 40):
        store, archive = MemoryStore(), MemoryStore()
        for name in ("s", "t"):
            await said(store, name, 1000, "hello")
        await store.fork("s", 2, "f", [MessageReceived(at=1500, content="branch")], born="f")
        dying = FailingStore(store, [Fault(at, when, Died)])  # type: ignore[arg-type]
        try:
            await retire(dying, MONTHS, archive=archive)
        except Died:
            await dying.bury()
            assert {*await names(store), *await names(archive)} >= {"s", "t", "f"}
            await retire(store, MONTHS, archive=archive)
        assert await names(store) == []
        assert await names(archive) == ["f", "s", "t"]
        if not dying.dead:
            break
    else:
        raise AssertionError("it never ran to its end")


@pytest.mark.parametrize("age", [0, -1, True, "90d", timedelta(0)])
async def test_an_age_that_is_none_is_told(age: object) -> None:
    with pytest.raises(BadInput, match="older_than is a timedelta"):
        await retire(MemoryStore(), age)  # type: ignore[arg-type]


async def test_an_archive_that_is_none_is_told() -> None:
    with pytest.raises(BadInput, match="an archive is a store"):
        await retire(MemoryStore(), 90, archive=7)  # type: ignore[arg-type]
