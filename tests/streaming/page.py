"""A page that shows a conversation as its events come, and knows how far it was told: what a browser does, without one."""

from __future__ import annotations

from typing import Any

from legato.core.messages_to_model import ERASED
from legato.runtime.events import Event

RESTS = ("request_info", "status")


class Page:
    """`lines` is what is shown: who, and what. `said` is what is shown of a reply that is still being made."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._at: list[int] = []  # the fact that each line is of
        self.said = ""
        self.pieces = 0  # how often words came in pieces
        self.shown: set[tuple[str, int]] = set()  # all that was ever shown of a reply in the making, and after which erasure
        self.erased = -1  # where words were last erased
        self.cursor: str | None = None
        self.rests = False  # and nobody says anything then, unless a reply that failed is asked for again
        self.happened: list[tuple[str, int]] = []  # what came of the ledger
        self.cursors: list[str] = []

    def see(self, event: Event) -> None:
        """Show one event."""
        assert bool(event.cursor) == (event.type not in ("output", "output_reset") or not event.data.delta), f"{event} and its cursor"
        if event.cursor:
            self.cursor = event.cursor
            self.cursors.append(event.cursor)
            self.rests = event.type == "status" and event.data != "failed"
        if event.cursor and event.type != "output":
            self.happened.append((event.type, event.position))
        match event.type:
            case "said":
                self._show("user", event.data.text, event.position)
            case "output" if event.data.delta:
                assert not self.rests, f"{event.data.text!r} is shown in a conversation that rests"
                self.said += event.data.text
                self.pieces += 1
                self.shown.add((self.said, self.erased))
            case "output":
                assert not self.said, f"{self.said!r} is still shown, and its reply comes whole"
                self._show(event.data.author_name, event.data.text, event.position)
            case "output_reset":
                self.said = ""
            case "redacted":
                assert not self.said, f"{self.said!r} is still shown, and may hold what was erased"
                self.erased = event.position
                gone = [at in event.data.positions for at in self._at]
                self.lines = [(who, ERASED if erased else text) for (who, text), erased in zip(self.lines, gone, strict=True)]
            case "message":
                if self.said:
                    self._show(event.data.author_name, self.said, event.position)
                    self.said = ""
                who, text = self.lines[-1]
                assert who == event.data.author_name, "who said it is not who was shown"
                assert event.data.text in (text, ERASED), "what was shown is not what was recorded"
                self.lines[-1] = (who, event.data.text)  # erased since, if the line was lost between the words and this

    def _show(self, who: str, text: str, position: int) -> None:
        self.lines.append((who, text))
        self._at.append(position)

    def lose_the_line(self) -> None:
        """What was shown of a reply in the making is not told again in pieces."""
        self.said = ""

    def check(self, whole: list[Event]) -> None:
        """It shows what happened, each thing once and in order; `whole` is what somebody is told who comes when all is over."""
        other = Page()
        for event in whole:
            other.see(event)
        assert not self.said, f"{self.said!r} is still shown"
        assert self.lines == other.lines
        assert _without_rests(self.happened) == _without_rests(other.happened)
        assert len(set(self.cursors)) == len(self.cursors), "something was told twice"


def _without_rests(happened: list[tuple[str, int]]) -> list[Any]:
    """Where a conversation rests is told to those who see it rest."""
    return [each for each in happened if each[0] not in RESTS]
