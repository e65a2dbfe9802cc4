"""The schema of the input items. May know: the table of shapes. Decides: what is wrong with one item, whatever stands around it.

Laws of this phase are asked item by item: everything about the first before anything about the second. What a message's content
may hold is in parts.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from legato.providers.rules.responses.book import BOOK, FIRST_TYPES, ITEMS
from legato.providers.rules.responses.case import ROLES, Case, Item
from legato.providers.rules.responses.shapes import (
    ITEM_SHAPES,
    PRINTED_ITEM_TYPES,
    QUOTED_PREFIXES,
    READ_PREFIXES,
    TYPES,
    VALUES,
    fits,
)
from legato.providers.rules.responses.texts import (
    SEEN,
    array_too_long,
    empty,
    missing,
    not_one_of,
    off_pattern,
    too_long,
    unknown,
    wrong_type,
)
from legato.providers.rules.rule_set import Fault, Finder

ID_LIMIT = 64
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
NO_DOCUMENT = re.compile(r"data:((?:audio|video)/[\w.+-]+)[;,]", re.ASCII)


def about(*names: str) -> Callable[[Finder], Finder]:
    """A law about items of these types only."""
    types = frozenset(names)

    def narrow(find: Finder) -> Finder:
        def asked(case: Case, at: Item) -> Iterable[Fault]:
            return find(case, at) if at.type in types else ()

        return asked

    return narrow


# -- what the input is -------------------------------------------------------------------------------------------------


@BOOK.law("V33", "`model` is a string.", FIRST_TYPES, grade="A", seen=SEEN)
def the_model_is_a_string(case: Case) -> Iterator[Fault]:
    model = case.request.get("model", "")  # without one, a stored prompt has it
    if model is None:
        model = {}  # here, as for `input`, null is called an object
    if not isinstance(model, str):
        yield wrong_type("model", "a string", model)


@BOOK.law("N1", "`input` is not null.", FIRST_TYPES, grade="A", seen=SEEN)
def the_input_is_not_null(case: Case) -> Iterator[Fault]:
    if "input" in case.request and case.request["input"] is None:
        yield wrong_type("input", "a string", {})


@BOOK.law("N2", "`input` is a string or an array of items.", FIRST_TYPES, grade="A", seen=SEEN)
def the_input_is_text_or_items(case: Case) -> Iterator[Fault]:
    if not isinstance(case.sent("input"), str | list | None):
        yield wrong_type("input", "one of a string or array of input items", case.sent("input"))


# -- what an item is ---------------------------------------------------------------------------------------------------


@BOOK.law("N3", "An input item is an object.", ITEMS, grade="A", seen=SEEN)
def an_item_is_an_object(case: Case, at: Item) -> Iterator[Fault]:
    if at.item is not at.sent:
        yield wrong_type(at.path, "an input item", at.sent)


@BOOK.law("N4", "An input item has a known type.", ITEMS, grade="A", seen=SEEN)
def an_item_has_a_known_type(case: Case, at: Item) -> Iterator[Fault]:
    if at.item is at.sent and at.type not in ITEM_SHAPES:
        yield not_one_of(at.path, at.type, PRINTED_ITEM_TYPES)


@BOOK.law("N5", "A message is from the assistant, the system, a developer or a user.", ITEMS, grade="A", seen=SEEN)
@about("message")
def a_message_has_a_role(case: Case, at: Item) -> Iterator[Fault]:
    if at.item.get("role") not in ROLES:
        yield not_one_of(at.path, at.item.get("role"), ROLES)


# -- what must be there ------------------------------------------------------------------------------------------------


@BOOK.law("N6", "A message has content.", ITEMS, grade="A", seen=SEEN)
@about("message")
def a_message_has_content(case: Case, at: Item) -> Iterator[Fault]:
    if "content" not in at.item:
        yield missing(f"{at.path}.content")


@BOOK.law("T7", "A function call has a call id, a name and arguments.", ITEMS, grade="A", seen=SEEN)
@about("function_call")
def a_call_is_whole(case: Case, at: Item) -> Iterator[Fault]:
    for name in at.shape.required:
        if name not in at.item:
            yield missing(f"{at.path}.{name}")


@BOOK.law("T22", "A function call output says which call or which tool it comes from.", ITEMS, grade="D", seen=SEEN)
@about("function_call_output")
def an_output_says_whose(case: Case, at: Item) -> Iterator[Fault]:
    if at.item.get("call_id") is None and at.item.get("name") is None:
        yield missing(f"{at.path}.call_id")


@BOOK.law("N14", "An item of any other type has what its type requires.", ITEMS, grade="C", seen=SEEN)
@about(*(ITEM_SHAPES.keys() - {"function_call", "message"}))
def an_item_is_whole(case: Case, at: Item) -> Iterator[Fault]:
    for name in at.shape.required:
        if name not in at.item:
            yield missing(f"{at.path}.{name}")


# -- what must not be there --------------------------------------------------------------------------------------------


@BOOK.law("N10", "An item has no unknown members.", ITEMS, grade="A", seen=SEEN)
def an_item_has_no_unknown_members(case: Case, at: Item) -> Iterator[Fault]:
    if at.shape.closed and not at.item.keys() <= at.shape.kinds.keys():
        for name in at.item:
            if name not in at.shape.kinds:
                yield unknown(f"{at.path}.{name}")


@BOOK.law("N11", "Only an assistant's message has a phase.", ITEMS, grade="A", seen=SEEN)
@about("message")
def only_the_assistant_has_phases(case: Case, at: Item) -> Iterator[Fault]:
    if at.item.get("phase") is not None and at.item.get("role") != "assistant":
        yield unknown(f"{at.path}.phase")


# Every report of this refusal is about reasoning. With calls it is not so: Agent Framework sent all of them with `status: null`, and
# the provider went on to complain of other things, or of nothing.
@BOOK.law("N13", "The status of reasoning is left out rather than null.", ITEMS, grade="C", seen=SEEN)
@about("reasoning")
def a_status_is_not_null(case: Case, at: Item) -> Iterator[Fault]:
    if at.item.get("status", "") is None:
        yield unknown(f"{at.path}.status")


# -- of what type its members are --------------------------------------------------------------------------------------


@BOOK.law("N15", "The members of an item have their types.", ITEMS, grade="B", seen=SEEN)
def members_have_their_types(case: Case, at: Item) -> Iterator[Fault]:
    kinds = at.shape.kinds
    for name, value in at.item.items():
        kind = kinds.get(name, "any")
        if kind == "any" or (kind == "string" and value.__class__ is str):
            continue
        if value is None and name not in at.shape.required:
            continue
        if not fits(kind, value):
            yield wrong_type(f"{at.path}.{name}", TYPES[kind][0], value)
        elif kind == "objects":
            for index, element in enumerate(value):
                if not isinstance(element, dict):
                    yield wrong_type(f"{at.path}.{name}[{index}]", "an object", element)


@BOOK.law("N23", "A file is not sound or film: those are no documents.", ITEMS, grade="A", seen="2026-04", code="invalid_value")
@about("message", "function_call_output", "custom_tool_call_output")
def a_file_is_a_document(case: Case, at: Item) -> Iterator[Fault]:
    member = "content" if at.type == "message" else "output"
    parts = at.item.get(member)
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        data = part.get("file_data") if isinstance(part, dict) and part.get("type") == "input_file" else None
        if isinstance(data, str) and (found := NO_DOCUMENT.match(data)):
            path = f"{at.path}.{member}[{index}].file_data"
            yield Fault(
                f"Invalid file data: '{path}'. Expected a base64-encoded data URL with a valid file MIME type "
                f"(e.g. 'data:text/plain;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type '{found[1]}'. Please see "
                "https://platform.openai.com/docs/assistants/tools/file-search#supported-files for supported file types.",
                path,
            )


@BOOK.law("N12", "A phase is 'commentary' or 'final_answer'.", ITEMS, grade="A", seen=SEEN)
@about("message")
def a_phase_is_known(case: Case, at: Item) -> Iterator[Fault]:
    phase = at.item.get("phase")
    if isinstance(phase, str) and at.item.get("role") == "assistant" and phase not in VALUES["phase"]:
        yield not_one_of(f"{at.path}.phase", phase, VALUES["phase"])


@BOOK.law("N16", "A status is one that the item's type can have.", ITEMS, grade="D", seen=SEEN)
def a_status_is_known(case: Case, at: Item) -> Iterator[Fault]:
    status = at.item.get("status")
    if isinstance(status, str) and (values := VALUES.get(at.shape.kinds.get("status", ""))) and status not in values:
        yield not_one_of(f"{at.path}.status", status, values)


@BOOK.law("R14", "A reasoning item has no content of its own.", ITEMS, grade="B", seen=SEEN)
@about("reasoning")
def reasoning_has_no_content(case: Case, at: Item) -> Iterator[Fault]:
    if isinstance(content := at.item.get("content"), list) and content:
        yield array_too_long(f"{at.path}.content", 0, len(content))


# -- ids and names -----------------------------------------------------------------------------------------------------


@BOOK.law("I11", "An item's id has at most 64 characters.", ITEMS, grade="B", seen=SEEN)
def an_id_is_short(case: Case, at: Item) -> Iterator[Fault]:
    if isinstance(id := at.item.get("id"), str) and len(id) > ID_LIMIT:
        yield too_long(f"{at.path}.id", ID_LIMIT, id)


def _misnamed(at: Item, prefixes: dict[str, str]) -> Iterator[Fault]:
    id, prefix = at.item.get("id"), prefixes[at.type]
    if isinstance(id, str) and not id.startswith(prefix):
        path = f"{at.path}.id"
        yield Fault(f"Invalid '{path}': '{id}'. Expected an ID that begins with '{prefix}'.", path, code="invalid_value")


@BOOK.law("I9", "An item's id begins as the ids of its type do.", ITEMS, grade="B", seen=SEEN)
@about(*QUOTED_PREFIXES)
def an_id_tells_the_type(case: Case, at: Item) -> Iterator[Fault]:
    return _misnamed(at, QUOTED_PREFIXES)


@BOOK.law("I10", "So it does for the types whose prefix was only read off accepted requests.", ITEMS, grade="C", seen=SEEN)
@about(*READ_PREFIXES)
def an_id_tells_the_rarer_type(case: Case, at: Item) -> Iterator[Fault]:
    return _misnamed(at, READ_PREFIXES)


@BOOK.law("T8", "A call id has at most 64 characters.", ITEMS, grade="B", seen=SEEN)
def a_call_id_is_short(case: Case, at: Item) -> Iterator[Fault]:
    if isinstance(call := at.item.get("call_id"), str) and len(call) > ID_LIMIT:
        yield too_long(f"{at.path}.call_id", ID_LIMIT, call)


@BOOK.law("T20", "A call id is not empty.", ITEMS, grade="B", seen=SEEN)
def a_call_id_is_not_empty(case: Case, at: Item) -> Iterator[Fault]:
    if at.item.get("call_id") == "":
        yield empty(f"{at.path}.call_id")


@BOOK.law("T21", "The name in a function call is a tool's name: letters, digits, _ and -.", ITEMS, grade="B", seen=SEEN)
@about("function_call")
def a_call_has_a_proper_name(case: Case, at: Item) -> Iterator[Fault]:
    if isinstance(name := at.item.get("name"), str) and not NAME.fullmatch(name):
        yield off_pattern(f"{at.path}.name", NAME_PATTERN)
