"""Rules that depend on what is known of a model: whether it reasons about this request, and which efforts it takes."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.held import ModelInfo, Nothing
from legato.providers.rules.responses.laws import judge
from tests.providers.responses.lawcase import AGAIN, TOOL, USER, ask, call, output, without


class OneModel(Nothing):
    """A provider that knows one model, and has every stored prompt."""

    def __init__(self, **known: Any) -> None:
        self._known = known

    def model(self, name: str) -> ModelInfo | None:
        return ModelInfo(name, **self._known) if name == "m" else None

    def stored_prompt(self, id: str) -> bool:
        return True


def broken(request: dict[str, Any], **known: Any) -> list[str]:
    """The clauses that a request breaks, where this is known of its model."""
    return [complaint.clause.id for complaint in judge(request, OneModel(**known))]


@pytest.mark.parametrize(
    ("effort", "reasoning", "clauses"),
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
def test_sampling_is_refused_only_with_reasoning(effort: str, reasoning: object, clauses: list[str]) -> None:
    """Which effort counts: the one that is sent, else the model's own; where neither is known nothing is refused."""
    assert broken(ask(model="m", temperature=0, reasoning=reasoning), reasons=True, effort=effort) == clauses


def test_an_effort_is_judged_where_known() -> None:
    request = ask(model="m", reasoning={"effort": "minimal"})
    assert broken(request, reasons=True, efforts=("low", "high")) == ["O18"]
    assert broken(request, reasons=True, efforts=("minimal", "low")) == []
    assert broken(request, reasons=True) == []


def test_a_stored_prompt_brings_model_and_input() -> None:
    prompt = {"prompt": {"id": "pmpt_1", "version": "2", "variables": {"city": "Bern"}}}
    assert broken(prompt) == []
    assert broken({**prompt, "input": "hello"}) == []
    assert broken({**prompt, "model": "other"}) == ["O9"]
    assert broken(without(ask(), "model")) == ["P1"]


@pytest.mark.parametrize(
    ("tools", "clauses"),
    [
        ([{**TOOL, "defer_loading": True}], ["T32"]),
        ([{"type": "namespace", "name": "orders", "tools": [TOOL]}], ["T32"]),
        ([{"type": "namespace", "name": "orders", "tools": [TOOL]}, TOOL], []),
        ([TOOL], []),
        ([{**TOOL, "name": "other", "defer_loading": True}], []),
    ],
    ids=["loaded later", "in a namespace", "in both", "at the top", "unknown"],
)
def test_a_call_without_namespace_needs_the_default(tools: list[dict[str, Any]], clauses: list[str]) -> None:
    assert broken(ask([USER, call(), output(), AGAIN], "m", tools=tools)) == clauses


def test_tools_that_a_search_found_are_in_namespaces() -> None:
    later = {**TOOL, "defer_loading": True}
    found = {"type": "tool_search_output", "execution": "server", "call_id": None, "status": "completed", "tools": [later]}
    assert broken(ask([USER, found, call(), output(), AGAIN], "m")) == ["T32"]
    assert broken(ask([USER, found, call(namespace="look_up"), output(), AGAIN], "m")) == []
