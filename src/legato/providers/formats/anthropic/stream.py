"""Decoding of streamed replies of the Messages API.

The events are assembled into the message that an answer in one piece would be, and that message is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from legato.core.facts import Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.decode import decode_reply, decode_usage
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_text, decode_json
from legato.providers.formats.provider_errors import translate_error

_DELTA_MEMBERS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}


class _StreamedBlock:
    """A block that is being streamed: its first state, and the pieces of its members.

    A delta of unknown type appends its texts to the members of the same names, as all known types do.
    """

    def __init__(self, block: dict[str, Any]) -> None:
        self._block = dict(block)
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = list(block.get("citations") or ())

    def add_delta(self, delta: dict[str, Any]) -> None:
        kind = as_text(delta.get("type"))
        if kind in _DELTA_MEMBERS:
            self._pieces.setdefault(_DELTA_MEMBERS[kind], []).append(as_text(delta.get(_DELTA_MEMBERS[kind])))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))
        else:
            for member, value in delta.items():
                if member != "type" and value is not None:
                    self._add_member(member, value)

    def _add_member(self, member: str, value: Any) -> None:
        if isinstance(value, str):
            self._pieces.setdefault(member, []).append(value)
        else:
            self._block[member] = value

    def build_block(self) -> dict[str, Any]:
        """Return the block as streamed so far."""
        block = dict(self._block)
        for member, pieces in self._pieces.items():
            if member == "partial_json":
                block["input"] = _decode_input("".join(pieces), block)
            else:
                block[member] = as_text(block.get(member)) + "".join(pieces)
        return {**block, "citations": self._citations} if self._citations else block


def _decode_input(text: str, block: dict[str, Any]) -> Any:
    """Decode a call's input. An input that was cut off stays text."""
    if not text.strip():
        return block.get("input")
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text if block.get("type") == "tool_use" else {}


class AnthropicStreamDecoder:
    """Decodes the events of one stream. `emit` receives the pieces of its text."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._blocks: dict[int, _StreamedBlock] = {}
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._is_stopped = False
        self._error: ModelFailed | None = None

    def feed(self, data: bytes) -> None:
        """Take the data of the next event."""
        if self._is_stopped:
            return
        event = as_object(decode_json(data))
        match event.get("type"):
            case "message_start":
                self._message = as_object(event.get("message"))
                self._update_usage(self._message.get("usage"))
            case "content_block_start":
                block = as_object(event.get("content_block"))
                self._blocks[_find_block_index(event)] = _StreamedBlock(block)
                self._emit_piece(as_text(block.get("text")))
            case "content_block_delta":
                delta = as_object(event.get("delta"))
                if (open_block := self._blocks.get(_find_block_index(event))) is not None:
                    open_block.add_delta(delta)
                    self._emit_piece(as_text(delta.get("text")))
            case "message_delta":
                top_members = {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
                members = {**top_members, **as_object(event.get("delta"))}
                self._message |= {name: value for name, value in members.items() if value is not None}
                self._update_usage(event.get("usage"))
            case "message_stop":
                self._is_stopped = True
            case "error":
                self._error = translate_error(0, event)

    def _emit_piece(self, piece: str) -> None:
        if piece:
            self._emit(piece)

    def _update_usage(self, usage: Any) -> None:
        """Update the token counts. Each count is a total so far; counts that an event leaves out stay."""
        self._usage |= {name: value for name, value in as_object(usage).items() if value is not None}

    @property
    def is_complete(self) -> bool:
        """True once the last event of the reply came, or an error instead. Later events change nothing but the usage."""
        return self._is_stopped or self._error is not None

    @property
    def usage(self) -> Usage:
        """The usage that the stream has reported so far."""
        return decode_usage(self._usage)

    def build_message(self) -> dict[str, Any]:
        """Return the whole message; `ModelFailed` if the stream reported a failure or ended too early."""
        if self._error is not None:
            raise self._error
        if not self._is_stopped:
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        content = [self._blocks[index].build_block() for index in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage}

    def build_reply(self, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
        """Return the whole reply; `ModelFailed` if the stream reported a failure or ended too early."""
        return decode_reply(self.build_message(), request, origin, request_id)


def _find_block_index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
