"""A request to the emulator, and the kinds of replies."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from legato.providers.rules.rule_set import RuleViolation


class EmulatorRequest(Struct):
    """A request as it arrived."""

    api: str  # "responses", "chat", "anthropic"
    number: int  # counts the requests for a model's reply, from 1; 0: a request for something else
    body: dict[str, Any]
    headers: dict[str, str]  # names in lower case
    account: str  # the account of the API key: stored objects belong to accounts
    now: float  # seconds since the epoch
    is_azure: bool = False
    deployment: str = ""  # the deployment that an Azure path names, in place of the body's model
    body_bytes: int = 0
    non_object_body: Any = None  # a JSON body that is no object; `body` is then empty

    @property
    def wants_stream(self) -> bool:
        """True if the client asks for a stream."""
        return self.body.get("stream") is True


class StreamEvent(Struct, frozen=True):
    """A server-sent event. `name` is empty where the API does not name its events."""

    data: dict[str, Any] | str
    name: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the event."""
        data = self.data.encode() if isinstance(self.data, str) else msgspec.json.encode(self.data)
        return (b"event: " + self.name.encode() + b"\n" if self.name else b"") + b"data: " + data + b"\n\n"


class ApiReply(Struct, frozen=True):
    """The reply to an accepted request: the object, and the same as events."""

    body: dict[str, Any]
    events: tuple[StreamEvent, ...]


class ProviderFailure(Struct, frozen=True):
    """A failure of the provider itself, or a refusal for a reason that is no rule: a limit, an outage, a key."""

    kind: str  # "rate_limit", "quota", "server_error", "overloaded", "timeout", "unauthorized", "context_length", "content_filter";
    # "emulator": an error of the emulator itself, which no provider sends
    status: int
    message: str = ""  # empty: the provider's own message
    retry_after: float = 0.0


class ErrorReply(Struct, frozen=True):
    """A reply that is an HTTP error."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}
    violations: tuple[RuleViolation, ...] = ()
