"""The phases of the Messages API's law book. May know: cases. Decides: in which order the API complains."""

from __future__ import annotations

from collections.abc import Iterable

from legato.providers.rules.anthropic.case import Case
from legato.providers.rules.anthropic.request import differences
from legato.providers.rules.anthropic.shapes import Found
from legato.providers.rules.anthropic.turns import steps
from legato.providers.rules.rule_set import Book, Fault, Grade

BOOK: Book[Case] = Book("anthropic")

HEADERS = BOOK.phase("before the body is read")
BODY = BOOK.phase("the body")
SHAPE = BOOK.phase("the shape of the fields", each=lambda case: differences(case.request, case.betas, case.removed_fields))
MODEL = BOOK.phase("the model")
SETTINGS = BOOK.phase("settings that do not go together")
CONVERSATION = BOOK.phase("roles and contents")
TOOLS = BOOK.phase("uses of tools and their results", each=lambda case: steps(case.turns))
LOOP = BOOK.phase("thinking within a loop of tools")
THINKING = BOOK.phase("thinking that is sent back", each=lambda case: case.thoughts)
END = BOOK.phase("the end of the conversation")
CACHE = BOOK.phase("caching")
WINDOW = BOOK.phase("the model's window")


def shape(id: str, rule: str, *, grade: Grade, seen: str) -> None:
    """Write down a clause about shapes."""

    def find(case: Case, found: Found) -> Iterable[Fault]:
        return (found.fault,) if found.clause == id else ()

    BOOK.law(id, rule, SHAPE, grade=grade, seen=seen)(find)
