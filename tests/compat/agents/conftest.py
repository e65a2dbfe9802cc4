"""Fixtures of these tests: an emulator that the environment names, and a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest

from legato.compat.agents import set_default_openai_api, set_default_store
from legato.emulator import serve
from legato.emulator.server import Emulator
from legato.stores import MemoryStore

Provider: TypeAlias = Callable[[Any], Emulator]


@pytest.fixture(autouse=True)
def _use_empty_store() -> Iterator[None]:
    """Use an empty store: two emulators give the same ids, as two providers never do."""
    set_default_store(MemoryStore())
    yield
    set_default_openai_api("responses")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Start an emulator with a fake model. At the end of the test, check that no request was refused."""
    with ExitStack() as stack:
        started: list[Emulator] = []

        def start(fake_model: Any) -> Emulator:
            emulator = stack.enter_context(serve(fake_model=fake_model))
            monkeypatch.setenv("OPENAI_API_KEY", "any")
            monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
            monkeypatch.setenv("OPENAI_DEFAULT_MODEL", "gpt-5.1")
            started.append(emulator)
            return emulator

        yield start
        sent = [each for emulator in started for each in emulator.exchanges]
        refused = [
            each.summary_line for each in sent if each.violations or (each.is_model_request and each.status != 200 and not each.fault)
        ]
        assert refused == []
