"""Endpoint definitions of the HTTP API, and the decoding of requests.

Routing, decoding and the OpenAPI description (`openapi.py`) use the same definitions, so they cannot differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from legato.errors import BadInput
from legato.server.error_formats import error_response_for_path
from legato.server.http_errors import json_response
from legato.server.session_registry import SessionRegistry

MAX_JSON_DEPTH = 64
"""How deep a JSON body may be nested. Real arguments are not; deeper JSON is an attack on the decoder."""


CHUNK_BYTES = 64 * 1024
"""Bytes that are checked in one step. Larger bodies are decoded in a thread, so that they do not block the event loop."""

_BRACES_AS_BRACKETS, _OTHER_BYTES = bytes.maketrans(b"{}", b"[]"), bytes({*range(256)} - {*b'[]{}"'})
_DEPTH_CHANGES = {ord("["): 1, ord("]"): -1}


class NoFields(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty body or query."""


Q = TypeVar("Q", bound=Struct)
B = TypeVar("B", bound=Struct)
T = TypeVar("T")


@dataclass(frozen=True)
class ApiRequest(Generic[Q, B]):
    """A decoded and validated request, as handlers get it."""

    registry: SessionRegistry
    path_parameters: Mapping[str, str]
    query: Q
    body: B
    http_request: Request

    @property
    def session_id(self) -> str:
        """The session id in the path."""
        return self.path_parameters["id"]


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of the API.

    `response_type` is the type of a JSON response. If it is None, `media_types` and `response_schema` (a JSON schema) describe the
    response. `other_statuses` are successful statuses without a body.
    """

    method: str
    path: str
    handler: Callable[[ApiRequest[Any, Any]], Awaitable[Any]]
    summary: str
    query: type[Struct] = NoFields
    body: type[Struct] | None = None
    response_type: Any = None
    status: int = 200
    media_types: tuple[str, ...] = ("application/json",)
    response_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string", "format": "binary"})
    other_statuses: tuple[int, ...] = ()


def make_endpoint_route(endpoint: Endpoint, registry: SessionRegistry) -> Route:
    """Return the route that decodes requests and calls the endpoint's handler."""

    async def call_handler(request: Request) -> Response | ASGIApp:
        path, query = _read_path(request), _read_query(request, endpoint.query)
        body = await _read_body(request, endpoint.body)
        result = await endpoint.handler(ApiRequest(registry, path, query, body, request))
        return json_response(result, endpoint.status) if isinstance(result, (Struct, dict)) else result

    return make_route(endpoint.method, endpoint.path, call_handler, endpoint.handler.__name__)


def make_route(method: str, path: str, handler: Callable[[Request], Awaitable[ASGIApp]], name: str | None = None) -> Route:
    """Return a route for one method. Errors become responses in the format that clients of this path expect."""

    async def handle_errors(request: Request) -> ASGIApp:
        try:
            return await handler(request)
        except Exception as error:  # Starlette would answer an exception in a format of its own
            return error_response_for_path(error, request.scope["path"])

    handle_errors.__doc__ = handler.__doc__  # for the OpenAPI description
    route = Route(path, handle_errors, methods=[method], name=name)
    route.methods = {method}  # Starlette adds HEAD, which streams cannot answer
    return route


def _read_path(request: Request) -> dict[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
    except UnicodeDecodeError:
        raise BadInput("the path is not UTF-8", do="percent-encode the ids in it") from None


def _read_query(request: Request, kind: type[Struct]) -> Struct:
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise BadInput("the query cannot be decoded", do="percent-encode the values in it") from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise BadInput("a query parameter is given more than once")
    try:
        return msgspec.convert(parameters, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"a query parameter is invalid: {error}", expected=", ".join(kind.__struct_encode_fields__) or "no parameters"
        ) from None


async def _read_body(request: Request, kind: type[Struct] | None) -> Struct:
    if kind is None:
        return NoFields()
    try:
        return await read_json_body(request, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"the body is invalid: {error}", expected=", ".join(kind.__struct_encode_fields__)) from None


async def read_json_body(request: Request, kind: type[T]) -> T:
    """Decode a JSON body as this type. Raises `msgspec.ValidationError` if it does not fit."""
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise BadInput("the body must be JSON", expected="content-type: application/json", found=media_type[:80] or "no content-type")
    try:
        return await asyncio.to_thread(_decode_json, body, kind) if len(body) > CHUNK_BYTES else _decode_json(body, kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the body is not JSON: {error}"[:300]) from None


def _decode_json(body: bytes, kind: type[T]) -> T:
    _check_depth(body)
    return msgspec.json.decode(body or b"{}", type=kind)


def _check_depth(body: bytes) -> None:
    """Raise `RecursionError` if the JSON is nested too deep. Brackets in strings do not count; the decoder finds other mistakes.

    The body is checked in chunks, so that no step holds the interpreter lock for long.
    """
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return
    depth = at = in_string = 0
    while at < len(body):
        chunk = body[at : at + CHUNK_BYTES]
        if (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:  # the chunk ends within an escape sequence
            chunk = body[at : at + CHUNK_BYTES + 1]
        at += len(chunk)
        between_quotes = chunk.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACES_AS_BRACKETS, _OTHER_BYTES).split(b'"')
        brackets = b"".join(between_quotes[in_string::2])
        in_string = (in_string + len(between_quotes) - 1) % 2
        if depth + max(accumulate(map(_DEPTH_CHANGES.__getitem__, brackets)), default=0) > MAX_JSON_DEPTH:
            raise RecursionError(f"nested deeper than {MAX_JSON_DEPTH}")
        depth += sum(map(_DEPTH_CHANGES.__getitem__, brackets))
