"""One provider for all stories, and one model for each wire: what a story costs is what it says."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.providers.stories.traffic import Provider, provider
from tests.providers.stories.wires import WIRES

IN_MEMORY = "/dev/shm"
"""Where a file costs no disk. How a store fares on one is told elsewhere."""


@pytest.fixture(scope="session")
def emulated() -> Iterator[Provider]:
    """The provider. At the end of all stories: its log shows not a single refusal."""
    with provider() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def models(emulated: Provider) -> AsyncIterator[dict[tuple[str, bool], Any]]:
    """A model for each wire, streaming and not. They keep nothing but connections."""
    made = {(wire, stream): kind.make(emulated.emulator, stream) for wire, kind in WIRES.items() for stream in (False, True)}
    yield made
    for model in made.values():
        await model.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one story."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as name:
        yield Path(name)
