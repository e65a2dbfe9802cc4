"""Runs as chat completions: everything in one message of an assistant.

Each reply of an agent is a paragraph. Pending requests are described at the end, in text, because many clients show nothing else; `legato`
has them as data. Calls of the client's own tools are `tool_calls`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from legato.server.error_formats import format_openai_error
from legato.server.moments import NOT_AT_REST, Moment, Piece, Rested, Spoke, Withdrawn, moments, recorded, rest_of, text_missing, usage_of
from legato.server.openai.api_objects import arguments_for_client, find_finish_reason, find_refusal, make_chat_usage, make_legato_field
from legato.server.openai.errors import encode_error_event
from legato.server.openai.item_ids import make_request_item_id
from legato.server.openai.turns import ResponseTurn
from legato.server.protocol_ids import encode_request_name

FINISH_REASONS = {"stop": "stop", "length": "length", "filter": "content_filter"}
PARAGRAPH_BREAK = "\n\n"
RETRACTION_NOTICE = "[That broke off, and does not count. Once more:]"
DONE_EVENT = b"data: [DONE]\n\n"


class ChatCompletionBuilder:
    """Builds the chat completion of one turn."""

    def __init__(self, turn: ResponseTurn, ignored: list[str]) -> None:
        self.turn = turn
        self._ignored = ignored

    async def build(self) -> dict[str, Any]:
        """Return the whole completion, from the ledger."""
        end = await self.turn.find_end()
        moments_so_far = await recorded(self.turn.session, self.turn.first_input, end)
        replies = self._select_answers([moment for moment in moments_so_far if isinstance(moment, Spoke)], end)
        refusals = [refusal for moment in replies if (refusal := find_refusal(self.turn.session, moment))]
        rest = rest_of(moments_so_far)
        texts = [moment.text for moment in replies if not find_refusal(self.turn.session, moment)]
        text, calls = PARAGRAPH_BREAK.join([*texts, *_describe_requests(rest)]), self._client_calls(rest)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or (None if calls or refusals else ""),
            "refusal": PARAGRAPH_BREAK.join(refusals) or None,
        }
        if calls:
            message["tool_calls"] = calls
        return {
            **self._base_object("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish_reason(end, calls), "logprobs": None}],
            "usage": self._usage(end),
            "legato": make_legato_field(self.turn.session, rest.status, rest.pending, self._ignored),
        }

    def _select_answers(self, replies: list[Spoke], length: int) -> list[Spoke]:
        """Select the replies that make up the message: all of them or, if a format was requested, the last one in it."""
        if not self.turn.options.typed:
            return replies
        return [moment for moment in replies if self.turn.is_in_answer(moment.position, length)][-1:]

    def _base_object(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.turn.response_id("chatcmpl-"),
            "object": kind,
            "created": self.turn.created_at,
            "model": self.turn.session.workflow.name,
        }

    def _finish_reason(self, end: int, calls: list[dict[str, Any]]) -> str:
        return "tool_calls" if calls else FINISH_REASONS[find_finish_reason(self.turn.session, end, self.turn.first_input)]

    def _client_calls(self, rest: Rested) -> list[dict[str, Any]]:
        """Return the calls of the client's tools that need results."""
        return [
            {
                "id": make_request_item_id("call", self.turn.session.state, self.turn.session.id, request, rest.length),
                "type": "function",
                "function": {"name": request.tool, "arguments": arguments_for_client(request)},
            }
            for request in rest.pending
            if request.for_client
        ]

    def _usage(self, end: int) -> dict[str, Any]:
        return make_chat_usage(usage_of(self.turn.session.state, self.turn.first_input, end))

    async def stream(self, include_usage: bool) -> AsyncGenerator[bytes, None]:
        """Stream the completion in chunks."""
        writer, rest = _ParagraphWriter(), NOT_AT_REST
        answers: list[Spoke] = []
        yield self._encode_chunk({"role": "assistant", "content": ""})
        async with aclosing(moments(self.turn.session, self.turn.first_input, self.turn.min_length)) as stream:
            async for moment in stream:
                if isinstance(moment, Rested):
                    rest = moment
                    if self.turn.find_failure(rest)[0]:
                        continue
                if isinstance(moment, Spoke | Piece | Withdrawn) and self.turn.options.typed:
                    if isinstance(moment, Spoke):  # its text is sent whole, after the check: deltas are of other replies
                        answers.append(moment)
                    continue
                for text in writer.write(moment):
                    yield self._encode_chunk({"content": text})
        for answer in self._select_answers(answers, rest.length):
            refusal = find_refusal(self.turn.session, answer)
            yield self._encode_chunk({"refusal": refusal} if refusal else {"content": answer.text})
        code, failure = self.turn.find_failure(rest)
        if failure:
            yield encode_error_event(format_openai_error({"code": code, "message": failure}, 502))
            return
        calls = self._client_calls(rest)
        for index, call in enumerate(calls):
            arguments = call["function"]["arguments"]
            yield self._encode_chunk({"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]})
            yield self._encode_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        legato_field = make_legato_field(self.turn.session, rest.status, rest.pending, self._ignored)
        end = await self.turn.find_end()
        yield self._encode_chunk({}, self._finish_reason(end, calls), legato=legato_field)
        if include_usage:
            yield _encode_event({**self._base_object("chat.completion.chunk"), "choices": [], "usage": self._usage(end)})
        yield DONE_EVENT

    def _encode_chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _encode_event({**self._base_object("chat.completion.chunk"), "choices": [choice], **more})


class _ParagraphWriter:
    """Turns moments into one text that only grows."""

    def __init__(self) -> None:
        self._sent = ""  # the text of the current paragraph
        self._separator = ""  # stands before the current paragraph

    def write(self, moment: Moment) -> Iterator[str]:
        match moment:
            case Piece(text=text):
                yield (self._separator if not self._sent else "") + text
                self._sent += text
            case Withdrawn():
                yield f"{PARAGRAPH_BREAK}{RETRACTION_NOTICE}"
                self._end_paragraph()
            case Spoke(text=text):
                if missing := text_missing(text, self._sent):
                    yield (self._separator if not self._sent else "") + missing
                self._end_paragraph()
            case Rested():
                for text in _describe_requests(moment):
                    yield self._separator + text
                    self._end_paragraph()

    def _end_paragraph(self) -> None:
        self._sent, self._separator = "", PARAGRAPH_BREAK


def _describe_requests(rest: Rested) -> list[str]:
    return [
        f"[{request.prompt} This waits for an answer to {encode_request_name(request)}.]"
        for request in rest.pending
        if not request.for_client
    ]


def _encode_event(content: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(content)
