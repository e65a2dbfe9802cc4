"""Export of sessions as text, and their import, with their child sessions.

An imported session is a *copy*. It gets a marker (`Opened` with its origin): its requests have new ids, its open attempts belong to no
driver, and approvals are requested again. With `move`, the caller asserts that the original session will not continue, and decisions made
there stay valid. If the store has the same ledger already, a ledger that is as long or longer stays as it is, and a ledger that diverged is
refused. Child sessions are exported and imported with their parent, each as a copy of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from legato.core.argument_checks import require_function, require_secret_key
from legato.core.child_session_ids import make_child_session_id
from legato.core.codec import make_newer_format_error
from legato.core.digests import digest_bytes
from legato.core.fact_rows import decode_rows, encode_rows
from legato.core.facts import AnyFact, CallStarted, Opened, Origin
from legato.core.messages import find_content_digests
from legato.core.state import State, fold
from legato.errors import BadInput, CodecError, DefinitionChanged, LedgerConflict, LedgerExists
from legato.runtime.clock import new_id, now_ms
from legato.runtime.session_cache import CachedState, cache_state, measure_facts
from legato.stores.contract import Store, read_with_identity

if TYPE_CHECKING:
    from legato.runtime.session import Session


TEXT_FORMAT = 2
"""The format of the text: rows, with the names of facts only once (core/fact_rows.py). No released version wrote format 1."""


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The text's JSON document. Its field names are part of the format."""

    legato: int
    session: str
    facts: list[msgspec.Raw]
    shapes: list[list[str]] = []
    contents: dict[str, str] = {}
    context: Any = None
    has_context: bool = False
    children: dict[str, _Envelope] = {}
    """Child sessions, by the idempotency key of their call."""


class _FormatProbe(msgspec.Struct):
    legato: int = 0


async def export_session(session: Session, serialize: Callable[[Any], Any] | None, strict: bool, sign_with: bytes | None) -> str:
    """Return a session as text."""
    if serialize is not None:
        require_function("serialize_context", serialize)
    if session.context is not None and serialize is None and strict:
        raise BadInput(
            f"session {session.id!r} has a context, and no function to encode it",
            do="pass serialize_context=..., or strict=False to leave it behind",
        )
    # Child sessions are read after their parent. One that is ahead of its parent can continue; one behind it would repeat effects.
    envelope = await _read_envelope(session.store, session.id, session.facts)
    if serialize is not None and session.context is not None:
        envelope.context, envelope.has_context = serialize(session.context), True
    key = require_secret_key("sign_with", sign_with) if sign_with is not None else None
    try:
        return await asyncio.to_thread(_encode_envelope, envelope, key)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"serialize_context gave something that is not JSON: {error}", do="return plain values") from error


def _encode_envelope(envelope: _Envelope, key: bytes | None) -> str:
    text = msgspec.json.encode(envelope).decode()
    return f"{text}\n{_sign(text, key)}" if key is not None else text


async def _read_envelope(store: Store, id: str, facts: list[AnyFact]) -> _Envelope:
    digests = await asyncio.to_thread(_find_all_content_digests, facts)
    contents = {digest: b64encode(await store.content(id, digest)).decode() for digest in digests}
    children = {}
    if infos := await store.children(id):
        started = await asyncio.to_thread(lambda: _find_started_keys(fold(facts)))  # without calls that were started since
        keys = {info.ledger.removeprefix(f"{id}/") for info in infos}
        for key in sorted(keys & started):
            child_id = make_child_session_id(id, key)
            children[key] = await _read_envelope(store, child_id, list(await store.read(child_id)))
    shapes, rows = await asyncio.to_thread(encode_rows, facts)
    return _Envelope(TEXT_FORMAT, id, rows, shapes, contents, children=children)


def decode_session(text: str, workflow: str, verify_with: bytes | None) -> dict[str, Any]:
    """Decode and check the text of a session. `CodecError` if it is no session, was changed, or is newer than this version."""
    if not isinstance(text, str):
        raise BadInput("a session is loaded from text", found=type(text).__name__, do="pass what session.to_string() gave")
    body, _, signature = text.partition("\n")
    if verify_with is not None and not _is_signed(body, signature.strip(), require_secret_key("verify_with", verify_with)):
        raise CodecError("the signature does not fit: the string was changed, or signed with another key", do="export it again")
    try:
        format = msgspec.json.decode(body, type=_FormatProbe).legato
        if format > TEXT_FORMAT:
            raise make_newer_format_error(format, TEXT_FORMAT)
        if format < TEXT_FORMAT:
            raise ValueError(f"it has format {format}, and the oldest is {TEXT_FORMAT}" if format else "it names no format")
        envelope = msgspec.json.decode(body, type=_Envelope)
        decoded = _decode_envelope(envelope)
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError) as error:
        if isinstance(error, CodecError):
            raise
        expected = "text made by session.to_string()"
        raise CodecError(f"this is not a session: {error}", expected=expected, do="check where it comes from") from None
    if decoded["facts"] and decoded["workflow"] != workflow:
        raise DefinitionChanged(
            f"this is a session of workflow {decoded['workflow']!r}, not of {workflow!r}", do="load it with a workflow of that name"
        )
    return decoded


