"""Every rule of the Responses API has a request that breaks it alone, with the exact error, and a legal one."""

from __future__ import annotations

import dataclasses

import pytest

from legato.providers.rules.responses.rules import RULES, ResponsesRuleSwitches, check_request, render_error_body
from legato.providers.rules.rule_set import ProviderRule, RuleViolation
from tests.providers.rules.responses.cases import CASES
from tests.providers.rules.responses.fake_provider import FakeProvider, count_tokens
from tests.providers.rules.rule_cases import RuleCase, fill_placeholders

VIOLATION_CASES = [case for case in CASES if case.illegal is not None]


def check_case(case: RuleCase, request: dict[str, object] | None) -> tuple[list[RuleViolation], FakeProvider]:
    """Return the violations of a request of a case after the setup, and the provider."""
    provider = FakeProvider(ResponsesRuleSwitches(**case.switches))
    for step in case.setup:
        provider.run_step(step)
    body = fill_placeholders(request, provider.saved_values)
    return check_request(body, provider.find_account(), ResponsesRuleSwitches(**case.switches), count_tokens(body)), provider


def test_every_rule_has_a_case() -> None:
    assert sorted(case.rule_id for case in CASES) == sorted(RULES.by_id)


def test_only_permissions_have_no_illegal_request() -> None:
    assert {case.rule_id for case in CASES if case.illegal is None} == {id for id, rule in RULES.by_id.items() if rule.is_permission}


@pytest.mark.parametrize("case", VIOLATION_CASES, ids=lambda case: case.rule_id)
def test_illegal_request_of_a_case_is_refused(case: RuleCase) -> None:
    """It breaks this rule alone, and gets the exact error."""
    violations, provider = check_case(case, case.illegal)
    assert {violation.rule.id for violation in violations} == {case.rule_id}
    assert violations[0].status == case.status
    assert render_error_body(violations[0], ResponsesRuleSwitches(**case.switches)) == fill_placeholders(
        case.error_body, provider.saved_values
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule_id)
def test_legal_request_of_a_case_is_accepted(case: RuleCase) -> None:
    assert check_case(case, case.legal)[0] == []


@pytest.mark.parametrize("case", [case for case in VIOLATION_CASES if case.switches], ids=lambda case: case.rule_id)
def test_cases_with_switches_depend_on_them(case: RuleCase) -> None:
    default = dataclasses.replace(case, switches={})
    assert case.rule_id not in {violation.rule.id for violation in check_case(default, case.illegal)[0]}


@pytest.mark.parametrize("rule", [rule for rule in RULES.by_id.values() if rule.switch], ids=lambda rule: rule.id)
def test_switches_of_rules_are_declared(rule: ProviderRule) -> None:
    assert rule.switch in ResponsesRuleSwitches.__struct_fields__
