"""What the model says, as a message and as its events. May know: the answer's form. Decides: where an answer is cut short."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.emulator.anthropic.reading import Terms
from legato.emulator.asks import Event
from legato.emulator.chat.writing import new_id
from legato.emulator.ids import Ids
from legato.emulator.loose import from_text, mapping
from legato.emulator.minds.base import Item, Refused, Say, Thought, Use, Words
from legato.emulator.pieces import Budget, cut_before, pieces

Sign: TypeAlias = Callable[[str, Sequence[dict[str, Any]]], str]  # a thinking block's text and the blocks before it -> its signature
_STOP_DETAILS = {"type": "refusal", "category": None, "explanation": None}


class Spoken(Struct):
    """The content of a message, why it ended, and what it cost. `inputs`: a call's arguments as they are streamed, by its place."""

    content: list[dict[str, Any]]
    inputs: dict[int, str]
    stop: str
    sequence: str | None
    tokens: int
    thinking: int


def speak(say: Say, terms: Terms, ids: Ids, sign: Sign, taken: Container[str]) -> Spoken:
    """A message's content, cut where the tokens or a stop sequence end it. `taken`: the ids of the calls before it."""
    speech = _Speech(terms, sign, lambda: new_id(ids, "toolu_01", 22, taken))
    for item in say.items:
        if isinstance(item, Thought) and not terms.thinks:
            continue
        if speech.sequence is not None or not speech.budget.room:
            break
        speech.add(item)
    stop = speech.reason_to_stop(say)
    sequence = speech.sequence if stop == "stop_sequence" else None
    return Spoken(speech.content, speech.inputs, stop, sequence, max(speech.budget.spent, 1), speech.thinking)


class _Speech:
    """What has been said so far."""

    def __init__(self, terms: Terms, sign: Sign, make_id: Callable[[], str]) -> None:
        self.budget = Budget(terms.limit)
        self.content: list[dict[str, Any]] = []
        self.inputs: dict[int, str] = {}
        self.sequence: str | None = None
        self.thinking = 0
        self._terms = terms
        self._sign = sign
        self._make_id = make_id
        self._refused = False

    def add(self, item: Item) -> None:
        """Say one thing more, as far as there are tokens for it."""
        match item:
            case Thought(text):
                before = self.budget.spent
                kept = self.budget.take(text)
                self.thinking += self.budget.spent - before
                shown = kept if self._terms.shown else ""
                self.content.append({"type": "thinking", "thinking": shown, "signature": self._sign(shown, self.content)})
            case Words(text):
                kept, self.sequence = cut_before(text, self._terms.stops)
                self._say(kept)
                if self.budget.exhausted:
                    self.sequence = None
            case Refused(text):
                self._refused = True
                self._say(text)
            case Use():
                self.budget.take(item.tool)
                arguments = self.inputs[len(self.content)] = self.budget.take(item.arguments)
                self.content.append(_tool_use(item, arguments, item.id or self._make_id()))

    def _say(self, text: str) -> None:
        if kept := self.budget.take(text):
            self.content.append({"type": "text", "text": kept})

    def reason_to_stop(self, say: Say) -> str:
        """Why the message ends."""
        if self.budget.exhausted or say.finish == "length":
            return "max_tokens"
        if self._refused or say.finish == "content_filter":
            return "refusal"
        if self.sequence is not None:
            return "stop_sequence"
        return "tool_use" if self.inputs else "end_turn"


def _tool_use(use: Use, arguments: str, id: str) -> dict[str, Any]:
    """A call. Its input is always an object: of arguments that are not JSON, or cut short, as much as can be read."""
    return {"type": "tool_use", "id": id, "name": use.tool, "input": mapping(from_text(arguments)), "caller": {"type": "direct"}}


def usage(input_tokens: int, output_tokens: int, thinking: int | None) -> dict[str, Any]:
    """The bill. The emulator has no cache, so nothing is read from one."""
    bill: dict[str, Any] = {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
        "service_tier": "standard",
        "inference_geo": "not_available",
    }
    if thinking is not None:
        bill["output_tokens_details"] = {"thinking_tokens": thinking}
    return bill


def message(
    id: str, model: str, input_tokens: int, spoken: Spoken, transformations: list[dict[str, str]] | None, thinks: bool, edits: bool = False
) -> dict[str, Any]:
    """The whole answer. `transformations`: None where the caller did not ask for them. `edits`: it asked for edits of the context, and is
    told which were made; the emulator makes none."""
    body: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": spoken.content,
        "stop_reason": spoken.stop,
        "stop_sequence": spoken.sequence,
        "stop_details": _STOP_DETAILS if spoken.stop == "refusal" else None,
        "usage": usage(input_tokens, spoken.tokens, spoken.thinking if thinks else None),
    }
    if transformations is not None:
        body["input_transformations"] = transformations
    if edits:
        body["context_management"] = {"applied_edits": []}
    return body


def events(body: dict[str, Any], inputs: dict[int, str]) -> Iterator[Event]:
    """The same as a stream."""
    bill = body["usage"]
    started: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    edits = {name: body[name] for name in ("context_management",) if name in body}
    started |= dict.fromkeys(edits)
    begun = {key: value for key, value in bill.items() if key != "output_tokens_details"} | {"output_tokens": 1}
    yield _event("message_start", message=body | started | {"usage": begun})
    for index, block in enumerate(body["content"]):
        opening, deltas = _streamed(block, inputs.get(index, ""))
        yield _event("content_block_start", index=index, content_block=opening)
        if index == 0:
            yield _event("ping")
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {key: body[key] for key in ("stop_reason", "stop_sequence", "stop_details")}
    counted = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "output_tokens_details")
    yield _event("message_delta", delta=ended, usage={key: bill[key] for key in counted if key in bill}, **edits)
    yield _event("message_stop")


def _streamed(block: dict[str, Any], arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it begins, and what is added to it."""
    match block["type"]:
        case "thinking":
            deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            return block | {"thinking": "", "signature": ""}, [*deltas, {"type": "signature_delta", "signature": block["signature"]}]
        case "tool_use":
            begun = {"type": "input_json_delta", "partial_json": ""}
            if arguments.strip() == "{}":
                return block | {"input": {}}, [begun]
            return block | {"input": {}}, [begun, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments))]
        case _:
            return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]


def _event(name: str, **fields: Any) -> Event:
    return Event({"type": name, **fields}, name)
