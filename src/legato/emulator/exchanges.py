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

from legato.emulator.minds.base import Prompt, Say
from legato.errors import BadInput
from legato.wire.law import Complaint

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
    api: str
    path: str
    request: dict[str, Any]
    streams: bool = False
    status: int = 0
    verdict: tuple[Verdict, ...] = ()
    fault: str = ""
    prompt: Prompt | None = None
    say: Say | None = None
    reply: dict[str, Any] | None = None
    events: int = 0  # how many were sent
    whole: bool = False  # the answer was given to its end
    took: float = 0.0  # seconds
    ended: int = 0  # the how manieth to end: a long one may end after others that came later

    def __repr__(self) -> str:
        told = f" refused by {self.verdict[0].clause}" if self.verdict else ""
        return f"<exchange {self.number}: {self.api} {self.status}{told}{' fault ' + self.fault if self.fault else ''}>"


class Exchanges:
    """The newest exchanges, in order; and the sums over all of them."""

    def __init__(self, keep: int = 1000, log: str | Path | None = None) -> None:
        if keep < 0:
            raise BadInput("the emulator cannot keep fewer than no exchanges", found=f"keep={keep}")
        self._kept: deque[Exchange] = deque(maxlen=keep)
        self._lock = threading.Lock()  # the server adds, and others look
        self._listeners: list[Callable[[Exchange], None]] = []
        self.requests = 0
        self._ended = 0
        self.statuses: Counter[int] = Counter()
        self.refusals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._log: IO[bytes] | None = None
        if log is not None:
            try:
                self._log = Path(log).open("ab")  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise BadInput("the log cannot be written", found=str(error), do="name a file in a folder that exists") from error

    def number(self) -> int:
        """The number of the next request."""
        self.requests += 1
        return self.requests

    def add(self, exchange: Exchange) -> None:
        """An exchange is over."""
        with self._lock:
            self._ended += 1
            exchange.ended = self._ended
            self._kept.append(exchange)
            self.statuses[exchange.status] += 1
            if exchange.verdict:
                self.refusals[f"{exchange.api} {exchange.verdict[0].clause}"] += 1
            if exchange.fault:
                self.faults[exchange.fault.split()[0]] += 1
        if self._log is not None:
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
            statuses, refusals, faults = sorted(self.statuses.items()), self.refusals.most_common(), self.faults.most_common()
        lines = [f"{self.requests} requests: {_told(statuses)}" if self.requests else "no requests"]
        if refusals:
            lines.append("refused by clause: " + _told(refusals))
        if faults:
            lines.append("faults: " + _told(faults))
        return "\n".join(lines)

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()

    def __repr__(self) -> str:
        return f"<exchanges: {self.requests} requests, {sum(self.refusals.values())} refused>"


def _told(counts: Iterable[tuple[Any, int]]) -> str:
    return ", ".join(f"{name} x{times}" for name, times in counts)
