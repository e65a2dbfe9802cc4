"""Decoding of streamed replies of the Responses API.

The last event carries the whole response, and that is what is decoded: a stream records the same reply as an answer in one piece. If a
server leaves the output of the last event empty, the finished items of the stream are decoded instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.core.facts import Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_text, decode_json
from legato.providers.formats.provider_errors import translate_error
from legato.providers.formats.responses.decode import decode_reply, decode_usage

_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_FIRST_EVENTS = ("response.created", "response.queued")
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesStreamDecoder:
    """Decodes the events of one stream. `emit` receives the pieces of its text."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self.emitted_text = ""
        """The text emitted so far, if the provider makes the reply in the background."""
        self.background_id = ""
        """The id of a reply that the provider makes in the background, even if the stream breaks."""
        self._items: dict[int, Any] = {}
        self._response: dict[str, Any] | None = None
        self._error: ModelFailed | None = None

    def feed(self, data: bytes) -> None:
        """Take the data of the next event."""
        if self._response is not None or data.strip() == b"[DONE]":
            return
        event = as_object(decode_json(data))
        kind = as_text(event.get("type"))
        if kind in _TEXT_DELTAS:
            self._emit(as_text(event.get("delta")))
            if self.background_id:
                self.emitted_text += as_text(event.get("delta"))
        elif kind in _FIRST_EVENTS:
            response = as_object(event.get("response"))
            self.background_id = as_text(response.get("id")) if response.get("background") is True else ""
        elif kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind in _LAST_EVENTS:
            self._response = as_object(event.get("response"))
        elif kind == "error" or "error" in event:
            self._error = translate_error(0, event)  # nested or flat; a failed response may follow, and adds nothing

    @property
    def is_complete(self) -> bool:
        """True once the last event of the reply came, or an error instead. Later events change nothing but the usage."""
        return self._response is not None or self._error is not None

    @property
    def usage(self) -> Usage:
        """The usage that the stream has reported so far."""
        return decode_usage((self._response or {}).get("usage"))

    def build_reply(self, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
        """Return the whole reply; `ModelFailed` if the stream reported a failure or ended too early."""
        if self._error is not None:
            raise self._error
        if self._response is None:
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        response = self._response
        if not response.get("output") and self._items:
            response = {**response, "output": [self._items[index] for index in sorted(self._items)]}
        return decode_reply(response, request, origin, request_id)
