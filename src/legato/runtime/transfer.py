"""Sessions as text, with their child sessions.

A loaded string is a *copy*: it gets a marker (`Opened` with its origin), so its requests have ids of their own, its open attempts
belong to no driver, and whatever permits an effect is asked again. With `move`, the caller says that the original will not go on, and what
was decided there holds here. Loading into a store that has the same ledger: what is there stays as it is if it is as long or longer, and a
divergence is refused. Child sessions (agents that work as tools) travel along, each as a copy of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from legato.core.argument_checks import function, secret_key
from legato.core.child_session_ids import child_session_id
from legato.core.codec import newer
from legato.core.digests import digest_bytes
from legato.core.fact_rows import from_rows, to_rows
from legato.core.facts import AnyFact, CallStarted, Opened, Origin
from legato.core.messages import contents_of
from legato.core.state import State, fold
from legato.errors import BadInput, CodecError, DefinitionChanged, LedgerConflict, LedgerExists
from legato.runtime.clock import fresh_name, now_ms
from legato.runtime.session_cache import CachedState, measure, share_state
from legato.stores.contract import Store, read_with_identity

if TYPE_CHECKING:
    from legato.runtime.session import Session


TEXT = 2
"""The form of the text: rows, and the names of facts once (core/fact_rows.py). No version that was released wrote form 1."""


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    legato: int
    session: str
    facts: list[msgspec.Raw]
    shapes: list[list[str]] = []
    contents: dict[str, str] = {}
    context: Any = None
    has_context: bool = False
    children: dict[str, _Envelope] = {}
    """Child sessions, by the idempotency key of their call."""


class _Peek(msgspec.Struct):
    legato: int = 0


async def depart(session: Session, serialize: Callable[[Any], Any] | None, strict: bool, sign_with: bytes | None) -> str:
    """The session as text."""
    if serialize is not None:
        function("serialize_context", serialize)
    if session.context is not None and serialize is None and strict:
        raise BadInput(
            f"session {session.id!r} has a context, and nothing says how to write it down",
            do="pass serialize_context=..., or strict=False to leave it behind",
        )
    # Child sessions are read after their parent: one that is ahead of it is gone on with, one behind it would do things again.
    envelope = await _envelope(session.store, session.id, session.facts)
    if serialize is not None and session.context is not None:
        envelope.context, envelope.has_context = serialize(session.context), True
    key = secret_key("sign_with", sign_with) if sign_with is not None else None
    try:
        return await asyncio.to_thread(_written, envelope, key)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"serialize_context gave something that is not JSON: {error}", do="return plain values") from error


def _written(envelope: _Envelope, key: bytes | None) -> str:
    text = msgspec.json.encode(envelope).decode()
    return f"{text}\n{_signature(text, key)}" if key is not None else text


async def _envelope(store: Store, id: str, facts: list[AnyFact]) -> _Envelope:
    named = await asyncio.to_thread(_named, facts)
    contents = {digest: b64encode(await store.content(id, digest)).decode() for digest in named}
    children = {}
    if infos := await store.children(id):
        started = await asyncio.to_thread(lambda: _started_keys(fold(facts)))  # not of calls that were started since the facts were read
        keys = {info.ledger.removeprefix(f"{id}/") for info in infos}
        for key in sorted(keys & started):
            name = child_session_id(id, key)
            children[key] = await _envelope(store, name, list(await store.read(name)))
    shapes, rows = await asyncio.to_thread(to_rows, facts)
    return _Envelope(TEXT, id, rows, shapes, contents, children=children)


def unpack(text: str, workflow: str, verify_with: bytes | None) -> dict[str, Any]:
    """What a string holds, checked: `CodecError` if it is not a session, was changed, or is newer than this version."""
    if not isinstance(text, str):
        raise BadInput("a session is loaded from text", found=type(text).__name__, do="pass what session.to_string() gave")
    body, _, signature = text.partition("\n")
    if verify_with is not None and not _signed(body, signature.strip(), secret_key("verify_with", verify_with)):
        raise CodecError("the signature does not fit: the string was changed, or signed with another key", do="get it anew")
    try:
        format = msgspec.json.decode(body, type=_Peek).legato
        if format > TEXT:
            raise newer(format, TEXT)
        if format < TEXT:
            raise ValueError(f"it has form {format}, and the oldest is {TEXT}" if format else "it names no format")
        envelope = msgspec.json.decode(body, type=_Envelope)
        arriving = _opened(envelope)
    except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError) as error:
        if isinstance(error, CodecError):
            raise
        expected = "text made by session.to_string()"
        raise CodecError(f"this is not a session: {error}", expected=expected, do="check where it comes from") from None
    if arriving["facts"] and arriving["workflow"] != workflow:
        raise DefinitionChanged(
            f"this is a session of workflow {arriving['workflow']!r}, not of {workflow!r}", do="load it with a workflow of that name"
        )
    return arriving


def _opened(envelope: _Envelope) -> dict[str, Any]:
    """An envelope's contents, checked; with those of the conversations that its calls wait for."""
    contents = {digest: b64decode(data, validate=True) for digest, data in envelope.contents.items()}
    facts = from_rows(envelope.shapes, envelope.facts)
    state = fold(facts)  # a ledger that breaks the rules is refused here, before it touches a store
    for digest, data in contents.items():
        if digest_bytes(data) != digest:
            raise CodecError(f"the content {digest!r} was changed: its bytes are not those it names", do="get the string anew")
    named = _named(facts)
    if missing := named - contents.keys():
        raise CodecError(
            "this is a part of a session: what its facts name is not in it",
            expected=f"{len(named)} contents",
            found=f"{len(missing)} of them missing, for example {min(missing)!r}",
            do="get the string anew",
        )
    if stray := envelope.children.keys() - _started_keys(state):
        raise CodecError(f"it holds a child session of no call: {min(stray)[:80]!r}", do="check where it comes from")
    return {
        "session": envelope.session,
        "workflow": state.workflow,
        "facts": facts,
        "state": state,
        "contents": contents,
        "context": envelope.context if envelope.has_context else None,
        "has_context": envelope.has_context,
        "children": {key: _opened(each) for key, each in envelope.children.items()},
    }


