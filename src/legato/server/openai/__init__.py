"""OpenAI's Responses, Conversations and Chat Completions APIs over the served workflows: the routes.

`parsed_requests.py` and `input_items.py` decode requests, `turns.py` finds the session and submits the input, `responses.py` and `chat.py`
build the response, whole or streamed, from the objects in `api_objects.py`.
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

from legato.server.api.endpoints import make_route
from legato.server.error_formats import openai_error_response
from legato.server.http_errors import RequestRefused, json_response
from legato.server.openai import conversation_routes
from legato.server.openai.chat import ChatCompletionBuilder
from legato.server.openai.errors import InvalidRequest, encode_error_event
from legato.server.openai.parsed_requests import parse_chat_request, parse_responses_request, read_path_part
from legato.server.openai.responses import ResponseBuilder
from legato.server.openai.turns import ResponseTurn, find_turn_or_404, find_workflow, start_turn
from legato.server.request_limits import count_stream
from legato.server.session_registry import SessionRegistry
from legato.server.streaming_responses import DeferredResponse, EventStreamResponse

Handler = Callable[[SessionRegistry, Request], Awaitable[ASGIApp]]


def make_routes(registry: SessionRegistry) -> list[Route]:
    """Return the routes of all of OpenAI's APIs that are served."""
    paths: list[tuple[str, str, Handler]] = [
        ("GET", "/v1/models", _list_models),
        ("GET", "/v1/models/{name}", _get_model),
        ("POST", "/v1/responses", _create_response),
        ("POST", "/v1/responses/input_tokens", conversation_routes.count_input_tokens),
        ("GET", "/v1/responses/{id}", _retrieve_response),
        ("DELETE", "/v1/responses/{id}", conversation_routes.delete_response),
        ("POST", "/v1/responses/{id}/cancel", _cancel_response),
        ("GET", "/v1/responses/{id}/input_items", conversation_routes.list_input_items),
        ("POST", "/v1/conversations", conversation_routes.create_conversation),
        ("GET", "/v1/conversations/{id}", conversation_routes.retrieve_conversation),
        ("POST", "/v1/conversations/{id}", conversation_routes.update_conversation),
        ("DELETE", "/v1/conversations/{id}", conversation_routes.delete_conversation),
        ("GET", "/v1/conversations/{id}/items", conversation_routes.list_conversation_items),
        ("POST", "/v1/conversations/{id}/items", conversation_routes.create_conversation_items),
        ("GET", "/v1/conversations/{id}/items/{item}", conversation_routes.retrieve_conversation_item),
        ("DELETE", "/v1/conversations/{id}/items/{item}", conversation_routes.delete_conversation_item),
        ("POST", "/v1/chat/completions", _create_chat_completion),
    ]
    return [make_route(method, path, update_wrapper(partial(handler, registry), handler)) for method, path, handler in paths]


# -- models ------------------------------------------------------------------------------------------------------------


async def _list_models(registry: SessionRegistry, request: Request) -> ASGIApp:
    """List the workflows as models."""
    return json_response({"object": "list", "data": [_make_model_object(name) for name in registry.workflows]})


async def _get_model(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Retrieve one workflow as a model."""
    return json_response(_make_model_object(find_workflow(registry, read_path_part(request, "name")).name))


def _make_model_object(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "legato"}


# -- responses ---------------------------------------------------------------------------------------------------------


async def _create_response(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Create a response to a message or to answers of pending requests."""
    body, parsed = await parse_responses_request(request)
    if body.stream:
        count_stream(request.scope)
    turn = await start_turn(registry, parsed)
    builder = ResponseBuilder(turn, body, parsed.ignored_fields)
    if body.stream:
        return _stream(registry, turn, builder.stream())
    if body.background:
        return json_response(await builder.build(), headers=_session_header(turn))
    return _respond_when_idle(registry, turn, builder.build)


async def _retrieve_response(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Retrieve a response, whole or streamed again."""
    turn = await find_turn_or_404(registry, read_path_part(request, "id"))
    builder = ResponseBuilder(turn)
    query = request.query_params
    if query.get("stream", "false") != "true":
        return json_response(await builder.build(), headers=_session_header(turn))
    if "starting_after" in query:
        raise InvalidRequest(
            "starting_after", "text deltas are not numbered the same way twice", do="stream the response from its beginning"
        )
    return _stream(registry, turn, builder.stream())


async def _cancel_response(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Cancel the work in the conversation of a response."""
    turn = await find_turn_or_404(registry, read_path_part(request, "id"))
    await turn.session.cancel("cancelled by a client")
    turn = await find_turn_or_404(registry, read_path_part(request, "id"))
    return json_response(await ResponseBuilder(turn).build(), headers=_session_header(turn))


# -- chat --------------------------------------------------------------------------------------------------------------


async def _create_chat_completion(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Create a chat completion."""
    body, parsed = await parse_chat_request(request)
    if body.stream:
        count_stream(request.scope)
    turn = await start_turn(registry, parsed)
    builder = ChatCompletionBuilder(turn, parsed.ignored_fields)
    if body.stream:
        lines = builder.stream(bool(body.stream_options and body.stream_options.include_usage))
        return _stream(registry, turn, lines, has_sequence_numbers=False)
    return _respond_when_idle(registry, turn, builder.build)


# -- shared ------------------------------------------------------------------------------------------------------------


def _session_header(turn: ResponseTurn) -> dict[str, str]:
    """Return a header with the session id. Ids that headers cannot contain are only in the body."""
    id = turn.session.id
    return {"legato-session": id} if id.isascii() and id.isprintable() and id == id.strip() else {}


def _respond_when_idle(registry: SessionRegistry, turn: ResponseTurn, build: Callable[[], Awaitable[dict[str, Any]]]) -> ASGIApp:
    """Return a response that is built once the session is idle."""

    async def make_response() -> ASGIApp:
        try:
            code, error = turn.find_failure(await turn.wait_until_idle())
            if error:
                return openai_error_response(_make_failure(code, error, turn))
            return json_response(await build(), headers=_session_header(turn))
        except Exception as error:
            return openai_error_response(error)

    return DeferredResponse(make_response, registry.closing)


def _stream(
    registry: SessionRegistry, turn: ResponseTurn, lines: AsyncGenerator[bytes, None], *, has_sequence_numbers: bool = True
) -> ASGIApp:
    return EventStreamResponse(_with_error_event(lines, has_sequence_numbers), registry.closing, _session_header(turn))


async def _with_error_event(lines: AsyncGenerator[bytes, None], has_sequence_numbers: bool) -> AsyncGenerator[bytes, None]:
    """Yield the lines, and an error event if producing them fails. `has_sequence_numbers`: every event has its number."""
    number = 0
    try:
        async with aclosing(lines):
            async for line in lines:
                yield line
                number += 1
    except Exception as error:
        fields = msgspec.json.decode(openai_error_response(error).body)["error"]
        yield encode_error_event(fields, **({"type": "error", "sequence_number": number} if has_sequence_numbers else {}))


def _make_failure(code: str, error: str, turn: ResponseTurn) -> RequestRefused:
    again = "; send it again with the same Idempotency-Key to retry" if code == "model_failed" else ""
    return RequestRefused(502, code, error, do=f"the input is kept in session {turn.session.id!r}{again}")
