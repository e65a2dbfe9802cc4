"""Erasing words of a session. May know: stores. Decides: the key of the digests that stay, and what whoever erases is told.

What an erasure is to a ledger is decided in `core/redaction.py`, and carried out by the store in one piece. Copies of the words that no
store of ours has cannot be reached from here: so they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from legato.core.child_session_ids import child_session_id
from legato.core.codec import encode
from legato.core.digests import keyed_digest
from legato.core.facts import AnyFact, Call, CallRef, ModelReplied, Redacted
from legato.core.messages import Message, checked_text
from legato.core.redaction import Erasing
from legato.core.state import State
from legato.errors import BadInput, UnknownLedger
from legato.runtime.clock import fresh_key, now_ms
from legato.runtime.ledger import fold_in_slices
from legato.runtime.session_cache import SESSIONS
from legato.stores.contract import Store


class Redaction(Struct, frozen=True):
    """What was erased, and what was not.

    - `positions`: the facts that lost the words that were asked for; empty: there was nothing (more) to erase. `along`: those that lost
      something else, because it was made from them.
    - `quoted`: facts that keep their words, in which some that were erased occur. Erase them too if they should go.
    - `forks`: other sessions that shared the words, and have lost them too.
    - `nested`: sessions of agents that worked as tools for calls at or after the words: look at them, and erase there what they were told.
    - `providers`: responses and conversations that providers said they keep, and that hold the words. Legato never goes on from them
      again; delete them there.
    - `key`: proves later what was erased, to whoever has a copy: `proves(position, fact)`. It is kept nowhere. Without it the digests in
      the ledger tell nothing.
    """

    session: str
    positions: tuple[int, ...] = ()
    along: tuple[int, ...] = ()
    quoted: tuple[int, ...] = ()
    forks: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    key: str = ""
    digests: tuple[str, ...] = ()

    def proves(self, position: int, fact: AnyFact) -> bool:
        """Whether this very fact stood at the position before its words were erased."""
        digests = dict(zip(self.positions, self.digests, strict=True))
        return digests.get(position) == keyed_digest(encode(fact), bytes.fromhex(self.key))

    def __repr__(self) -> str:
        return f"<Redaction in {self.session!r}: {len(self.positions)} facts, {len(self.along)} along, {len(self.quoted)} still quote>"


async def redact(
    store: Store,
    session: str,
    positions: Iterable[int] | None,
    *,
    reason: str = "",
    by: str = "",
    frames: bool = False,
    born: str = "",
) -> Redaction:
    """Erase the words at these positions of a session, or (None) all of its words. `Session.redact` says more."""
    checked_text(reason, "reason of an erasure", empty=True)
    checked_text(by, "name of whoever erases", empty=True)
    chosen = None if positions is None else frozenset(positions)
    if chosen is not None and not chosen:
        raise BadInput("nothing was named to erase", do="give positions or messages, or everything=True")
    length = len(await store.read(session, born=born))
    if not length:
        raise UnknownLedger(f"there is no session {session!r} to erase from", do="look at store.list()")
    if beyond := sorted(position for position in chosen or () if not 0 <= position < length):
        raise BadInput(f"session {session!r} has {length} facts", found=f"position {beyond[0]}", do="nothing was changed")
    key = fresh_key()
    try:
        done = await store.redact(session, Erasing(chosen, key, now_ms(), reason, by, frames), born=born)
    finally:
        SESSIONS.clear(store)  # whatever it raised: it may have been recorded
    if session not in done:
        return Redaction(session)
    erased = done[session]
    (redacted,) = (fact for fact in erased.added if isinstance(fact, Redacted))
    facts = await store.read(session, born=born)
    return Redaction(
        session=session,
        positions=redacted.positions,
        along=redacted.along,
        quoted=erased.quoted,
        forks=tuple(sorted(done.keys() - {session})),
        nested=await _nested(store, session, facts, redacted.positions[0]),
        providers=_providers(facts, redacted),
        key=key.hex(),
        digests=redacted.digests,
    )


def positions_of(state: State, what: Sequence[int | Message]) -> frozenset[int]:
    """The positions of these messages: a reply's, a user's, or of the output of a call."""
    found = set()
    for each in what:
        if isinstance(each, Message) and each.call:
            found.add(_output_at(state, each.call))
        elif isinstance(each, Message):
            found.add(each.position)
        elif isinstance(each, int) and not isinstance(each, bool):
            found.add(each)
        else:
            raise BadInput("what to erase is a position or a message", found=repr(each)[:80], do="write redact(session.messages[0])")
    return frozenset(found)


def _output_at(state: State, call: str) -> int:
    for group in state.groups:
        for each in group.calls:
            if str(each.ref) == call and each.output is not None:
                return each.output.position
    raise BadInput(f"call {call} has no output in session {state.session!r}", do="nothing was changed")


async def _nested(store: Store, session: str, facts: Sequence[AnyFact], lowest: int) -> tuple[str, ...]:
    """The conversations that were held for calls of these facts, whatever has become of the calls."""
    state = await fold_in_slices(facts, session)
    refs = [
        CallRef(position, index)
        for position, fact in enumerate(facts)
        if isinstance(fact, ModelReplied) and position >= lowest
        for index, item in enumerate(fact.items)
        if isinstance(item, Call)
    ]
    names = [child_session_id(session, state.idempotency_key(ref)) for ref in refs]
    return tuple([name for name in names if await store.read(name)])


def _providers(facts: Sequence[AnyFact], redacted: Redacted) -> tuple[str, ...]:
    """What providers said they keep, of replies that saw or are what was erased."""
    lowest = redacted.positions[0]
    replies = ((position, fact) for position, fact in enumerate(facts) if isinstance(fact, ModelReplied) and fact.stored)
    holding = [fact for position, fact in replies if fact.upto >= lowest or position in redacted.positions]
    return tuple(dict.fromkeys(id for fact in holding for id in (fact.base, fact.response_id) if id))
