"""Served workflows behind OpenAI's APIs, so that any client of those can talk to them. May know: HTTP. Decides: which path does what.

`asked.py` and `content.py` read what clients send, `turns.py` finds the session and gives it to it, `responses.py` and `chat.py` tell the
answer, whole and streamed, in the `shapes.py` of either API.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial, update_wrapper
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from legato.server.answering import Refused, answer
from legato.server.api.table import route_to
from legato.server.error_shapes import openai_error
from legato.server.limits import one_more_stream
from legato.server.openai import conversations
from legato.server.openai.asked import chat_asked, path_part, responses_asked
from legato.server.openai.chat import Completing
from legato.server.openai.errors import Wrong, error_line
from legato.server.openai.responses import Responding
from legato.server.openai.turns import Turn, begun, response_named, workflow_named
from legato.server.serving import Serving
from legato.server.streams import Lines, Waiting

Does = Callable[[Serving, Request], Awaitable[ASGIApp]]


def routes(serving: Serving) -> list[Route]:
    """The paths of both APIs."""
    paths: list[tuple[str, str, Does]] = [
        ("GET", "/v1/models", _models),
        ("GET", "/v1/models/{name}", _model),
        ("POST", "/v1/responses", _respond),
        ("POST", "/v1/responses/input_tokens", conversations.count_input_tokens),
        ("GET", "/v1/responses/{id}", _look),
        ("DELETE", "/v1/responses/{id}", conversations.delete_response),
        ("POST", "/v1/responses/{id}/cancel", _cancel),
        ("GET", "/v1/responses/{id}/input_items", conversations.list_input_items),
        ("POST", "/v1/conversations", conversations.create_conversation),
        ("GET", "/v1/conversations/{id}", conversations.retrieve_conversation),
        ("POST", "/v1/conversations/{id}", conversations.update_conversation),
        ("DELETE", "/v1/conversations/{id}", conversations.delete_conversation),
        ("GET", "/v1/conversations/{id}/items", conversations.list_conversation_items),
        ("POST", "/v1/conversations/{id}/items", conversations.create_conversation_items),
        ("GET", "/v1/conversations/{id}/items/{item}", conversations.retrieve_conversation_item),
        ("DELETE", "/v1/conversations/{id}/items/{item}", conversations.delete_conversation_item),
        ("POST", "/v1/chat/completions", _complete),
    ]
    return [route_to(method, path, update_wrapper(partial(does, serving), does)) for method, path, does in paths]


# -- models ------------------------------------------------------------------------------------------------------------


async def _models(serving: Serving, request: Request) -> ASGIApp:
    """List the workflows, as models."""
    return answer({"object": "list", "data": [_as_model(name) for name in serving.workflows]})


async def _model(serving: Serving, request: Request) -> ASGIApp:
    """Look at one workflow, as a model."""
    return answer(_as_model(workflow_named(serving, path_part(request, "name")).name))


def _as_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "legato"}


# -- responses ---------------------------------------------------------------------------------------------------------


async def _respond(serving: Serving, request: Request) -> ASGIApp:
    """Say or decide something, and answer with a response."""
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
    """Look at a response, whole or streamed again."""
    turn = await response_named(serving, path_part(request, "id"))
    responding = Responding(turn)
    asked = dict(request.query_params)
    if asked.pop("stream", "false") != "true":
        return answer(await responding.whole(), headers=_session_of(turn))
    if "starting_after" in asked:
        raise Wrong("starting_after", "pieces of words are not numbered twice alike", do="read the response from its beginning")
    return _streamed(serving, turn, responding.stream())


async def _cancel(serving: Serving, request: Request) -> ASGIApp:
    """Stop what the conversation of a response is doing."""
    turn = await response_named(serving, path_part(request, "id"))
    await turn.session.cancel("cancelled by a client")
    return answer(await Responding(await response_named(serving, path_part(request, "id"))).whole(), headers=_session_of(turn))


# -- chat --------------------------------------------------------------------------------------------------------------


async def _complete(serving: Serving, request: Request) -> ASGIApp:
    """Say something, and answer with a chat completion."""
    body, ask = await chat_asked(request)
    if body.stream:
        one_more_stream(request.scope)
    turn = await begun(serving, ask)
    completing = Completing(turn, ask.ignored)
    if body.stream:
        lines = completing.stream(bool(body.stream_options and body.stream_options.include_usage))
        return _streamed(serving, turn, lines, numbered=False)
    return _rested(serving, turn, completing.whole)


# -- both --------------------------------------------------------------------------------------------------------------


def _session_of(turn: Turn) -> dict[str, str]:
    """So that a client which looks at nothing else knows where it is. Ids that headers cannot have are in the answer."""
    id = turn.session.id
    return {"legato-session": id} if id.isascii() and id.isprintable() and id == id.strip() else {}


def _rested(serving: Serving, turn: Turn, whole: Callable[[], Awaitable[dict[str, Any]]]) -> ASGIApp:
    """The whole answer, when it is over."""

    async def rested() -> ASGIApp:
        try:
            code, error = turn.failure(await turn.rest())
            return openai_error(_failed(code, error, turn)) if error else answer(await whole(), headers=_session_of(turn))
        except Exception as error:
            return openai_error(error)

    return Waiting(rested, serving.closing)


def _streamed(serving: Serving, turn: Turn, lines: AsyncGenerator[bytes, None], *, numbered: bool = True) -> ASGIApp:
    return Lines(_with_error(lines, numbered), serving.closing, _session_of(turn))


async def _with_error(lines: AsyncGenerator[bytes, None], numbered: bool) -> AsyncGenerator[bytes, None]:
    """The lines; and why there are no more, if something went wrong among them. `numbered`: each is an event that has its number."""
    number = 0
    try:
        async with aclosing(lines):
            async for line in lines:
                yield line
                number += 1
    except Exception as error:
        told = msgspec.json.decode(openai_error(error).body)["error"]
        yield error_line(told, **({"type": "error", "sequence_number": number} if numbered else {}))


def _failed(code: str, error: str, turn: Turn) -> Refused:
    again = "; with the same Idempotency-Key, it is tried again" if code == "model_failed" else ""
    return Refused(502, code, error, do=f"what was said is kept in session {turn.session.id!r}{again}")
