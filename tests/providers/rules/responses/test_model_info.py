"""Rules that depend on the properties of the model: whether it reasons about the request, and the efforts that it supports."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.provider_state import EmptyResponsesState, ResponsesModelInfo
from legato.providers.rules.responses.rules import check_request
from tests.providers.rules.responses.sample_requests import FOLLOW_UP, TOOL, USER_MESSAGE, drop_fields, make_call, make_output, make_request


class OneModel(EmptyResponsesState):
    """A provider with one model and every stored prompt."""

    def __init__(self, **properties: Any) -> None:
        self._properties = properties

    def find_model(self, name: str) -> ResponsesModelInfo | None:
        return ResponsesModelInfo(name, **self._properties) if name == "m" else None

    def has_prompt(self, id: str) -> bool:
        return True


def find_rule_ids(request: dict[str, Any], **properties: Any) -> list[str]:
    """Return the ids of the rules that a request breaks, for a model with these properties."""
    return [violation.rule.id for violation in check_request(request, OneModel(**properties))]


@pytest.mark.parametrize(
    ("default_effort", "reasoning", "rule_ids"),
    [
        ("medium", None, ["O10"]),
        ("medium", {"effort": "none"}, []),
        ("medium", {"effort": None, "summary": "auto"}, ["O10"]),
        ("none", None, []),
        ("none", {"summary": "auto"}, []),
        ("none", {"effort": "low"}, ["O10"]),
        ("", None, []),
        ("", {"effort": "low"}, ["O10"]),
    ],
)
def test_sampling_is_refused_only_with_reasoning(default_effort: str, reasoning: object, rule_ids: list[str]) -> None:
    """The effort in the request counts, else the model's default. If neither is known, nothing is refused."""
    assert (
        find_rule_ids(make_request(model="m", temperature=0, reasoning=reasoning), has_reasoning=True, default_effort=default_effort)
        == rule_ids
    )


def test_efforts_are_checked_where_known() -> None:
    request = make_request(model="m", reasoning={"effort": "minimal"})
    assert find_rule_ids(request, has_reasoning=True, efforts=("low", "high")) == ["O18"]
    assert find_rule_ids(request, has_reasoning=True, efforts=("minimal", "low")) == []
    assert find_rule_ids(request, has_reasoning=True) == []


def test_stored_prompt_has_model_and_input() -> None:
    prompt = {"prompt": {"id": "pmpt_1", "version": "2", "variables": {"city": "Bern"}}}
    assert find_rule_ids(prompt) == []
    assert find_rule_ids({**prompt, "input": "hello"}) == []
    assert find_rule_ids({**prompt, "model": "other"}) == ["O9"]
    assert find_rule_ids(drop_fields(make_request(), "model")) == ["P1"]


@pytest.mark.parametrize(
    ("tools", "rule_ids"),
    [
        ([{**TOOL, "defer_loading": True}], ["T32"]),
        ([{"type": "namespace", "name": "orders", "tools": [TOOL]}], ["T32"]),
        ([{"type": "namespace", "name": "orders", "tools": [TOOL]}, TOOL], []),
        ([TOOL], []),
        ([{**TOOL, "name": "other", "defer_loading": True}], []),
    ],
    ids=["loaded later", "in a namespace", "in both", "at the top", "unknown"],
)
def test_call_without_namespace_needs_the_default(tools: list[dict[str, Any]], rule_ids: list[str]) -> None:
    assert find_rule_ids(make_request([USER_MESSAGE, make_call(), make_output(), FOLLOW_UP], "m", tools=tools)) == rule_ids


def test_tools_found_by_search_are_in_namespaces() -> None:
    tool = {**TOOL, "defer_loading": True}
    search_output = {"type": "tool_search_output", "execution": "server", "call_id": None, "status": "completed", "tools": [tool]}
    assert find_rule_ids(make_request([USER_MESSAGE, search_output, make_call(), make_output(), FOLLOW_UP], "m")) == ["T32"]
    assert find_rule_ids(make_request([USER_MESSAGE, search_output, make_call(namespace="look_up"), make_output(), FOLLOW_UP], "m")) == []
