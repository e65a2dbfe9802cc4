"""docs/clauses.md says what the law books say, and docs/law-books.md names every switch."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import fields

from tests.providers.casebooks import BOOKS, CASEBOOKS, DEFAULTS
from tests.providers.table import GRADES, PAGE, counts, render

SWITCHES = [(api, field.name) for api, profile in DEFAULTS.items() for field in fields(profile)]


def test_the_page_of_clauses_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make clauses`"


def test_every_clause_has_a_row_and_a_grade() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for api, book in BOOKS.items():
        assert sum(counts(api).values()) == len(book.clauses)
        assert set(counts(api)) <= set(GRADES)
        missing = [clause.id for clause in book.clauses.values() if f"\n| {clause.id} | " not in page]
        assert not missing, f"{api}: {missing}"


def test_the_sums_are_those_of_the_books() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sizes = [len(book.clauses) for book in BOOKS.values()]
    cases = [len(casebook) for casebook in CASEBOOKS.values()]
    for name, row in (("**clauses**", sizes), ("cases", cases)):
        assert f"| | {name} | {' | '.join(map(str, [*row, sum(row)]))} |" in page


@pytest.mark.parametrize(("api", "switch"), SWITCHES)
def test_every_switch_is_explained_with_its_default(api: str, switch: str) -> None:
    rows = PAGE.with_name("law-books.md").read_text(encoding="utf-8").splitlines()
    (row,) = (row for row in rows if row.startswith(f"| `{api}.{switch}` | `{getattr(DEFAULTS[api], switch)!r}` | "))
    governed = [clause.id for clause in BOOKS[api].clauses.values() if clause.switch == switch]
    named = set(re.findall(r"\w+", row))
    assert set(governed) <= named
