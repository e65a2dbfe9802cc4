"""The shape cache finds the violations that a check without it finds (C5)."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.formats.anthropic import encode as anthropic
from legato.providers.formats.chat import encode as chat
from legato.providers.formats.responses import encode as responses
from legato.providers.rules.anthropic import rules as anthropic_rules
from legato.providers.rules.chat import rules as chat_rules
from legato.providers.rules.responses import rules as responses_rules
from legato.providers.rules.rule_set import Phase, RuleSet
from legato.providers.rules.shape_cache import cache_by_shape
from tests.providers.rules.anthropic.cases import CASES as ANTHROPIC_CASES
from tests.providers.rules.chat.cases import CASES as CHAT_CASES
from tests.providers.rules.responses.cases import CASES as RESPONSES_CASES
from tests.providers.rules.rule_cases import RuleCase


def list_conversations(cases: list[RuleCase], member: str) -> list[list[dict[str, Any]]]:
    """List the conversations of all test cases, illegal and legal ones."""
    bodies = [body for case in cases for body in (case.illegal, case.legal) if isinstance(body, dict)]
    conversations = [body.get(member) for body in bodies]
    return [each for each in conversations if isinstance(each, list) and each and all(isinstance(item, dict) for item in each)]


@pytest.mark.parametrize(
    ("conversations", "check", "check_cached"),
    [
        (list_conversations(RESPONSES_CASES, "input"), responses_rules.check_items, responses._find_violations),
        (list_conversations(CHAT_CASES, "messages"), chat_rules.check_messages, chat._find_violations),
        (list_conversations(ANTHROPIC_CASES, "messages"), anthropic._check_messages, anthropic._find_violations),
    ],
    ids=["responses", "chat", "anthropic"],
)
def test_cached_checks_find_the_same_violations(conversations: Any, check: Any, check_cached: Any) -> None:
    assert [each for each in conversations if list(check_cached(each)) != list(check(each))] == []
    assert sum(bool(check(each)) for each in conversations) > 10, "too few conversations are illegal: this test proves nothing"


@pytest.mark.parametrize(
    ("rule_set", "phases"),
    [
        (responses_rules.RULES, responses_rules.ITEM_PHASES),
        (chat_rules.RULES, chat_rules.MESSAGE_PHASES),
        (anthropic_rules.RULES, anthropic_rules.MESSAGE_PHASES),
    ],
    ids=["responses", "chat", "anthropic"],
)
def test_conversation_phases_have_the_order_of_rules(rule_set: RuleSet[Any], phases: tuple[Phase, ...]) -> None:
    assert list(phases) == [phase for phase in rule_set.phases if phase in phases]


def test_one_fragment_of_each_shape_is_checked() -> None:
    checked: list[Any] = []

    def check(items: list[dict[str, Any]]) -> list[Any]:
        checked.append(items)
        return []

    check_cached = cache_by_shape(check, frozenset(("text",)), frozenset(("id",)))
    for number in range(5):
        check_cached([{"text": f"words {number}", "id": f"id-{number}"}])
    assert len(checked) == 1
    for other in ({"text": "", "id": "id-1"}, {"text": " ", "id": "id-1"}, {"text": "a", "id": "bad id"}, {"role": "a"}, {"role": "b"}):
        before = len(checked)
        check_cached([other])
        assert len(checked) == before + 1
    check_cached([{"id": "a"}, {"id": "a"}])
    check_cached([{"id": "a"}, {"id": "b"}])
    assert len(checked) == 8
    for _ in range(2):  # the text is too long to be part of a shape: each fragment is checked
        check_cached([{"url": "data:" + "x" * 200}])
    assert len(checked) == 10
