"""The casebook of the Messages API: for every clause, what breaks it, the exact answer, and what obeys it."""

from __future__ import annotations

from tests.providers.anthropic import cases_conversation, cases_fields
from tests.providers.lawcase import LawCase

CASES: list[LawCase] = [*cases_fields.CASES, *cases_conversation.CASES]
