"""Erased words are gone from the file, its log, and whatever SQLite left free: the files are searched for them."""

import asyncio
import sqlite3
from pathlib import Path
from random import Random

import pytest

from legato.core.facts import File, MessageReceived
from legato.core.redaction import Erasing
from legato.errors import StoreLocked
from legato.stores import SQLiteStore

KEY = b"k" * 32


def found(store: SQLiteStore, *words: str) -> list[str]:
    """Which words occur in the files of a store."""
    data = b"".join(path.read_bytes() for path in Path(store.path).parent.iterdir() if path.name.startswith(Path(store.path).name))
    return [word for word in words if word.encode() in data]


def erasing(*positions: int) -> Erasing:
    return Erasing(frozenset(positions) if positions else None, KEY, 1)


async def many_conversations(store: SQLiteStore, dice: Random) -> dict[tuple[str, int], str]:
    """Conversations that grow side by side, so that pages are divided; each message has a word of its own."""
    lengths = [0] * 40
    words = {}
    for _ in range(1500):
        number = dice.randrange(40)
        word = words[f"s{number}", lengths[number]] = f"{dice.getrandbits(80):020x}"
        said = MessageReceived(at=1, content=" ".join([word] * dice.choice((1, 2, 5, 20, 60, 300))))
        await store.append(f"s{number}", lengths[number], [said])
        lengths[number] += 1
    return words


async def test_nothing_is_left_of_what_was_erased_in_a_file_whose_pages_were_divided(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db", "process") as store:
        words = await many_conversations(store, Random(1))
        gone = [words[place] for place in sorted(words) if place[0] in ("s3", "s7")]
        for name in ("s3", "s7"):
            await store.redact(name, erasing())
        kept = [words[place] for place in words if place[0] == "s8"]
        assert found(store, *gone) == []
        assert found(store, *kept) == kept
        assert await store.verify() == []
    assert found(store, *gone) == []


async def test_a_store_that_only_overwrites_the_rows_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checkpoint_only(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    monkeypatch.setattr("legato.stores.sqlite.scrub", checkpoint_only)
    async with SQLiteStore(tmp_path / "s.db", "process") as store:
        words = await many_conversations(store, Random(1))
        for number in range(40):
            await store.redact(f"s{number}", erasing())
        assert found(store, *words.values())


async def test_a_file_that_was_attached_is_gone_with_the_message_that_showed_it(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as store:
        body = b"passport of Ann " * 20_000
        await store.append(
            "s",
            0,
            [MessageReceived(at=1, content=(File("p.pdf", digest="d"),)), MessageReceived(at=2, content="hello")],
            contents={"d": body},
        )
        await store.fork("s", 2, "f", [])
        assert found(store, "passport")
        await store.redact("f", erasing(0))
        assert found(store, "passport", "p.pdf") == []
        assert found(store, "hello") == ["hello"]


async def test_what_was_deleted_is_gone_from_the_file_after_a_scrub(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as store:
        await store.append("s", 0, [MessageReceived(at=1, content="xylophone " * 500)])
        await store.delete("s")
        assert found(store, "xylophone")
        await store.scrub()
        assert found(store, "xylophone") == []


async def test_while_somebody_reads_the_old_log_it_is_said_that_bytes_are_left_and_scrub_finishes_it(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db", busy_timeout=0.3) as store:
        await store.append("s", 0, [MessageReceived(at=1, content="xylophone")])
        reader = sqlite3.connect(store.path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM facts").fetchone()
        with pytest.raises(StoreLocked, match=r"bytes are still in the log"):
            await store.redact("s", erasing(0))
        assert "xylophone" not in str(await store.read("s"))
        reader.close()
        assert await store.redact("s", erasing(0)) == {}  # asked again, it has only to finish
        assert found(store, "xylophone") == []


async def test_a_cancelled_erasure_is_whole_or_not_at_all_and_leaves_no_bytes(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as store:
        for round in range(12):
            name = f"s{round}"
            await store.append(name, 0, [MessageReceived(at=1, content=f"xylophone{round:02}")])
            doing = asyncio.ensure_future(store.redact(name, erasing(0)))
            for _ in range(round):
                await asyncio.sleep(0)
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
            await store.scrub()  # behind whatever the thread is still at
            facts = await store.read(name)
            assert found(store, f"xylophone{round:02}") == ([] if len(facts) == 2 else [f"xylophone{round:02}"])