def _decode_envelope(envelope: _Envelope) -> dict[str, Any]:
    """Decode and check an envelope, with the envelopes of child sessions."""
    contents = {digest: b64decode(data, validate=True) for digest, data in envelope.contents.items()}
    facts = decode_rows(envelope.shapes, envelope.facts)
    state = fold(facts)  # an illegal ledger is refused here, before anything is written
    for digest, data in contents.items():
        if digest_bytes(data) != digest:
            raise CodecError(f"the content {digest!r} was changed: its bytes are not those it names", do="export the session again")
    digests = _find_all_content_digests(facts)
    if missing := digests - contents.keys():
        raise CodecError(
            "this is a part of a session: what its facts name is not in it",
            expected=f"{len(digests)} contents",
            found=f"{len(missing)} of them missing, for example {min(missing)!r}",
            do="export the session again",
        )
    if stray := envelope.children.keys() - _find_started_keys(state):
        raise CodecError(f"it holds a child session of no call: {min(stray)[:80]!r}", do="check where it comes from")
    return {
        "session": envelope.session,
        "workflow": state.workflow,
        "facts": facts,
        "state": state,
        "contents": contents,
        "context": envelope.context if envelope.has_context else None,
        "has_context": envelope.has_context,
        "children": {key: _decode_envelope(each) for key, each in envelope.children.items()},
    }


async def import_session(session: Session, decoded: Mapping[str, Any]) -> None:
    """Write a decoded session to the store of the handle, unless it is there already. `LedgerExists` if another conversation is there."""
    await _check_tree(session.store, session.id, decoded)
    await _import_tree(session.store, session.id, decoded, "move" if decoded["move"] else "copy")


async def _check_tree(store: Store, id: str, decoded: Mapping[str, Any]) -> None:
    """Refuse a session tree before anything is written, if the store has another version of one of its sessions."""
    _, existing = await read_with_identity(store, id)
    _contains_all(id, list(existing), decoded["facts"])
    for key, each in decoded["children"].items():
        await _check_tree(store, make_child_session_id(id, key), each)


def _contains_all(id: str, existing: list[AnyFact], facts: list[AnyFact]) -> bool:
    """Return True if the existing facts begin with all these facts; `LedgerExists` if they differ."""
    if existing[: len(facts)] == facts:
        return True
    if facts[: len(existing)] != existing:
        raise LedgerExists(
            f"the store has another session {id!r}: the two went different ways",
            expected=f"a ledger that begins with the {len(facts)} loaded facts",
            found=f"{len(existing)} facts that differ",
            do='load it as a session of its own: workflow.load(text, id="another-name"); nothing was changed',
        )
    return False


async def _import_tree(store: Store, id: str, decoded: Mapping[str, Any], kind: Literal["copy", "move"]) -> None:
    for key, each in decoded["children"].items():  # child sessions first, so that no call waits for a missing one
        await _import_tree(store, make_child_session_id(id, key), each, kind)
    while True:
        try:
            return await _import_one(store, id, decoded, kind)
        except LedgerConflict:
            continue  # another process imports the same text, or the conversation there continues: compare again


async def _import_one(store: Store, id: str, decoded: Mapping[str, Any], kind: Literal["copy", "move"]) -> None:
    facts: list[AnyFact] = decoded["facts"]
    existing_ledger_id, read = await read_with_identity(store, id)
    existing = list(read)
    if _contains_all(id, existing, facts):
        return
    ledger_id, contents = new_id(), decoded["contents"]
    opened = Opened(at=now_ms(), ledger_id=ledger_id, workflow=decoded["workflow"], origin=Origin(decoded["session"], len(facts), kind))
    if existing:  # the copy continues it: it was restored from a backup, for example, and the original session continued elsewhere
        await store.append(id, len(existing), [*facts[len(existing) :], opened], contents=contents, ledger_id=existing_ledger_id)
        return
    await store.append(id, 0, [*facts, opened], contents=contents, ledger_id=ledger_id)
    state: State = decoded["state"]  # it was folded for the checks, so the next handle need not fold it again
    state.session_id = id
    state.apply(opened)
    cache_state(store, id, CachedState(ledger_id, state, measure_facts(state.facts)))


def _find_started_keys(state: State) -> set[str]:
    """Return the idempotency keys of the calls that were started. No other call has a child session."""
    return {state.make_idempotency_key(fact.call) for fact in state.facts if isinstance(fact, CallStarted)}


def _find_all_content_digests(facts: list[AnyFact]) -> set[str]:
    """Return the digests of all contents that these facts name."""
    return set().union(*map(find_content_digests, facts))


def _sign(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _is_signed(text: str, signature: str, key: bytes) -> bool:
    return hmac.compare_digest(_sign(text, key).encode(), signature.encode("utf-8", "surrogatepass"))
