"""The capabilities of the emulator's models on Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.model_catalogue import ModelCatalogue
from legato.providers.rules.chat.model_info import ChatModelInfo
from legato.providers.rules.chat.rules import AZURE, check_request
from tests.providers.rules.chat.sample_requests import AUDIO_PART, make_image_part, make_request, make_tool, make_user_message

SYSTEM_MESSAGE = {"role": "system", "content": "Be brief."}

REJECTED: list[tuple[str, dict[str, Any]]] = [
    ("CP9", make_request(model="gpt-5-mini-2025-08-07", stop=["END"])),
    ("CP9", make_request(model="o1-mini", stop="END")),
    ("CV1", make_request(make_user_message(AUDIO_PART), model="gpt-5-mini")),
    ("CV2", make_request(make_user_message(make_image_part()), model="gpt-3.5-turbo-0125")),
    ("CV3", make_request(model="gpt-4o-audio-preview")),
    ("C10c", make_request(SYSTEM_MESSAGE, model="o1-mini")),
    ("CP5", make_request(model="gpt-5.5", temperature=0)),
    ("CP18", make_request(model="o3-mini", temperature=0)),
    ("CP18", make_request(model="gpt-5-mini", presence_penalty=0.5)),
    ("CP10", make_request(model="o4-mini", tools=[make_tool()], parallel_tool_calls=False)),
    ("CP11", make_request(model="gpt-5.2-codex")),
    ("CP12", make_request(model="gpt-4o", web_search_options={})),
    ("CP13", make_request(model="gpt-4o-mini-search-preview", temperature=0)),
    ("CP14", make_request(model="ft:gpt-3.5-turbo-0125:us::1", max_tokens=5000)),
    ("CP16", make_request(model="o4-mini", reasoning_effort="minimal")),
    ("CP3", make_request(model="gpt-4.1-nanno")),
]

ACCEPTED: list[dict[str, Any]] = [
    make_request(model="o3-mini", stop=["END"]),
    make_request(model="gpt-5.2-chat-latest", stop=["END"]),
    make_request(make_user_message(AUDIO_PART), model="gpt-audio-mini"),
    make_request(make_user_message(make_image_part()), model="o4-mini"),
    make_request(model="gpt-5.4-nano", temperature=0),
    make_request(model="gpt-5.4-mini", temperature=0, reasoning_effort="none"),
    make_request(model="gpt-5-nano", tools=[make_tool()], parallel_tool_calls=True),
    make_request(model="gpt-4o-search-preview", web_search_options={}),
    make_request(model="gpt-3.5-turbo-16k", max_tokens=8192),
    make_request(model="gpt-7-ultra"),
]


def list_violated_rules(request: dict[str, Any]) -> list[str]:
    return [complaint.rule.id for complaint in check_request(request, find_model=ModelCatalogue().find_chat_info)]


@pytest.mark.parametrize(("rule_id", "request_"), REJECTED, ids=lambda value: value if isinstance(value, str) else value["model"])
def test_models_refuse_missing_capabilities(rule_id: str, request_: dict[str, Any]) -> None:
    assert list_violated_rules(request_) == [rule_id]


@pytest.mark.parametrize("request_", ACCEPTED, ids=lambda value: value["model"])
def test_models_accept_their_capabilities(request_: dict[str, Any]) -> None:
    assert list_violated_rules(request_) == []


@pytest.mark.parametrize("name", ["gpt-35-turbo", "my-deployment"])
def test_azure_deployments_accept_old_limits(name: str) -> None:
    def deployed(name: str) -> ChatModelInfo | None:
        return ModelCatalogue().find_chat_info(name, is_deployment=True)

    assert check_request(make_request(model=name, max_tokens=20, temperature=0), find_model=deployed, switches=AZURE) == []
