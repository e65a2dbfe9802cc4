"""Runs as responses. May know: moments, and OpenAI's Responses API. Decides: which events a client gets, and what it has at the end.

What is over is told from the ledger alone, streamed or not; so both end with the same object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from legato.core.run_options import NO_DEFINITIONS
from legato.server.openai.asked import ResponsesBody
from legato.server.openai.item_ids import reply_item_id
from legato.server.openai.shapes import (
    call_item,
    finish_of,
    format_shape,
    legato_field,
    message_item,
    request_item,
    responses_usage,
    text_part,
    tool_shape,
)
from legato.server.openai.turns import Turn
from legato.server.telling import Ended, Moment, Piece, Rested, Spoke, Withdrawn, moments, recorded, rest_of, text_missing, usage_of

STATUSES = {"failed": "failed", "cancelled": "cancelled", "running": "in_progress", "new": "in_progress"}
INCOMPLETE = {"length": "max_output_tokens", "filter": "content_filter"}


class Responding:
    """One response. `body` is what was asked for; None where somebody only looks."""

    def __init__(self, turn: Turn, body: ResponsesBody | None = None, ignored: list[str] | None = None) -> None:
        self.turn = turn
        self._body = body
        self._ignored = ignored or []
        self._asked = NO_DEFINITIONS

    async def whole(self) -> dict[str, Any]:
        """The response, as far as it is recorded."""
        turn, session, upto = self.turn, self.turn.session, await self.turn.end()
        self._asked = await turn.definitions()
        told = await recorded(session, turn.since, upto)
        rest = rest_of(told)
        _, failure = turn.failure(rest)
        output = [item for moment in told for item in self._items(moment, upto)]
        status, finish = STATUSES.get(rest.status, "completed"), finish_of(session, upto, turn.since)
        if failure:
            status = "failed"
        elif status == "completed" and finish in INCOMPLETE:
            status = "incomplete"
        return self._object(
            status=status,
            output=output,
            error={"code": "server_error", "message": failure} if status == "failed" else None,
            incomplete_details={"reason": INCOMPLETE[finish]} if status == "incomplete" else None,
            usage=responses_usage(usage_of(session.state, turn.since, upto)) if status != "in_progress" else None,
            legato=legato_field(session, rest.status, rest.pending, self._ignored),
        )

    def _items(self, moment: Moment, length: int) -> Iterator[dict[str, Any]]:
        match moment:
            case Spoke() if self.turn.has_in_answer(moment.position, length):
                yield message_item(self.turn.session, moment)
            case Ended() if not moment.called.for_client:  # a client knows what it has answered, and what is wrong never reached it
                yield call_item(self.turn.session, moment)
            case Rested():
                yield from (request_item(self.turn.session, request, moment.length) for request in moment.pending)

    def _object(self, **told: Any) -> dict[str, Any]:
        body, session = self._body, self.turn.session
        return {
            "id": self.turn.name(),
            "object": "response",
            "created_at": self.turn.created,
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
            "text": {"format": format_shape(self._asked.output)},
            "tool_choice": "required" if self.turn.options.required else "auto",
            "tools": [tool_shape(tool) for tool in self._asked.tools],
            "top_p": None,
            "truncation": "disabled",
            "legato": legato_field(session, "running", (), self._ignored),
            **told,
        }

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The response as server-sent events."""
        writing = _Events()
        self._asked = await self.turn.definitions()
        for kind in ("response.created", "response.in_progress"):
            yield writing.event(kind, response=self._object())
        async with aclosing(moments(self.turn.session, self.turn.since, self.turn.until)) as told:
            async for moment in told:
                for event in self._told(moment, writing):
                    yield event
        last = await self.whole()
        kind = last["status"] if last["status"] in ("completed", "failed", "incomplete") else "completed"
        yield writing.event(f"response.{kind}", response=last)

    def _told(self, moment: Moment, writing: _Events) -> Iterator[bytes]:
        match moment:
            case Piece() | Withdrawn() if self.turn.options.typed:
                pass  # an answer in a format is told whole, so these are words to somebody else
            case Piece(reply, agent, text):
                session, withdrawn = self.turn.session, writing.withdrawn_messages
                yield from writing.pieces(reply_item_id(session.state, session.id, reply, withdrawn=withdrawn), agent, text)
            case Withdrawn():
                yield from writing.withdrawn()
            case Spoke() if self.turn.options.typed and moment.reply >= 0:
                writing.answers.append(moment)  # whether it is the answer is known when nothing follows
            case Spoke():
                if self.turn.has_in_answer(moment.position, moment.position + 1):
                    yield from writing.spoken(message_item(self.turn.session, moment))
            case _:
                length = moment.length if isinstance(moment, Rested) else 0
                for answer in writing.answers if isinstance(moment, Rested) else ():
                    if self.turn.has_in_answer(answer.position, length):
                        yield from writing.spoken(message_item(self.turn.session, answer))
                for item in self._items(moment, length):
                    yield from writing.item(item)


