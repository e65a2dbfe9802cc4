"""Names that protocols give to what a ledger has. May know: positions and requests. Decides: how they are written, and read.

A position means something only within one ledger, so a name says which one that is: a session's id may be used again. The name of a request
is bound to the arguments that were shown with it.
"""

from __future__ import annotations

from legato.core.requests import Pending
from legato.core.state import State
from legato.drive.cursor import birthmark
from legato.errors import NotPending


def mark(state: State, position: int) -> str:
    """What tells the ledger that this position was recorded in from every other."""
    return birthmark(state.name_at(position))


def bound(request: Pending) -> str:
    """A request together with the digest of what it asks about, as one name."""
    return f"{request.id}_{request.digest}"


def meant(name: str) -> Pending:
    """The request that such a name means. Whether it is pending, and with that digest, is for the ledger to say."""
    id, line, digest = name.rpartition("_")
    if not line or not id:
        raise NotPending(f"{name[:200]!r} names no request", do="nothing was changed; send back the id that was asked with")
    return Pending(id=id, kind="approval", prompt="", agent="", digest=digest)
