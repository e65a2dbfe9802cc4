"""The events of a streamed response, in the order of recorded streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.emulator.lenient_json import as_object
from legato.emulator.request_types import StreamEvent
from legato.emulator.responses.accepted_request import AcceptedRequest
from legato.emulator.responses.items import CALL_TEXT_MEMBERS
from legato.emulator.responses.output import ItemDraft, ResponseOutput
from legato.emulator.responses.response_object import make_opening_response
from legato.emulator.token_budget import split_for_stream

_PADDING_MULTIPLE = 16  # characters of a delta with its obfuscation, so that their length does not tell the text's
_CALL_EVENTS = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}


def make_stream(accepted: AcceptedRequest, response: dict[str, Any], output: ResponseOutput) -> tuple[StreamEvent, ...]:
    """Return all events of a response."""
    return _number_events(_list_payloads(accepted, response, output))


def make_failing_stream(
    sent_events: tuple[StreamEvent, ...], response: dict[str, Any], error: dict[str, Any], *, is_flat: bool
) -> tuple[StreamEvent, ...]:
    """Return the events sent before the failure, then the error and the failed response."""
    error_members = {key: error[key] for key in ("code", "message", "param")} if is_flat else {"error": error}
    last_payloads = [{"type": "error", **error_members}, {"type": "response.failed", "response": response}]
    return sent_events + tuple(_make_event(number, data) for number, data in enumerate(last_payloads, start=len(sent_events)))


def make_opening_events(accepted: AcceptedRequest, response: dict[str, Any]) -> tuple[StreamEvent, ...]:
    """Return the first events, which every stream has."""
    return _number_events(_list_opening_payloads(accepted, response))


def _number_events(payloads: Iterator[dict[str, Any]]) -> tuple[StreamEvent, ...]:
    return tuple(_make_event(number, data) for number, data in enumerate(payloads))


def _make_event(number: int, data: dict[str, Any]) -> StreamEvent:
    return StreamEvent({"type": data["type"], "sequence_number": number, **data}, data["type"])


def _list_opening_payloads(accepted: AcceptedRequest, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    is_background = accepted.body.get("background") is True
    yield {"type": "response.created", "response": make_opening_response(accepted, response, "queued" if is_background else "in_progress")}
    if is_background:
        yield {"type": "response.queued", "response": make_opening_response(accepted, response, "queued")}
    yield {"type": "response.in_progress", "response": make_opening_response(accepted, response, "in_progress")}


def _list_payloads(accepted: AcceptedRequest, response: dict[str, Any], output: ResponseOutput) -> Iterator[dict[str, Any]]:
    yield from _list_opening_payloads(accepted, response)
    obfuscation = _Obfuscation(accepted)
    for output_index, draft in enumerate(output.drafts):
        yield {"type": "response.output_item.added", "output_index": output_index, "item": draft.make_initial_item()}
        if draft.kind == "reasoning":
            yield from _list_summary_payloads(draft, output_index, obfuscation)
        elif draft.kind in CALL_TEXT_MEMBERS:
            yield from _list_call_payloads(draft, output_index, obfuscation)
        else:
            yield from _list_message_payloads(draft, output_index, obfuscation)
        yield {"type": "response.output_item.done", "output_index": output_index, "item": draft.make_final_item(content_index=1)}
    yield {"type": f"response.{response['status']}", "response": response}


def _list_message_payloads(draft: ItemDraft, output_index: int, obfuscation: _Obfuscation) -> Iterator[dict[str, Any]]:
    location = {"item_id": draft.id, "output_index": output_index, "content_index": 0}
    is_refusal = draft.kind == "refusal"
    kind, key = ("refusal", "refusal") if is_refusal else ("output_text", "text")
    logprobs: dict[str, Any] = {} if is_refusal else {"logprobs": []}
    yield {"type": "response.content_part.added", **location, "part": draft.make_part("")}
    for piece in split_for_stream(draft.text) or [""]:
        yield {"type": f"response.{kind}.delta", **location, "delta": piece, **logprobs, **obfuscation.pad(piece)}
    yield {"type": f"response.{kind}.done", **location, key: draft.text, **logprobs}
    yield {"type": "response.content_part.done", **location, "part": draft.make_part(draft.text)}


def _list_call_payloads(draft: ItemDraft, output_index: int, obfuscation: _Obfuscation) -> Iterator[dict[str, Any]]:
    location = {"item_id": draft.id, "output_index": output_index}
    kind = f"response.{_CALL_EVENTS[draft.kind]}"
    for piece in split_for_stream(draft.text) or [""]:
        yield {"type": f"{kind}.delta", **location, "delta": piece, **obfuscation.pad(piece)}
    name_member = {"name": draft.tool} if draft.kind == "function_call" else {}
    yield {"type": f"{kind}.done", **location, **name_member, CALL_TEXT_MEMBERS[draft.kind]: draft.text}


def _list_summary_payloads(draft: ItemDraft, output_index: int, obfuscation: _Obfuscation) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(draft.summary):
        location = {"item_id": draft.id, "output_index": output_index, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **location, "part": {"type": "summary_text", "text": ""}}
        for piece in split_for_stream(text):
            yield {"type": "response.reasoning_summary_text.delta", **location, "delta": piece, **obfuscation.pad(piece)}
        yield {"type": "response.reasoning_summary_text.done", **location, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **location, "part": {"type": "summary_text", "text": text}}


class _Obfuscation:
    """Padding for deltas, so that their size does not tell the length of the text. A request can turn it off."""

    def __init__(self, accepted: AcceptedRequest) -> None:
        self._is_wanted = as_object(accepted.body.get("stream_options")).get("include_obfuscation") is not False
        self._characters = accepted.item_ids.make_characters(4 * _PADDING_MULTIPLE) if self._is_wanted else ""
        self._offset = 0

    def pad(self, piece: str) -> dict[str, str]:
        """Return the `obfuscation` member of a delta; nothing if the request turned it off."""
        if not self._is_wanted:
            return {}
        length = _PADDING_MULTIPLE - len(piece) % _PADDING_MULTIPLE
        self._offset = (self._offset + 7) % (3 * _PADDING_MULTIPLE)
        return {"obfuscation": self._characters[self._offset : self._offset + length]}
