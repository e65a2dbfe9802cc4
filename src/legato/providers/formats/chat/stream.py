"""Decoding of streamed replies of Chat Completions.

Pieces of text are simply joined. Pieces of calls belong together by their index. OpenAI follows that rule, but compatible servers leave
the index out, give every call the same one, repeat ids and names in every chunk, or send whole calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from legato.core.facts import Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.chat.decode import (
    REPLAYED_CALL_MEMBERS,
    DecodedContent,
    build_reply,
    decode_arguments,
    decode_failure,
    find_finish_reason,
    find_tool_member,
    find_usage,
    is_custom_call,
    is_failure,
    is_first_choice,
)
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_objects, as_text, decode_json


class ChatStreamDecoder:
    """Decodes the chunks of one stream. `emit` receives the pieces of its text."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._completion: dict[str, Any] = {}
        self._content = DecodedContent()
        self._calls = StreamedCalls()
        self._has_piece = False
        self._finish_reason = ""
        self._has_done_marker = False
        self._error: ModelFailed | None = None

    def feed(self, data: bytes) -> None:
        """Take the data of the next event."""
        if self._has_done_marker or data.strip() in (b"[DONE]", b""):
            self._has_done_marker = self._has_done_marker or bool(data.strip())
            return
        chunk = as_object(decode_json(data))
        choices = as_objects(chunk.get("choices"))
        self._content.further_choices.update(_make_index_key(choice.get("index")) for choice in choices if not is_first_choice(choice))
        self._content.add_sources(chunk)
        self._read_completion_members(chunk)
        for choice in filter(is_first_choice, choices):
            self._read_failure(choice)
            self._content.add_losses_of(choice)
            piece = choice.get("delta")
            if piece is None and not self._has_piece:
                piece = choice.get("message")  # some servers stream the whole message at once
            if isinstance(piece, dict):
                self._add_piece(piece)
            self._finish_reason = find_finish_reason(choice) or self._finish_reason

    def _read_completion_members(self, chunk: dict[str, Any]) -> None:
        """Read the members of a chunk that describe the whole reply: the first id and model, the last counts."""
        self._read_failure(chunk)
        for name in ("id", "model"):
            if chunk.get(name):
                self._completion.setdefault(name, chunk[name])
        self._completion |= {name: chunk[name] for name in ("usage", "x_groq") if chunk.get(name)}

    def _read_failure(self, answer: dict[str, Any]) -> None:
        if self._error is None and is_failure(answer):
            self._error = decode_failure(answer)

    def _add_piece(self, piece: dict[str, Any]) -> None:
        self._has_piece = True
        if text := self._content.add_piece(piece):
            self._emit(text)
        for call in as_objects(piece.get("tool_calls")):
            self._calls.add_piece(call)
        if function := as_object(piece.get("function_call")):
            self._calls.add_piece({"index": "function_call", "function": function})  # the API before tools: one call per reply

    @property
    def is_complete(self) -> bool:
        """True once the last event of the reply came, or an error instead. Later events change nothing but the usage."""
        return self._has_done_marker or self._error is not None

    @property
    def usage(self) -> Usage:
        """The usage that the stream has reported so far."""
        return find_usage(self._completion)

    def build_reply(self, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
        """Return the whole reply; `ModelFailed` if the stream reported a failure or ended too early."""
        if self._error is not None:
            raise self._error
        if not self._finish_reason and not (self._has_done_marker and self._has_piece):
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        return build_reply(self._completion, self._finish_reason, self._content, self._calls.build_calls(), request, origin, request_id)


class StreamedCalls:
    """The calls of one reply, assembled from their pieces."""

    def __init__(self) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[Any, _StreamedCall] = {}  # the newest call of each index
        self._by_id: dict[str, _StreamedCall] = {}  # the newest call of each id

    def add_piece(self, piece: dict[str, Any]) -> None:
        """Add a piece of a call, or a whole call."""
        function = find_tool_member(piece)
        index, id, name, arguments = piece.get("index"), as_text(piece.get("id")), as_text(function.get("name")), decode_arguments(function)
        call = self._find_call(index, id, name)
        if call is None or call.is_followed_by(index, id, name, arguments):
            call = _StreamedCall(len(self._calls) if index is None else index)
            self._calls.append(call)
            self._by_index[_make_index_key(call.index)] = call
        if id and not call.id:
            self._by_id[id] = call
        call.add_piece(id, name, arguments)
        call.add_members(piece)

    def _find_call(self, index: Any, id: str, name: str) -> _StreamedCall | None:
        """Return the call that a piece may belong to: the newest with its index; without an index, the newest with its id, else of all."""
        newest = self._calls[-1] if self._calls else None
        if index is None:
            return self._by_id.get(id, newest) if id else newest
        call = self._by_index.get(_make_index_key(index))
        return call if call or id or name else newest  # no call begins without an id and a name: some servers count in two ways

    def build_calls(self) -> list[dict[str, Any]]:
        """Return the calls as an unstreamed reply has them."""
        is_numbered = all(isinstance(call.index, int) for call in self._calls)
        calls = sorted(self._calls, key=lambda call: call.index) if is_numbered else self._calls
        return [call.build_call() for call in calls]


class _StreamedCall:
    """One call, as far as it was streamed."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self._is_free_text = False
        self._extra: dict[str, Any] = {}
        self._arguments: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)

    def is_followed_by(self, index: Any, id: str, name: str, arguments: str) -> bool:
        """Return True if a piece begins another call: it names a tool, and it has another id, or the call so far is whole."""
        if not name:
            return False  # some servers send a new id with every piece
        if id and self.id and id != self.id:
            return True
        if name != self.name and self.name:
            return index is None or _is_json_object(self.arguments)
        return bool(arguments.strip()) and _is_json_object(self.arguments) and not self._is_repeated_by(id, name, arguments)

    def _is_repeated_by(self, id: str, name: str, arguments: str) -> bool:
        """Return True if a piece is the same whole call again."""
        return bool(id) and (id, name, arguments) == (self.id, self.name, self.arguments) and _is_json_object(arguments)

    def add_piece(self, id: str, name: str, arguments: str) -> None:
        """Add a piece of this call."""
        if name and self._is_repeated_by(id, name, arguments):
            return
        self.id = self.id or id
        if name != self.name:
            self.name += name
        self._arguments.append(arguments)

    def add_members(self, piece: dict[str, Any]) -> None:
        """Keep the other members of a piece of this call."""
        self._is_free_text = self._is_free_text or is_custom_call(piece)
        self._extra |= {name: piece[name] for name in REPLAYED_CALL_MEMBERS if piece.get(name)}

    def build_call(self) -> dict[str, Any]:
        """Return the call as an unstreamed reply has it."""
        kind, arguments_member = ("custom", "input") if self._is_free_text else ("function", "arguments")
        return {"id": self.id, "type": kind, kind: {"name": self.name, arguments_member: self.arguments}, **self._extra}


def _make_index_key(index: Any) -> Any:
    """Return an index as a dictionary key: a server may send any JSON value as an index."""
    return index if isinstance(index, (int, float, str)) else repr(index)


def _is_json_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
