"""The casebook of Chat Completions: for every clause, what breaks it, the exact answer, and what obeys it."""

from __future__ import annotations

from tests.providers.chat import cases_fields, cases_meaning
from tests.providers.lawcase import LawCase

CASES: list[LawCase] = [*cases_fields.CASES, *cases_meaning.CASES]
