"""What the emulator's models take on Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.models import Catalogue
from legato.providers.rules.chat.held import ModelInfo
from legato.providers.rules.chat.laws import AZURE, judge
from tests.providers.chat.world import SOUND, ask, parts, picture, tool

HIDDEN = {"role": "system", "content": "Be brief."}

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("CP9", ask(model="gpt-5-mini-2025-08-07", stop=["END"])),
    ("CP9", ask(model="o1-mini", stop="END")),
    ("CV1", ask(parts(SOUND), model="gpt-5-mini")),
    ("CV2", ask(parts(picture()), model="gpt-3.5-turbo-0125")),
    ("CV3", ask(model="gpt-4o-audio-preview")),
    ("C10c", ask(HIDDEN, model="o1-mini")),
    ("CP5", ask(model="gpt-5.5", temperature=0)),
    ("CP18", ask(model="o3-mini", temperature=0)),
    ("CP18", ask(model="gpt-5-mini", presence_penalty=0.5)),
    ("CP10", ask(model="o4-mini", tools=[tool()], parallel_tool_calls=False)),
    ("CP11", ask(model="gpt-5.2-codex")),
    ("CP12", ask(model="gpt-4o", web_search_options={})),
    ("CP13", ask(model="gpt-4o-mini-search-preview", temperature=0)),
    ("CP14", ask(model="ft:gpt-3.5-turbo-0125:us::1", max_tokens=5000)),
    ("CP16", ask(model="o4-mini", reasoning_effort="minimal")),
    ("CP3", ask(model="gpt-4.1-nanno")),
]

ACCEPTED: list[dict[str, Any]] = [
    ask(model="o3-mini", stop=["END"]),
    ask(model="gpt-5.2-chat-latest", stop=["END"]),
    ask(parts(SOUND), model="gpt-audio-mini"),
    ask(parts(picture()), model="o4-mini"),
    ask(model="gpt-5.4-nano", temperature=0),
    ask(model="gpt-5.4-mini", temperature=0, reasoning_effort="none"),
    ask(model="gpt-5-nano", tools=[tool()], parallel_tool_calls=True),
    ask(model="gpt-4o-search-preview", web_search_options={}),
    ask(model="gpt-3.5-turbo-16k", max_tokens=8192),
    ask(model="gpt-7-ultra"),
]


def complaints(request: dict[str, Any]) -> list[str]:
    return [complaint.clause.id for complaint in judge(request, models=Catalogue().chat)]


@pytest.mark.parametrize(("clause", "request_"), REFUSED, ids=lambda value: value if isinstance(value, str) else value["model"])
def test_models_refuse_what_they_lack(clause: str, request_: dict[str, Any]) -> None:
    assert complaints(request_) == [clause]


@pytest.mark.parametrize("request_", ACCEPTED, ids=lambda value: value["model"])
def test_models_take_what_they_can(request_: dict[str, Any]) -> None:
    assert complaints(request_) == []


@pytest.mark.parametrize("name", ["gpt-35-turbo", "my-deployment"])
def test_azure_deployments_take_old_limits(name: str) -> None:
    def deployed(name: str) -> ModelInfo | None:
        return Catalogue().chat(name, deployment=True)

    assert judge(ask(model=name, max_tokens=20, temperature=0), models=deployed, profile=AZURE) == []
