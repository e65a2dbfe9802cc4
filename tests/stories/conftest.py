"""Where stories are told: on each store, streaming and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore, Store
from tests import databases


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """In Postgres each telling is a tenant of its own."""
    made: MemoryStore | PostgresStore | SQLiteStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(tmp_path / "stories.db")
    else:
        server = request.getfixturevalue("postgres_server")
        made = PostgresStore(databases.on(server, databases.TEMPLATE), tenant=uuid4().hex)
    async with made:
        yield made


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
