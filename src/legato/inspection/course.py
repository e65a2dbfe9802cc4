"""How a conversation stood at every point. May know: sessions. Decides: what of that is told, for whoever replays it.

The state of the first n facts is their fold, so how a session stood then is asked of it as it is asked now. What another conversation had
come to at that time no ledger says of it: a call that waits for one is told as waiting.
"""

from __future__ import annotations

from msgspec import Struct

from legato.core.planner import in_control, status
from legato.core.state import State
from legato.runtime.ledger import apply_in_slices
from legato.runtime.session import Session


class Stretch(Struct, frozen=True, rename={"start": "from"}):
    """From so many facts on, until the next: the status, and who had control."""

    start: int
    status: str
    agent: str


class Course(Struct, frozen=True):
    """All stretches, in order; the first begins before the first fact."""

    course: list[Stretch]


async def course_of(session: Session) -> Course:
    """How a session stood after each of its facts, told where it changed."""
    graph, state = session.workflow.definition.graph, State(session=session.id)
    found = [Stretch(0, status(state, graph), in_control(state, graph))]

    def look() -> None:
        now = Stretch(state.length, status(state, graph), in_control(state, graph))
        if (now.status, now.agent) != (found[-1].status, found[-1].agent):
            found.append(now)

    await apply_in_slices(state, session.facts, look)
    return Course(found)
