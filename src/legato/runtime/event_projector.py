"""What one observer has been shown. May know: events. Decides: when pieces of words are withdrawn, and when they were the whole.

Facts become events in order, each once. The pieces of a reply that is still being made are shown beside them, by whoever hears them; when
the reply is recorded they are what it says, or are completed, or are withdrawn and it is shown whole.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import AnyFact, ModelReplied, Refusal, Words
from legato.core.pending_requests import Pending
from legato.core.planner import Status, in_control
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.runtime.event_cursor import Cursor, birthmark
from legato.runtime.events import Event, OutputData, Waiting, events_of, request_event


class Screen:
    """Shows one conversation to one observer, from a cursor on."""

    def __init__(self, show: Callable[[Event], None], graph: Graph, after: Cursor) -> None:
        self._tell_of = show
        self._graph = graph
        self._named = ""  # the ledger's unique name, as of the birthmark below
        self._birthmark = ""
        self._told = after
        self._pieces: list[str] = []  # shown of the reply that is being made
        self._speaker, self._attempt = "", 0
        self.letters = 0
        """How many letters are shown of the reply that is being made."""

    @property
    def facts(self) -> int:
        """How many facts have been shown whole."""
        return self._told.facts

    def piece(self, agent: str, attempt: int, text: str) -> None:
        """A piece of a reply that is being made."""
        if self._pieces and (attempt, agent) != (self._attempt, self._speaker):
            self.withdraw()
        self._pieces.append(text)
        self.letters += len(text)
        self._attempt, self._speaker = attempt, agent
        self._tell_of(Event("output", OutputData(text, agent, True, attempt)))

    def withdraw(self) -> None:
        """Take back the pieces that are shown, if there are any."""
        if self._pieces:
            self._forget()
            self._tell_of(Event("output_reset", OutputData("", self._speaker, True, self._attempt)))

    def show(self, state: State, upto: int) -> None:
        """Show the facts before position `upto` that were not shown yet."""
        while self._told.facts < upto:
            self._fact(state.facts[self._told.facts], self._told.facts, state)

    def _fact(self, fact: AnyFact, position: int, state: State) -> None:
        events = list(events_of(fact, position, state, self._graph))
        begun = self._told.events if not self._told.rest else 0
        whole = isinstance(fact, ModelReplied) and self._completed(fact)
        here, after = Cursor(self._mark(state), position), Cursor(self._mark(state), position + 1)
        for number, event in enumerate(events[begun:], begun + 1):
            if event.type in ("model_failed", "cancelled", "redacted"):
                self.withdraw()
            if event.type == "output" and whole:
                continue  # its pieces have been shown
            self._tell(event, replace(here, events=number) if number < len(events) else after)
        self._told = after

    def _completed(self, answered: ModelReplied) -> bool:
        """Whether this reply is now shown in pieces. If some are missing at its end, they are shown; other pieces are withdrawn."""
        if not self._pieces:
            return False
        shown, said = "".join(self._pieces), "".join(item.text for item in answered.items if isinstance(item, (Words, Refusal)))
        if answered.agent != self._speaker or not said.startswith(shown):
            self.withdraw()  # they were of a reply that another driver's overtook
            return False
        if missing := said[len(shown) :]:
            self.piece(self._speaker, self._attempt, missing)
        self._forget()
        return True

    def _forget(self) -> None:
        self._pieces.clear()
        self.letters = 0

    def rest(self, state: State, now: Status, requests: list[Pending]) -> None:
        """Where the session came to rest, and what it asks; nothing, if that was told."""
        events = [request_event(request, state.length - 1) for request in requests] if now == "pending" else []
        if now == "waiting":
            events.append(Event("request_info", Waiting(in_control(state, self._graph)), state.length - 1))
        events.append(Event("status", now, state.length - 1))
        name = digest_bytes("\n".join([now, *(f"{request.id} {request.digest}" for request in requests)]).encode())[:8]
        begun = self._told.events if self._told.rest == name else 0
        if begun < len(events):
            self.withdraw()  # the reply that the pieces were of came to nothing
        for number, event in enumerate(events[begun:], begun + 1):
            self._tell(event, Cursor(self._mark(state), state.length, number, name))

    def _tell(self, event: Event, told: Cursor) -> None:
        self._told = told
        self._tell_of(replace(event, cursor=str(told)))

    def _mark(self, state: State) -> str:
        if state.ledger != self._named:
            self._named, self._birthmark = state.ledger, birthmark(state.ledger)
        return self._birthmark
