"""Ids that other protocols use for parts of a ledger.

A position identifies a fact only within one ledger, and a session id may be reused after a deletion. So ids contain a mark of the ledger.
The name of a pending request contains the digest of the arguments that were shown with it.
"""

from __future__ import annotations

import base64
import binascii

from legato.core.facts import Call, Decided, ModelReplied
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.errors import NotPending
from legato.runtime.event_cursor import digest_ledger_id
from legato.runtime.session import Session

MAX_SESSION_ID_CHARS = 400


def ledger_mark(state: State, position: int) -> str:
    """Return a mark that distinguishes the ledger that recorded this position from all others."""
    return digest_ledger_id(state.ledger_id_at(position))


def encode_request_name(request: Pending) -> str:
    """Encode a request's id and the digest of its arguments as one name."""
    return f"{request.id}_{request.digest}"


def decode_request_name(name: str) -> Pending:
    """Decode a request's name into a reference. Only the ledger decides whether it is pending with that digest."""
    id, separator, digest = name.rpartition("_")
    if not separator or not id:
        raise NotPending(f"{name[:200]!r} is not the id of a request", do="nothing was changed; send back the id of the request as it came")
    return make_request_reference(id, digest)


def make_request_reference(id: str, digest: str) -> Pending:
    """Return a reference to a pending request, by its id and the digest of the reviewed arguments."""
    return Pending(id=id, kind="approval", prompt="", agent="", digest=digest)


def find_request(session: Session, id: str, key: str) -> Pending | None:
    """Find a pending request; if it was answered with this key before, rebuild it from the recorded answer. None if neither is known."""
    pending = next((each for each in session.pending if each.id == id), None)
    facts, keys = session.state.facts, session.state.delivery_keys
    decided = facts[keys[key]] if pending is None and key in keys else None
    if not isinstance(decided, Decided) or decided.kind == "standing":
        return pending
    reply = facts[decided.call.position] if decided.call is not None else None
    call = reply.items[decided.call.index] if isinstance(reply, ModelReplied) and decided.call is not None else None
    if not isinstance(reply, ModelReplied) or not isinstance(call, Call):
        return Pending(id, decided.kind, "", "", limit=decided.limit, session=session.id)
    return Pending(id, decided.kind, "", reply.agent, call.tool, call.arguments, call=decided.call, session=session.id)


def encode_session_id(id: str, altchars: bytes) -> str:
    """Encode a session id as ASCII letters, digits and these two characters."""
    return base64.b64encode(id.encode(), altchars=altchars).decode().rstrip("=")


def decode_session_id(encoded: str, altchars: bytes) -> str:
    """Decode the output of `encode_session_id`; empty for any other text."""
    try:
        id = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=altchars, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return id if 0 < len(id) <= MAX_SESSION_ID_CHARS and id.isprintable() and encode_session_id(id, altchars) == encoded else ""
