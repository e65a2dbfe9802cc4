"""A page that shows a session from its events, like a browser, and checks them."""

from __future__ import annotations

from typing import Any

from legato.core.texts_for_model import REDACTED_TEXT
from legato.runtime.events import Event

IDLE_EVENTS = ("request_info", "status")


class EventPage:
    """A page of one client. `lines` are the messages: the author and the text. `reply_text` is the text of the reply in progress."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._line_positions: list[int] = []  # the position of the fact of each line
        self.reply_text = ""
        self.delta_count = 0  # the number of deltas
        self.shown_reply_texts: set[tuple[str, int]] = set()  # texts that were shown of replies in progress, each with the last erasure
        self.last_erasure = -1  # the position of the last erasure
        self.cursor: str | None = None
        self.is_idle = False  # no text may be shown then, unless the session has failed and is resumed
        self.ledger_events: list[tuple[str, int]] = []  # the events that came from the ledger
        self.cursors: list[str] = []

    def show_event(self, event: Event) -> None:
        """Show one event."""
        assert bool(event.cursor) == (event.type not in ("output", "output_reset") or not event.data.delta), f"{event} and its cursor"
        if event.cursor:
            self.cursor = event.cursor
            self.cursors.append(event.cursor)
            self.is_idle = event.type == "status" and event.data != "failed"
        if event.cursor and event.type != "output":
            self.ledger_events.append((event.type, event.position))
        match event.type:
            case "said":
                self._show("user", event.data.text, event.position)
            case "output" if event.data.delta:
                assert not self.is_idle, f"{event.data.text!r} is shown in an idle session"
                self.reply_text += event.data.text
                self.delta_count += 1
                self.shown_reply_texts.add((self.reply_text, self.last_erasure))
            case "output":
                assert not self.reply_text, f"{self.reply_text!r} is still shown, and its reply comes as a whole"
                self._show(event.data.author_name, event.data.text, event.position)
            case "output_reset":
                self.reply_text = ""
            case "redacted":
                assert not self.reply_text, f"{self.reply_text!r} is still shown, and may contain erased text"
                self.last_erasure = event.position
                erased_lines = [at in event.data.positions for at in self._line_positions]
                self.lines = [
                    (who, REDACTED_TEXT if is_erased else text) for (who, text), is_erased in zip(self.lines, erased_lines, strict=True)
                ]
            case "message":
                if self.reply_text:
                    self._show(event.data.author_name, self.reply_text, event.position)
                    self.reply_text = ""
                who, text = self.lines[-1]
                assert who == event.data.author_name, "the author is another one than was shown"
                assert event.data.text in (text, REDACTED_TEXT), "the text that was shown is not the recorded text"
                self.lines[-1] = (who, event.data.text)  # it was erased if the client was disconnected before this event

    def _show(self, who: str, text: str, position: int) -> None:
        self.lines.append((who, text))
        self._line_positions.append(position)

    def disconnect(self) -> None:
        """Lose the connection: deltas that were shown are not sent again."""
        self.reply_text = ""

    def check(self, whole: list[Event]) -> None:
        """Check that the page shows everything once and in order. `whole` are the events for a client that connects at the end."""
        other = EventPage()
        for event in whole:
            other.show_event(event)
        assert not self.reply_text, f"{self.reply_text!r} is still shown"
        assert self.lines == other.lines
        assert _without_idle_events(self.ledger_events) == _without_idle_events(other.ledger_events)
        assert len(set(self.cursors)) == len(self.cursors), "an event came twice"


def _without_idle_events(ledger_events: list[tuple[str, int]]) -> list[Any]:
    """Leave out idle events, which only clients get that are connected at the time."""
    return [each for each in ledger_events if each[0] not in IDLE_EVENTS]
