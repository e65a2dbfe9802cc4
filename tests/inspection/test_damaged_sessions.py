"""Pages of sessions of a store with a damaged ledger row: it is listed, and so are the others."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.errors import BadInput, DamagedStore
from legato.inspection.session_browser import SessionBrowser, _decode_cursor, _encode_cursor
from legato.stores import MemoryStore, SQLiteStore, copy
from legato.stores.contract import LedgerInfo
from tests.inspection.test_session_browser import run_sessions

DAMAGED = "UPDATE ledgers SET {} WHERE name = 's2'"


def execute_sql(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()


async def read_all_pages(browsed: SessionBrowser) -> list[tuple[str, str]]:
    rows, after = [], ""
    while True:
        page = await browsed.page(limit=1, after=after)
        rows += [(row.id, row.status) for row in page.sessions]
        after = page.next
        if not after:
            return rows
        assert len(rows) < 20, "the pages never end"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("name = CAST(x'ff6162' AS TEXT)", "(damaged row 3)"),
        ("name = CAST(x'eda080' AS TEXT)", "(damaged row 3)"),
        ("name = x'6162'", "(damaged row 3)"),
        ("name = ''", "(damaged row 3)"),
        ("name = CAST(x'610062' AS TEXT)", "a\0b"),
        ("touched = 9223372036854775807", "s2"),
        ("touched = -9223372036854775808", "s2"),
        ("touched = -5", "s2"),
        ("touched = 'zzz'", "s2"),
        ("touched = CAST(x'ff' AS TEXT)", "s2"),
        ("touched = 0.5", "s2"),
        ("updated = 'zzz'", "s2"),
        ("length = 'zzz'", "s2"),
        ("length = x'ff'", "s2"),
        ("born = CAST(x'ff' AS TEXT)", "s2"),
        ("crc = 'zzz'", "s2"),
        ("epoch = x'00'", "s2"),
    ],
)
async def test_damaged_ledger_is_listed_with_others(tmp_path: Path, change: str, name: str) -> None:
    async with SQLiteStore(tmp_path / "s.sqlite") as store:
        browsed = await run_sessions(store, "s0", "s1", "s2", "s3", "s4")
        execute_sql(tmp_path / "s.sqlite", DAMAGED.format(change))
        rows = [(row.id, row.status) for row in (await browsed.browser.page()).sessions]
        assert sorted(rows) == sorted([("s0", "waiting"), ("s1", "waiting"), (name, "damaged"), ("s3", "waiting"), ("s4", "waiting")])
        assert await read_all_pages(browsed.browser) == rows, "one by one they are the same"
        assert (await browsed.browser.inbox()).requests == []
        assert any(repr(name) in line for line in await store.verify())
        await store.list_runnable()
        with pytest.raises(DamagedStore):
            await copy(store, MemoryStore())


async def test_nameless_ledgers_are_listed_once_each(tmp_path: Path) -> None:
    """Ledgers with a damaged name and the same `touched` come once each."""
    async with SQLiteStore(tmp_path / "s.sqlite") as store:
        browsed = await run_sessions(store, "s0", "(damaged row 3)", "s2", "s3")
        execute_sql(tmp_path / "s.sqlite", DAMAGED.format("name = x'00', touched = 'a'"))
        execute_sql(tmp_path / "s.sqlite", "UPDATE ledgers SET name = CAST(x'ff' AS TEXT), touched = 'b' WHERE name = 's3'")
        assert [id for id, _ in await read_all_pages(browsed.browser)] == ["(damaged row 3)", "s0", "(damaged row 4)", "(damaged row 3)"]


@given(st.integers(-(2**63), 2**63 - 1), st.text())
@example(-(2**63), "")
@example(2**63 - 1, "-")
@example(0, "\n-1-")
def test_cursor_round_trips_any_ledger(touched: int, ledger: str) -> None:
    info = _decode_cursor(_encode_cursor(LedgerInfo(ledger, 5, 6, "p", touched, "damaged")))
    assert info == LedgerInfo(ledger, 0, 0, "", touched)


@pytest.mark.parametrize("cursor", ["-", "a-b", "1", "٣-a", "9223372036854775808-a", "-9223372036854775809-a", "1" * 5000 + "-a", " 1-a"])
def test_malformed_cursor_is_refused_plainly(cursor: str) -> None:
    with pytest.raises(BadInput, match="not a cursor"):
        _decode_cursor(cursor)
