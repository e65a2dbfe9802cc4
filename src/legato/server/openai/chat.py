"""Runs as chat completions. May know: moments, and OpenAI's Chat Completions API. Decides: how a run reads as one message.

All that agents said in the run is the message, one paragraph after the other. What waits for a person is said at its end, in words, because
that is all that many clients show; as data it is in `legato`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from legato.server.error_shapes import shaped
from legato.server.naming import bound
from legato.server.openai.errors import error_line
from legato.server.openai.shapes import chat_usage, finish_of, legato_field
from legato.server.openai.turns import Turn
from legato.server.telling import Moment, Piece, Rested, Spoke, Withdrawn, moments, recorded, usage_of

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
        texts = [moment.text for moment in told if isinstance(moment, Spoke)]
        rest = self._rest(told)
        message = {"role": "assistant", "content": BETWEEN.join([*texts, *_asked(rest)]), "refusal": None}
        return {
            **self._object("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": self._finish(end), "logprobs": None}],
            "usage": self._usage(end),
            "legato": legato_field(self.turn.session, rest.status, rest.pending, self._ignored),
        }

    def _rest(self, told: list[Moment]) -> Rested:
        last = told[-1] if told else None
        return last if isinstance(last, Rested) else Rested("running", (), "", 0)

    def _object(self, kind: str) -> dict[str, Any]:
        return {"id": self.turn.name("chatcmpl-"), "object": kind, "created": self.turn.created, "model": self.turn.session.workflow.name}

    def _finish(self, end: int) -> str:
        return FINISHES[finish_of(self.turn.session, end, self.turn.since)]

    def _usage(self, end: int) -> dict[str, Any]:
        return chat_usage(usage_of(self.turn.session.state, self.turn.since, end))

    async def stream(self, include_usage: bool) -> AsyncGenerator[bytes, None]:
        """The completion in chunks."""
        writing, rest = _Paragraphs(), Rested("running", (), "", 0)
        yield self._chunk({"role": "assistant", "content": ""})
        async with aclosing(moments(self.turn.session, self.turn.since, self.turn.until)) as told:
            async for moment in told:
                if isinstance(moment, Rested):
                    rest = moment
                for text in writing.told(moment):
                    yield self._chunk({"content": text})
        if rest.status == "failed":
            yield error_line(shaped({"code": "model_failed", "message": rest.error}, 502))
            return
        told_apart = legato_field(self.turn.session, rest.status, rest.pending, self._ignored)
        end = await self.turn.end()
        yield self._chunk({}, self._finish(end), legato=told_apart)
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
                missing = text[len(self._shown) :] if text.startswith(self._shown) else ""
                if missing:
                    yield (self._before if not self._shown else "") + missing
                self._next()
            case Rested():
                for text in _asked(moment):
                    yield self._before + text
                    self._next()

    def _next(self) -> None:
        self._shown, self._before = "", BETWEEN


def _asked(rest: Rested) -> list[str]:
    return [f"[{request.prompt} This waits for an answer to {bound(request)}.]" for request in rest.pending]


def _data(told: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(told)
