"""A request, and what may come back. May know: data. Decides: what an event looks like on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.providers.rules.rule_set import Complaint


class Ask(Struct):
    """One request as it arrived."""

    api: str  # "responses", "chat", "anthropic"
    number: int  # the how manieth request for a reply; 0: it is for something else
    body: dict[str, Any]
    headers: dict[str, str]  # names in small letters
    account: str  # whose key it was: state belongs to accounts
    now: float  # seconds since the epoch
    azure: bool = False
    deployment: str = ""  # named by an Azure path instead of the body's model
    size: int = 0  # bytes of the body
    stray: Any = None  # what was sent in place of an object: JSON of another kind; then `body` is empty

    @property
    def streams(self) -> bool:
        """Whether the answer is wanted as events."""
        return self.body.get("stream") is True


class Event(Struct, frozen=True):
    """One server-sent event. `name` is left out where the API does not name its events."""

    data: dict[str, Any] | str
    name: str = ""

    def encode(self) -> bytes:
        """The event as it travels."""
        data = self.data.encode() if isinstance(self.data, str) else msgspec.json.encode(self.data)
        return (b"event: " + self.name.encode() + b"\n" if self.name else b"") + b"data: " + data + b"\n\n"


class Answer(Struct, frozen=True):
    """An accepted request's answer: the object, and the same as a stream."""

    body: dict[str, Any]
    events: tuple[Event, ...]


class Failure(Struct, frozen=True):
    """Something the provider itself gets wrong, or refuses for reasons that no law book has: a limit, an outage, a key."""

    kind: str  # "rate_limit", "quota", "server_error", "overloaded", "timeout", "unauthorized", "context_length", "content_filter";
    # "emulator": what no provider says, but the emulator itself to whoever uses it
    status: int
    message: str = ""  # empty: the API's own words
    retry_after: float = 0.0


class Refusal(Struct, frozen=True):
    """An HTTP answer that is an error."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}
    complaints: tuple[Complaint, ...] = ()
