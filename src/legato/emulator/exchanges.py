"""Exchanges: every request to the emulator with its reply, as tests, people and the log file get them.

API keys and other headers are not recorded. The log file has one JSON object per line; `LogReplay.from_log` (fake_models/log_replay.py)
reads it.
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

from legato.emulator.fake_models.base import FakeReply, ModelPrompt, ReplyCall, ReplyThought
from legato.errors import BadInput
from legato.private_files import open_private_file
from legato.providers.rules.rule_set import RuleViolation

log = logging.getLogger("legato.emulator")

_LOG_NAMES = {
    "started_at": "at",
    "request_body": "request",
    "is_model_request": "asks",
    "is_stream": "streams",
    "violations": "verdict",
    "emulator_error": "error",
    "fake_reply": "say",
    "reply_body": "reply",
    "event_count": "events",
    "is_complete": "whole",
    "duration_s": "took",
    "end_number": "ended",
}
"""The names of an exchange's members in the log, by their names in Python."""


class ExchangeViolation(Struct, frozen=True, rename={"rule_id": "clause", "rule_text": "rule"}):
    """A violation of a rule, as the log has it."""

    rule_id: str
    message: str
    path: str
    rule_text: str

    @classmethod
    def from_violation(cls, violation: RuleViolation) -> ExchangeViolation:
        """Return a violation without the details that its rule has anyway."""
        return cls(violation.rule.id, violation.message, violation.path, violation.rule.statement)


class Exchange(Struct, rename=_LOG_NAMES):
    """A request with its reply."""

    number: int  # by arrival, from 1
    started_at: float
    api: str  # "responses", "chat", "anthropic"; empty for an unknown path
    path: str
    request_body: dict[str, Any]
    method: str = "POST"
    is_model_request: bool = True  # False: a request for stored objects, for models, for a token count, or for an unknown path
    is_stream: bool = False
    status: int = 0
    violations: tuple[ExchangeViolation, ...] = ()
    fault: str = ""
    emulator_error: str = ""  # an error of the emulator itself, which no provider sends: a script or a fault that cannot be used
    note: str = ""  # a remark for people
    prompt: ModelPrompt | None = None
    fake_reply: FakeReply | None = None
    reply_body: dict[str, Any] | None = None
    event_count: int = 0  # the events sent
    is_complete: bool = False  # the whole reply was sent
    duration_s: float = 0.0
    end_number: int = 0  # by end, from 1: a long exchange may end after later ones

    @property
    def summary_line(self) -> str:
        """The exchange in one line, for people: the error, or else the reply, with texts and calls before thoughts."""
        line = self.violations[0].message if self.violations else self._error_message or self._reply_text
        parts = (
            "" if self.is_model_request else f"{self.method} {self.path}",
            f"[{self.fault}]" if self.fault else "",
            f"{self.violations[0].rule_id} " if self.violations else "",
            " ".join(line.split()),
            f"({self.note})" if self.note else "",
        )
        return "".join(character if character.isprintable() else "?" for character in " ".join(part for part in parts if part))

    @property
    def _error_message(self) -> str:
        """The first line of the error's message."""
        error = (self.reply_body or {}).get("error") if self.status >= 400 else None
        message = error.get("message") if isinstance(error, dict) else None
        return f"{'emulator: ' if self.emulator_error else ''}{message}".partition("\n")[0] if message else ""

    @property
    def _reply_text(self) -> str:
        items = self.fake_reply.items if self.fake_reply else ()
        thoughts = [f"(thought: {item.text})" for item in items if isinstance(item, ReplyThought)]
        spoken_items = [item for item in items if not isinstance(item, ReplyThought)]
        return " | ".join(
            [*(f"{item.tool}({item.arguments})" if isinstance(item, ReplyCall) else item.text for item in spoken_items), *thoughts]
        )

    def __repr__(self) -> str:
        outcome = (
            f" refused by {self.violations[0].rule_id}"
            if self.violations
            else f" emulator: {self.emulator_error}"
            if self.emulator_error
            else ""
        )
        subject = self.api if self.is_model_request else f"{self.method} {self.path}"
        return f"<exchange {self.number}: {subject} {self.status}{outcome}{' fault ' + self.fault if self.fault else ''}>"


FAULT_NOT_APPLIED_SUFFIX = " (did not apply)"
"""The end of `Exchange.fault` for a fault that did not apply to its request. Such a fault is not counted."""


