"""A streamed reply of the Responses API. May know: events. Decides: what is shown while it comes, and when it has come.

The last event carries the whole response, and that is what is read: a stream records what an answer in one piece would. Servers that
leave it empty are read by their finished items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.core.facts import Usage
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_of, mapping, text
from legato.providers.formats.responses.read import read_reply, usage_of

_SPOKEN = ("response.output_text.delta", "response.refusal.delta")
_FIRST = ("response.created", "response.queued")
_LAST = ("response.completed", "response.incomplete", "response.failed")


class StreamReader:
    """Takes the events of one stream. `emit` gets the pieces of its words."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self.emitted = ""
        """The words that were told so far, where the provider keeps the reply under an id in the meantime."""
        self.background_id = ""
        """The id of a reply that is made in the background, whoever reads the stream."""
        self._items: dict[int, Any] = {}
        self._response: dict[str, Any] | None = None
        self._error: ModelFailed | None = None

    def take(self, data: bytes) -> None:
        """The next event's data."""
        if self._response is not None or data.strip() == b"[DONE]":
            return
        event = mapping(json_of(data))
        kind = text(event.get("type"))
        if kind in _SPOKEN:
            self._emit(text(event.get("delta")))
            if self.background_id:
                self.emitted += text(event.get("delta"))
        elif kind in _FIRST:
            response = mapping(event.get("response"))
            self.background_id = text(response.get("id")) if response.get("background") is True else ""
        elif kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind in _LAST:
            self._response = mapping(event.get("response"))
        elif kind == "error" or "error" in event:
            self._error = refusal_of(0, event)  # nested or flat: the response that failed may follow, and says no more

    @property
    def complete(self) -> bool:
        """Whether the last event of the reply has come, or an error in its place: what follows changes nothing but what it cost."""
        return self._response is not None or self._error is not None

    @property
    def usage(self) -> Usage:
        """What it has cost, as far as that has been told."""
        return usage_of((self._response or {}).get("usage"))

    def reply(self, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
        """The whole reply; `ModelFailed` if the stream told of a failure, or ended too early."""
        if self._error is not None:
            raise self._error
        if self._response is None:
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        response = self._response
        if not response.get("output") and self._items:
            response = {**response, "output": [self._items[index] for index in sorted(self._items)]}
        return read_reply(response, compiled, origin, request_id)
