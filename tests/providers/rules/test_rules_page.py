"""docs/clauses.md agrees with the rule sets, and docs/law-books.md explains every switch."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import fields

from tests.providers.rules.all_cases import CASES_BY_API, DEFAULT_SWITCHES, RULE_SETS
from tests.providers.rules.rules_page import GRADES, PAGE, count_grades, render_page

SWITCHES = [(api, field.name) for api, switches in DEFAULT_SWITCHES.items() for field in fields(switches)]


def test_page_of_rules_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `make clauses`"


def test_every_rule_has_a_row_and_grade() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for api, rule_set in RULE_SETS.items():
        assert sum(count_grades(api).values()) == len(rule_set.by_id)
        assert set(count_grades(api)) <= set(GRADES)
        missing = [id for id in rule_set.by_id if f"\n| {id} | " not in page]
        assert not missing, f"{api}: {missing}"


def test_page_sums_up_the_rule_sets() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rules = [len(rule_set.by_id) for rule_set in RULE_SETS.values()]
    cases = [len(cases) for cases in CASES_BY_API.values()]
    for name, row in (("**rules**", rules), ("test cases", cases)):
        assert f"| | {name} | {' | '.join(map(str, [*row, sum(row)]))} |" in page


@pytest.mark.parametrize(("api", "switch"), SWITCHES)
def test_every_switch_is_explained_with_its_default(api: str, switch: str) -> None:
    rows = PAGE.with_name("law-books.md").read_text(encoding="utf-8").splitlines()
    (row,) = (row for row in rows if row.startswith(f"| `{api}.{switch}` | `{getattr(DEFAULT_SWITCHES[api], switch)!r}` | "))
    rule_ids = {rule.id for rule in RULE_SETS[api].by_id.values() if rule.switch == switch}
    assert rule_ids <= set(re.findall(r"\w+", row))
