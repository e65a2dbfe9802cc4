"""An answer as a stream of events. May know: drafts. Decides: their order, as recorded streams have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.emulator.asks import Event
from legato.emulator.loose import mapping
from legato.emulator.pieces import pieces
from legato.emulator.responses.bodies import opening
from legato.emulator.responses.items import CALLS
from legato.emulator.responses.output import Draft, Output
from legato.emulator.responses.work import Work

_PADDED_TO = 16  # a delta and its obfuscation together are a multiple of this, so that their length does not tell the text's
_CALL_EVENTS = {"function_call": "function_call_arguments", "custom_tool_call": "custom_tool_call_input"}


def stream_of(work: Work, body: dict[str, Any], output: Output) -> tuple[Event, ...]:
    """All events of an answer."""
    return _numbered(_told(work, body, output))


def failing_stream(sent: tuple[Event, ...], response: dict[str, Any], error: dict[str, Any], *, flat: bool) -> tuple[Event, ...]:
    """What was sent before the failure, then the error and the failed response."""
    told = {key: error[key] for key in ("code", "message", "param")} if flat else {"error": error}
    last = [{"type": "error", **told}, {"type": "response.failed", "response": response}]
    return sent + tuple(_event(number, data) for number, data in enumerate(last, start=len(sent)))


def opening_events(work: Work, body: dict[str, Any]) -> tuple[Event, ...]:
    """What every stream begins with."""
    return _numbered(_opened(work, body))


def _numbered(told: Iterator[dict[str, Any]]) -> tuple[Event, ...]:
    return tuple(_event(number, data) for number, data in enumerate(told))


def _event(number: int, data: dict[str, Any]) -> Event:
    return Event({"type": data["type"], "sequence_number": number, **data}, data["type"])


def _opened(work: Work, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waits = work.request.get("background") is True
    yield {"type": "response.created", "response": opening(work, body, "queued" if waits else "in_progress")}
    if waits:
        yield {"type": "response.queued", "response": opening(work, body, "queued")}
    yield {"type": "response.in_progress", "response": opening(work, body, "in_progress")}


def _told(work: Work, body: dict[str, Any], output: Output) -> Iterator[dict[str, Any]]:
    yield from _opened(work, body)
    padding = _Padding(work)
    for place, draft in enumerate(output.drafts):
        yield {"type": "response.output_item.added", "output_index": place, "item": draft.begun()}
        if draft.kind == "reasoning":
            yield from _summary(draft, place, padding)
        elif draft.kind in CALLS:
            yield from _call(draft, place, padding)
        else:
            yield from _message(draft, place, padding)
        yield {"type": "response.output_item.done", "output_index": place, "item": draft.done(blob=1)}
    yield {"type": f"response.{body['status']}", "response": body}


def _message(draft: Draft, place: int, padding: _Padding) -> Iterator[dict[str, Any]]:
    where = {"item_id": draft.id, "output_index": place, "content_index": 0}
    refuses = draft.kind == "refusal"
    kind, key = ("refusal", "refusal") if refuses else ("output_text", "text")
    logprobs: dict[str, Any] = {} if refuses else {"logprobs": []}
    yield {"type": "response.content_part.added", **where, "part": draft.part("")}
    for piece in pieces(draft.text) or [""]:
        yield {"type": f"response.{kind}.delta", **where, "delta": piece, **logprobs, **padding.of(piece)}
    yield {"type": f"response.{kind}.done", **where, key: draft.text, **logprobs}
    yield {"type": "response.content_part.done", **where, "part": draft.part(draft.text)}


def _call(draft: Draft, place: int, padding: _Padding) -> Iterator[dict[str, Any]]:
    where = {"item_id": draft.id, "output_index": place}
    kind = f"response.{_CALL_EVENTS[draft.kind]}"
    for piece in pieces(draft.text) or [""]:
        yield {"type": f"{kind}.delta", **where, "delta": piece, **padding.of(piece)}
    name = {"name": draft.tool} if draft.kind == "function_call" else {}
    yield {"type": f"{kind}.done", **where, **name, CALLS[draft.kind]: draft.text}


def _summary(draft: Draft, place: int, padding: _Padding) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(draft.summary):
        where = {"item_id": draft.id, "output_index": place, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}}
        for piece in pieces(text):
            yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece, **padding.of(piece)}
        yield {"type": "response.reasoning_summary_text.done", **where, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **where, "part": {"type": "summary_text", "text": text}}


class _Padding:
    """What is added to deltas so that their size tells nothing, unless the request does without."""

    def __init__(self, work: Work) -> None:
        self._wanted = mapping(work.request.get("stream_options")).get("include_obfuscation") is not False
        self._letters = work.ids.letters(4 * _PADDED_TO) if self._wanted else ""
        self._used = 0

    def of(self, piece: str) -> dict[str, str]:
        """The member that goes with a delta."""
        if not self._wanted:
            return {}
        length = _PADDED_TO - len(piece) % _PADDED_TO
        self._used = (self._used + 7) % (3 * _PADDED_TO)
        return {"obfuscation": self._letters[self._used : self._used + length]}
