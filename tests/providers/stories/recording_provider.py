"""An emulator that records the bytes of every request body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from tests.providers.next_reply_model import NextReplyModel


@dataclass(frozen=True)
class SentRequest:
    """One request as it was sent, and its answer. Requests that are no model requests create conversations and the like."""

    api: str
    path: str
    is_model_request: bool
    body: bytes
    status: int
    answer: dict[str, Any]


class RecordingProvider:
    """An emulator with scripted replies, and a record of all requests since the last `clear()`."""

    def __init__(self, **options: Any) -> None:
        self.fake_model = NextReplyModel()
        # Compatible servers show reasoning: it matters only for replies with reasoning.
        switches = {"chat.shows_reasoning": True}
        self.emulator: Emulator = serve(fake_model=self.fake_model, max_text_chars=None, switches=switches, **options)
        app = self.emulator._app
        app.asgi = self._record_bodies(app.asgi)
        self._bodies: list[bytearray] = []
        self._ended = 0

    @property
    def request_count(self) -> int:
        """The number of requests of any kind."""
        return len(self._bodies)

    def clear(self) -> None:
        """Discard the record before the next story."""
        self._bodies.clear()
        self._ended = max((exchange.end_number for exchange in self.emulator.exchanges), default=0)

    def list_requests(self) -> list[SentRequest]:
        """Return all requests in the order of their arrival."""
        exchanges = sorted(self.emulator.log.list_ended_after(self._ended), key=lambda exchange: exchange.number)
        return [_make_sent_request(exchange, bytes(body)) for exchange, body in zip(exchanges, self._bodies, strict=True)]

    def _record_bodies(self, app: ASGIApp) -> ASGIApp:
        """Wrap the emulator's app so that request bodies are recorded."""

        async def listen(scope: Scope, receive: Receive, send: Send) -> None:
            body = bytearray()
            self._bodies.append(body)

            async def heard() -> Message:
                message = await receive()
                body.extend(message.get("body", b""))
                return message

            await app(scope, heard, send)

        return listen


def _make_sent_request(exchange: Exchange, body: bytes) -> SentRequest:
    whole = exchange.reply_body if exchange.is_complete else None
    return SentRequest(exchange.api, exchange.path, exchange.is_model_request, body, exchange.status, whole or {})


@contextmanager
def run_provider(**options: Any) -> Iterator[RecordingProvider]:
    """Run a provider, and check at the end that it refused nothing."""
    recording = RecordingProvider(**options)
    with recording.emulator:
        yield recording
        check_nothing_refused(recording.emulator)


def check_nothing_refused(emulator: Emulator) -> None:
    """Check the emulator's own counts: every answer was a 200, and no rule was broken."""
    log = emulator.log
    assert not log.refusals, f"refused: {emulator.summary()}"
    assert {*log.reply_statuses, *log.other_statuses} <= {200}, emulator.summary()
    assert not log.emulator_errors, emulator.summary()
