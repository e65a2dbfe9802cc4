"""The framework's handoff and approval samples, written anew from its documented API, run through the facade.

Each prints what its docstring shows; nothing that it sends is refused.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from legato.emulator import serve

SAMPLES = sorted(path.stem for path in (Path(__file__).parent / "samples").glob("*.py"))


def read_expected_output(sample: Any) -> str:
    """Return the output that the docstring shows below its first paragraph."""
    return (sample.__doc__ or "").partition("\n\n")[2]


def test_there_are_ten_and_more() -> None:
    assert len(SAMPLES) >= 10


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_sample_prints_what_it_shows(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sample = importlib.import_module(f"tests.compat.agent_framework.samples.{name}")
    assert inspect.iscoroutinefunction(sample.main)
    with serve(fake_model=sample.SCRIPT) as emulator:
        monkeypatch.setenv("OPENAI_BASE_URL", emulator.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        await sample.main()
        assert [exchange for exchange in emulator.exchanges if exchange.status != 200] == []
        assert emulator.exchanges
    assert capsys.readouterr().out == read_expected_output(sample)
