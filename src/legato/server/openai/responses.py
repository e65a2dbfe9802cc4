"""Runs as objects and event streams of OpenAI's Responses API.

The final object is built from the ledger alone, streamed or not, so both end with the same object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from legato.core.run_definitions import NO_DEFINITIONS
from legato.server.moments import Ended, Moment, Piece, Rested, Spoke, Withdrawn, moments, recorded, rest_of, text_missing, usage_of
from legato.server.openai.api_objects import (
    find_finish_reason,
    make_call_item,
    make_format_object,
    make_legato_field,
    make_message_item,
    make_request_item,
    make_responses_usage,
    make_text_part,
    make_tool_object,
)
from legato.server.openai.item_ids import make_reply_item_id
from legato.server.openai.parsed_requests import ResponsesBody
from legato.server.openai.turns import ResponseTurn

RESPONSE_STATUSES = {"failed": "failed", "cancelled": "cancelled", "running": "in_progress", "new": "in_progress"}
INCOMPLETE_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}


class ResponseBuilder:
    """Builds the response of one turn. `body` is the request's; None if an existing response is retrieved."""

    def __init__(self, turn: ResponseTurn, body: ResponsesBody | None = None, ignored: list[str] | None = None) -> None:
        self.turn = turn
        self._body = body
        self._ignored = ignored or []
        self._definitions = NO_DEFINITIONS

    async def build(self) -> dict[str, Any]:
        """Return the response, as far as it is recorded."""
        turn, session, upto = self.turn, self.turn.session, await self.turn.find_end()
        self._definitions = await turn.definitions()
        moments_so_far = await recorded(session, turn.first_input, upto)
        rest = rest_of(moments_so_far)
        _, failure = turn.find_failure(rest)
        output = [item for moment in moments_so_far for item in self._make_items(moment, upto)]
        status, finish = RESPONSE_STATUSES.get(rest.status, "completed"), find_finish_reason(session, upto, turn.first_input)
        if failure:
            status = "failed"
        elif status == "completed" and finish in INCOMPLETE_REASONS:
            status = "incomplete"
        return self._make_object(
            status=status,
            output=output,
            error={"code": "server_error", "message": failure} if status == "failed" else None,
            incomplete_details={"reason": INCOMPLETE_REASONS[finish]} if status == "incomplete" else None,
            usage=make_responses_usage(usage_of(session.state, turn.first_input, upto)) if status != "in_progress" else None,
            legato=make_legato_field(session, rest.status, rest.pending, self._ignored),
        )

    def _make_items(self, moment: Moment, length: int) -> Iterator[dict[str, Any]]:
        match moment:
            case Spoke() if self.turn.is_in_answer(moment.position, length):
                yield make_message_item(self.turn.session, moment)
            case Ended() if not moment.called.for_client:  # the client knows its own outputs, and got no invalid calls
                yield make_call_item(self.turn.session, moment)
            case Rested():
                yield from (make_request_item(self.turn.session, request, moment.length) for request in moment.pending)

    def _make_object(self, **fields: Any) -> dict[str, Any]:
        body, session = self._body, self.turn.session
        return {
            "id": self.turn.response_id(),
            "object": "response",
            "created_at": self.turn.created_at,
            "model": session.workflow.name,
            "status": "in_progress",
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": None,
            "background": bool(body and body.background),
            "conversation": {"id": session.id},
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": body.previous_response_id if body else None,
            "temperature": None,
            "text": {"format": make_format_object(self._definitions.output)},
            "tool_choice": "required" if self.turn.options.required else "auto",
            "tools": [make_tool_object(tool) for tool in self._definitions.tools],
            "top_p": None,
            "truncation": "disabled",
            "legato": make_legato_field(session, "running", (), self._ignored),
            **fields,
        }

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Stream the response as server-sent events."""
        writer = _EventWriter()
        self._definitions = await self.turn.definitions()
        for kind in ("response.created", "response.in_progress"):
            yield writer.encode_event(kind, response=self._make_object())
        async with aclosing(moments(self.turn.session, self.turn.first_input, self.turn.min_length)) as stream:
            async for moment in stream:
                for event in self._write_moment(moment, writer):
                    yield event
        last = await self.build()
        kind = last["status"] if last["status"] in ("completed", "failed", "incomplete") else "completed"
        yield writer.encode_event(f"response.{kind}", response=last)

    def _write_moment(self, moment: Moment, writer: _EventWriter) -> Iterator[bytes]:
        match moment:
            case Piece() | Withdrawn() if self.turn.options.typed:
                pass  # an answer in a format is sent whole: deltas are of other replies
            case Piece(reply, agent, text):
                session, retracted = self.turn.session, writer.retracted_messages
                yield from writer.write_text(make_reply_item_id(session.state, session.id, reply, retracted=retracted), agent, text)
            case Withdrawn():
                yield from writer.retract_message()
            case Spoke() if self.turn.options.typed and moment.reply >= 0:
                writer.answers.append(moment)  # only at the end is it known which one is the answer
            case Spoke():
                if self.turn.is_in_answer(moment.position, moment.position + 1):
                    yield from writer.write_message(make_message_item(self.turn.session, moment))
            case _:
                length = moment.length if isinstance(moment, Rested) else 0
                for answer in writer.answers if isinstance(moment, Rested) else ():
                    if self.turn.is_in_answer(answer.position, length):
                        yield from writer.write_message(make_message_item(self.turn.session, answer))
                for item in self._make_items(moment, length):
                    yield from writer.write_item(item)


def _item_at_start(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is when it starts: a call has no arguments and no output yet."""
    match item["type"]:
        case "mcp_call":
            extra = {name: value for name, value in item["legato"].items() if name != "status"}
            return {**item, "arguments": "", "output": None, "error": None, "status": "in_progress", "legato": extra}
        case "function_call":
            return {**item, "arguments": "", "status": "in_progress"}
    return item


