"""The model's reply as a chat completion and as its chunks, cut where its tokens end or a stop sequence begins."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from msgspec import Struct

from legato.emulator.chat.prompt_builder import ChatReplyOptions
from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_object, as_string, parse_partial_json
from legato.emulator.request_types import StreamEvent
from legato.emulator.token_budget import TokenBudget, cut_before_stop, split_for_stream

_SAFE_FILTER_RESULTS = {kind: {"filtered": False, "severity": "safe"} for kind in ("hate", "self_harm", "sexual", "violence")}
_TRIGGERED_FILTER_RESULTS = {**_SAFE_FILTER_RESULTS, "violence": {"filtered": True, "severity": "high"}}
_PROMPT_FILTER_RESULTS = [
    {"prompt_index": 0, "content_filter_results": {**_SAFE_FILTER_RESULTS, "jailbreak": {"filtered": False, "detected": False}}}
]
_TEXT_SEPARATOR = "\n\n"  # a message has one text, and the model's reply may have several
REASONING_MEMBER = "reasoning_content"
"""The member in which compatible servers show the model's reasoning. OpenAI does not have it."""


class ChatChoice(Struct):
    """A choice of the completion: the assistant's message, its finish reason and its tokens."""

    message: dict[str, Any]
    finish_reason: str
    tokens: int
    reasoning_tokens: int


class CompletionMetadata(Struct, frozen=True):
    """The values that all chunks and the whole completion have in common."""

    id: str
    created: int
    model: str
    service_tier: str
    prompt_tokens: int
    is_azure: bool = False

    @property
    def fingerprint(self) -> str:
        """The `system_fingerprint`: the same for the same model."""
        return "fp_" + hashlib.sha256(self.model.encode()).hexdigest()[:10]


def write_choice(
    reply: FakeReply, options: ChatReplyOptions, ids: IdGenerator, existing_ids: Container[str], shows_reasoning: bool = False
) -> ChatChoice:
    """Write a choice. `existing_ids` are the ids of the conversation's earlier calls."""
    writer = _ChoiceWriter(options, lambda: make_call_id(ids, "call_", 24, existing_ids))
    for item in reply.items:
        if writer.is_stopped or not writer.budget.has_room:
            break
        writer.add(item)
    return ChatChoice(
        writer.make_message(shows_reasoning),
        _find_finish_reason(reply, writer.budget, options, bool(writer.calls)),
        writer.budget.spent_tokens,
        writer.reasoning_tokens,
    )


class _ChoiceWriter:
    """The choice written so far."""

    def __init__(self, options: ChatReplyOptions, make_id: Callable[[], str]) -> None:
        self.budget = TokenBudget(options.max_tokens)
        self.calls: list[dict[str, Any]] = []
        self.reasoning_tokens = 0
        self.is_stopped = False
        self._options = options
        self._make_id = make_id
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._refusal: str | None = None

    def add(self, item: FakeReplyItem) -> None:
        """Add an item, as far as there are tokens for it."""
        match item:
            case ReplyThought(text):
                self._thoughts.append(self.budget.spend(text))
                self.reasoning_tokens = self.budget.spent_tokens
            case ReplyText(text):
                text_before_stop, stop = cut_before_stop(_TEXT_SEPARATOR + text if self._texts else text, self._options.stop_sequences)
                self._texts.append(self.budget.spend(text_before_stop))
                self.is_stopped = stop is not None
            case ReplyRefusal(text):
                self._refusal = (self._refusal or "") + self.budget.spend(text)
            case ReplyCall():
                self.calls.append(_write_call(item, self._options, item.id or self._make_id(), self.budget))
                self.is_stopped = self._options.uses_functions  # the deprecated form has one call only

    def make_message(self, shows_reasoning: bool) -> dict[str, Any]:
        """Return the assistant's message."""
        has_no_text = not self._texts and (self.calls or self._refusal is not None)
        content = None if has_no_text else "".join(self._texts)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": self._refusal, "annotations": []}
        if shows_reasoning and self._thoughts:
            message[REASONING_MEMBER] = _TEXT_SEPARATOR.join(self._thoughts)
        if self.calls and self._options.uses_functions:
            message["function_call"] = self.calls[0]["function"]
        elif self.calls:
            message["tool_calls"] = self.calls
        return message


def make_call_id(ids: IdGenerator, prefix: str, length: int, existing_ids: Container[str]) -> str:
    """Return an id that no call of the conversation has. A restarted emulator draws the same ids again."""
    while (id := ids.make_alphanumeric_id(prefix, length)) in existing_ids:
        pass
    return id


def _write_call(call: ReplyCall, options: ChatReplyOptions, id: str, budget: TokenBudget) -> dict[str, Any]:
    budget.spend(call.tool)
    if call.tool in options.free_text_tools:
        arguments_input = as_object(parse_partial_json(call.arguments)).get("input")
        text = arguments_input if isinstance(arguments_input, str) else call.arguments
        return {"id": id, "type": "custom", "custom": {"name": call.tool, "input": budget.spend(text)}}
    return {"id": id, "type": "function", "function": {"name": call.tool, "arguments": budget.spend(call.arguments)}}


