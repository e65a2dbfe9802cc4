"""What a driver needs to know of child sessions, and to do to them.

A tool may work in a session of its own (an agent as a tool), and that may have to wait. The call then waits too. What is asked there
is asked by the child's ledger alone, and answered in it; the parent's ledger only names the child.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from legato.core.facts import CallRef
from legato.core.owed import ChildStatus, RunTool
from legato.core.requests import Pending
from legato.core.state import State


class Others(Protocol):
    """What the driver needs to know of child sessions, and to do to them."""

    async def look(self) -> ChildStatus:
        """Read the child sessions that calls wait for: which can go on, and which are missing."""
        ...

    @property
    def known(self) -> ChildStatus:
        """The same, as of the last look."""
        ...

    async def missing(self) -> frozenset[RunTool]:
        """The open attempts whose child session is not in the store."""
        ...

    def watch(self, moved: Callable[[int], None]) -> Callable[[], None]:
        """Have `moved` called when a child session grows; call what this returns to stop."""
        ...

    async def stop(self, call: CallRef) -> None:
        """Cancel the child session that a call waits for: nothing that it asks can be approved afterwards."""
        ...

    async def let_go(self, call: CallRef) -> None:
        """Cancel the child session of a call that was answered without it, and mark it idle."""
        ...

    async def let_go_all(self) -> None:
        """The same, for the calls of the newest reply."""
        ...

    async def let_rest(self) -> None:
        """Mark the child sessions that calls wait for as idle: no driver is needed before people have answered."""
        ...

    async def stop_all(self, words: str, holders: tuple[int, ...]) -> set[CallRef]:
        """Cancel the child sessions of unanswered calls, because this session and its own `holders` are cancelled. The calls."""
        ...

    def requests(self, own: list[Pending]) -> list[Pending]:
        """What is asked of people, here and in child sessions, in the order of calls."""
        ...


def idempotency_key(state: State, call: CallRef) -> str:
    """The name of a recorded call: the same for every attempt, and in every fork."""
    return f"{state.name_at(call.position)}:{call}"


def waits_for(state: State, name: str, call: CallRef) -> bool:
    """Whether a call of this conversation, by the name that its ledger had then, is still to be answered."""
    found = state.call(call) if call.position < state.length and state.name_at(call.position) == name else None
    return found is not None and found.output is None
