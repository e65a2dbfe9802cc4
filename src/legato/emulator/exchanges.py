"""What was asked and what was answered. May know: asks, minds, complaints. Decides: what is kept for people, and what never is.

Keys and other headers are not kept. The log is one JSON object per line; `Replay.from_log` (minds/replay.py) reads it again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from legato.emulator.minds.base import Prompt, Say, Thought, Use
from legato.errors import BadInput
from legato.private_files import open_private
from legato.providers.rules.rule_set import Complaint

log = logging.getLogger("legato.emulator")


class Verdict(Struct, frozen=True):
    """A complaint, as it is kept."""

    clause: str
    message: str
    path: str
    rule: str

    @classmethod
    def of(cls, complaint: Complaint) -> Verdict:
        """The complaint without what its clause says anyway."""
        return cls(complaint.clause.id, complaint.message, complaint.path, complaint.clause.rule)


class Exchange(Struct):
    """One request and its answer."""

    number: int  # the how manieth to arrive
    at: float
    api: str  # "responses", "chat", "anthropic"; empty where there is no such path
    path: str
    request: dict[str, Any]
    method: str = "POST"
    asks: bool = True  # for a reply of the model; else for what is stored, for models, or for a path that there is not
    streams: bool = False
    status: int = 0
    verdict: tuple[Verdict, ...] = ()
    fault: str = ""
    error: str = ""  # what the emulator itself could not do, a script or a fault that cannot be used: no provider says that
    note: str = ""  # what else a person should know
    prompt: Prompt | None = None
    say: Say | None = None
    reply: dict[str, Any] | None = None
    events: int = 0  # how many were sent
    whole: bool = False  # the answer was given to its end
    took: float = 0.0  # seconds
    ended: int = 0  # the how manieth to end: a long one may end after others that came later

    @property
    def told(self) -> str:
        """All of it in one line, for people: what went wrong, or else what was said, words and calls before thoughts."""
        line = self.verdict[0].message if self.verdict else self._message or self._said
        parts = (
            "" if self.asks else f"{self.method} {self.path}",
            f"[{self.fault}]" if self.fault else "",
            f"{self.verdict[0].clause} " if self.verdict else "",
            " ".join(line.split()),
            f"({self.note})" if self.note else "",
        )
        return "".join(letter if letter.isprintable() else "?" for letter in " ".join(part for part in parts if part))

    @property
    def _message(self) -> str:
        """What an error says, in its first line."""
        error = (self.reply or {}).get("error") if self.status >= 400 else None
        message = error.get("message") if isinstance(error, dict) else None
        return f"{'emulator: ' if self.error else ''}{message}".partition("\n")[0] if message else ""

    @property
    def _said(self) -> str:
        items = self.say.items if self.say else ()
        thoughts = [f"(thought: {item.text})" for item in items if isinstance(item, Thought)]
        aloud = [item for item in items if not isinstance(item, Thought)]
        return " | ".join([*(f"{item.tool}({item.arguments})" if isinstance(item, Use) else item.text for item in aloud), *thoughts])

    def __repr__(self) -> str:
        told = f" refused by {self.verdict[0].clause}" if self.verdict else f" emulator: {self.error}" if self.error else ""
        what = self.api if self.asks else f"{self.method} {self.path}"
        return f"<exchange {self.number}: {what} {self.status}{told}{' fault ' + self.fault if self.fault else ''}>"


NOT_APPLIED = " (did not apply)"
"""What is said of a fault that found nothing to strike at. It is not counted."""


class Exchanges:
    """The newest exchanges, in order; and the sums over all of them."""

    def __init__(self, keep: int = 1000, log: str | Path | None = None) -> None:
        if keep < 0:
            raise BadInput("the emulator cannot keep fewer than no exchanges", found=f"keep={keep}")
        self._kept: deque[Exchange] = deque(maxlen=keep)
        self._lock = threading.Lock()  # the server adds, and others look
        self._listeners: list[Callable[[Exchange], None]] = []
        self.requests = 0  # those that ask for a reply
        self._begun = 0
        self._unfinished: dict[int, Callable[[int], None]] = {}
        self._ended = 0
        self.statuses: Counter[int] = Counter()  # of those that ask for a reply
        self.others: Counter[int] = Counter()  # statuses, too
        self.errors = 0  # of the emulator itself
        self.refusals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._log: IO[bytes] | None = None
        if log is not None:
            try:
                self._log = open(log, "ab", opener=open_private)  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise BadInput("the log cannot be written", found=str(error), do="name a file in a folder that exists") from error

    def number(self, *, asks: bool = True) -> int:
        """The number of the next exchange. `asks`: it is for a reply."""
        self._begun += 1
        self.requests += asks
        return self._begun

    def begin(self, number: int, end: Callable[[int], None]) -> None:
        """An exchange is under way. `end` ends it with a status, should nobody else do so."""
        self._unfinished[number] = end

    def add(self, exchange: Exchange) -> None:
        """An exchange is over."""
        self._unfinished.pop(exchange.number, None)
        with self._lock:
            self._ended += 1
            exchange.ended = self._ended
            self._kept.append(exchange)
            (self.statuses if exchange.asks else self.others)[exchange.status] += 1
            self.errors += bool(exchange.error)
            if exchange.verdict:
                self.refusals[f"{exchange.api} {exchange.verdict[0].clause}"] += 1
            if exchange.fault and not exchange.fault.endswith(NOT_APPLIED):
                self.faults[exchange.fault.split()[0]] += 1
        if self._log is not None and not self._log.closed:
            self._log.write(msgspec.json.encode(exchange) + b"\n")
            self._log.flush()
        for listener in list(self._listeners):
            try:
                listener(exchange)
            except Exception as error:  # whoever looks on must not disturb what they look at
                self._listeners.remove(listener)
                log.warning("a listener to the exchanges failed and is told no more: %r", error)

    def after(self, ended: int = 0, limit: int | None = None) -> list[Exchange]:
        """The exchanges that ended after the one that was the so manieth to end, in that order."""
        with self._lock:
            return [exchange for exchange in self._kept if exchange.ended > ended][:limit]

    def listen(self, listener: Callable[[Exchange], None]) -> Callable[[], None]:
        """Be told of every exchange; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def summary(self) -> str:
        """What a person wants to know at the end."""
        with self._lock:
            statuses, others = sorted(self.statuses.items()), sorted(self.others.items())
            refusals, faults = self.refusals.most_common(), self.faults.most_common()
        lines = [f"{self.requests} requests: {_told(statuses)}" if self.requests else "no requests"]
        if others:
            lines.append(f"{sum(self.others.values())} other requests: {_told(others)}")
        if self.errors:
            lines.append(f"errors of the emulator itself: {self.errors}")
        if refusals:
            lines.append("refused by clause: " + _told(refusals))
        if faults:
            lines.append("faults: " + _told(faults))
        return "\n".join(lines)

    def close(self) -> None:
        """End what is not answered yet (status 499), and let go of the log."""
        for end in list(self._unfinished.values()):
            end(499)
        if self._log is not None:
            self._log.close()

    def __repr__(self) -> str:
        return f"<exchanges: {self.requests} requests, {sum(self.refusals.values())} refused>"


def _told(counts: Iterable[tuple[Any, int]]) -> str:
    return ", ".join(f"{name} x{times}" for name, times in counts)
