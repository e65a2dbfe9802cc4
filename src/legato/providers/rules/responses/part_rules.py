"""The rules about a part of a message's content.

The server checks a part's type in two steps. An unknown type is refused with the list of all types; a known type that the role may not
send is refused with the list of the role's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from legato.providers.rules.responses.check_order import ITEMS, RULES
from legato.providers.rules.responses.error_messages import AS_OF, missing_member, unknown_member, unsupported_value, wrong_type
from legato.providers.rules.responses.request_context import ContentPart, RequestItem, ResponsesContext
from legato.providers.rules.responses.type_shapes import (
    ASSISTANT_PART_TYPES,
    INPUT_PART_TYPES,
    MEMBER_TYPES,
    PART_TYPES,
    PRINTED_PART_TYPES,
    has_member_type,
)
from legato.providers.rules.rule_set import Finding


def for_each_part(
    find: Callable[[RequestItem, ContentPart], Iterator[Finding]],
) -> Callable[[ResponsesContext, RequestItem], Iterable[Finding]]:
    """Turn a rule's function about parts into one about items."""

    def find_in_parts(context: ResponsesContext, item: RequestItem) -> Iterable[Finding]:
        return [finding for part in item.parts for finding in find(item, part)] if item.parts else ()

    return find_in_parts


@RULES.rule("N20", "A part of a message's content is an object.", ITEMS, grade="D", as_of=AS_OF)
@for_each_part
def a_part_is_an_object(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    if part.members is not part.raw:
        yield wrong_type(part.path, "an object", part.raw)


@RULES.rule("N9", "A part has a known type.", ITEMS, grade="A", as_of=AS_OF)
@for_each_part
def a_part_has_a_known_type(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    if part.type not in PART_TYPES and part.members is part.raw:
        yield unsupported_value(f"{part.path}.type", part.type, PRINTED_PART_TYPES)


@RULES.rule("N7", "An assistant message has output text or refusals.", ITEMS, grade="A", as_of=AS_OF)
@for_each_part
def an_assistant_message_has_output_parts(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    if item.members.get("role") == "assistant" and part.type in PART_TYPES and part.type not in ASSISTANT_PART_TYPES:
        yield unsupported_value(part.path, part.type, ASSISTANT_PART_TYPES)


@RULES.rule("N8", "A message of any other role has input parts.", ITEMS, grade="A", as_of=AS_OF)
@for_each_part
def another_message_has_input_parts(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    if item.members.get("role") in ("user", "system", "developer") and part.type in PART_TYPES and part.type not in INPUT_PART_TYPES:
        yield unsupported_value(part.path, part.type, INPUT_PART_TYPES)


@RULES.rule("N18", "A part has the members that its type requires.", ITEMS, grade="C", as_of=AS_OF)
@for_each_part
def a_part_has_required_members(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    for name in part.shape.required:
        if name not in part.members:
            yield missing_member(f"{part.path}.{name}")


@RULES.rule("N17", "A part has no unknown members.", ITEMS, grade="D", as_of=AS_OF)
@for_each_part
def a_part_has_no_unknown_members(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    if part.shape.is_closed and not part.members.keys() <= part.shape.member_types.keys():
        yield from (unknown_member(f"{part.path}.{name}") for name in part.members if name not in part.shape.member_types)


@RULES.rule("N19", "The members of a part have their types.", ITEMS, grade="D", as_of=AS_OF)
@for_each_part
def the_members_of_a_part_have_their_types(item: RequestItem, part: ContentPart) -> Iterator[Finding]:
    for name, value in part.members.items():
        type = part.shape.member_types.get(name, "any")
        if type != "any" and not has_member_type(type, value) and (value is not None or name in part.shape.required):
            yield wrong_type(f"{part.path}.{name}", MEMBER_TYPES[type][0], value)


RULES.add_permission(
    "N21",
    "System, developer, user and assistant messages may stand anywhere, with or without type, id and status.",
    grade="A",
    as_of=AS_OF,
    phase=ITEMS,
)
