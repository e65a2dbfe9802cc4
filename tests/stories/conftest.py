"""Where stories are told: on each store, streaming and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.stores import MemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore | SQLiteStore]:
    made = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "stories.db")
    async with made:
        yield made


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
