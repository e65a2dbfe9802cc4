"""Where stories are told: on each store, streaming and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
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


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
