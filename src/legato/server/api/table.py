"""What an endpoint is. May know: HTTP requests, msgspec. Decides: how a request is read before an endpoint sees it.

One table has them all. What is read and answered by it, and what describes it (`openapi.py`), cannot differ.
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
from legato.server.answering import answer
from legato.server.error_shapes import error_for_path
from legato.server.serving import Serving

DEEPEST = 64
"""How deep JSON may be nested. Nobody's arguments are; what is deeper is made to hurt whoever reads it."""


PIECE = 64 * 1024
"""Bytes that are read at once; of a body that has more, others need not wait for the end."""

_AS_ONE_KIND, _OTHERS = bytes.maketrans(b"{}", b"[]"), bytes({*range(256)} - {*b'[]{}"'})
_STEPS = {ord("["): 1, ord("]"): -1}


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A body or a query without anything in it."""


Q = TypeVar("Q", bound=Struct)
B = TypeVar("B", bound=Struct)
T = TypeVar("T")


@dataclass(frozen=True)
class Asked(Generic[Q, B]):
    """A request as an endpoint sees it: read, and as it should be."""

    serving: Serving
    path: Mapping[str, str]
    query: Q
    body: B
    request: Request

    @property
    def id(self) -> str:
        """The session that it is about."""
        return self.path["id"]


@dataclass(frozen=True)
class Endpoint:
    """One line of the table. `gives` is the type of the answer; None if it is no JSON of ours: then `as_type` and `shape` (a JSON schema)
    say what it is. `also`: other statuses of an answer that has nothing in it."""

    method: str
    path: str
    does: Callable[[Asked[Any, Any]], Awaitable[Any]]
    tells: str
    query: type[Struct] = Nothing
    body: type[Struct] | None = None
    gives: Any = None
    status: int = 200
    as_type: tuple[str, ...] = ("application/json",)
    shape: Mapping[str, Any] = field(default_factory=lambda: {"type": "string", "format": "binary"})
    also: tuple[int, ...] = ()


def route(endpoint: Endpoint, serving: Serving) -> Route:
    """The endpoint where requests reach it."""

    async def answer_request(request: Request) -> Response | ASGIApp:
        asked = Asked(serving, _path(request), _query(request, endpoint.query), await _body(request, endpoint.body), request)
        given = await endpoint.does(asked)
        return answer(given, endpoint.status) if isinstance(given, (Struct, dict)) else given

    return route_to(endpoint.method, endpoint.path, answer_request, endpoint.does.__name__)


def route_to(method: str, path: str, answer_request: Callable[[Request], Awaitable[ASGIApp]], name: str | None = None) -> Route:
    """A path that is asked in one way. Errors are answered in the shape that its clients know."""

    async def answered(request: Request) -> ASGIApp:
        try:
            return await answer_request(request)
        except Exception as error:  # what is raised out of here, Starlette answers itself
            return error_for_path(error, request.scope["path"])

    answered.__doc__ = answer_request.__doc__  # what the description of the API says of the route
    made = Route(path, answered, methods=[method], name=name)
    made.methods = {method}  # Starlette adds HEAD, to which a stream has no answer
    return made


def _path(request: Request) -> dict[str, str]:
    try:
        return {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
    except UnicodeDecodeError:
        raise BadInput("the path is not UTF-8", do="percent-encode what you put into it") from None


def _query(request: Request, kind: type[Struct]) -> Struct:
    try:
        pairs = parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise BadInput("the query cannot be read", do="percent-encode what you put into it") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise BadInput("a parameter is given more than once")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"a parameter is wrong: {error}", expected=", ".join(kind.__struct_encode_fields__) or "no parameters") from None


async def _body(request: Request, kind: type[Struct] | None) -> Struct:
    if kind is None:
        return Nothing()
    try:
        return await read_body(request, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"the body is wrong: {error}", expected=", ".join(kind.__struct_encode_fields__)) from None


async def read_body(request: Request, kind: type[T]) -> T:
    """What was sent, as this shape; `ValidationError` if it has another one."""
    body = await request.body()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and media_type != "application/json":
        raise BadInput("a body is JSON", expected="content-type: application/json", found=media_type[:80] or "no content-type")
    try:
        return await asyncio.to_thread(_decoded, body, kind) if len(body) > PIECE else _decoded(body, kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the body is no JSON: {error}"[:300]) from None


def _decoded(body: bytes, kind: type[T]) -> T:
    _check_depth(body)
    return msgspec.json.decode(body or b"{}", type=kind)


def _check_depth(body: bytes) -> None:
    """`RecursionError` if it is nested too deep. Brackets within strings do not count; what is no JSON is told by the decoder.

    It goes by pieces, so that no step of it takes long: other threads get their turn in between.
    """
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    depth = at = within = 0  # `within`: whether a piece begins in a string
    while at < len(body):
        piece = body[at : at + PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # whatever follows its last backslash belongs to that
            piece = body[at : at + PIECE + 1]
        at += len(piece)
        between_quotes = piece.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_AS_ONE_KIND, _OTHERS).split(b'"')
        brackets = b"".join(between_quotes[within::2])
        within = (within + len(between_quotes) - 1) % 2
        if depth + max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST:
            raise RecursionError(f"nested deeper than {DEEPEST}")
        depth += sum(map(_STEPS.__getitem__, brackets))