class _EventWriter:
    """Encodes events with their sequence numbers.

    A message whose deltas are retracted ends as incomplete; the text that counts follows as another item.
    """

    def __init__(self) -> None:
        self._sequence = 0
        self._item_count = 0
        self._message: dict[str, Any] | None = None  # the message that is streaming, and its index among the items
        self._message_index = 0
        self._text = ""
        self.retracted_messages = 0
        self.answers: list[Spoke] = []  # the last of these is the answer in the requested format

    def encode_event(self, kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))

    def write_item(self, item: dict[str, Any]) -> Iterator[bytes]:
        """Write a complete item, in the events of its type."""
        at = self._next_index()
        location = {"item_id": item["id"], "output_index": at}
        yield self.encode_event("response.output_item.added", output_index=at, item=_item_at_start(item))
        match item["type"]:
            case "mcp_call":
                yield self.encode_event("response.mcp_call.in_progress", **location)
                yield self.encode_event("response.mcp_call_arguments.delta", delta=item["arguments"], **location)
                yield self.encode_event("response.mcp_call_arguments.done", arguments=item["arguments"], **location)
                yield self.encode_event(f"response.mcp_call.{item['status']}", **location)
            case "function_call":
                yield self.encode_event("response.function_call_arguments.delta", delta=item["arguments"], **location)
                yield self.encode_event("response.function_call_arguments.done", name=item["name"], arguments=item["arguments"], **location)
        yield self.encode_event("response.output_item.done", output_index=at, item=item)

    def _next_index(self) -> int:
        self._item_count += 1
        return self._item_count - 1

    def write_text(self, id: str, agent: str, text: str) -> Iterator[bytes]:
        if self._message is None:
            yield from self._begin_message({"id": id, "legato": {"agent": agent}})
        yield from self._write_delta(text)

    def _begin_message(self, fields: dict[str, Any]) -> Iterator[bytes]:
        self._message = {"type": "message", "role": "assistant", "status": "in_progress", "content": [], **fields}
        self._message_index = self._next_index()
        yield self.encode_event("response.output_item.added", output_index=self._message_index, item=self._message)
        yield self.encode_event("response.content_part.added", part=make_text_part(""), **self._message_location())

    def _message_location(self) -> dict[str, Any]:
        assert self._message is not None
        return {"item_id": self._message["id"], "output_index": self._message_index, "content_index": 0}

    def _write_delta(self, text: str) -> Iterator[bytes]:
        self._text += text
        yield self.encode_event("response.output_text.delta", delta=text, logprobs=[], **self._message_location())

    def retract_message(self) -> Iterator[bytes]:
        if self._message is not None:
            extra = {**self._message["legato"], "withdrawn": True}
            yield from self._end_message(
                {**self._message, "status": "incomplete", "content": [make_text_part(self._text)], "legato": extra}
            )
            self.retracted_messages += 1

    def write_message(self, item: dict[str, Any]) -> Iterator[bytes]:
        """Write a recorded message: the text that its deltas lacked, or all of it."""
        if item["content"][0]["type"] == "refusal":
            yield from self._write_refusal(item)
            return
        text = item["content"][0]["text"]
        if self._message is None:
            yield from self._begin_message({"id": item["id"], "legato": item["legato"]})
        assert self._message is not None
        if missing := text_missing(text, self._text):
            yield from self._write_delta(missing)
        yield from self._end_message({**item, "id": self._message["id"]})

    def _write_refusal(self, item: dict[str, Any]) -> Iterator[bytes]:
        """Write a message with a refusal, which has no deltas before."""
        at, part = self._next_index(), item["content"][0]
        location = {"item_id": item["id"], "output_index": at, "content_index": 0}
        yield self.encode_event("response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []})
        yield self.encode_event("response.content_part.added", part={"type": "refusal", "refusal": ""}, **location)
        yield self.encode_event("response.refusal.delta", delta=part["refusal"], **location)
        yield self.encode_event("response.refusal.done", refusal=part["refusal"], **location)
        yield self.encode_event("response.content_part.done", part=part, **location)
        yield self.encode_event("response.output_item.done", output_index=at, item=item)

    def _end_message(self, item: dict[str, Any]) -> Iterator[bytes]:
        part = item["content"][0]
        yield self.encode_event("response.output_text.done", text=part["text"], logprobs=[], **self._message_location())
        yield self.encode_event("response.content_part.done", part=part, **self._message_location())
        yield self.encode_event("response.output_item.done", output_index=self._message_index, item=item)
        self._message, self._text = None, ""
