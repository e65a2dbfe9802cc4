"""The content of a message. May know: the table of shapes. Decides: what is wrong with one part of it.

The server asks in two steps: a type that exists nowhere is refused with the list of all types, one that exists but is not for this
side of the conversation with the list of this side's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from legato.providers.rules.responses.book import BOOK, ITEMS
from legato.providers.rules.responses.case import Case, Item, Part
from legato.providers.rules.responses.shapes import ASSISTANT_PARTS, OTHER_PARTS, PART_TYPES, PRINTED_PART_TYPES, TYPES, fits
from legato.providers.rules.responses.texts import SEEN, missing, not_one_of, unknown, wrong_type
from legato.providers.rules.rule_set import Fault


def of_each_part(find: Callable[[Item, Part], Iterator[Fault]]) -> Callable[[Case, Item], Iterable[Fault]]:
    """A law about parts as a law about items."""

    def asked(case: Case, at: Item) -> Iterable[Fault]:
        return [fault for part in at.parts for fault in find(at, part)] if at.parts else ()

    return asked


@BOOK.law("N20", "A part of a message's content is an object.", ITEMS, grade="D", seen=SEEN)
@of_each_part
def a_part_is_an_object(at: Item, part: Part) -> Iterator[Fault]:
    if part.part is not part.sent:
        yield wrong_type(part.path, "an object", part.sent)


@BOOK.law("N9", "A part has a known type.", ITEMS, grade="A", seen=SEEN)
@of_each_part
def a_part_has_a_known_type(at: Item, part: Part) -> Iterator[Fault]:
    if part.type not in PART_TYPES and part.part is part.sent:
        yield not_one_of(f"{part.path}.type", part.type, PRINTED_PART_TYPES)


@BOOK.law("N7", "The assistant's content is text that was put out, or a refusal.", ITEMS, grade="A", seen=SEEN)
@of_each_part
def the_assistant_puts_out(at: Item, part: Part) -> Iterator[Fault]:
    if at.item.get("role") == "assistant" and part.type in PART_TYPES and part.type not in ASSISTANT_PARTS:
        yield not_one_of(part.path, part.type, ASSISTANT_PARTS)


@BOOK.law("N8", "Anyone else's content is put in.", ITEMS, grade="A", seen=SEEN)
@of_each_part
def others_put_in(at: Item, part: Part) -> Iterator[Fault]:
    if at.item.get("role") in ("user", "system", "developer") and part.type in PART_TYPES and part.type not in OTHER_PARTS:
        yield not_one_of(part.path, part.type, OTHER_PARTS)


@BOOK.law("N18", "A part has what its type requires.", ITEMS, grade="C", seen=SEEN)
@of_each_part
def a_part_is_whole(at: Item, part: Part) -> Iterator[Fault]:
    for name in part.shape.required:
        if name not in part.part:
            yield missing(f"{part.path}.{name}")


@BOOK.law("N17", "A part has no unknown members.", ITEMS, grade="D", seen=SEEN)
@of_each_part
def a_part_has_no_unknown_members(at: Item, part: Part) -> Iterator[Fault]:
    if part.shape.closed and not part.part.keys() <= part.shape.kinds.keys():
        yield from (unknown(f"{part.path}.{name}") for name in part.part if name not in part.shape.kinds)


@BOOK.law("N19", "The members of a part have their types.", ITEMS, grade="D", seen=SEEN)
@of_each_part
def a_part_has_proper_members(at: Item, part: Part) -> Iterator[Fault]:
    for name, value in part.part.items():
        kind = part.shape.kinds.get(name, "any")
        if kind != "any" and not fits(kind, value) and (value is not None or name in part.shape.required):
            yield wrong_type(f"{part.path}.{name}", TYPES[kind][0], value)


BOOK.permits(
    "N21",
    "System, developer, user and assistant messages may stand anywhere, with or without type, id and status.",
    grade="A",
    seen=SEEN,
    phase=ITEMS,
)
