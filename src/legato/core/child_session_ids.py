"""Ids of child sessions: the parent's id, a slash, and the idempotency key of the parent's call.

So a session and its child sessions, at any depth, are one range of names, and a store finds them without an index of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from legato.core.facts import CallRef

MAX_SESSION_ID_CHARS = 400
"""For ids that users choose."""

MAX_CHILD_ID_CHARS = 1000
"""For ids of child sessions, which begin with their parent's: 13 levels below the longest id that a user can choose."""

_CHILD = re.compile(r"(.+)/([0-9a-f]{32}):(\d+)\.(\d+)", re.DOTALL)
_PATH = re.compile(r"(?:/[0-9a-f]{32}:\d+\.\d+)+")


def child_session_id(session: str, key: str) -> str:
    """The id of the child session of one call. Each branch of a conversation has child sessions of its own."""
    return f"{session}/{key}"


def root_session_id(session: str) -> str:
    """The outermost session that this one works for, by its id; the session itself if it is no child session.

    >>> root_session_id(child_session_id("customer-7", f"{'0' * 32}:2.0")), root_session_id("customer-7")
    ('customer-7', 'customer-7')
    """
    while child := _CHILD.fullmatch(session):
        session = child[1]
    return session


def max_id_chars(session: str) -> int:
    """How long this id may be: the id of a child session begins with its parent's."""
    return MAX_SESSION_ID_CHARS if root_session_id(session) == session else MAX_CHILD_ID_CHARS


def parent_calls(session: str) -> Iterator[tuple[str, str, CallRef]]:
    """Yield the parent calls encoded in a child session's id, innermost first: session, the name that its ledger had, and call."""
    while child := _CHILD.fullmatch(session):
        session = child[1]
        yield session, child[2], CallRef(int(child[3]), int(child[4]))


def is_child_of(name: str, session: str) -> bool:
    """Whether this is the id of a child session of a session, at any depth."""
    return name.startswith(session) and _PATH.fullmatch(name, len(session)) is not None


def child_range(session: str) -> tuple[str, str]:
    """The first name of child sessions, and the first name behind them, in the order of code points."""
    return f"{session}/", f"{session}0"  # "0" follows "/"
