"""All test cases of the rules of Chat Completions."""

from __future__ import annotations

from tests.providers.rules.chat import cases_conversation, cases_fields
from tests.providers.rules.rule_cases import RuleCase

CASES: list[RuleCase] = [*cases_fields.CASES, *cases_conversation.CASES]