class ExchangeLog:
    """The newest exchanges, in the order of their ends, and the totals of all."""

    def __init__(self, max_exchanges: int = 1000, log: str | Path | None = None) -> None:
        if max_exchanges < 0:
            raise BadInput("the emulator cannot keep a negative number of exchanges", found=f"max_exchanges={max_exchanges}")
        self._newest: deque[Exchange] = deque(maxlen=max_exchanges)
        self._lock = threading.Lock()  # the server's thread adds, other threads read
        self._listeners: list[Callable[[Exchange], None]] = []
        self.requests = 0  # requests for a model's reply
        self._start_count = 0
        self._open: dict[int, Callable[[int], None]] = {}
        self._end_count = 0
        self.reply_statuses: Counter[int] = Counter()  # of requests for a model's reply
        self.other_statuses: Counter[int] = Counter()  # of all other requests
        self.emulator_errors = 0
        self.refusals: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._log: IO[bytes] | None = None
        if log is not None:
            try:
                self._log = open(log, "ab", opener=open_private_file)  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise BadInput("the log cannot be written", found=str(error), do="name a file in a folder that exists") from error

    def next_number(self, *, is_model_request: bool = True) -> int:
        """Return the number of the next exchange. `is_model_request`: the request is for a model's reply."""
        self._start_count += 1
        self.requests += is_model_request
        return self._start_count

    def register(self, number: int, close_exchange: Callable[[int], None]) -> None:
        """Register an open exchange. `close` closes it with `close_exchange(status)` if it is still open."""
        self._open[number] = close_exchange

    def add(self, exchange: Exchange) -> None:
        """Add an ended exchange to the log and the totals, and call the listeners."""
        self._open.pop(exchange.number, None)
        with self._lock:
            self._end_count += 1
            exchange.end_number = self._end_count
            self._newest.append(exchange)
            (self.reply_statuses if exchange.is_model_request else self.other_statuses)[exchange.status] += 1
            self.emulator_errors += bool(exchange.emulator_error)
            if exchange.violations:
                self.refusals[f"{exchange.api} {exchange.violations[0].rule_id}"] += 1
            if exchange.fault and not exchange.fault.endswith(FAULT_NOT_APPLIED_SUFFIX):
                self.faults[exchange.fault.split()[0]] += 1
        if self._log is not None and not self._log.closed:
            self._log.write(msgspec.json.encode(exchange) + b"\n")
            self._log.flush()
        for listener in list(self._listeners):
            try:
                listener(exchange)
            except Exception as error:  # a listener must not disturb the exchange
                self._listeners.remove(listener)
                log.warning("a listener to the exchanges failed and was removed: %r", error)

    def list_ended_after(self, end_number: int = 0, limit: int | None = None) -> list[Exchange]:
        """Return the exchanges that ended after the one with this end number, in the order of their ends."""
        with self._lock:
            return [exchange for exchange in self._newest if exchange.end_number > end_number][:limit]

    def listen(self, listener: Callable[[Exchange], None]) -> Callable[[], None]:
        """Call a listener with every exchange that ends. Returns a function that removes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def summary(self) -> str:
        """Return the totals in words."""
        with self._lock:
            statuses, other_statuses = sorted(self.reply_statuses.items()), sorted(self.other_statuses.items())
            refusals, faults = self.refusals.most_common(), self.faults.most_common()
        lines = [f"{self.requests} requests: {_format_counts(statuses)}" if self.requests else "no requests"]
        if other_statuses:
            lines.append(f"{sum(self.other_statuses.values())} other requests: {_format_counts(other_statuses)}")
        if self.emulator_errors:
            lines.append(f"errors of the emulator itself: {self.emulator_errors}")
        if refusals:
            lines.append("refused by rule: " + _format_counts(refusals))
        if faults:
            lines.append("faults: " + _format_counts(faults))
        return "\n".join(lines)

    def close(self) -> None:
        """Close the open exchanges with status 499, and close the log file."""
        for close_exchange in list(self._open.values()):
            close_exchange(499)
        if self._log is not None:
            self._log.close()

    def __repr__(self) -> str:
        return f"<exchanges: {self.requests} requests, {sum(self.refusals.values())} refused>"


def _format_counts(counts: Iterable[tuple[Any, int]]) -> str:
    return ", ".join(f"{name} x{times}" for name, times in counts)
