"""What the model says, as a chat completion and as its chunks. May know: the answer's form. Decides: where an answer is cut short."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from msgspec import Struct

from legato.emulator.asks import Event
from legato.emulator.chat.reading import Terms
from legato.emulator.ids import Ids
from legato.emulator.loose import from_text, mapping, string
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from legato.emulator.pieces import Budget, cut_before, pieces

_SAFE = {kind: {"filtered": False, "severity": "safe"} for kind in ("hate", "self_harm", "sexual", "violence")}
_FILTERED = {**_SAFE, "violence": {"filtered": True, "severity": "high"}}
_UNASKED = [{"prompt_index": 0, "content_filter_results": {**_SAFE, "jailbreak": {"filtered": False, "detected": False}}}]
_BETWEEN = "\n\n"  # a message is one text; the model may say several things
REASONING = "reasoning_content"
"""Where compatible servers show what the model thought. OpenAI does not."""


class Spoken(Struct):
    """One choice: the assistant's message, why it ended, and what it cost."""

    message: dict[str, Any]
    finish: str
    tokens: int
    thinking: int


class Completion(Struct, frozen=True):
    """What all chunks and the whole answer have in common."""

    id: str
    created: int
    model: str
    tier: str
    prompt_tokens: int
    azure: bool = False

    @property
    def fingerprint(self) -> str:
        """The backend's name: the same for the same model."""
        return "fp_" + hashlib.sha256(self.model.encode()).hexdigest()[:10]


def speak(say: Say, terms: Terms, ids: Ids, taken: Container[str], shows: bool = False) -> Spoken:
    """One choice, cut where the tokens or a stop sequence end it. `taken`: the ids of the calls before it; `shows`: thoughts, too."""
    speech = _Speech(terms, lambda: new_id(ids, "call_", 24, taken))
    for item in say.items:
        if speech.stopped or not speech.budget.room:
            break
        speech.add(item)
    return Spoken(speech.message(shows), _finish(say, speech.budget, terms, bool(speech.calls)), speech.budget.spent, speech.thinking)


class _Speech:
    """What has been said so far."""

    def __init__(self, terms: Terms, make_id: Callable[[], str]) -> None:
        self.budget = Budget(terms.limit)
        self.calls: list[dict[str, Any]] = []
        self.thinking = 0
        self.stopped = False
        self._terms = terms
        self._make_id = make_id
        self._words: list[str] = []
        self._thoughts: list[str] = []
        self._refusal: str | None = None

    def add(self, item: Item) -> None:
        """Say one thing more, as far as there are tokens for it."""
        match item:
            case Thought(text):
                self._thoughts.append(self.budget.take(text))
                self.thinking = self.budget.spent
            case Words(text):
                kept, stop = cut_before(_BETWEEN + text if self._words else text, self._terms.stops)
                self._words.append(self.budget.take(kept))
                self.stopped = stop is not None
            case Refused(text):
                self._refusal = (self._refusal or "") + self.budget.take(text)
            case Use():
                self.calls.append(_call(item, self._terms, item.id or self._make_id(), self.budget))
                self.stopped = self._terms.functions  # the deprecated form has room for one

    def message(self, shows: bool) -> dict[str, Any]:
        """The assistant's message."""
        silent = not self._words and (self.calls or self._refusal is not None)
        content = None if silent else "".join(self._words)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": self._refusal, "annotations": []}
        if shows and self._thoughts:
            message[REASONING] = _BETWEEN.join(self._thoughts)
        if self.calls and self._terms.functions:
            message["function_call"] = self.calls[0]["function"]
        elif self.calls:
            message["tool_calls"] = self.calls
        return message


def new_id(ids: Ids, prefix: str, length: int, taken: Container[str]) -> str:
    """An id for a call that its conversation does not have yet: an emulator that is started anew draws the same ids again."""
    while (id := ids.word(prefix, length)) in taken:
        pass
    return id


def _call(use: Use, terms: Terms, id: str, budget: Budget) -> dict[str, Any]:
    budget.take(use.tool)
    if use.tool in terms.free_text:
        given = mapping(from_text(use.arguments)).get("input")
        text = given if isinstance(given, str) else use.arguments
        return {"id": id, "type": "custom", "custom": {"name": use.tool, "input": budget.take(text)}}
    return {"id": id, "type": "function", "function": {"name": use.tool, "arguments": budget.take(use.arguments)}}


