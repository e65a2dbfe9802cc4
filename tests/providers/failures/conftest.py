"""Fixtures for tests with streaming and not, and with each store if the store matters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.runtime import model_requests
from legato.stores import MemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore | SQLiteStore]:
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "stories.db")
    async with store:
        yield store


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=["whole, in memory", "streaming, in a file"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[bool, MemoryStore | SQLiteStore]]:
    """Provide both ways to answer and both stores, in two of the four combinations, where more would show nothing."""
    streams = request.param.startswith("streaming")
    async with SQLiteStore(tmp_path / "stories.db") if streams else MemoryStore() as store:
        yield streams, store


@pytest.fixture
def without_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a wait, unless the provider asks for one."""
    monkeypatch.setattr(model_requests, "MAX_BACKOFF_S", (0.0,))
