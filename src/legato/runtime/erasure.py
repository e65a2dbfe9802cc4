"""The erasure of text from a session, and the report about it.

`core/redaction.py` decides how an erasure changes a ledger, and the store makes the change atomically. Copies of the text outside of
Legato's stores cannot be erased from here, so the report names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from legato.core.child_session_ids import make_child_session_id
from legato.core.codec import encode_fact
from legato.core.digests import keyed_digest
from legato.core.facts import AnyFact, Call, CallRef, ModelReplied, Redacted
from legato.core.messages import Message, validate_text
from legato.core.redaction import PositionRedactor
from legato.core.state import State
from legato.errors import BadInput, UnknownLedger
from legato.runtime.clock import new_key, now_ms
from legato.runtime.ledger import fold_in_slices
from legato.runtime.session_cache import SESSION_CACHE
from legato.stores.contract import Store


class Redaction(Struct, frozen=True):
    """The report of an erasure.

    - `positions`: the facts that lost the requested text; empty if there was nothing (more) to erase.
    - `derived`: facts that lost other text, because it was made from the erased text.
    - `quoting`: facts that still quote some of the erased text. Erase them too if necessary.
    - `forks`: other sessions that shared the text, and have lost it too.
    - `child_sessions`: sessions of agents that worked as tools for calls at or after the text. Check them, and erase there what repeats it.
    - `providers`: ids of responses and conversations that providers store and that contain the text. Legato never continues them again;
      delete them at the provider.
    - `key`: confirms later what was erased, for a person who has a copy: `proves(position, fact)`. It is stored nowhere. Without it the
      digests in the ledger reveal nothing.
    """

    session: str
    positions: tuple[int, ...] = ()
    derived: tuple[int, ...] = ()
    quoting: tuple[int, ...] = ()
    forks: tuple[str, ...] = ()
    child_sessions: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    key: str = ""
    digests: tuple[str, ...] = ()

    def proves(self, position: int, fact: AnyFact) -> bool:
        """Return True if exactly this fact was at the position before its text was erased."""
        digests = dict(zip(self.positions, self.digests, strict=True))
        return digests.get(position) == keyed_digest(encode_fact(fact), bytes.fromhex(self.key))

    def __repr__(self) -> str:
        return (
            f"<Redaction in {self.session!r}: {len(self.positions)} facts, {len(self.derived)} derived, {len(self.quoting)} still quoting>"
        )


async def redact_facts(
    store: Store,
    session_id: str,
    positions: Iterable[int] | None,
    *,
    reason: str = "",
    by: str = "",
    turn_contexts: bool = False,
    ledger_id: str = "",
) -> Redaction:
    """Erase the text of the facts at these positions of a session, or (None) all of its text. See `Session.redact`."""
    validate_text(reason, "reason of an erasure", allow_empty=True)
    validate_text(by, "name of the person who erases", allow_empty=True)
    chosen = None if positions is None else frozenset(positions)
    if chosen is not None and not chosen:
        raise BadInput("nothing was named to erase", do="give positions or messages, or everything=True")
    length = len(await store.read(session_id, ledger_id=ledger_id))
    if not length:
        raise UnknownLedger(f"there is no session {session_id!r} to erase from", do="look at store.list()")
    if missing := sorted(position for position in chosen or () if not 0 <= position < length):
        raise BadInput(f"session {session_id!r} has {length} facts", found=f"position {missing[0]}", do="nothing was changed")
    key = new_key()
    try:
        redactions = await store.redact(session_id, PositionRedactor(chosen, key, now_ms(), reason, by, turn_contexts), ledger_id=ledger_id)
    finally:
        SESSION_CACHE.remove_store(store)  # also after an error, because the erasure may have been recorded
    if session_id not in redactions:
        return Redaction(session_id)
    redaction = redactions[session_id]
    (redacted,) = (fact for fact in redaction.appended_facts if isinstance(fact, Redacted))
    facts = await store.read(session_id, ledger_id=ledger_id)
    return Redaction(
        session=session_id,
        positions=redacted.positions,
        derived=redacted.derived,
        quoting=redaction.quoting_positions,
        forks=tuple(sorted(redactions.keys() - {session_id})),
        child_sessions=await _find_child_sessions(store, session_id, facts, redacted.positions[0]),
        providers=_find_provider_ids(facts, redacted),
        key=key.hex(),
        digests=redacted.digests,
    )


def find_positions(state: State, targets: Sequence[int | Message]) -> frozenset[int]:
    """Return the positions of these messages: of a user's message, a reply, or the output of a call."""
    positions = set()
    for each in targets:
        if isinstance(each, Message) and each.call:
            positions.add(_find_output_position(state, each.call))
        elif isinstance(each, Message):
            positions.add(each.position)
        elif isinstance(each, int) and not isinstance(each, bool):
            positions.add(each)
        else:
            raise BadInput("redact takes positions and messages", found=repr(each)[:80], do="write redact(session.messages[0])")
    return frozenset(positions)


def _find_output_position(state: State, call: str) -> int:
    for group in state.groups:
        for each in group.calls:
            if str(each.ref) == call and each.output is not None:
                return each.output.position
    raise BadInput(f"call {call} has no output in session {state.session_id!r}", do="nothing was changed")


async def _find_child_sessions(store: Store, session_id: str, facts: Sequence[AnyFact], lowest: int) -> tuple[str, ...]:
    """Return the ids of existing child sessions of calls from position `lowest` on, whatever the state of these calls."""
    state = await fold_in_slices(facts, session_id)
    refs = [
        CallRef(position, index)
        for position, fact in enumerate(facts)
        if isinstance(fact, ModelReplied) and position >= lowest
        for index, item in enumerate(fact.items)
        if isinstance(item, Call)
    ]
    ids = [make_child_session_id(session_id, state.make_idempotency_key(ref)) for ref in refs]
    return tuple([id for id in ids if await store.read(id)])


def _find_provider_ids(facts: Sequence[AnyFact], redacted: Redacted) -> tuple[str, ...]:
    """Return the ids of responses and conversations that providers store, of replies that saw or contained the erased text."""
    lowest = redacted.positions[0]
    replies = ((position, fact) for position, fact in enumerate(facts) if isinstance(fact, ModelReplied) and fact.stored)
    affected = [fact for position, fact in replies if fact.upto >= lowest or position in redacted.positions]
    return tuple(dict.fromkeys(id for fact in affected for id in (fact.base, fact.response_id) if id))
