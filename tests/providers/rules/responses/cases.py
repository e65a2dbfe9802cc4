"""All test cases of the rules of the Responses API."""

from __future__ import annotations

from tests.providers.rules.responses import cases_calls, cases_fields, cases_items, cases_reasoning, cases_state, cases_tools
from tests.providers.rules.rule_cases import RuleCase

CASES: list[RuleCase] = [
    *cases_items.CASES,
    *cases_fields.CASES,
    *cases_tools.CASES,
    *cases_state.CASES,
    *cases_calls.CASES,
    *cases_reasoning.CASES,
]
