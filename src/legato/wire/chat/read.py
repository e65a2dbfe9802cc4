"""A reply of Chat Completions. May know: what the API sends, and what servers that speak like it do. Decides: what of it is recorded.

Tolerant: compatible servers leave out ids, usage and reasons, send arguments as objects and words as parts, and report errors as
successes. What is not known is recorded as what it is (`Hosted`), never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.reply import Reply
from legato.errors import ModelFailed
from legato.wire.compiled import Compiled
from legato.wire.failures import refusal_of
from legato.wire.loose import json_text, mapping, number, objects, text

_LENGTH = ("length", "max_tokens", "model_length", "max_output_tokens")
_FILTER = ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "sensitive")


def read_reply(body: Any, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
    """The reply that a completion is; `ModelFailed` if it is none, or tells of a failure."""
    completion = mapping(body)
    choices = objects(completion.get("choices"))
    for answer in (completion, *choices[:1]):
        if failed(answer):
            raise failure_of(answer, request_id)
    if not choices or not isinstance(choices[0].get("message"), dict):
        raise ModelFailed("the provider's answer is no completion: it has no message", retryable=True)
    message = choices[0]["message"]
    said = Said()
    said.add(message)
    calls = objects(message.get("tool_calls"))
    if not calls and mapping(message.get("function_call")).get("name"):
        calls = [{"function": message["function_call"]}]
    return reply_of(completion, reason_of(choices[0]), said, calls, compiled, origin, request_id)


def reply_of(
    about: dict[str, Any], reason: str, said: Said, calls: Sequence[dict[str, Any]], compiled: Compiled, origin: str, request_id: str
) -> Reply:
    """A reply from its parts. `about` has the completion's id, model and usage."""
    return Reply(
        items=(*said.items(), *(_call(call, compiled) for call in calls)),
        finish="length" if reason in _LENGTH else "filter" if reason in _FILTER else "stop",
        usage=usage_of(about.get("usage")),
        model=text(about.get("model")),
        response_id=text(about.get("id")),
        origin=origin,
        request_id=request_id,
        losses=compiled.losses,
    )


def reason_of(choice: dict[str, Any]) -> str:
    """Why a reply ended; empty if that is not said."""
    reason = text(choice.get("finish_reason")).lower()
    return "" if reason == "null" else reason  # some servers write it so


def usage_of(usage: Any) -> Usage:
    """Tokens, as the API counts them."""
    given = mapping(usage)
    details = mapping(given.get("prompt_tokens_details"))
    return Usage(
        input=number(given.get("prompt_tokens")),
        output=number(given.get("completion_tokens")),
        cached=number(details.get("cached_tokens")) or number(given.get("prompt_cache_hit_tokens")),
        written=number(details.get("cache_write_tokens")),
        reasoning=number(mapping(given.get("completion_tokens_details")).get("reasoning_tokens")),
    )


# -- failures that come as successes -----------------------------------------------------------------------------------


def failed(answer: dict[str, Any]) -> bool:
    """Whether an answer, a chunk or a choice tells of a failure."""
    return bool(answer.get("error")) or "error" in (answer.get("object"), answer.get("type"), reason_of(answer))


def failure_of(answer: dict[str, Any], request_id: str = "") -> ModelFailed:
    """The failure that it tells of. One that does not say what it is may pass."""
    error = answer.get("error") or answer
    told = error if isinstance(error, dict) else {"message": text(error)}
    code = told.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    if not text(told.get("message")):
        told = {**told, "message": "the provider failed without saying why"}
    failure = refusal_of(status, {"error": told}, request_id=request_id)
    failure.retryable = failure.retryable or not (status or failure.reason)
    return failure


# -- what is said ------------------------------------------------------------------------------------------------------


class Said:
    """All that a message says besides calls. A message in one piece is added once, one that is streamed piece by piece."""

    def __init__(self) -> None:
        self._thought: list[str] = []
        self._words: list[str] = []
        self._refusal: list[str] = []
        self._notes: list[dict[str, Any]] = []
        self._audio: dict[str, Any] = {}
        self._other: list[Item] = []

    def add(self, piece: dict[str, Any]) -> str:
        """Take in a piece; what of it is for the user is given back."""
        words, refusal = len(self._words), len(self._refusal)
        self._thought.append(text(piece.get("reasoning_content")) or text(piece.get("reasoning")))
        self._content(piece.get("content"))
        self._refusal.append(text(piece.get("refusal")))
        self._notes += objects(piece.get("annotations"))
        for name, value in mapping(piece.get("audio")).items():
            grows = name in ("data", "transcript") and isinstance(value, str)
            self._audio[name] = text(self._audio.get(name)) + value if grows else value
        return "".join([*self._words[words:], *self._refusal[refusal:]])

    def _content(self, content: Any) -> None:
        if isinstance(content, str):
            self._words.append(content)
        for part in objects(content):
            match part.get("type"):
                case "text" | "output_text" | None:
                    self._words.append(text(part.get("text")))
                case "refusal":
                    self._refusal.append(text(part.get("refusal")))
                case "thinking" | "reasoning":
                    told = part.get("thinking") or part.get("text")
                    self._thought += [told] if isinstance(told, str) else [text(each.get("text")) for each in objects(told)]
                case kind:
                    self._other.append(Hosted(text(kind) or "unknown", json_text(part)))

    def items(self) -> list[Item]:
        """What is recorded of it, in the order in which it was thought and said."""
        thought, words, refusal = "".join(self._thought), "".join(self._words), "".join(self._refusal)
        items: list[Item] = [Reasoning(thought)] if thought else []
        items += [Words(words, notes=json_text(self._notes) if self._notes else "")] if words else []
        items += [Refusal(refusal)] if refusal else []
        items += self._other
        return [*items, Hosted("audio", json_text(self._audio), text(self._audio.get("id")))] if self._audio else items


# -- what is called ----------------------------------------------------------------------------------------------------


def _call(call: dict[str, Any], compiled: Compiled) -> Call:
    called = called_in(call)
    name = text(called.get("name"))
    return Call(compiled.tools.get(name, name), arguments_of(called) or "{}", text(call.get("id")))


def called_in(call: dict[str, Any]) -> dict[str, Any]:
    """The part of a call that names a tool and its arguments."""
    return mapping(call.get("function")) or mapping(call.get("custom")) or call


def arguments_of(called: dict[str, Any]) -> str:
    """The arguments as they were written, or, where a server sends an object, as they would have been; empty if there are none."""
    given = called.get("arguments", called.get("input"))
    return given if isinstance(given, str) else "" if given is None else json_text(given)
