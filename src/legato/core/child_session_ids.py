"""Ids of child sessions: the parent session's id, a slash, and the idempotency key of the parent call.

A session and its child sessions, at any depth, are one range of names, so a store finds them without an extra index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from legato.core.facts import CallRef

MAX_SESSION_ID_CHARS = 400
"""The maximum length of a session id that a user chooses."""

MAX_CHILD_ID_CHARS = 1000
"""The maximum length of a child session's id, which begins with its parent's: 13 levels below the longest id that a user can choose."""

_CHILD = re.compile(r"(.+)/([0-9a-f]{32}):(\d+)\.(\d+)", re.DOTALL)
_PATH = re.compile(r"(?:/[0-9a-f]{32}:\d+\.\d+)+")


def make_child_session_id(session: str, idempotency_key: str) -> str:
    """Return the id of a call's child session. Each branch of a conversation has child sessions of its own."""
    return f"{session}/{idempotency_key}"


def find_root_session_id(session: str) -> str:
    """Return the id of the outermost parent session; the id itself if it is not a child session's.

    >>> find_root_session_id(make_child_session_id("customer-7", f"{'0' * 32}:2.0")), find_root_session_id("customer-7")
    ('customer-7', 'customer-7')
    """
    while child := _CHILD.fullmatch(session):
        session = child[1]
    return session


def find_max_id_chars(session: str) -> int:
    """Return the maximum length of this id: a child session's id may be longer, because it begins with its parent's."""
    return MAX_SESSION_ID_CHARS if find_root_session_id(session) == session else MAX_CHILD_ID_CHARS


def list_parent_calls(session: str) -> Iterator[tuple[str, str, CallRef]]:
    """Yield the parent calls encoded in a child session's id, innermost first: session id, ledger id, and call."""
    while child := _CHILD.fullmatch(session):
        session = child[1]
        yield session, child[2], CallRef(int(child[3]), int(child[4]))


def is_child_of(name: str, session: str) -> bool:
    """Return True if this is the id of a child session of a session, at any depth."""
    return name.startswith(session) and _PATH.fullmatch(name, len(session)) is not None


def make_child_id_range(session: str) -> tuple[str, str]:
    """Return the first possible id of a session's child sessions and the first id after them, in the order of code points."""
    return f"{session}/", f"{session}0"  # "0" follows "/"
