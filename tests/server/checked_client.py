"""A client that validates every response against the server's own OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jsonschema

from legato.server import Server
from tests.server.api_client import ApiClient, ApiResponse


class CheckedClient(ApiClient):
    """A client that fails if a response is not as described. `answered_operations`: operation ids with the statuses of responses."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.server = server
        self.answered_operations: set[tuple[str, int]] = set()
        answer = super().request("GET", "/api/openapi.json")
        self.description = answer.json
        self.strict_components = _forbid_extra_fields(self.description)
        self._paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), each) for path, each in self.description["paths"].items()]

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ApiResponse:
        answer = super().request(method, path, body, headers)
        self.check_response(method, path, answer.status, answer)
        return answer

    @contextmanager
    def open_events(self, id: str, after: str = "", last: str = "") -> Iterator[Iterator[dict[str, str]]]:
        with super().open_events(id, after, last) as events:
            self.answered_operations.add(("stream_events", 200))
            yield events

    def check_response(self, method: str, path: str, status: int, answer: ApiResponse) -> None:
        operations = [each for pattern, each in self._paths if pattern.fullmatch(path.partition("?")[0])]
        operation = next((each[method.lower()] for each in operations if method.lower() in each), None)
        if operation is None:  # nothing is described, so nothing may be there
            assert status in (404, 405) or not path.startswith("/api"), f"{method} {path} is answered with {status} and not described"
            return
        if "default" in operation["responses"]:  # another protocol's route
            return
        assert str(status) in operation["responses"], f"{method} {path} is answered with {status}, which is not described"
        self.answered_operations.add((operation["operationId"], status))
        described = operation["responses"][str(status)]
        if "$ref" in described:
            described = self.description["components"]["responses"][described["$ref"].rpartition("/")[2]]
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert kind in described.get("content", {"": None}), f"{method} {path} is answered with {kind}, which is not described"
        if kind == "application/json":
            schema = {**described["content"]["application/json"]["schema"], "components": self.strict_components}
            jsonschema.Draft202012Validator(schema).validate(answer.json)


def _forbid_extra_fields(document: Any) -> Any:
    """Return the components with additional properties forbidden."""

    def forbid(schema: Any) -> Any:
        if isinstance(schema, dict):
            strict = {name: forbid(each) for name, each in schema.items()}
            return {**strict, "additionalProperties": False} if "properties" in schema and "type" in schema else strict
        return [forbid(each) for each in schema] if isinstance(schema, list) else schema

    return {"schemas": forbid(document["components"]["schemas"])}