async def arrive(session: Session, arriving: Mapping[str, Any]) -> None:
    """Put a copy into the session's store, or find that it is there. `LedgerExists` if another conversation is."""
    await _check_all(session.store, session.id, arriving)
    await _all_arrive(session.store, session.id, arriving, "move" if arriving["move"] else "copy")


async def _check_all(store: Store, id: str, arriving: Mapping[str, Any]) -> None:
    """Refuse a family before any of it is written, if the store has one of its sessions in another version."""
    _, there = await read_with_identity(store, id)
    _check(id, list(there), arriving["facts"])
    for key, each in arriving["children"].items():
        await _check_all(store, child_session_id(id, key), each)


def _check(id: str, there: list[AnyFact], facts: list[AnyFact]) -> bool:
    """Whether the store has all these facts; `LedgerExists` if it has others."""
    if there[: len(facts)] == facts:
        return True
    if facts[: len(there)] != there:
        raise LedgerExists(
            f"the store has another session {id!r}: the two went different ways",
            expected=f"a ledger that begins with the {len(facts)} loaded facts",
            found=f"{len(there)} facts that differ",
            do='load it as a session of its own: workflow.load(text, id="another-name"); nothing was changed',
        )
    return False


async def _all_arrive(store: Store, id: str, arriving: Mapping[str, Any], kind: Literal["copy", "move"]) -> None:
    for key, each in arriving["children"].items():  # first, so that they are there when the call that waits for them is
        await _all_arrive(store, child_session_id(id, key), each, kind)
    while True:
        try:
            return await _arrive(store, id, arriving, kind)
        except LedgerConflict:
            continue  # the same string is being loaded by somebody else, or its conversation goes on: look again


async def _arrive(store: Store, id: str, arriving: Mapping[str, Any], kind: Literal["copy", "move"]) -> None:
    facts: list[AnyFact] = arriving["facts"]
    born, read = await read_with_identity(store, id)
    there = list(read)
    if _check(id, there, facts):
        return
    name = fresh_name()
    opened = Opened(at=now_ms(), ledger=name, workflow=arriving["workflow"], origin=Origin(arriving["session"], len(facts), kind))
    if there:  # what is there is how the copy begins: it was restored from a backup, perhaps, and the original may have gone on elsewhere
        await store.append(id, len(there), [*facts[len(there) :], opened], contents=arriving["contents"], born=born)
        return
    born = name
    await store.append(id, 0, [*facts, opened], contents=arriving["contents"], born=born)
    state: State = arriving["state"]  # it was folded to be checked: whoever opens the session need not do that again
    state.session = id
    state.apply(opened)
    share_state(store, id, CachedState(born, state, measure(state.facts)))


def _started_keys(state: State) -> set[str]:
    """The idempotency keys of the calls that were started: no other call has a child session."""
    return {state.idempotency_key(fact.call) for fact in state.facts if isinstance(fact, CallStarted)}


def _named(facts: list[AnyFact]) -> set[str]:
    """The digests of all contents that these facts name."""
    return set().union(*map(contents_of, facts))


def _signature(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _signed(text: str, signature: str, key: bytes) -> bool:
    return hmac.compare_digest(_signature(text, key).encode(), signature.encode("utf-8", "surrogatepass"))
