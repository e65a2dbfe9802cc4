"""The table of contents of the Responses law book. May know: how a law book is written. Decides: the order of the phases.

The order of those that are numbered 1 to 7 was measured with live requests; that of the rest is inferred (grade D): what each phase asks is
settled by the ones before it. The clauses stand in laws.py (presence, state, lookups), items.py and parts.py (the schema of the
input), fields.py and tools.py (the schemas of the other fields), calls.py and reasoning.py (what belongs together).
"""

from __future__ import annotations

from collections.abc import Iterable

from legato.providers.rules.responses.case import Case, Entry, Item, Tool
from legato.providers.rules.rule_set import Book

BOOK: Book[Case] = Book("responses")


def _items(case: Case) -> Iterable[Item]:
    return case.items


def _tools(case: Case) -> Iterable[Tool]:
    return case.tools


def _sealed(case: Case) -> Iterable[Entry]:
    return case.sealed


# 0-3: an object, what must be there, and what must not.
BODY = BOOK.phase("the body")  # its place is inferred
MODEL_GIVEN = BOOK.phase("the model is given")
INPUT_GIVEN = BOOK.phase("the input is given")
KNOWN_KEYS = BOOK.phase("every key is known")

# 4: the schemas of the fields, in the server's order.
FIRST_TYPES = BOOK.phase("the types of model and input")
ITEMS = BOOK.phase("the schema of the input items", each=_items)
EARLY_FIELDS = BOOK.phase("the fields before the tools")
TOOL_LIST = BOOK.phase("the list of tools")
EACH_TOOL = BOOK.phase("the schema of the tools", each=_tools)
TOOL_CHOICE = BOOK.phase("the tool choice")
LATE_FIELDS = BOOK.phase("the fields after the tools")
MODEL_KNOWN = BOOK.phase("the model exists")  # its place is inferred

# 5-7: what the server holds, whether there is anything to answer, what the model can do.
STATE = BOOK.phase("server-held state")
SOMETHING = BOOK.phase("there is something to answer")
CAPABILITY = BOOK.phase("what the model can do")

# 8: the input as a whole, together with what the server holds. Order inferred.
DUPLICATES = BOOK.phase("no item twice")
LOOKUP = BOOK.phase("items that are looked up")
SEALS = BOOK.phase("encrypted content", each=_sealed)
CALLS = BOOK.phase("calls and their outputs")
REASONING = BOOK.phase("reasoning and what followed it")
WINDOW = BOOK.phase("the context window")
