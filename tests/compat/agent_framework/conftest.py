from __future__ import annotations

from collections.abc import Iterator

import pytest

from legato.emulator import serve
from legato.emulator.server import Emulator
from tests.compat.agent_framework.desk import fake_model


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """The desk's model, where OpenAI's SDK looks for it. What it refuses that no test asked for is a failure."""
    with serve(fake_model=fake_model) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        yield running
        assert [exchange for exchange in running.exchanges if exchange.status != 200 and not exchange.fault] == []
