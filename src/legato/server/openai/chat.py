"""Runs as chat completions. May know: moments, and OpenAI's Chat Completions API. Decides: how a run reads as one message.

All that agents said in the run is the message, one paragraph after the other. What waits for a person is said at its end, in words, because
that is all that many clients show; as data it is in `legato`. Calls of the client's own tools are `tool_calls`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from legato.server.error_shapes import shaped
from legato.server.naming import bound
from legato.server.openai.errors import error_line
from legato.server.openai.item_ids import request_item_id
from legato.server.openai.shapes import chat_usage, client_arguments, finish_of, legato_field, refusal_in
from legato.server.openai.turns import Turn
from legato.server.telling import NOT_AT_REST, Moment, Piece, Rested, Spoke, Withdrawn, moments, recorded, rest_of, text_missing, usage_of

FINISHES = {"stop": "stop", "length": "length", "filter": "content_filter"}
BETWEEN = "\n\n"
BROKEN_OFF = "[That broke off, and does not count. Once more:]"
DONE = b"data: [DONE]\n\n"


class Completing:
    """One chat completion."""

    def __init__(self, turn: Turn, ignored: list[str]) -> None:
        self.turn = turn
        self._ignored = ignored

    async def whole(self) -> dict[str, Any]:
        """The completion, from the ledger."""
        end = await self.turn.end()
        told = await recorded(self.turn.session, self.turn.since, end)
        spoken = self._answers([moment for moment in told if isinstance(moment, Spoke)], end)
        refusals = [words for moment in spoken if (words := refusal_in(self.turn.session, moment))]
        rest = rest_of(told)
        texts = [moment.text for moment in spoken if not refusal_in(self.turn.session, moment)]
        words, calls = BETWEEN.join([*texts, *_asked(rest)]), self._calls(rest)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": words or (None if calls or refusals else ""),
            "refusal": BETWEEN.join(refusals) or None,
        }
        if calls:
            message["tool_calls"] = calls
        return {
            **self._object("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish(end, calls), "logprobs": None}],
            "usage": self._usage(end),
            "legato": legato_field(self.turn.session, rest.status, rest.pending, self._ignored),
        }

    def _answers(self, spoken: list[Spoke], length: int) -> list[Spoke]:
        """What of the words is the message: all, or, where a format was asked for, the last answer in it."""
        if not self.turn.options.typed:
            return spoken
        return [moment for moment in spoken if self.turn.has_in_answer(moment.position, length)][-1:]

    def _object(self, kind: str) -> dict[str, Any]:
        return {"id": self.turn.name("chatcmpl-"), "object": kind, "created": self.turn.created, "model": self.turn.session.workflow.name}

    def _finish(self, end: int, calls: list[dict[str, Any]]) -> str:
        return "tool_calls" if calls else FINISHES[finish_of(self.turn.session, end, self.turn.since)]

    def _calls(self, rest: Rested) -> list[dict[str, Any]]:
        """The calls of the client's tools that wait for their results."""
        return [
            {
                "id": request_item_id("call", self.turn.session.state, self.turn.session.id, request, rest.length),
                "type": "function",
                "function": {"name": request.tool, "arguments": client_arguments(request)},
            }
            for request in rest.pending
            if request.for_client
        ]

    def _usage(self, end: int) -> dict[str, Any]:
        return chat_usage(usage_of(self.turn.session.state, self.turn.since, end))

    async def stream(self, include_usage: bool) -> AsyncGenerator[bytes, None]:
        """The completion in chunks."""
        writing, rest = _Paragraphs(), NOT_AT_REST
        answers: list[Spoke] = []
        yield self._chunk({"role": "assistant", "content": ""})
        async with aclosing(moments(self.turn.session, self.turn.since, self.turn.until)) as told:
            async for moment in told:
                if isinstance(moment, Rested):
                    rest = moment
                    if self.turn.failure(rest)[0]:
                        continue
                if isinstance(moment, Spoke | Piece | Withdrawn) and self.turn.options.typed:
                    if isinstance(moment, Spoke):  # none of its words was told before it was judged, so pieces are words to somebody else
                        answers.append(moment)
                    continue
                for text in writing.told(moment):
                    yield self._chunk({"content": text})
        for answer in self._answers(answers, rest.length):
            refusal = refusal_in(self.turn.session, answer)
            yield self._chunk({"refusal": refusal} if refusal else {"content": answer.text})
        code, failure = self.turn.failure(rest)
        if failure:
            yield error_line(shaped({"code": code, "message": failure}, 502))
            return
        calls = self._calls(rest)
        for index, call in enumerate(calls):
            arguments = call["function"]["arguments"]
            yield self._chunk({"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]})
            yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        told_apart = legato_field(self.turn.session, rest.status, rest.pending, self._ignored)
        end = await self.turn.end()
        yield self._chunk({}, self._finish(end, calls), legato=told_apart)
        if include_usage:
            yield _data({**self._object("chat.completion.chunk"), "choices": [], "usage": self._usage(end)})
        yield DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _data({**self._object("chat.completion.chunk"), "choices": [choice], **more})


class _Paragraphs:
    """What is said, as one text that only grows."""

    def __init__(self) -> None:
        self._shown = ""  # of the paragraph that is being said
        self._before = ""  # what parts it from the one before

    def told(self, moment: Moment) -> Iterator[str]:
        match moment:
            case Piece(text=text):
                yield (self._before if not self._shown else "") + text
                self._shown += text
            case Withdrawn():
                yield f"{BETWEEN}{BROKEN_OFF}"
                self._next()
            case Spoke(text=text):
                if missing := text_missing(text, self._shown):
                    yield (self._before if not self._shown else "") + missing
                self._next()
            case Rested():
                for text in _asked(moment):
                    yield self._before + text
                    self._next()

    def _next(self) -> None:
        self._shown, self._before = "", BETWEEN


def _asked(rest: Rested) -> list[str]:
    return [f"[{request.prompt} This waits for an answer to {bound(request)}.]" for request in rest.pending if not request.for_client]


def _data(told: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(told)
