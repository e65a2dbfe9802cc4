"""The OpenAPI description, generated from the endpoint definitions and msgspec's schemas."""

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

from legato.server.api.endpoints import Endpoint, NoFields

SCHEMA_REFERENCE = "#/components/schemas/{name}"
_PATH_PARAMETER_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 400}
COMMON_REFUSALS = (400, 401, 403, 414, 421, 429, 431, 500, 503)
"""The statuses with which any request may be refused."""


class ErrorDetails(Struct, frozen=True, omit_defaults=True):
    """An error: `code` for programs, the texts for people. Empty texts are left out."""

    code: str
    message: str
    expected: str = ""
    found: str = ""
    do: str = ""


class ErrorResponse(Struct, frozen=True):
    """The response to a refused request."""

    error: ErrorDetails


def describe_api(endpoints: Sequence[Endpoint], foreign_routes: Iterable[Route] = ()) -> dict[str, Any]:
    """Return an OpenAPI 3.1 description of these endpoints, and of routes that belong to other protocols."""
    schema_of, components = _collect_schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe_operation(each, schema_of, components)
    for route in foreign_routes:
        for method in sorted((route.methods or {"POST"}) - {"HEAD"}):
            paths.setdefault(route.path, {})[method.lower()] = _describe_foreign_route(route, method)
    for each in endpoints:
        if each.query is not NoFields:
            components.pop(schema_of[each.query]["$ref"].rpartition("/")[2], None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Legato",
            "version": version("legato"),
            "description": "Conversations of workflows: sessions, messages, pending requests and their answers, and what models saw. "
            "Ids in paths are percent-encoded. Times are milliseconds since the epoch.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                "Refused": _describe_response(
                    "The request was refused, for the reason in the body.", ["application/json"], schema_of[ErrorResponse]
                )
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The token of `legato serve`."}},
        },
    }


def _collect_schemas(endpoints: Sequence[Endpoint]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the schema of each request and response type, and the components that the schemas refer to."""
    bodies = [each.body for each in endpoints if each.body is not None and each.body is not NoFields]
    queries = [each.query for each in endpoints if each.query is not NoFields]
    responses = [each.response_type for each in endpoints if each.response_type is not None]
    types = [*bodies, *queries, *responses, ErrorResponse]
    schemas, components = msgspec.json.schema_components(types, ref_template=SCHEMA_REFERENCE)
    schema_of = dict(zip(types, schemas, strict=True))
    input_names = {name for each in (*bodies, *queries) for name in _referenced_components(schema_of[each], components)}
    for name, schema in components.items():
        if name not in input_names and name != ErrorDetails.__name__ and "properties" in schema:
            schema["required"] = list(schema["properties"])  # responses have all fields
    return schema_of, components


def _describe_operation(endpoint: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    description = inspect.getdoc(endpoint.handler) or ""
    operation: dict[str, Any] = {"operationId": endpoint.handler.__name__, "summary": endpoint.summary, "description": description}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PATH_PARAMETER_SCHEMA} for name in _path_parameter_names(endpoint.path)
    ]
    if endpoint.query is not NoFields:
        parameters += _query_parameters(components[schema_of[endpoint.query]["$ref"].rpartition("/")[2]])
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None and endpoint.body is not NoFields:
        schema = schema_of[endpoint.body]
        is_required = bool(components[schema["$ref"].rpartition("/")[2]].get("required"))
        operation["requestBody"] = {"required": is_required, "content": {"application/json": {"schema": schema}}}
    response_schema = schema_of[endpoint.response_type] if endpoint.response_type is not None else endpoint.response_schema
    responses = {str(endpoint.status): _describe_response(HTTPStatus(endpoint.status).phrase, endpoint.media_types, response_schema)}
    for status in endpoint.other_statuses:
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
    for status in sorted({*COMMON_REFUSALS, *_other_refusals(endpoint)}):
        responses[str(status)] = {"$ref": "#/components/responses/Refused"}
    operation["responses"] = responses
    return operation


def _other_refusals(endpoint: Endpoint) -> set[int]:
    """Return the statuses with which this endpoint in particular may be refused."""
    not_found = {404} if "{" in endpoint.path else set()
    with_body = {408, 409, 413} if endpoint.body is not None else set()
    return not_found | with_body


def _query_parameters(query: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in query["properties"].items()]


def _path_parameter_names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _describe_response(description: str, media_types: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema} for kind in media_types}}


def _describe_foreign_route(route: Route, method: str) -> dict[str, Any]:
    """Describe a route of another protocol: its path and method; the protocol's own documentation has the rest."""
    description = (inspect.getdoc(route.endpoint) or route.name).strip()
    operation: dict[str, Any] = {"operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path.lower()).strip('_')}"}
    operation |= {
        "summary": description.partition("\n")[0],
        "responses": {"default": {"description": "See the documentation of the protocol."}},
    }
    if names := _path_parameter_names(route.path):
        operation["parameters"] = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if method in ("POST", "PUT", "PATCH"):
        operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    return operation


def _referenced_components(schema: Any, components: dict[str, Any]) -> set[str]:
    """Return the names of the components that a schema refers to, also indirectly."""
    names: set[str] = set()
    remaining = [schema]
    while remaining:
        match remaining.pop():
            case {"$ref": str(reference)}:
                name = reference.rpartition("/")[2]
                if name not in names:
                    names.add(name)
                    remaining.append(components[name])
            case dict() as parts:
                remaining += parts.values()
            case list() as items:
                remaining += items
    return names