def _find_finish_reason(reply: FakeReply, budget: TokenBudget, options: ChatReplyOptions, has_calls: bool) -> str:
    if budget.is_exhausted:
        return "length"
    if reply.finish != "stop":
        return reply.finish
    if not has_calls:
        return "stop"
    if options.uses_functions:
        return "function_call"
    return "stop" if options.is_call_forced else "tool_calls"  # documented: a call that was forced by name ends with "stop"


def make_usage(prompt_tokens: int, choices: Sequence[ChatChoice]) -> dict[str, Any]:
    """Return the `usage` member."""
    tokens = sum(choice.tokens for choice in choices)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": sum(choice.reasoning_tokens for choice in choices),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def make_completion(metadata: CompletionMetadata, choices: Sequence[ChatChoice]) -> dict[str, Any]:
    """Return the whole completion."""
    body: dict[str, Any] = {
        "id": metadata.id,
        "object": "chat.completion",
        "created": metadata.created,
        "model": metadata.model,
        "choices": [
            {"index": index, "message": choice.message, "logprobs": None, "finish_reason": choice.finish_reason}
            | ({"content_filter_results": _list_filter_results(choice)} if metadata.is_azure else {})
            for index, choice in enumerate(choices)
        ],
        "usage": make_usage(metadata.prompt_tokens, choices),
        "service_tier": metadata.service_tier,
        "system_fingerprint": metadata.fingerprint,
    }
    if metadata.is_azure:
        body["prompt_filter_results"] = _PROMPT_FILTER_RESULTS
    return body


def make_chunks(
    metadata: CompletionMetadata, choices: Sequence[ChatChoice], options: ChatReplyOptions, ids: IdGenerator
) -> Iterator[StreamEvent]:
    """Return the completion as chunks. The chunks of several choices alternate."""
    random_characters = ids.make_alphanumeric_id("", 32)

    def make_chunk(chunk_choices: list[dict[str, Any]], **more: Any) -> StreamEvent:
        data: dict[str, Any] = {
            "id": metadata.id,
            "object": "chat.completion.chunk",
            "created": metadata.created,
            "model": metadata.model,
            "service_tier": metadata.service_tier,
            "system_fingerprint": metadata.fingerprint,
            "choices": chunk_choices,
        }
        if options.wants_usage:
            data["usage"] = None
        return StreamEvent(data | more)

    if metadata.is_azure:  # as Azure has it, even the empty names
        yield StreamEvent(
            {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": _PROMPT_FILTER_RESULTS}
        )
    for deltas in itertools.zip_longest(*(_split_message(choice.message) for choice in choices)):
        for index, (choice, delta) in enumerate(zip(choices, deltas, strict=True)):
            if delta is None:
                continue
            piece = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None if delta else choice.finish_reason}
            if metadata.is_azure:
                piece["content_filter_results"] = _list_filter_results(choice) if not delta or "role" not in delta else {}
            yield make_chunk([piece], **({"obfuscation": _make_obfuscation(delta, random_characters)} if options.wants_obfuscation else {}))
    if options.wants_usage:
        yield make_chunk(
            [], usage=make_usage(metadata.prompt_tokens, choices), **({"obfuscation": ""} if options.wants_obfuscation else {})
        )
    yield StreamEvent("[DONE]")


def _split_message(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Split a message into deltas. The chunk of the empty last delta has the finish reason."""
    yield {"role": "assistant"} | {name: None if message[name] is None else "" for name in ("content", "refusal")}
    for name in (REASONING_MEMBER, "content", "refusal"):
        for piece in split_for_stream(message.get(name) or ""):
            yield {name: piece}
    if "function_call" in message:
        function_call = message["function_call"]
        yield {"function_call": {"name": function_call["name"], "arguments": ""}}
        for piece in split_for_stream(function_call["arguments"]):
            yield {"function_call": {"arguments": piece}}
    for index, call in enumerate(message.get("tool_calls", ())):
        kind = call["type"]
        text_member = "arguments" if kind == "function" else "input"
        opening = {"index": index, "id": call["id"], "type": kind, kind: {"name": call[kind]["name"], text_member: ""}}
        yield {"tool_calls": [opening]}
        for piece in split_for_stream(call[kind][text_member]):
            yield {"tool_calls": [{"index": index, kind: {text_member: piece}}]}
    yield {}


def _make_obfuscation(delta: dict[str, Any], random_characters: str) -> str:
    """Return padding for a chunk, so that its size does not tell the length of its text."""
    return random_characters[: 16 - len(as_string(delta.get("content"))) % 16]


def _list_filter_results(choice: ChatChoice) -> dict[str, Any]:
    return _TRIGGERED_FILTER_RESULTS if choice.finish_reason == "content_filter" else _SAFE_FILTER_RESULTS
