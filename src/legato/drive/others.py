"""The conversations that calls of one session wait for. May know: the state. Decides: how they are named.

A tool may work in a conversation of its own (an agent as a tool), and that may have to wait for people. The call then waits too. What is
asked there is asked by that conversation's ledger alone, and answered in it; here it is only known whom a call waits for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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

    async def let_go(self, call: CallRef) -> None:
        """Stop the conversation that was held for a call which was answered without it, and have it rest: it is over."""
        ...

    async def let_go_all(self) -> None:
        """The same, for the calls of the newest reply."""
        ...

    async def let_rest(self) -> None:
        """Say of the conversations that calls wait for that nobody need drive them before their people have answered."""
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


_HELD = re.compile(r"(.+)/([0-9a-f]{32}):(\d+)\.(\d+)", re.DOTALL)


def holder_of(session: str) -> str:
    """The session whose calls wait for this one, as far as the id tells; or this one, if it is nobody's.

    >>> holder_of(held_for("customer-7", f"{'0' * 32}:2.0")), holder_of("customer-7")
    ('customer-7', 'customer-7')
    """
    while held := _HELD.fullmatch(session):
        session = held[1]
    return session


def callers_of(session: str) -> Iterator[tuple[str, str, CallRef]]:
    """For whom this one is held, as far as the id tells, the nearest first: a session, the name that its ledger had, and its call."""
    while held := _HELD.fullmatch(session):
        session = held[1]
        yield session, held[2], CallRef(int(held[3]), int(held[4]))


def waits_for(state: State, name: str, call: CallRef) -> bool:
    """Whether a call of this conversation, by the name that its ledger had then, is still to be answered."""
    found = state.call(call) if call.position < state.length and state.name_at(call.position) == name else None
    return found is not None and found.output is None
