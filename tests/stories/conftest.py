"""Fixtures that play stories on each store, streaming and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store

STORES = ["memory", "sqlite", "postgres"]
STREAM = {"whole": False, "streaming": True}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize every store, and streaming on two of them: the streaming code does not depend on the store."""
    both = [(store, stream) for store in STORES for stream in STREAM if (store, stream) != ("postgres", "streaming")]
    if {"store", "stream"} <= {*metafunc.fixturenames}:
        ids = [f"{store}-{stream}" for store, stream in both]
        metafunc.parametrize(("store", "stream"), [(store, STREAM[stream]) for store, stream in both], ids=ids, indirect=True)
    elif "store" in metafunc.fixturenames:
        metafunc.parametrize("store", STORES, indirect=True)
    elif "stream" in metafunc.fixturenames:
        metafunc.parametrize("stream", list(STREAM.values()), ids=list(STREAM), indirect=True)


@pytest.fixture
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store of its own for each story; in Postgres, a tenant."""
    store: MemoryStore | PostgresStore | SQLiteStore
    if request.param == "memory":
        store = MemoryStore()
    elif request.param == "sqlite":
        store = SQLiteStore(tmp_path / "stories.db")
    else:
        dsn, tenant = request.getfixturevalue("tenant")
        store = PostgresStore(dsn, tenant=tenant)
    async with store:
        yield store


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a store that several processes use, for `child_process.open_store`."""
    return str(tmp_path / "story.db") if request.param == "sqlite" else "|".join(request.getfixturevalue("tenant"))


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
