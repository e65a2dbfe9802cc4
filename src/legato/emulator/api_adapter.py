"""The interface of an API adapter: the part of the emulator that differs between APIs.

The request handler (request_handler.py) does the same for every API: it records the exchange, finds the account, applies a fault, checks
the request, asks the fake model, and replies in one piece or as a stream. An adapter supplies what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from legato.emulator.fake_models.base import FakeReply, ModelPrompt
from legato.emulator.request_types import ApiReply, EmulatorRequest, ErrorReply, ProviderFailure, StreamEvent
from legato.providers.rules.rule_set import RuleViolation


class ApiAdapter(Protocol):
    """The adapter of one API."""

    api: str

    def find_violations(self, request: EmulatorRequest) -> Sequence[RuleViolation]:
        """Return how a request violates the provider's rules. The client gets the first violation."""
        ...

    def reply_to_violations(self, request: EmulatorRequest, violations: Sequence[RuleViolation]) -> ErrorReply:
        """Return the first violation as the API's error."""
        ...

    def reply_to_failure(self, request: EmulatorRequest, failure: ProviderFailure) -> ErrorReply:
        """Return a failure of the provider as the API's error, with the headers that belong to it."""
        ...

    def apply_state_fault(self, request: EmulatorRequest, kind: str) -> bool:
        """Apply a fault of the stage "state" ("locked", "expired") to the account's stored objects. False: there was no object for it."""
        ...

    def acquire_locks(self, request: EmulatorRequest) -> None:
        """Take the locks of an accepted request."""
        ...

    def make_prompt(self, request: EmulatorRequest) -> ModelPrompt:
        """Return the model's prompt."""
        ...

    def make_reply(self, request: EmulatorRequest, fake_reply: FakeReply) -> ApiReply:
        """Return the model's reply as this API's object and events. Stores nothing."""
        ...

    def store_reply(self, request: EmulatorRequest, reply: ApiReply) -> None:
        """Store what the API stores of a reply. Called when the whole reply has been sent."""
        ...

    def release_locks(self, request: EmulatorRequest) -> None:
        """Release the locks of `acquire_locks`. Always called."""
        ...

    def make_failing_stream(
        self, request: EmulatorRequest, reply: ApiReply, failure: ProviderFailure, after_events: int, is_flat: bool
    ) -> tuple[StreamEvent, ...]:
        """Return the events of a stream that fails after some events. `is_flat`: the error has the documented, not the observed form."""
        ...

    def make_headers(self, request: EmulatorRequest, *, is_stream: bool, status: int = 200) -> dict[str, str]:
        """Return the headers of a reply."""
        ...
