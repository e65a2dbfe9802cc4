"""What the server needs to know about one API. May know: asks and minds. Decides: nothing; each API's folder does.

The server (serving.py) does the same for every API: keep the exchange, find the account, apply what fault is due, judge, ask the
mind, answer whole or as a stream. A dialect fills in what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from legato.emulator.asks import Answer, Ask, Event, Failure, Refusal
from legato.emulator.minds.base import Prompt, Say
from legato.providers.rules.rule_set import Complaint


class Dialect(Protocol):
    """One API."""

    api: str

    def judge(self, ask: Ask) -> Sequence[Complaint]:
        """The law book's complaints, first the one that is answered with."""
        ...

    def refuse(self, ask: Ask, complaints: Sequence[Complaint]) -> Refusal:
        """The first complaint, in the API's envelope."""
        ...

    def fail(self, ask: Ask, failure: Failure) -> Refusal:
        """A failure of the provider, in the API's envelope, with the headers that belong to it."""
        ...

    def strike(self, ask: Ask, kind: str) -> bool:
        """Let a fault of the stage "state" happen to what this account has stored: "locked", "expired". False: there was nothing."""
        ...

    def begin(self, ask: Ask) -> None:
        """The request was accepted: take what it locks."""
        ...

    def prompt(self, ask: Ask) -> Prompt:
        """What the model is given."""
        ...

    def answer(self, ask: Ask, say: Say) -> Answer:
        """What the model says, as this API's object and events. Stores nothing."""
        ...

    def keep(self, ask: Ask, answer: Answer) -> None:
        """The answer has been given to its end: store what the API stores."""
        ...

    def end(self, ask: Ask) -> None:
        """Give up what `begin` took; called whatever happened."""
        ...

    def fail_stream(self, ask: Ask, answer: Answer, failure: Failure, after: int, flat: bool) -> tuple[Event, ...]:
        """The stream of an answer that fails after so many of its events; `flat` as the documents have it, else as the wire does."""
        ...

    def headers(self, ask: Ask, *, streams: bool, status: int = 200) -> dict[str, str]:
        """The headers of an answer."""
        ...
