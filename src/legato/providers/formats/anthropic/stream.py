"""A streamed reply of the Messages API. May know: events. Decides: what is shown while it comes, and when it has come.

The events are put together to the message that an answer in one piece would have been, and that is what is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from legato.core.facts import Usage
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.read import read_reply, usage_of
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_of, mapping, text

_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}


class _Opened:
    """A block that is being written: how it began, and the pieces of its members.

    A delta of a kind that is not known adds its texts to the members of the same names, as all known ones do.
    """

    def __init__(self, block: dict[str, Any]) -> None:
        self._block = dict(block)
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = list(block.get("citations") or ())

    def take(self, delta: dict[str, Any]) -> None:
        kind = text(delta.get("type"))
        if kind in _PIECES:
            self._pieces.setdefault(_PIECES[kind], []).append(text(delta.get(_PIECES[kind])))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))
        else:
            for member, value in delta.items():
                if member != "type" and value is not None:
                    self._put(member, value)

    def _put(self, member: str, value: Any) -> None:
        if isinstance(value, str):
            self._pieces.setdefault(member, []).append(value)
        else:
            self._block[member] = value

    def block(self) -> dict[str, Any]:
        """The block as it is now."""
        block = dict(self._block)
        for member, pieces in self._pieces.items():
            if member == "partial_json":
                block["input"] = _input("".join(pieces), block)
            else:
                block[member] = text(block.get(member)) + "".join(pieces)
        return {**block, "citations": self._citations} if self._citations else block


def _input(written: str, block: dict[str, Any]) -> Any:
    """A call's input. One that broke off is kept as the text it is."""
    if not written.strip():
        return block.get("input")
    try:
        return msgspec.json.decode(written)
    except (ValueError, RecursionError):
        return written if block.get("type") == "tool_use" else {}


class StreamReader:
    """Takes the events of one stream. `emit` gets the pieces of its words."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._blocks: dict[int, _Opened] = {}
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._ended = False
        self._error: ModelFailed | None = None

    def take(self, data: bytes) -> None:
        """The next event's data."""
        if self._ended:
            return
        event = mapping(json_of(data))
        match event.get("type"):
            case "message_start":
                self._message = mapping(event.get("message"))
                self._count(self._message.get("usage"))
            case "content_block_start":
                block = mapping(event.get("content_block"))
                self._blocks[_index(event)] = _Opened(block)
                self._say(text(block.get("text")))
            case "content_block_delta":
                delta = mapping(event.get("delta"))
                if (opened := self._blocks.get(_index(event))) is not None:
                    opened.take(delta)
                    self._say(text(delta.get("text")))
            case "message_delta":
                about_all = {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
                said = {**about_all, **mapping(event.get("delta"))}
                self._message |= {name: value for name, value in said.items() if value is not None}
                self._count(event.get("usage"))
            case "message_stop":
                self._ended = True
            case "error":
                self._error = refusal_of(0, event)

    def _say(self, piece: str) -> None:
        if piece:
            self._emit(piece)

    def _count(self, usage: Any) -> None:
        """Counts are sums so far; what is not told again stays."""
        self._usage |= {name: value for name, value in mapping(usage).items() if value is not None}

    @property
    def complete(self) -> bool:
        """Whether the last event of the reply has come, or an error in its place: what follows changes nothing but what it cost."""
        return self._ended or self._error is not None

    @property
    def usage(self) -> Usage:
        """What it has cost, as far as that has been told."""
        return usage_of(self._usage)

    def body(self) -> dict[str, Any]:
        """The whole message; `ModelFailed` if the stream told of a failure, or ended too early."""
        if self._error is not None:
            raise self._error
        if not self._ended:
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        content = [self._blocks[index].block() for index in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage}

    def reply(self, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
        """The whole reply."""
        return read_reply(self.body(), compiled, origin, request_id)


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
