"""The model's reply as an Anthropic message and as its events, cut where its tokens end or a stop sequence begins."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.emulator.anthropic.prompt_builder import AnthropicReplyOptions
from legato.emulator.chat.reply_writer import make_call_id
from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.ids import IdGenerator
from legato.emulator.lenient_json import as_object, parse_partial_json
from legato.emulator.request_types import StreamEvent
from legato.emulator.token_budget import TokenBudget, cut_before_stop, split_for_stream

SignThinking: TypeAlias = Callable[[str, Sequence[dict[str, Any]]], str]  # (a thinking block's text, the blocks before it) -> its signature
_STOP_DETAILS = {"type": "refusal", "category": None, "explanation": None}


class MessageContent(Struct):
    """The content of a message, its stop reason and its tokens. `streamed_inputs` has the calls' arguments as text, by block index."""

    content: list[dict[str, Any]]
    streamed_inputs: dict[int, str]
    stop_reason: str
    stop_sequence: str | None
    tokens: int
    thinking_tokens: int


def write_content(
    reply: FakeReply, options: AnthropicReplyOptions, ids: IdGenerator, sign: SignThinking, existing_ids: Container[str]
) -> MessageContent:
    """Write a message's content. `existing_ids` are the ids of the conversation's earlier calls."""
    writer = _ContentWriter(options, sign, lambda: make_call_id(ids, "toolu_01", 22, existing_ids))
    for item in reply.items:
        if isinstance(item, ReplyThought) and not options.has_thinking:
            continue
        if writer.stop_sequence is not None or not writer.budget.has_room:
            break
        writer.add(item)
    stop_reason = writer.find_stop_reason(reply)
    stop_sequence = writer.stop_sequence if stop_reason == "stop_sequence" else None
    return MessageContent(
        writer.content, writer.streamed_inputs, stop_reason, stop_sequence, max(writer.budget.spent_tokens, 1), writer.thinking_tokens
    )


class _ContentWriter:
    """The content written so far."""

    def __init__(self, options: AnthropicReplyOptions, sign: SignThinking, make_id: Callable[[], str]) -> None:
        self.budget = TokenBudget(options.max_tokens)
        self.content: list[dict[str, Any]] = []
        self.streamed_inputs: dict[int, str] = {}
        self.stop_sequence: str | None = None
        self.thinking_tokens = 0
        self._options = options
        self._sign = sign
        self._make_id = make_id
        self._has_refused = False

    def add(self, item: FakeReplyItem) -> None:
        """Add an item, as far as there are tokens for it."""
        match item:
            case ReplyThought(text):
                spent_before = self.budget.spent_tokens
                fitting_text = self.budget.spend(text)
                self.thinking_tokens += self.budget.spent_tokens - spent_before
                visible_text = fitting_text if self._options.is_thinking_visible else ""
                self.content.append({"type": "thinking", "thinking": visible_text, "signature": self._sign(visible_text, self.content)})
            case ReplyText(text):
                fitting_text, self.stop_sequence = cut_before_stop(text, self._options.stop_sequences)
                self._add_text(fitting_text)
                if self.budget.is_exhausted:
                    self.stop_sequence = None
            case ReplyRefusal(text):
                self._has_refused = True
                self._add_text(text)
            case ReplyCall():
                self.budget.spend(item.tool)
                arguments = self.streamed_inputs[len(self.content)] = self.budget.spend(item.arguments)
                self.content.append(_make_tool_use(item, arguments, item.id or self._make_id()))

    def _add_text(self, text: str) -> None:
        if fitting_text := self.budget.spend(text):
            self.content.append({"type": "text", "text": fitting_text})

    def find_stop_reason(self, reply: FakeReply) -> str:
        """Return the message's `stop_reason`."""
        if self.budget.is_exhausted or reply.finish == "length":
            return "max_tokens"
        if self._has_refused or reply.finish == "content_filter":
            return "refusal"
        if self.stop_sequence is not None:
            return "stop_sequence"
        return "tool_use" if self.streamed_inputs else "end_turn"


def _make_tool_use(call: ReplyCall, arguments: str, id: str) -> dict[str, Any]:
    """Return a call's block. Its input is always an object; of invalid or truncated JSON it has what can be parsed."""
    return {
        "type": "tool_use",
        "id": id,
        "name": call.tool,
        "input": as_object(parse_partial_json(arguments)),
        "caller": {"type": "direct"},
    }


def make_usage(input_tokens: int, output_tokens: int, thinking: int | None) -> dict[str, Any]:
    """Return the `usage` member. The emulator has no cache, so no tokens are read from one."""
    usage: dict[str, Any] = {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }
    if thinking is not None:
        usage["output_tokens_details"] = {"thinking_tokens": thinking}
    return usage


def make_message(
    id: str,
    model: str,
    input_tokens: int,
    content: MessageContent,
    transformations: list[dict[str, str]] | None,
    has_thinking: bool,
    reports_edits: bool = False,
) -> dict[str, Any]:
    """Return the whole message.

    `transformations` is None if the client did not ask for them. `reports_edits`: the client asked for context edits, and the reply lists
    them; the emulator makes none.
    """
    body: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content.content,
        "stop_reason": content.stop_reason,
        "stop_sequence": content.stop_sequence,
        "stop_details": _STOP_DETAILS if content.stop_reason == "refusal" else None,
        "usage": make_usage(input_tokens, content.tokens, content.thinking_tokens if has_thinking else None),
    }
    if transformations is not None:
        body["input_transformations"] = transformations
    if reports_edits:
        body["context_management"] = {"applied_edits": []}
    return body


def make_events(body: dict[str, Any], streamed_inputs: dict[int, str]) -> Iterator[StreamEvent]:
    """Return a message as the events of a stream."""
    usage = body["usage"]
    unfinished: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    edits = {name: body[name] for name in ("context_management",) if name in body}
    unfinished |= dict.fromkeys(edits)
    initial_usage = {key: value for key, value in usage.items() if key != "output_tokens_details"} | {"output_tokens": 1}
    yield _make_event("message_start", message=body | unfinished | {"usage": initial_usage})
    for index, block in enumerate(body["content"]):
        opening, deltas = _split_block(block, streamed_inputs.get(index, ""))
        yield _make_event("content_block_start", index=index, content_block=opening)
        if index == 0:
            yield _make_event("ping")
        for delta in deltas:
            yield _make_event("content_block_delta", index=index, delta=delta)
        yield _make_event("content_block_stop", index=index)
    ending = {key: body[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    usage_members = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "output_tokens_details")
    yield _make_event("message_delta", delta=ending, usage={key: usage[key] for key in usage_members if key in usage}, **edits)
    yield _make_event("message_stop")


def _split_block(block: dict[str, Any], arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a block's initial form and its deltas."""
    match block["type"]:
        case "thinking":
            deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in split_for_stream(block["thinking"])]
            return block | {"thinking": "", "signature": ""}, [*deltas, {"type": "signature_delta", "signature": block["signature"]}]
        case "tool_use":
            first_delta = {"type": "input_json_delta", "partial_json": ""}
            if arguments.strip() == "{}":
                return block | {"input": {}}, [first_delta]
            return block | {"input": {}}, [
                first_delta,
                *({"type": "input_json_delta", "partial_json": piece} for piece in split_for_stream(arguments)),
            ]
        case _:
            return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in split_for_stream(block["text"])]


def _make_event(name: str, **fields: Any) -> StreamEvent:
    return StreamEvent({"type": name, **fields}, name)
