"""Redactions in SQLite files: erased text is gone from the file, its log and free pages, in which the tests search for it."""

import asyncio
import sqlite3
from pathlib import Path
from random import Random

import pytest

from legato.core.facts import File, MessageReceived
from legato.core.redaction import PositionRedactor
from legato.errors import StoreLocked
from legato.stores import SQLiteStore

KEY = b"k" * 32


def find_words(store: SQLiteStore, *words: str) -> list[str]:
    """Return the words that occur in the files of a store."""
    data = b"".join(path.read_bytes() for path in Path(store.path).parent.iterdir() if path.name.startswith(Path(store.path).name))
    return [word for word in words if word.encode() in data]


def make_redactor(*positions: int) -> PositionRedactor:
    return PositionRedactor(frozenset(positions) if positions else None, KEY, 1)


async def fill_with_conversations(store: SQLiteStore, dice: Random) -> dict[tuple[str, int], str]:
    """Write conversations that grow in parallel, so that pages are split. Return the unique word of each message."""
    lengths = [0] * 40
    words = {}
    for _ in range(1500):
        number = dice.randrange(40)
        word = words[f"s{number}", lengths[number]] = f"{dice.getrandbits(80):020x}"
        fact = MessageReceived(at=1, content=" ".join([word] * dice.choice((1, 2, 5, 20, 60, 300))))
        await store.append(f"s{number}", lengths[number], [fact])
        lengths[number] += 1
    return words


async def test_erased_text_is_gone_from_split_pages(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db", "process") as store:
        words = await fill_with_conversations(store, Random(1))
        erased_words = [words[place] for place in sorted(words) if place[0] in ("s3", "s7")]
        for name in ("s3", "s7"):
            await store.redact(name, make_redactor())
        kept_words = [words[place] for place in words if place[0] == "s8"]
        assert find_words(store, *erased_words) == []
        assert find_words(store, *kept_words) == kept_words
        assert await store.verify() == []
    assert find_words(store, *erased_words) == []


async def test_overwriting_rows_alone_leaves_erased_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checkpoint_only(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    monkeypatch.setattr("legato.stores.sqlite.store.scrub", checkpoint_only)
    async with SQLiteStore(tmp_path / "s.db", "process") as store:
        words = await fill_with_conversations(store, Random(1))
        for number in range(40):
            await store.redact(f"s{number}", make_redactor())
        assert find_words(store, *words.values())


async def test_attachment_is_erased_with_its_message(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as store:
        body = b"passport of Ann " * 20_000
        await store.append(
            "s",
            0,
            [MessageReceived(at=1, content=(File("p.pdf", digest="d"),)), MessageReceived(at=2, content="hello")],
            contents={"d": body},
        )
        await store.fork("s", 2, "f", [])
        assert find_words(store, "passport")
        await store.redact("f", make_redactor(0))
        assert find_words(store, "passport", "p.pdf") == []
        assert find_words(store, "hello") == ["hello"]


async def test_deleted_ledger_is_gone_after_scrub(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "s.db") as store:
        await store.append("s", 0, [MessageReceived(at=1, content="xylophone " * 500)])
        await store.delete("s")
        assert find_words(store, "xylophone")
        await store.scrub()
        assert find_words(store, "xylophone") == []


async def test_reader_of_log_delays_the_scrub(tmp_path: Path) -> None:
    """While another connection reads the old log, the redaction raises `StoreLocked`, which says that bytes are left; `scrub` removes
    them."""
    async with SQLiteStore(tmp_path / "s.db", busy_timeout=0.3) as store:
        await store.append("s", 0, [MessageReceived(at=1, content="xylophone")])
        reader = sqlite3.connect(store.path, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM facts").fetchone()
        with pytest.raises(StoreLocked, match=r"bytes are still in the log"):
            await store.redact("s", make_redactor(0))
        assert "xylophone" not in str(await store.read("s"))
        reader.close()
        assert await store.redact("s", make_redactor(0)) == {}  # a second redaction only has to scrub
        assert find_words(store, "xylophone") == []


async def test_cancelled_redaction_leaves_no_bytes(tmp_path: Path) -> None:
    """A cancelled redaction is recorded completely or not at all, and leaves no erased bytes in the file."""
    async with SQLiteStore(tmp_path / "s.db") as store:
        for round in range(12):
            name = f"s{round}"
            await store.append(name, 0, [MessageReceived(at=1, content=f"xylophone{round:02}")])
            redacting = asyncio.ensure_future(store.redact(name, make_redactor(0)))
            for _ in range(round):
                await asyncio.sleep(0)
            redacting.cancel()
            await asyncio.gather(redacting, return_exceptions=True)
            await store.scrub()  # after the jobs that the thread still runs
            facts = await store.read(name)
            assert find_words(store, f"xylophone{round:02}") == ([] if len(facts) == 2 else [f"xylophone{round:02}"])
