"""The conversations that calls of one session wait for. May know: the state. Decides: how they are named.

A tool may work in a conversation of its own (an agent as a tool), and that may have to wait for people. The call then waits too. What is
asked there is asked by that conversation's ledger alone, and answered in it; here it is only known whom a call waits for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from legato.core.digest import digest_bytes
from legato.core.facts import CallRef
from legato.core.owed import RunTool
from legato.core.requests import Pending
from legato.core.state import State

LONGEST = 200
"""Letters of a session id that are part of the ids of conversations held for it; of a longer one, a digest is."""


class Others(Protocol):
    """What the driver needs to know of them, and to do to them."""

    async def awake(self) -> frozenset[RunTool]:
        """Look: the next attempts of those calls whose conversation can go on."""
        ...

    @property
    def ready(self) -> frozenset[RunTool]:
        """The same, as of the last look."""
        ...

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        """Be told when something happens in one of them; call what this returns to be told no more."""
        ...

    async def stop(self, call: CallRef) -> None:
        """Stop the conversation that a call waits for: nothing that it asks can be approved afterwards."""
        ...

    async def stop_all(self, words: str, holders: tuple[int, ...]) -> set[CallRef]:
        """Stop the conversations that are held for unanswered calls, because this one and its own `holders` are stopped. The calls."""
        ...

    def requests(self, own: list[Pending]) -> list[Pending]:
        """What is asked of people, here and there, in the order of calls."""
        ...


def idempotency_key(state: State, call: CallRef) -> str:
    """The name of a recorded call: the same for every attempt, and in every fork."""
    return f"{state.name_at(call.position)}:{call}"


def held_for(session: str, key: str) -> str:
    """The id of the conversation that is held for one call of a session. Branches of a conversation hold each their own."""
    whose = session if len(session) <= LONGEST else f"{session[: LONGEST - 33]}-{digest_bytes(session.encode())[:32]}"
    return f"{whose}/{key}"


_HELD = re.compile(r"(.+)/[0-9a-f]{32}:\d+\.\d+", re.DOTALL)


def holder_of(session: str) -> str:
    """The session whose calls wait for this one, as far as the id tells; or this one, if it is nobody's.

    >>> holder_of(held_for("customer-7", f"{'0' * 32}:2.0")), holder_of("customer-7")
    ('customer-7', 'customer-7')
    """
    while held := _HELD.fullmatch(session):
        session = held[1]
    return session
