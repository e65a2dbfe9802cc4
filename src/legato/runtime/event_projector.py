"""The projection of a session to the events that one client sees.

Each fact becomes events once, in order. Deltas of a reply in progress are shown in between. When the reply is recorded, the deltas are its
text already, or are completed; or they are retracted, and the whole text is shown.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import AnyFact, ModelReplied, OutputText, Refusal
from legato.core.pending_requests import Pending
from legato.core.planner import SessionStatus, find_active_agent
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.runtime.event_cursor import EventCursor, digest_ledger_id
from legato.runtime.events import Event, OutputData, WaitingData, make_events, make_request_event


class EventProjector:
    """The events of one session for one client, from a cursor on."""

    def __init__(self, on_event: Callable[[Event], None], graph: WorkflowGraph, after: EventCursor) -> None:
        self._emit = on_event
        self._graph = graph
        self._ledger_id = ""  # the id that the digest below is of
        self._ledger_digest = ""
        self._cursor = after
        self._deltas: list[str] = []  # the deltas that are shown of the reply in progress
        self._agent, self._attempt = "", 0
        self.shown_chars = 0
        """The number of characters that are shown of the reply in progress."""

    @property
    def shown_facts(self) -> int:
        """The number of facts of which all events were shown."""
        return self._cursor.facts

    def show_delta(self, agent: str, attempt: int, text: str) -> None:
        """Show a piece of the reply in progress."""
        if self._deltas and (attempt, agent) != (self._attempt, self._agent):
            self.retract_deltas()
        self._deltas.append(text)
        self.shown_chars += len(text)
        self._attempt, self._agent = attempt, agent
        self._emit(Event("output", OutputData(text, agent, True, attempt)))

    def retract_deltas(self) -> None:
        """Retract the deltas that are shown, if there are any."""
        if self._deltas:
            self._clear_deltas()
            self._emit(Event("output_reset", OutputData("", self._agent, True, self._attempt)))

    def show_facts(self, state: State, upto: int) -> None:
        """Show the facts before position `upto` that were not shown yet."""
        while self._cursor.facts < upto:
            self._show_fact(state.facts[self._cursor.facts], self._cursor.facts, state)

    def _show_fact(self, fact: AnyFact, position: int, state: State) -> None:
        events = list(make_events(fact, position, state, self._graph))
        first = self._cursor.events if not self._cursor.idle else 0
        is_complete = isinstance(fact, ModelReplied) and self._complete_deltas(fact)
        here, after = EventCursor(self._digest_ledger(state), position), EventCursor(self._digest_ledger(state), position + 1)
        for number, event in enumerate(events[first:], first + 1):
            if event.type in ("model_failed", "cancelled", "redacted"):
                self.retract_deltas()
            if event.type == "output" and is_complete:
                continue  # its deltas were shown
            self._emit_at(event, replace(here, events=number) if number < len(events) else after)
        self._cursor = after

    def _complete_deltas(self, replied: ModelReplied) -> bool:
        """Show the rest of a reply whose deltas are shown, and return True. Deltas of another text are retracted."""
        if not self._deltas:
            return False
        shown, text = "".join(self._deltas), "".join(item.text for item in replied.items if isinstance(item, (OutputText, Refusal)))
        if replied.agent != self._agent or not text.startswith(shown):
            self.retract_deltas()  # they were of a reply of another driver
            return False
        if missing := text[len(shown) :]:
            self.show_delta(self._agent, self._attempt, missing)
        self._clear_deltas()
        return True

    def _clear_deltas(self) -> None:
        self._deltas.clear()
        self.shown_chars = 0

    def show_idle(self, state: State, status: SessionStatus, requests: list[Pending]) -> None:
        """Show the status of a session that became idle, and its requests; nothing if the cursor is behind these events already."""
        events = [make_request_event(request, state.length - 1) for request in requests] if status == "pending" else []
        if status == "waiting":
            events.append(Event("request_info", WaitingData(find_active_agent(state, self._graph)), state.length - 1))
        events.append(Event("status", status, state.length - 1))
        digest = digest_bytes("\n".join([status, *(f"{request.id} {request.digest}" for request in requests)]).encode())[:8]
        first = self._cursor.events if self._cursor.idle == digest else 0
        if first < len(events):
            self.retract_deltas()  # the reply in progress was not recorded
        for number, event in enumerate(events[first:], first + 1):
            self._emit_at(event, EventCursor(self._digest_ledger(state), state.length, number, digest))

    def _emit_at(self, event: Event, cursor: EventCursor) -> None:
        self._cursor = cursor
        self._emit(replace(event, cursor=str(cursor)))

    def _digest_ledger(self, state: State) -> str:
        if state.ledger_id != self._ledger_id:
            self._ledger_id, self._ledger_digest = state.ledger_id, digest_ledger_id(state.ledger_id)
        return self._ledger_digest
