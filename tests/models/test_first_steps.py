"""Errors for users without an SDK, a key or a model."""

from __future__ import annotations

import sys

import pytest

from legato import Agent
from legato.errors import BadInput

MODELS = {
    "openai:gpt-5.1": ("openai", "OPENAI_API_KEY"),
    "openai-chat:gpt-4o": ("openai", "OPENAI_API_KEY"),
    "azure:mine": ("openai", "AZURE_OPENAI_API_KEY"),
    "anthropic:claude-sonnet-5": ("anthropic", "ANTHROPIC_API_KEY"),
}


@pytest.mark.parametrize("model", MODELS)
def test_without_the_sdk_the_extra_is_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sdk, _ = MODELS[model]
    monkeypatch.setitem(sys.modules, sdk, None)  # as if it were not installed
    result = Agent("clerk", model=model).run_sync("Hello")
    assert result.status == "failed"
    assert f"this model needs the package '{sdk}'" in result.error
    assert f"pip install '.[{sdk}]' in a clone of Legato" in result.error


@pytest.mark.parametrize("model", MODELS)
def test_without_a_key_the_ways_out_are_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = MODELS[model]
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.example")
    result = Agent("clerk", model=model).run_sync("Hello")
    assert result.status == "failed"
    assert f"set {key}, or pass api_key=...; to try it without, let the emulator stand in" in result.error


def test_missing_model_error_shows_an_example() -> None:
    with pytest.raises(BadInput, match=r'write Agent\(name=\.\.\., model="openai:gpt-5\.1"\)'):
        Agent("clerk").run_sync("Hello")
