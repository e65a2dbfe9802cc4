"""One provider for all stories, and one model for each format."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.providers.stories.recording_provider import RecordingProvider, run_provider
from tests.providers.stories.story_formats import FORMATS

IN_MEMORY = "/dev/shm"
"""A folder in memory. Stores on disks are tested elsewhere."""


@pytest.fixture(scope="session")
def emulated() -> Iterator[RecordingProvider]:
    """Run the provider, and check after all stories that it refused nothing."""
    with run_provider() as recording:
        yield recording


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def models(emulated: RecordingProvider) -> AsyncIterator[dict[tuple[str, bool], Any]]:
    """Make a model for each format, streaming and not. The models have no state but their connections."""
    models = {(format, stream): kind.make(emulated.emulator, stream) for format, kind in FORMATS.items() for stream in (False, True)}
    yield models
    for model in models.values():
        await model.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder for one story."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as name:
        yield Path(name)
