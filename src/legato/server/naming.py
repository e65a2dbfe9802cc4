"""Names that protocols give to what a ledger has. May know: positions and requests. Decides: how they are written, and read.

A position means something only within one ledger, so a name says which one that is: a session's id may be used again. The name of a request
is bound to the arguments that were shown with it.
"""

from __future__ import annotations

import base64
import binascii

from legato.core.facts import Call, Decided, ModelReplied
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.errors import NotPending
from legato.runtime.event_cursor import birthmark
from legato.runtime.session import Session

MAX_SESSION_CHARS = 400


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
    return request_named(id, digest)


def request_named(id: str, digest: str) -> Pending:
    """A request, to be answered: by its id, and the digest of the arguments that were looked at."""
    return Pending(id=id, kind="approval", prompt="", agent="", digest=digest)


def find_request(session: Session, id: str, key: str) -> Pending | None:
    """Find a request as it is pending or, where it was answered with this key before, what is known of it from then."""
    pending = next((each for each in session.pending if each.id == id), None)
    facts, keys = session.state.facts, session.state.keys
    answered = facts[keys[key]] if pending is None and key in keys else None
    if not isinstance(answered, Decided) or answered.kind == "standing":
        return pending
    reply = facts[answered.call.position] if answered.call is not None else None
    called = reply.items[answered.call.index] if isinstance(reply, ModelReplied) and answered.call is not None else None
    if not isinstance(reply, ModelReplied) or not isinstance(called, Call):
        return Pending(id, answered.kind, "", "", limit=answered.limit, session=session.id)
    return Pending(id, answered.kind, "", reply.agent, called.tool, called.arguments, call=answered.call, session=session.id)


def encode_session(id: str, altchars: bytes) -> str:
    """Write the id of a session as letters, digits and these two characters."""
    return base64.b64encode(id.encode(), altchars=altchars).decode().rstrip("=")


def decode_session(encoded: str, altchars: bytes) -> str:
    """Read what `encode_session` wrote; empty if it wrote no such text."""
    try:
        id = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=altchars, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return id if 0 < len(id) <= MAX_SESSION_CHARS and id.isprintable() and encode_session(id, altchars) == encoded else ""
