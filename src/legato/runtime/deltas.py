"""What is being said, as notes. May know: stores that carry notes. Decides: what whoever drives tells, and what whoever follows believes.

Each note says where its letters begin in what is being said. So a note that comes twice adds nothing, one that comes after a gap is left
alone, and whoever begins to listen late is told from the beginning. Nobody relies on them: when the reply is recorded, it is shown as it
is recorded, whatever of it was heard.

Which of two tellings is the newer one can be told from the lease's epoch and a count. One that began before a reply, or an attempt at one,
was last over is stale.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
from msgspec import Struct

from legato.core.facts import Cancelled, ModelReplied, ModelRequestFailed, Redacted
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.runtime.event_projector import Screen
from legato.runtime.ledger import Ledger
from legato.stores.live import Live, live_of

BYTES_PER_LETTER = 6
"""At most, as JSON: a control character is written as six."""

LONGEST_PAUSE = 1.0
"""Seconds between looks whether somebody has begun to listen, while nothing more is said."""

AROUND = 200
"""Bytes of a note beside its letters and names."""


class Note(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Some letters of what is being said. `ledger` is the unique name of the conversation that it is said in."""

    ledger: str
    epoch: int
    number: int
    """Of what is being said, among all that this driver said."""
    facts: int
    """How many facts were recorded when it began."""
    agent: str
    attempt: int
    start: int
    """How many letters come before these. Below 0: all of it is taken back."""
    text: str = ""


class Voice:
    """Tells those who follow what a model says, while it says it. Nothing of it may slow or fail the one who drives."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._live = live_of(ledger.store)
        self._number = 0
        self._epoch = self._facts = self._replies = 0
        self._said: list[str] = []  # of the reply that is being made
        self._told = 0  # how many of these pieces were told
        self._letters = 0  # and how many letters they have
        self._listeners = 0  # who listened then
        self._agent, self._attempt = "", 1
        self._due: asyncio.TimerHandle | None = None
        self._pause = 0.0

    def begin(self, epoch: int) -> None:
        """A model is about to be asked."""
        self.end()
        self._number += 1
        self._epoch, self._facts, self._replies = epoch, self._ledger.recorded, self._ledger.state.replies

    def end(self) -> None:
        """No more is said. What was not told yet comes with the reply."""
        self._said.clear()
        self._told = self._letters = 0
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def say(self, agent: str, attempt: int, text: str) -> None:
        """A piece of its reply."""
        if self._live is None:
            return
        self._said.append(text)
        self._agent, self._attempt = agent, attempt
        if not (pace := self._live.pace):
            self._tell(self._live)
        elif self._due is None or self._pause > pace:
            self._live.listeners(self._ledger.session)  # where it takes time to find out, that begins now
            self._tell_in(pace, self._live)

    def take_back(self) -> None:
        """Nothing comes of what was said."""
        if self._told and self._live is not None:
            self._send(-1, "", self._live)
        self.end()

    def _tell_in(self, pause: float, to: Live) -> None:
        if self._due is not None:
            self._due.cancel()
        self._pause = pause
        self._due = asyncio.get_running_loop().call_later(pause, self._gathered, to)

    def _gathered(self, to: Live) -> None:
        """Tell what was gathered; and look again, ever more seldom: somebody may begin to listen while the model is thinking."""
        if self._ledger.state.replies != self._replies:
            self.end()
        else:
            self._tell_in(to.pace if self._tell(to) else min(2 * self._pause, LONGEST_PAUSE), to)

    def _tell(self, to: Live) -> bool:
        """Tell what is new, if anybody listens."""
        listeners = to.listeners(self._ledger.session)
        if listeners != self._listeners:  # whoever has just begun to listen is told from the beginning
            self._listeners, self._told, self._letters = listeners, 0, 0
        if not listeners or self._told == len(self._said):
            return False
        text = "".join(self._said[self._told :])
        self._told = len(self._said)
        names = len(self._agent.encode("utf-8", "replace")) + len(self._ledger.state.ledger)
        most = max((to.longest - AROUND - names) // BYTES_PER_LETTER, 1)
        for start in range(0, len(text), most):
            self._send(self._letters + start, text[start : start + most], to)
        self._letters += len(text)
        return True

    def _send(self, start: int, text: str, to: Live) -> None:
        ledger = self._ledger.state.ledger
        note = Note(ledger, self._epoch, self._number, self._facts, self._agent, self._attempt, start, text)
        with suppress(Exception):  # a lone surrogate, or a store's own failure: whoever follows is told by the ledger
            to.tell(self._ledger.session, msgspec.json.encode(note))


_decoder = msgspec.json.Decoder(Note)


def read_note(data: bytes) -> Note | None:
    """The note that these bytes are, if they are one: a newer Legato may write others."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_over(note: Note, state: State) -> bool:
    """Whether a reply, an attempt at one, or an erasure was recorded since this began to be said: then nobody goes on saying it."""
    return any(isinstance(fact, (ModelReplied, ModelRequestFailed, Cancelled, Redacted)) for fact in state.facts[note.facts :])


class Ear:
    """Shows one observer what is heard."""

    def __init__(self, screen: Screen, graph: Graph) -> None:
        self._screen = screen
        self._graph = graph
        self._newest = (0, 0)  # epoch and number of what was heard last
        self._taken_back = False

    def hear(self, note: Note, state: State) -> None:
        """Show what is new in a note. All facts before it have been shown."""
        said, rules = (note.epoch, note.number), self._graph.agents.get(note.agent)
        if note.ledger != state.ledger or said < self._newest or is_over(note, state) or rules is None or rules.judges_output:
            return
        if said > self._newest:
            self._screen.withdraw()  # nobody goes on with that
            self._newest, self._taken_back = said, False
        if note.start < 0:
            self._screen.withdraw()
            self._taken_back = True
        new = note.text[self._screen.letters - note.start :] if note.start <= self._screen.letters else ""
        if new and not self._taken_back:
            self._screen.piece(note.agent, note.attempt, new)
