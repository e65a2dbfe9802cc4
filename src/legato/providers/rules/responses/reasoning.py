"""Reasoning items. May know: the whole input, what is stored, what seals say. Decides: whether encrypted content is genuine, and
whether reasoning stands where it stood when it was thought.

A reasoning item and the item that the model produced right after it belong together. The server knows what followed from the
stored item, or from the seal of its encrypted content. An item without an id is a new item to the server and belongs to nothing,
except that a call is also known by its call id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from legato.providers.rules.responses.book import BOOK, REASONING, SEALS
from legato.providers.rules.responses.case import Case, Entry, seal, text
from legato.providers.rules.responses.texts import SEEN
from legato.providers.rules.rule_set import Fault

SEALED = "invalid_encrypted_content"
DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$", re.ASCII)


# -- encrypted content -------------------------------------------------------------------------------------------------


def _unverified(entry: Entry, reason: str) -> Fault:
    return Fault(f"The encrypted content for item {entry.id} could not be verified. Reason: {reason}", None, entry.path)


@BOOK.law("R11", "Encrypted content is what this provider wrote, whole.", SEALS, grade="B", seen=SEEN, code=SEALED)
def a_seal_can_be_opened(case: Case, entry: Entry) -> Iterator[Fault]:
    if entry.id and case.opened(entry) is None:
        yield _unverified(entry, "Encrypted content could not be decrypted or parsed.")


@BOOK.law("R9", "Encrypted content was made for this organisation.", SEALS, grade="B", seen=SEEN, code=SEALED)
def a_seal_is_our_own(case: Case, entry: Entry) -> Iterator[Fault]:
    blob = case.opened(entry)
    if entry.id and blob is not None and blob.organisation != case.held.organisation:
        yield _unverified(entry, "Encrypted content organization_id did not match the target organization.")


@BOOK.law("R10", "Encrypted content stands under the id that it was made for.", SEALS, grade="B", seen=SEEN, code=SEALED)
def a_seal_is_its_items(case: Case, entry: Entry) -> Iterator[Fault]:
    blob = case.opened(entry)
    if entry.id and blob is not None and blob.organisation == case.held.organisation and blob.item not in ("", entry.id):
        yield _unverified(entry, "Encrypted content item_id did not match the target item id.")


def _nameless(entry: Entry) -> Fault:
    blob = seal(entry)
    return Fault(f"The encrypted content {blob[:4]}...{blob[-4:]} could not be verified.", None, entry.path)


@BOOK.law("R12", "So it is where the item has no id; then the content itself is named.", SEALS, grade="B", seen=SEEN, code=SEALED)
def a_nameless_seal_is_genuine(case: Case, entry: Entry) -> Iterator[Fault]:
    blob = case.opened(entry)
    if not entry.id and (blob is None or blob.organisation != case.held.organisation):
        yield _nameless(entry)


@BOOK.law("R13", "Encrypted content goes to the model that made it.", SEALS, grade="D", seen=SEEN, code=SEALED, switch="same_model_blobs")
def a_seal_is_its_models(case: Case, entry: Entry) -> Iterator[Fault]:
    blob = case.opened(entry)
    if blob is not None and blob.model and DATE.sub("", blob.model) != DATE.sub("", text(case.sent("model"))):
        if entry.id:
            yield _unverified(entry, "Encrypted content could not be decrypted or parsed.")
        else:
            yield _nameless(entry)


@BOOK.law("R15", "Encrypted content comes with the id of its item.", SEALS, grade="D", seen=SEEN, code=SEALED, switch="blobs_need_ids")
def a_seal_has_an_item(case: Case, entry: Entry) -> Iterator[Fault]:
    if not entry.id:
        yield _nameless(entry)


# -- what belongs together ---------------------------------------------------------------------------------------------


def _next(case: Case, entry: Entry) -> Entry | None:
    return case.entries[entry.place + 1] if entry.place + 1 < len(case.entries) else None


def _followed_by(case: Case, entry: Entry) -> str:
    """The id of what followed a reasoning item when it was produced; empty if nothing did, or it is not known."""
    stored, blob = case.look(entry.id), case.opened(entry)
    return (stored.following if stored else "") or (blob.following if blob else "")


def _bound(case: Case) -> Iterator[tuple[Entry, str]]:
    """The reasoning items of the request that need what followed them, and its id."""
    unstored = case.profile.reasoning_pairing_unstored
    for entry in case.entries:
        if not (entry.own and entry.type == "reasoning" and entry.id):
            continue
        stored = case.look(entry.id)
        # Reasoning that is not sealed is looked up, so it is stored if the request is accepted at all; sealed reasoning need not be.
        is_stored = stored is not None and (stored.certain or not seal(entry))
        if is_stored or (seal(entry) and unstored):
            yield entry, _followed_by(case, entry)


def _stands_in(case: Case, entry: Entry, following: str) -> bool:
    """Whether an item without an id is the call that followed: the same call id, or nothing known that would deny it."""
    if entry.id or not entry.call or not entry.spoken:
        return False
    stored = case.look(following)
    return stored.item.get("call_id") == entry.call if stored else not following.startswith("msg")


def _alone(entry: Entry) -> Fault:
    return Fault(f"Item '{entry.id}' of type 'reasoning' was provided without its required following item.", "input", entry.path)


@BOOK.law("R1", "After a reasoning item comes the item that followed it, not another.", REASONING, grade="A", seen=SEEN)
def reasoning_keeps_what_followed(case: Case) -> Iterator[Fault]:
    for entry, following in _bound(case):
        after = _next(case, entry)
        if following:
            replaced = following not in case.places and not (after and _stands_in(case, after, following))
        else:
            replaced = bool(after and after.spoken and after.type == "message" and not after.id)
        if replaced:
            yield _alone(entry)


@BOOK.law("R8", "A reasoning item that nothing followed is not sent.", REASONING, grade="B", seen=SEEN)
def reasoning_is_not_the_end(case: Case) -> Iterator[Fault]:
    for entry, following in _bound(case):
        after = _next(case, entry)
        if not following and not (after and after.spoken):
            yield _alone(entry)


def _bereft(entry: Entry, reasoning: str) -> Fault:
    return Fault(
        f"Item '{entry.id}' of type '{entry.type}' was provided without its required 'reasoning' item: '{reasoning}'.",
        "input",
        entry.path,
    )


def _thought_of(case: Case) -> Iterator[tuple[Entry, str]]:
    """The stored items of the request that were produced right after reasoning, and the reasoning's id."""
    for entry in case.entries:
        if entry.own and entry.id and entry.type != "reasoning":
            stored = case.look(entry.id)
            if stored is not None and stored.reasoning:
                yield entry, stored.reasoning


