"""The rule sets, their default switches and all their test cases, by API."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses
from legato.providers.rules.rule_set import RuleSet
from tests.providers.rules.anthropic.cases import CASES as ANTHROPIC
from tests.providers.rules.chat.cases import CASES as CHAT
from tests.providers.rules.responses.cases import CASES as RESPONSES
from tests.providers.rules.rule_cases import RuleCase

RULE_SETS: dict[str, RuleSet[Any]] = {"responses": responses.RULES, "chat": chat.RULES, "anthropic": anthropic.RULES}
DEFAULT_SWITCHES: dict[str, Struct] = {"responses": responses.OPENAI, "chat": chat.OPENAI, "anthropic": anthropic.AnthropicRuleSwitches()}
CASES_BY_API: dict[str, list[RuleCase]] = {"responses": RESPONSES, "chat": CHAT, "anthropic": ANTHROPIC}
ALL_CASES: list[tuple[str, RuleCase]] = [(api, case) for api, cases in CASES_BY_API.items() for case in cases]
