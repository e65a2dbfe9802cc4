"""The rules about reasoning items: their encrypted content is genuine, and their neighbours are those of the model's reply.

A reasoning item and the item that the model produced directly after it belong together. The server knows the next item from the stored
reasoning item, or from its encrypted content. An item without an id is new to the server and belongs to nothing, except that a call is
also identified by its call id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from legato.providers.rules.responses.check_order import ENCRYPTED_CONTENT, REASONING, RULES
from legato.providers.rules.responses.error_messages import AS_OF
from legato.providers.rules.responses.request_context import InputEntry, ResponsesContext, as_text, get_encrypted_content
from legato.providers.rules.rule_set import Finding

INVALID_CONTENT_CODE = "invalid_encrypted_content"
MODEL_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$", re.ASCII)


# -- encrypted content -------------------------------------------------------------------------------------------------


def _unverified_content(entry: InputEntry, reason: str) -> Finding:
    return Finding(f"The encrypted content for item {entry.id} could not be verified. Reason: {reason}", None, entry.path)


@RULES.rule(
    "R11",
    "Encrypted content was written by this provider, and is complete.",
    ENCRYPTED_CONTENT,
    grade="B",
    as_of=AS_OF,
    code=INVALID_CONTENT_CODE,
)
def encrypted_content_can_be_decrypted(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    if entry.id and context.decrypt(entry) is None:
        yield _unverified_content(entry, "Encrypted content could not be decrypted or parsed.")


@RULES.rule("R9", "Encrypted content was made for this organisation.", ENCRYPTED_CONTENT, grade="B", as_of=AS_OF, code=INVALID_CONTENT_CODE)
def encrypted_content_is_of_this_organisation(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    content = context.decrypt(entry)
    if entry.id and content is not None and content.organisation != context.state.organisation:
        yield _unverified_content(entry, "Encrypted content organization_id did not match the target organization.")


@RULES.rule(
    "R10",
    "Encrypted content has the item id that it was made for.",
    ENCRYPTED_CONTENT,
    grade="B",
    as_of=AS_OF,
    code=INVALID_CONTENT_CODE,
)
def encrypted_content_has_its_item_id(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    content = context.decrypt(entry)
    is_own = content is not None and content.organisation == context.state.organisation
    if entry.id and content is not None and is_own and content.item_id not in ("", entry.id):
        yield _unverified_content(entry, "Encrypted content item_id did not match the target item id.")


def _unverified_content_without_id(entry: InputEntry) -> Finding:
    text = get_encrypted_content(entry)
    return Finding(f"The encrypted content {text[:4]}...{text[-4:]} could not be verified.", None, entry.path)


@RULES.rule(
    "R12",
    "Encrypted content of an item without an id is genuine too; the error quotes the content.",
    ENCRYPTED_CONTENT,
    grade="B",
    as_of=AS_OF,
    code=INVALID_CONTENT_CODE,
)
def encrypted_content_without_id_is_genuine(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    content = context.decrypt(entry)
    if not entry.id and (content is None or content.organisation != context.state.organisation):
        yield _unverified_content_without_id(entry)


@RULES.rule(
    "R13",
    "Encrypted content goes to the model that made it.",
    ENCRYPTED_CONTENT,
    grade="D",
    as_of=AS_OF,
    code=INVALID_CONTENT_CODE,
    switch="same_model_blobs",
)
def encrypted_content_is_of_the_same_model(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    content, model = context.decrypt(entry), as_text(context.get_field("model"))
    if content is not None and content.model and MODEL_DATE.sub("", content.model) != MODEL_DATE.sub("", model):
        if entry.id:
            yield _unverified_content(entry, "Encrypted content could not be decrypted or parsed.")
        else:
            yield _unverified_content_without_id(entry)


@RULES.rule(
    "R15",
    "Encrypted content comes with the id of its item.",
    ENCRYPTED_CONTENT,
    grade="D",
    as_of=AS_OF,
    code=INVALID_CONTENT_CODE,
    switch="blobs_need_ids",
)
def encrypted_content_has_an_item_id(context: ResponsesContext, entry: InputEntry) -> Iterator[Finding]:
    if not entry.id:
        yield _unverified_content_without_id(entry)


# -- reasoning and its next item ---------------------------------------------------------------------------------------


def _next_entry(context: ResponsesContext, entry: InputEntry) -> InputEntry | None:
    return context.entries[entry.position + 1] if entry.position + 1 < len(context.entries) else None


def _find_next_item_id(context: ResponsesContext, entry: InputEntry) -> str:
    """Return the id of the item that the model produced directly after a reasoning item; empty if there is none, or it is not known."""
    stored, content = context.find_stored_item(entry.id), context.decrypt(entry)
    return (stored.next_item_id if stored else "") or (content.next_item_id if content else "")


def _list_paired_reasoning(context: ResponsesContext) -> Iterator[tuple[InputEntry, str]]:
    """List the request's reasoning items that need their next item, each with the next item's id."""
    for entry in context.entries:
        if not (entry.is_in_request and entry.type == "reasoning" and entry.id):
            continue
        stored = context.find_stored_item(entry.id)
        # Reasoning without encrypted content is looked up, so it is stored if the request is accepted at all; other reasoning need not be.
        is_stored = stored is not None and (stored.is_known or not get_encrypted_content(entry))
        if is_stored or (get_encrypted_content(entry) and context.switches.reasoning_pairing_unstored):
            yield entry, _find_next_item_id(context, entry)


def _is_same_call(context: ResponsesContext, entry: InputEntry, next_item_id: str) -> bool:
    """Return True if an item without an id may be the call with that item id: its call id is the same, or the stored one is not known."""
    if entry.id or not entry.call_id or not entry.is_model_output:
        return False
    stored = context.find_stored_item(next_item_id)
    return stored.item.get("call_id") == entry.call_id if stored else not next_item_id.startswith("msg")


def _missing_next_item(entry: InputEntry) -> Finding:
    return Finding(f"Item '{entry.id}' of type 'reasoning' was provided without its required following item.", "input", entry.path)


@RULES.rule("R1", "After a reasoning item comes the item that the model produced next, not another.", REASONING, grade="A", as_of=AS_OF)
def reasoning_keeps_its_next_item(context: ResponsesContext) -> Iterator[Finding]:
    for entry, next_item_id in _list_paired_reasoning(context):
        after = _next_entry(context, entry)
        if next_item_id:
            is_replaced = next_item_id not in context.positions_by_id and not (after and _is_same_call(context, after, next_item_id))
        else:
            is_replaced = bool(after and after.is_model_output and after.type == "message" and not after.id)
        if is_replaced:
            yield _missing_next_item(entry)


@RULES.rule("R8", "A reasoning item without a next item is not sent.", REASONING, grade="B", as_of=AS_OF)
def reasoning_is_not_the_end(context: ResponsesContext) -> Iterator[Finding]:
    for entry, next_item_id in _list_paired_reasoning(context):
        after = _next_entry(context, entry)
        if not next_item_id and not (after and after.is_model_output):
            yield _missing_next_item(entry)


def _missing_reasoning(entry: InputEntry, reasoning_id: str) -> Finding:
    return Finding(
        f"Item '{entry.id}' of type '{entry.type}' was provided without its required 'reasoning' item: '{reasoning_id}'.",
        "input",
        entry.path,
    )


def _list_items_after_reasoning(context: ResponsesContext) -> Iterator[tuple[InputEntry, str]]:
    """List the request's stored items that the model produced directly after reasoning, each with the reasoning's id."""
    for entry in context.entries:
        if entry.is_in_request and entry.id and entry.type != "reasoning":
            stored = context.find_stored_item(entry.id)
            if stored is not None and stored.reasoning_id:
                yield entry, stored.reasoning_id


@RULES.rule(
    "R2", "An item that was produced after reasoning, sent with its id, comes with that reasoning.", REASONING, grade="B", as_of=AS_OF
)
def an_item_keeps_its_reasoning(context: ResponsesContext) -> Iterator[Finding]:
    for entry, reasoning_id in _list_items_after_reasoning(context):
        if reasoning_id not in context.positions_by_id:
            yield _missing_reasoning(entry, reasoning_id)


@RULES.rule("R3", "Nothing stands between a reasoning item and its next item.", REASONING, grade="C", as_of=AS_OF)
def nothing_comes_between(context: ResponsesContext) -> Iterator[Finding]:
    checked_ids = set()
    for entry, reasoning_id in _list_items_after_reasoning(context):
        checked_ids.add(entry.id)
        if context.positions_by_id.get(reasoning_id, entry.position - 1) != entry.position - 1:
            yield _missing_reasoning(entry, reasoning_id)
    for entry, next_item_id in _list_paired_reasoning(context):
        position = context.positions_by_id.get(next_item_id, entry.position + 1)
        if next_item_id not in checked_ids and position != entry.position + 1:
            yield _missing_reasoning(context.entries[position], entry.id)


RULES.add_permission(
    "I6",
    "Encrypted reasoning is not looked up: any id is accepted if the content is genuine.",
    grade="A",
    as_of=AS_OF,
    phase=ENCRYPTED_CONTENT,
)
RULES.add_permission("R4", "The call after a reference to its reasoning may come without its id.", grade="A", as_of=AS_OF, phase=REASONING)
RULES.add_permission("R5", "Reasoning may be left out if the items after it are sent without ids.", grade="A", as_of=AS_OF, phase=REASONING)
RULES.add_permission("R6", "A call of a model that does not reason may go to one that does.", grade="A", as_of=AS_OF, phase=REASONING)
RULES.add_permission(
    "R7",
    "After reasoning may come a message and calls, several calls, or a search and more reasoning.",
    grade="A",
    as_of=AS_OF,
    phase=REASONING,
)