def _finish(say: Say, budget: Budget, terms: Terms, calls: bool) -> str:
    if budget.exhausted:
        return "length"
    if say.finish != "stop":
        return say.finish
    if not calls:
        return "stop"
    if terms.functions:
        return "function_call"
    return "stop" if terms.forced else "tool_calls"  # documented: a call that was forced by name ends with "stop"


def usage(prompt_tokens: int, choices: Sequence[Spoken]) -> dict[str, Any]:
    """The bill."""
    tokens = sum(choice.tokens for choice in choices)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": sum(choice.thinking for choice in choices),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def completion(about: Completion, choices: Sequence[Spoken]) -> dict[str, Any]:
    """The whole answer."""
    body: dict[str, Any] = {
        "id": about.id,
        "object": "chat.completion",
        "created": about.created,
        "model": about.model,
        "choices": [
            {"index": index, "message": choice.message, "logprobs": None, "finish_reason": choice.finish}
            | ({"content_filter_results": _filter(choice)} if about.azure else {})
            for index, choice in enumerate(choices)
        ],
        "usage": usage(about.prompt_tokens, choices),
        "service_tier": about.tier,
        "system_fingerprint": about.fingerprint,
    }
    if about.azure:
        body["prompt_filter_results"] = _UNASKED
    return body


def chunks(about: Completion, choices: Sequence[Spoken], terms: Terms, ids: Ids) -> Iterator[Event]:
    """The same as a stream; the choices' chunks take turns."""
    noise = ids.word("", 32)

    def chunk(inside: list[dict[str, Any]], **more: Any) -> Event:
        data: dict[str, Any] = {
            "id": about.id,
            "object": "chat.completion.chunk",
            "created": about.created,
            "model": about.model,
            "service_tier": about.tier,
            "system_fingerprint": about.fingerprint,
            "choices": inside,
        }
        if terms.usage:
            data["usage"] = None
        return Event(data | more)

    if about.azure:  # as Azure has it, even the empty names
        yield Event({"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": _UNASKED})
    for turn in itertools.zip_longest(*(_deltas(choice.message) for choice in choices)):
        for index, (choice, delta) in enumerate(zip(choices, turn, strict=True)):
            if delta is None:
                continue
            piece = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None if delta else choice.finish}
            if about.azure:
                piece["content_filter_results"] = _filter(choice) if not delta or "role" not in delta else {}
            yield chunk([piece], **({"obfuscation": _padding(delta, noise)} if terms.obfuscated else {}))
    if terms.usage:
        yield chunk([], usage=usage(about.prompt_tokens, choices), **({"obfuscation": ""} if terms.obfuscated else {}))
    yield Event("[DONE]")


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message piece by piece; the empty one at the end is where the reason of its end belongs."""
    yield {"role": "assistant"} | {name: None if message[name] is None else "" for name in ("content", "refusal")}
    for name in (REASONING, "content", "refusal"):
        for piece in pieces(message.get(name) or ""):
            yield {name: piece}
    if "function_call" in message:
        called = message["function_call"]
        yield {"function_call": {"name": called["name"], "arguments": ""}}
        for piece in pieces(called["arguments"]):
            yield {"function_call": {"arguments": piece}}
    for index, call in enumerate(message.get("tool_calls", ())):
        kind = call["type"]
        given = "arguments" if kind == "function" else "input"
        opening = {"index": index, "id": call["id"], "type": kind, kind: {"name": call[kind]["name"], given: ""}}
        yield {"tool_calls": [opening]}
        for piece in pieces(call[kind][given]):
            yield {"tool_calls": [{"index": index, kind: {given: piece}}]}
    yield {}


def _padding(delta: dict[str, Any], noise: str) -> str:
    """Fills a chunk up, so that its size does not tell the length of what it holds."""
    return noise[: 16 - len(string(delta.get("content"))) % 16]


def _filter(choice: Spoken) -> dict[str, Any]:
    return _FILTERED if choice.finish == "content_filter" else _SAFE
