"""The law books, their profiles and all their cases, by API."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from legato.providers.rules.anthropic import laws as anthropic
from legato.providers.rules.chat import laws as chat
from legato.providers.rules.responses import laws as responses
from legato.providers.rules.rule_set import Book
from tests.providers.anthropic.cases import CASES as ANTHROPIC
from tests.providers.chat.cases import CASES as CHAT
from tests.providers.lawcase import LawCase
from tests.providers.responses.cases import CASES as RESPONSES

BOOKS: dict[str, Book[Any]] = {"responses": responses.BOOK, "chat": chat.BOOK, "anthropic": anthropic.BOOK}
DEFAULTS: dict[str, Struct] = {"responses": responses.OPENAI, "chat": chat.OPENAI, "anthropic": anthropic.Profile()}
CASEBOOKS: dict[str, list[LawCase]] = {"responses": RESPONSES, "chat": CHAT, "anthropic": ANTHROPIC}
CASES: list[tuple[str, LawCase]] = [(api, case) for api, cases in CASEBOOKS.items() for case in cases]
