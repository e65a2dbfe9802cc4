"""The casebook of the Responses law book: for every clause what breaks it, with the exact answer, and the nearest that obeys it."""

from __future__ import annotations

from tests.providers.lawcase import LawCase
from tests.providers.responses import cases_calls, cases_fields, cases_items, cases_reasoning, cases_state, cases_tools

CASES: list[LawCase] = [
    *cases_items.CASES,
    *cases_fields.CASES,
    *cases_tools.CASES,
    *cases_state.CASES,
    *cases_calls.CASES,
    *cases_reasoning.CASES,
]
