"""What goes over HTTP, byte by byte: an emulator that keeps the body of every request as it came over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Prompt, Say


@dataclass(frozen=True)
class Sent:
    """One request as it was sent, and what was answered. `asks`: it is for a reply; else a conversation is made, or the like."""

    api: str
    path: str
    asks: bool
    body: bytes
    status: int
    answer: dict[str, Any]


class Mouth:
    """The emulator's mind: it says what it was last told to."""

    def __init__(self) -> None:
        self.next = Say(())

    def reply(self, prompt: Prompt) -> Say:
        return self.next


class Provider:
    """An emulator whose words come from a script, and everything that it was sent since it was last asked to forget."""

    def __init__(self, **options: Any) -> None:
        self.mouth = Mouth()
        # Compatible servers show their thoughts: only a script that thinks makes a difference.
        switches = {"chat.shows_reasoning": True}
        self.emulator: Emulator = serve(mind=self.mouth, longest=None, switches=switches, **options)
        app = self.emulator._app
        app.asgi = self._listening(app.asgi)
        self._bodies: list[bytearray] = []
        self._ended = 0

    @property
    def received(self) -> int:
        """How many requests have come, of any kind."""
        return len(self._bodies)

    def forget(self) -> None:
        """Begin anew, for the next story."""
        self._bodies.clear()
        self._ended = max((exchange.ended for exchange in self.emulator.exchanges), default=0)

    def traffic(self) -> list[Sent]:
        """What was sent, in the order of its arrival."""
        noted = sorted(self.emulator.log.after(self._ended), key=lambda exchange: exchange.number)
        return [_sent(exchange, bytes(body)) for exchange, body in zip(noted, self._bodies, strict=True)]

    def _listening(self, app: ASGIApp) -> ASGIApp:
        """The emulator behind somebody who writes down what comes in."""

        async def listen(scope: Scope, receive: Receive, send: Send) -> None:
            body = bytearray()
            self._bodies.append(body)

            async def heard() -> Message:
                message = await receive()
                body.extend(message.get("body", b""))
                return message

            await app(scope, heard, send)

        return listen


def _sent(exchange: Exchange, body: bytes) -> Sent:
    whole = exchange.reply if exchange.whole else None
    return Sent(exchange.api, exchange.path, exchange.asks, body, exchange.status, whole or {})


@contextmanager
def provider(**options: Any) -> Iterator[Provider]:
    """A provider that refuses nothing of what it is sent, from beginning to end: else this raises."""
    made = Provider(**options)
    with made.emulator:
        yield made
        refused_nothing(made.emulator)


def refused_nothing(emulator: Emulator) -> None:
    """The emulator's own sums: every request was answered with 200, and no clause of any law book was broken."""
    log = emulator.log
    assert not log.refusals, f"refused: {emulator.summary()}"
    assert {*log.statuses, *log.others} <= {200}, emulator.summary()
    assert not log.errors, emulator.summary()
