"""Where stories are told: on each store, streaming and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store

STORES = ["memory", "sqlite", "postgres"]
STREAM = {"whole": False, "streaming": True}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every store, and each way of hearing what happens on two of them: what streams does not know the store."""
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
    """In Postgres each telling is a tenant of its own."""
    made: MemoryStore | PostgresStore | SQLiteStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(tmp_path / "stories.db")
    else:
        dsn, tenant = request.getfixturevalue("tenant")
        made = PostgresStore(dsn, tenant=tenant)
    async with made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where several processes tell a story, as `child.opened` takes it."""
    return str(tmp_path / "story.db") if request.param == "sqlite" else "|".join(request.getfixturevalue("tenant"))


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
