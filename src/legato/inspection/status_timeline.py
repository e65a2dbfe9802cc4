"""The status and the agent in control after each fact of a session, for replays.

The state after the first n facts is their fold, so the status then is computed as it is now. The ledger does not say how far a child
session was at that time: a call that waits for one counts as waiting.
"""

from __future__ import annotations

from msgspec import Struct

from legato.core.planner import derive_status, find_active_agent
from legato.core.state import State
from legato.runtime.ledger import apply_in_slices
from legato.runtime.session import Session


class StatusSpan(Struct, frozen=True, rename={"start": "from"}):
    """The status and the agent in control from a number of facts on, until the next span."""

    start: int
    status: str
    agent: str


class StatusTimeline(Struct, frozen=True, rename={"spans": "course"}):
    """All spans, in order; the first begins before the first fact."""

    spans: list[StatusSpan]


async def build_status_timeline(session: Session) -> StatusTimeline:
    """Return the spans of a session, a new one wherever status or agent changed."""
    graph, state = session.workflow.definition.graph, State(session_id=session.id)
    spans = [StatusSpan(0, derive_status(state, graph), find_active_agent(state, graph))]

    def add_span() -> None:
        span = StatusSpan(state.length, derive_status(state, graph), find_active_agent(state, graph))
        if (span.status, span.agent) != (spans[-1].status, spans[-1].agent):
            spans.append(span)

    await apply_in_slices(state, session.facts, add_span)
    return StatusTimeline(spans)
