"""Those who measure what a driver does. May know: facts and requests. Decides: what they are told, and nothing else.

There is one loop; streaming observes it, and so does this. A watch is told when a model or a tool is at work, so that what they do can be
measured and belongs to something, and of every fact, which alone says how it ended. It gives nothing back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from legato.core.facts import AnyFact, CallRef
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.core.view import Request

if TYPE_CHECKING:
    from legato.runtime.definition import Definition


class Watch(Protocol):
    """Watches one drive of one session."""

    def asking(self, request: Request) -> AbstractContextManager[None]:
        """Around one call of a model."""
        ...

    def running(self, agent: str, tool: str, call: CallRef, attempt: int) -> AbstractContextManager[None]:
        """Around one attempt of a tool, in its own task: it may last longer than anybody waits for it."""
        ...

    def recorded(self, fact: AnyFact, position: int, state: State, leading: bool) -> None:
        """A fact was recorded, here or elsewhere; `leading`: while this driver leads."""
        ...

    def ended(self, status: str, requests: Sequence[Pending], error: BaseException | None) -> None:
        """The drive is over."""
        ...


class Observer(Protocol):
    """Makes a watch for every drive of a workflow."""

    def watch(self, definition: Definition, session: str) -> Watch: ...