@BOOK.law("R2", "An item that was produced after reasoning, sent with its id, comes with that reasoning.", REASONING, grade="B", seen=SEEN)
def what_followed_keeps_its_reasoning(case: Case) -> Iterator[Fault]:
    for entry, reasoning in _thought_of(case):
        if reasoning not in case.places:
            yield _bereft(entry, reasoning)


@BOOK.law("R3", "Nothing stands between a reasoning item and what followed it.", REASONING, grade="C", seen=SEEN)
def nothing_comes_between(case: Case) -> Iterator[Fault]:
    known = set()
    for entry, reasoning in _thought_of(case):
        known.add(entry.id)
        if case.places.get(reasoning, entry.place - 1) != entry.place - 1:
            yield _bereft(entry, reasoning)
    for entry, following in _bound(case):
        place = case.places.get(following, entry.place + 1)
        if following not in known and place != entry.place + 1:
            yield _bereft(case.entries[place], entry.id)


BOOK.permits("I6", "Sealed reasoning is not looked up: any id will do if the seal is genuine.", grade="A", seen=SEEN, phase=SEALS)
BOOK.permits("R4", "The call after a reference to its reasoning may come without its id.", grade="A", seen=SEEN, phase=REASONING)
BOOK.permits("R5", "Reasoning may be left out if the items after it are sent without ids.", grade="A", seen=SEEN, phase=REASONING)
BOOK.permits("R6", "A call of a model that does not reason may go to one that does.", grade="A", seen=SEEN, phase=REASONING)
BOOK.permits(
    "R7",
    "After reasoning may come a message and calls, several calls, or a search and more reasoning.",
    grade="A",
    seen=SEEN,
    phase=REASONING,
)
