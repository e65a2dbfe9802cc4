"""Fixtures of the runtime's tests."""

import pytest

from legato.stores import MemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    """A store of one kind, closed after the test."""
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()
