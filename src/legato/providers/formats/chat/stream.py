"""A streamed reply of Chat Completions. May know: chunks. Decides: which pieces belong together, and when a reply is whole.

Words are simple. The pieces of calls are told apart by their index; by OpenAI's rules that is all there is to it, but compatible servers
leave it out, give every call the same one, repeat ids and names in every chunk, or send calls in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from legato.core.facts import Usage
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.chat.read import (
    CALL_EXTRAS,
    Said,
    arguments_of,
    called_in,
    failed,
    failure_of,
    is_custom,
    is_first,
    reason_of,
    reply_of,
    usage_in,
)
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.loose import json_of, mapping, objects, text


class StreamReader:
    """Takes the chunks of one stream. `emit` gets the pieces of its words."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._about: dict[str, Any] = {}
        self._said = Said()
        self._calls = Calls()
        self._begun = False
        self._reason = ""
        self._done = False
        self._error: ModelFailed | None = None

    def take(self, data: bytes) -> None:
        """The next event's data."""
        if self._done or data.strip() in (b"[DONE]", b""):
            self._done = self._done or bool(data.strip())
            return
        chunk = mapping(json_of(data))
        choices = objects(chunk.get("choices"))
        self._said.further_choices.update(_key(choice.get("index")) for choice in choices if not is_first(choice))
        self._said.add_sources(chunk)
        self._note(chunk)
        for choice in filter(is_first, choices):
            self._note_failure(choice)
            self._said.leave_out(choice)
            piece = choice.get("delta")
            if piece is None and not self._begun:
                piece = choice.get("message")  # a server that streams in one piece
            if isinstance(piece, dict):
                self._take(piece)
            self._reason = reason_of(choice) or self._reason

    def _note(self, chunk: dict[str, Any]) -> None:
        """Keep what a chunk says of the whole reply: of names the first, of counts the last."""
        self._note_failure(chunk)
        for name in ("id", "model"):
            if chunk.get(name):
                self._about.setdefault(name, chunk[name])
        self._about |= {name: chunk[name] for name in ("usage", "x_groq") if chunk.get(name)}

    def _note_failure(self, answer: dict[str, Any]) -> None:
        if self._error is None and failed(answer):
            self._error = failure_of(answer)

    def _take(self, piece: dict[str, Any]) -> None:
        self._begun = True
        if words := self._said.add(piece):
            self._emit(words)
        for call in objects(piece.get("tool_calls")):
            self._calls.add(call)
        if function := mapping(piece.get("function_call")):
            self._calls.add({"index": "function_call", "function": function})  # as calls were before there were tools: there is one

    @property
    def complete(self) -> bool:
        """Whether the last event of the reply has come, or an error in its place: what follows changes nothing but what it cost."""
        return self._done or self._error is not None

    @property
    def usage(self) -> Usage:
        """What it has cost, as far as that has been told."""
        return usage_in(self._about)

    def reply(self, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
        """The whole reply; `ModelFailed` if the stream told of a failure, or ended too early."""
        if self._error is not None:
            raise self._error
        if not self._reason and not (self._done and self._begun):
            raise ModelFailed("the stream ended before the reply did", retryable=True)
        return reply_of(self._about, self._reason, self._said, self._calls.whole(), compiled, origin, request_id)


class Calls:
    """The calls of one reply, put together from their pieces."""

    def __init__(self) -> None:
        self._calls: list[_Pieces] = []
        self._by_index: dict[Any, _Pieces] = {}  # the newest of each index
        self._by_id: dict[str, _Pieces] = {}  # the newest of each id

    def add(self, piece: dict[str, Any]) -> None:
        """Take in a piece of a call, or a whole one."""
        called = called_in(piece)
        index, id, name, arguments = piece.get("index"), text(piece.get("id")), text(called.get("name")), arguments_of(called)
        begun = self._begun(index, id, name)
        if begun is None or begun.is_followed_by(index, id, name, arguments):
            begun = _Pieces(len(self._calls) if index is None else index)
            self._calls.append(begun)
            self._by_index[_key(begun.index)] = begun
        if id and not begun.id:
            self._by_id[id] = begun
        begun.add(id, name, arguments)
        begun.note(piece)

    def _begun(self, index: Any, id: str, name: str) -> _Pieces | None:
        """The call that a piece may belong to: the newest with its index, or, if it has none, with its id, else the newest of all."""
        newest = self._calls[-1] if self._calls else None
        if index is None:
            return self._by_id.get(id, newest) if id else newest
        found = self._by_index.get(_key(index))
        return found if found or id or name else newest  # no call begins without either: some servers count in two ways

    def whole(self) -> list[dict[str, Any]]:
        """The calls as they would have come in one piece."""
        numbered = all(isinstance(call.index, int) for call in self._calls)
        calls = sorted(self._calls, key=lambda call: call.index) if numbered else self._calls
        return [call.whole() for call in calls]


class _Pieces:
    """One call, as far as it has come."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self._custom = False
        self._extra: dict[str, Any] = {}
        self._arguments: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)

    def is_followed_by(self, index: Any, id: str, name: str, arguments: str) -> bool:
        """Whether a piece begins another call. Such a piece names its tool; and it has another id, or what came before is whole."""
        if not name:
            return False  # some servers make up a new id for every piece
        if id and self.id and id != self.id:
            return True
        if name != self.name and self.name:
            return index is None or _is_object(self.arguments)
        return bool(arguments.strip()) and _is_object(self.arguments) and not self._is(id, name, arguments)

    def _is(self, id: str, name: str, arguments: str) -> bool:
        """Whether this is the same call again, whole."""
        return bool(id) and (id, name, arguments) == (self.id, self.name, self.arguments) and _is_object(arguments)

    def add(self, id: str, name: str, arguments: str) -> None:
        """Take in a piece that belongs to this call."""
        if name and self._is(id, name, arguments):
            return
        self.id = self.id or id
        if name != self.name:
            self.name += name
        self._arguments.append(arguments)

    def note(self, piece: dict[str, Any]) -> None:
        """Keep what else a piece says of this call."""
        self._custom = self._custom or is_custom(piece)
        self._extra |= {name: piece[name] for name in CALL_EXTRAS if piece.get(name)}

    def whole(self) -> dict[str, Any]:
        """The call as it would have come in one piece."""
        kind, what = ("custom", "input") if self._custom else ("function", "arguments")
        return {"id": self.id, "type": kind, kind: {"name": self.name, what: self.arguments}, **self._extra}


def _key(index: Any) -> Any:
    """What tells an index from others; a server may send anything as one."""
    return index if isinstance(index, (int, float, str)) else repr(index)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
