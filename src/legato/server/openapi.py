"""The API as OpenAPI describes it. May know: the table of endpoints, msgspec's schemas. Decides: nothing that the table has not decided."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct
from starlette.routing import Route

from legato.server.api.table import Endpoint, Nothing

REFERENCE = "#/components/schemas/{name}"
_PLACE = {"type": "string", "minLength": 1, "maxLength": 400}
ALWAYS = (400, 401, 403, 414, 421, 429, 431, 500, 503)
"""How any request may be refused."""


class ErrorShape(Struct, frozen=True, omit_defaults=True):
    """What went wrong: `code` for programs, the rest for people. What there is nothing to say about is left out."""

    code: str
    message: str
    expected: str = ""
    found: str = ""
    do: str = ""


class ErrorAnswer(Struct, frozen=True):
    """The answer to a request that was refused."""

    error: ErrorShape


def document(endpoints: Sequence[Endpoint], others: Iterable[Route] = ()) -> dict[str, Any]:
    """OpenAPI 3.1 of these endpoints, and of what others serve beside them by the rules of their own protocols."""
    schema_of, components = _schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema_of, components)
    for other in others:
        for method in sorted((other.methods or {"POST"}) - {"HEAD"}):
            paths.setdefault(other.path, {})[method.lower()] = _foreign(other, method)
    for each in endpoints:
        if each.query is not Nothing:
            components.pop(schema_of[each.query]["$ref"].rpartition("/")[2], None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Legato",
            "version": version("legato"),
            "description": "Conversations of workflows: sessions, messages, questions and their answers, and what each agent saw. "
            "Ids in paths are percent-encoded. Times are milliseconds since the epoch.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Refused": _answer("It was refused, and says why.", ["application/json"], schema_of[ErrorAnswer])},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The token of `legato serve`."}},
        },
    }


def _schemas(endpoints: Sequence[Endpoint]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schema of each type that goes in and out, and the components that they name."""
    given = [each.body for each in endpoints if each.body is not None and each.body is not Nothing]
    queries = [each.query for each in endpoints if each.query is not Nothing]
    gives = [each.gives for each in endpoints if each.gives is not None]
    kinds = [*given, *queries, *gives, ErrorAnswer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    schema_of = dict(zip(kinds, schemas, strict=True))
    sent = {name for kind in (*given, *queries) for name in _named(schema_of[kind], components)}
    for name, schema in components.items():
        if name not in sent and name != "ErrorShape" and "properties" in schema:
            schema["required"] = list(schema["properties"])  # what comes out has all its fields
    return schema_of, components


def _operation(endpoint: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    told = inspect.getdoc(endpoint.does) or ""
    operation: dict[str, Any] = {"operationId": endpoint.does.__name__, "summary": endpoint.tells, "description": told}
    parameters = [{"name": name, "in": "path", "required": True, "schema": _PLACE} for name in _places(endpoint.path)]
    if endpoint.query is not Nothing:
        parameters += _parameters(components[schema_of[endpoint.query]["$ref"].rpartition("/")[2]])
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None and endpoint.body is not Nothing:
        schema = schema_of[endpoint.body]
        needed = bool(components[schema["$ref"].rpartition("/")[2]].get("required"))
        operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
    shape = schema_of[endpoint.gives] if endpoint.gives is not None else endpoint.shape
    answers = {str(endpoint.status): _answer(HTTPStatus(endpoint.status).phrase, endpoint.as_type, shape)}
    for status in endpoint.also:
        answers[str(status)] = {"description": HTTPStatus(status).phrase}
    for status in sorted({*ALWAYS, *_refusals(endpoint)}):
        answers[str(status)] = {"$ref": "#/components/responses/Refused"}
    operation["responses"] = answers
    return operation


def _refusals(endpoint: Endpoint) -> set[int]:
    """How else this one may be refused."""
    about_one = {404} if "{" in endpoint.path else set()
    changes = {408, 409, 413} if endpoint.body is not None else set()
    return about_one | changes


def _parameters(query: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in query["properties"].items()]


def _places(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _answer(told: str, kinds: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": told, "content": {kind: {"schema": schema} for kind in kinds}}


def _foreign(route: Route, method: str) -> dict[str, Any]:
    """What is described elsewhere: that it is there, and how it is reached."""
    told = (inspect.getdoc(route.endpoint) or route.name).strip()
    operation: dict[str, Any] = {"operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).strip('_')}"}
    operation |= {"summary": told.partition("\n")[0], "responses": {"default": {"description": "As its own protocol has it."}}}
    if places := _places(route.path):
        operation["parameters"] = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in places]
    if method in ("POST", "PUT", "PATCH"):
        operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return operation


def _named(schema: Any, components: dict[str, Any]) -> set[str]:
    """The components that a schema leads to."""
    found: set[str] = set()
    left = [schema]
    while left:
        match left.pop():
            case {"$ref": str(reference)}:
                name = reference.rpartition("/")[2]
                if name not in found:
                    found.add(name)
                    left.append(components[name])
            case dict() as parts:
                left += parts.values()
            case list() as several:
                left += several
    return found
