"""Every clause of the Responses law book, broken and obeyed, with the exact answer."""

from __future__ import annotations

import dataclasses

import pytest

from legato.providers.rules.responses.laws import BOOK, Profile, envelope, judge
from legato.providers.rules.rule_set import Clause, Complaint
from tests.providers.lawcase import LawCase, filled
from tests.providers.responses.cases import CASES
from tests.providers.responses.world import World, tokens

BREAKABLE = [case for case in CASES if case.breaks is not None]


def put(case: LawCase, request: dict[str, object] | None) -> tuple[list[Complaint], World]:
    """The complaints about a request of a case, after what the case sets up."""
    world = World(Profile(**case.profile))
    for step in case.setup:
        world.take(step)
    sent = filled(request, world.saved)
    return judge(sent, world.account(), Profile(**case.profile), tokens(sent)), world


def test_every_clause_has_a_case_and_every_case_a_clause() -> None:
    assert sorted(case.clause for case in CASES) == sorted(BOOK.clauses)


def test_only_clauses_that_permit_cannot_be_broken() -> None:
    assert {case.clause for case in CASES if case.breaks is None} == {id for id, clause in BOOK.clauses.items() if clause.permits}


@pytest.mark.parametrize("case", BREAKABLE, ids=lambda case: case.clause)
def test_what_breaks_a_clause_breaks_nothing_else_and_gets_its_exact_answer(case: LawCase) -> None:
    complaints, world = put(case, case.breaks)
    assert {complaint.clause.id for complaint in complaints} == {case.clause}
    assert complaints[0].status == case.status
    assert envelope(complaints[0], Profile(**case.profile)) == filled(case.body, world.saved)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.clause)
def test_what_obeys_a_clause_breaks_none(case: LawCase) -> None:
    assert put(case, case.obeys)[0] == []


@pytest.mark.parametrize("case", [case for case in BREAKABLE if case.profile], ids=lambda case: case.clause)
def test_a_switch_of_a_case_makes_the_difference(case: LawCase) -> None:
    plain = dataclasses.replace(case, profile={})
    assert case.clause not in {complaint.clause.id for complaint in put(plain, case.breaks)[0]}


@pytest.mark.parametrize("clause", [clause for clause in BOOK.clauses.values() if clause.switch], ids=lambda clause: clause.id)
def test_the_switch_of_a_clause_is_a_field_of_the_profile(clause: Clause) -> None:
    assert clause.switch in Profile.__struct_fields__
