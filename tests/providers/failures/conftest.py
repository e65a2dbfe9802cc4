"""Where these stories are told: on each wire, streaming and not, and on each store where that matters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from legato.runtime import model_requests
from legato.stores import MemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore | SQLiteStore]:
    made = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "stories.db")
    async with made:
        yield made


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=["whole, in memory", "streaming, in a file"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[bool, MemoryStore | SQLiteStore]]:
    """Both ways to answer and both stores, where all four together would show nothing more."""
    streams = request.param.startswith("streaming")
    async with SQLiteStore(tmp_path / "stories.db") if streams else MemoryStore() as made:
        yield streams, made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits before the next attempt, unless the provider asks for it."""
    monkeypatch.setattr(model_requests, "BACK_OFF", (0.0,))
