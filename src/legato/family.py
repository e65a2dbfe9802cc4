"""A session and its child sessions as one unit: forked together.

The child sessions of a session are those whose ids begin with its own (`drive/others.py`). A store deletes them with their parent, in one
transaction. A fork takes along those of unanswered calls, which the branch goes on with; they are made before the branch is.
"""

from __future__ import annotations

from legato.core.child_ids import child_session_id
from legato.core.facts import Opened, Origin
from legato.core.groups import CallState
from legato.drive.clock import fresh_name, now_ms
from legato.drive.folding import fold_in_slices
from legato.drive.ledger import Ledger
from legato.drive.others import idempotency_key
from legato.errors import LedgerExists
from legato.stores.contract import Store


async def fork_family(ledger: Ledger, at: int, new: str) -> None:
    """Make the session `new` from the first `at` facts of a ledger, with forks of the child sessions that its unanswered calls need.

    A child session is forked where it is now if the branch begins where the parent is now; in an earlier branch, where it was while the
    parent waited for it. One that was at work at that time is left out, because what it had done by then is unknown: the branch asks for
    the call's outcome.
    """
    state = await ledger.refresh()
    shared = state if at == state.length else await fold_in_slices(state.facts[:at], ledger.session)
    for call in [call for call in shared.batch if call.output is None and call.attempts]:
        key = idempotency_key(shared, call.ref)
        child = await _child(ledger.store, child_session_id(ledger.session, key))
        if child is None:
            continue
        length = child.state.length if at == state.length else _length_at(call)
        if 0 < length <= child.state.length:
            try:
                await fork_family(child, length, child_session_id(new, key))
            except LedgerExists as error:
                if not await _is_fork(child, length, child_session_id(new, key)):
                    summary = f"there already is a session {new!r} in this store, or a child session of it"
                    raise LedgerExists(summary, do="choose another id") from error
    opened = Opened(at=now_ms(), ledger=fresh_name(), workflow=state.workflow, origin=Origin(ledger.session, at))
    await ledger.fork(at, new, opened)


async def _is_fork(ledger: Ledger, at: int, name: str) -> bool:
    """Whether a session is the fork of this ledger at this point: an earlier try at the same branch was interrupted."""
    facts = list(await ledger.store.read(name))
    marker = facts[at] if len(facts) > at else None
    return isinstance(marker, Opened) and marker.origin == Origin(ledger.session, at) and facts[:at] == ledger.state.facts[:at]


async def _child(store: Store, id: str) -> Ledger | None:
    """The ledger of a child session, if there is one."""
    child = Ledger(store, id)
    return child if (await child.refresh()).length else None


def _length_at(call: CallState) -> int:
    """How many facts the child session had while its parent waited for it; 0 if the parent did not wait: it may have done anything."""
    return call.paused.length if call.paused is not None else 0
