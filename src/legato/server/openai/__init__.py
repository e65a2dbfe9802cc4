"""Served workflows behind OpenAI's APIs, so that any client of those can talk to them. May know: HTTP. Decides: which path does what.

`asked.py` and `content.py` read what clients send, `turns.py` finds the session and gives it to it, `responses.py` and `chat.py` tell the
answer, whole and streamed, in the `shapes.py` of either API.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from legato.errors import UnknownLedger
from legato.server.answering import Refused, answer
from legato.server.api.table import route_to
from legato.server.limits import TooMuch, one_more_stream
from legato.server.openai.asked import chat_asked, responses_asked
from legato.server.openai.chat import Completing
from legato.server.openai.errors import Wrong, error_line, openai_error
from legato.server.openai.responses import Responding
from legato.server.openai.turns import Turn, begun, turn_named, workflow_named
from legato.server.serving import Serving
from legato.server.streams import Lines, Waiting

Does = Callable[[Serving, Request], Awaitable[ASGIApp]]


def routes(serving: Serving) -> list[Route]:
    """The paths of both APIs."""
    paths: list[tuple[str, str, Does]] = [
        ("GET", "/v1/models", _models),
        ("GET", "/v1/models/{name}", _model),
        ("POST", "/v1/responses", _respond),
        ("GET", "/v1/responses/{id}", _look),
        ("POST", "/v1/responses/{id}/cancel", _cancel),
        ("POST", "/v1/chat/completions", _complete),
    ]
    return [route_to(method, path, _answering(serving, does)) for method, path, does in paths]


def _answering(serving: Serving, does: Does) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def answered(request: Request) -> ASGIApp:
        try:
            return await does(serving, request)
        except TooMuch as much:
            return openai_error(much.refused)
        except Exception as error:
            return openai_error(error)

    return answered


# -- models ------------------------------------------------------------------------------------------------------------


async def _models(serving: Serving, request: Request) -> ASGIApp:
    return answer({"object": "list", "data": [_as_model(name) for name in serving.workflows]})


async def _model(serving: Serving, request: Request) -> ASGIApp:
    return answer(_as_model(workflow_named(serving, _named(request, "name")).name))


def _as_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "legato"}


# -- responses ---------------------------------------------------------------------------------------------------------


async def _respond(serving: Serving, request: Request) -> ASGIApp:
    body, ask = await responses_asked(request)
    if body.stream:
        one_more_stream(request.scope)
    turn = await begun(serving, ask)
    responding = Responding(turn, body, ask.ignored)
    if body.stream:
        return _streamed(serving, turn, responding.stream())
    if body.background:
        return answer(await responding.whole(), headers=_session_of(turn))
    return _rested(serving, turn, responding.whole)


async def _look(serving: Serving, request: Request) -> ASGIApp:
    turn = await _turn(serving, request)
    responding = Responding(turn)
    asked = dict(request.query_params)
    if asked.pop("stream", "false") != "true":
        return answer(await responding.whole(), headers=_session_of(turn))
    if "starting_after" in asked:
        raise Wrong("starting_after", "pieces of words are not numbered twice alike", do="read the response from its beginning")
    return _streamed(serving, turn, responding.stream())


async def _cancel(serving: Serving, request: Request) -> ASGIApp:
    turn = await _turn(serving, request)
    await turn.session.cancel("cancelled by a client")
    return answer(await Responding(await _turn(serving, request)).whole(), headers=_session_of(turn))


async def _turn(serving: Serving, request: Request) -> Turn:
    try:
        return await turn_named(serving, _named(request, "id"))
    except UnknownLedger as unknown:
        raise Wrong("response_id", unknown.summary, code="response_not_found", status=404) from None


# -- chat --------------------------------------------------------------------------------------------------------------


async def _complete(serving: Serving, request: Request) -> ASGIApp:
    body, ask = await chat_asked(request)
    if body.stream:
        one_more_stream(request.scope)
    turn = await begun(serving, ask)
    completing = Completing(turn, ask.ignored)
    if body.stream:
        return _streamed(serving, turn, completing.stream(bool(body.stream_options and body.stream_options.include_usage)))
    return _rested(serving, turn, completing.whole)


# -- both --------------------------------------------------------------------------------------------------------------


def _named(request: Request, name: str) -> str:
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise Wrong(name, "the path is not UTF-8") from None


def _session_of(turn: Turn) -> dict[str, str]:
    """So that a client which looks at nothing else knows where it is. Ids that headers cannot have are in the answer."""
    id = turn.session.id
    return {"legato-session": id} if id.isascii() and id.isprintable() and id == id.strip() else {}


def _rested(serving: Serving, turn: Turn, whole: Callable[[], Awaitable[dict[str, Any]]]) -> ASGIApp:
    """The whole answer, when it is over."""

    async def rested() -> ASGIApp:
        try:
            error = (await turn.rest()).error
            return openai_error(_failed(error, turn)) if error else answer(await whole(), headers=_session_of(turn))
        except Exception as error:
            return openai_error(error)

    return Waiting(rested, serving.closing)


def _streamed(serving: Serving, turn: Turn, lines: AsyncGenerator[bytes, None]) -> ASGIApp:
    return Lines(_told(lines), serving.closing, _session_of(turn))


async def _told(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The lines; and why there are no more, if something went wrong among them."""
    try:
        async with aclosing(lines):
            async for line in lines:
                yield line
    except Exception as error:
        told = msgspec.json.decode(openai_error(error).body)["error"]
        yield error_line(told)


def _failed(error: str, turn: Turn) -> Refused:
    do = f"what was said is kept in session {turn.session.id!r}; with the same Idempotency-Key, it is tried again"
    return Refused(502, "model_failed", error, do=do)