def _item_at_start(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is when it begins: a call has no arguments and no outcome yet."""
    match item["type"]:
        case "mcp_call":
            about = {name: value for name, value in item["legato"].items() if name != "status"}
            return {**item, "arguments": "", "output": None, "error": None, "status": "in_progress", "legato": about}
        case "function_call":
            return {**item, "arguments": "", "status": "in_progress"}
    return item


class _Events:
    """Writes events, each with its number. A message whose pieces do not count ends as incomplete; what counts comes as another item."""

    def __init__(self) -> None:
        self._sequence = 0
        self._items = 0  # how many there are
        self._open: dict[str, Any] | None = None  # the message that is being said, and which item it is
        self._at = 0
        self._text = ""
        self.withdrawn_messages = 0
        self.answers: list[Spoke] = []  # the replies of which the last is the answer in a format

    def event(self, kind: str, **told: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._sequence, **told}
        self._sequence += 1
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))

    def item(self, item: dict[str, Any]) -> Iterator[bytes]:
        """Write an item that is known whole, in the steps in which its kind comes."""
        at = self._added()
        here = {"item_id": item["id"], "output_index": at}
        yield self.event("response.output_item.added", output_index=at, item=_item_at_start(item))
        match item["type"]:
            case "mcp_call":
                yield self.event("response.mcp_call.in_progress", **here)
                yield self.event("response.mcp_call_arguments.delta", delta=item["arguments"], **here)
                yield self.event("response.mcp_call_arguments.done", arguments=item["arguments"], **here)
                yield self.event(f"response.mcp_call.{item['status']}", **here)
            case "function_call":
                yield self.event("response.function_call_arguments.delta", delta=item["arguments"], **here)
                yield self.event("response.function_call_arguments.done", name=item["name"], arguments=item["arguments"], **here)
        yield self.event("response.output_item.done", output_index=at, item=item)

    def _added(self) -> int:
        self._items += 1
        return self._items - 1

    def pieces(self, id: str, agent: str, text: str) -> Iterator[bytes]:
        if self._open is None:
            yield from self._begin({"id": id, "legato": {"agent": agent}})
        yield from self._delta(text)

    def _begin(self, about: dict[str, Any]) -> Iterator[bytes]:
        self._open, self._at = {"type": "message", "role": "assistant", "status": "in_progress", "content": [], **about}, self._added()
        yield self.event("response.output_item.added", output_index=self._at, item=self._open)
        yield self.event("response.content_part.added", part=text_part(""), **self._here())

    def _here(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": self._at, "content_index": 0}

    def _delta(self, text: str) -> Iterator[bytes]:
        self._text += text
        yield self.event("response.output_text.delta", delta=text, logprobs=[], **self._here())

    def withdrawn(self) -> Iterator[bytes]:
        if self._open is not None:
            told = {**self._open["legato"], "withdrawn": True}
            yield from self._end({**self._open, "status": "incomplete", "content": [text_part(self._text)], "legato": told})
            self.withdrawn_messages += 1

    def spoken(self, item: dict[str, Any]) -> Iterator[bytes]:
        """A message is recorded: what its pieces lack comes now, or all of it."""
        if item["content"][0]["type"] == "refusal":
            yield from self._refused(item)
            return
        text = item["content"][0]["text"]
        if self._open is None:
            yield from self._begin({"id": item["id"], "legato": item["legato"]})
        assert self._open is not None
        if missing := text_missing(text, self._text):
            yield from self._delta(missing)
        yield from self._end({**item, "id": self._open["id"]})

    def _refused(self, item: dict[str, Any]) -> Iterator[bytes]:
        """A message in which the model declined. None of its words were told before."""
        at, part = self._added(), item["content"][0]
        here = {"item_id": item["id"], "output_index": at, "content_index": 0}
        yield self.event("response.output_item.added", output_index=at, item={**item, "status": "in_progress", "content": []})
        yield self.event("response.content_part.added", part={"type": "refusal", "refusal": ""}, **here)
        yield self.event("response.refusal.delta", delta=part["refusal"], **here)
        yield self.event("response.refusal.done", refusal=part["refusal"], **here)
        yield self.event("response.content_part.done", part=part, **here)
        yield self.event("response.output_item.done", output_index=at, item=item)

    def _end(self, item: dict[str, Any]) -> Iterator[bytes]:
        part = item["content"][0]
        yield self.event("response.output_text.done", text=part["text"], logprobs=[], **self._here())
        yield self.event("response.content_part.done", part=part, **self._here())
        yield self.event("response.output_item.done", output_index=self._at, item=item)
        self._open, self._text = None, ""
