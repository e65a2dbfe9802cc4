"""A client that holds every answer against the server's own description: what it does not describe, or describes otherwise, fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jsonschema

from legato.server import Server
from tests.server.asking import Answer, Client


class Described(Client):
    """`asked` has every operation that was asked, with the status of its answer."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.server = server
        self.asked: set[tuple[str, int]] = set()
        answer = super().ask("GET", "/api/openapi.json")
        self.document = answer.json
        self.strict = _strict(self.document)
        self._paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), each) for path, each in self.document["paths"].items()]

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        answer = super().ask(method, path, body, headers)
        self.check(method, path, answer.status, answer)
        return answer

    @contextmanager
    def events(self, id: str, after: str = "", last: str = "") -> Iterator[Iterator[dict[str, str]]]:
        with super().events(id, after, last) as events:
            self.asked.add(("events", 200))
            yield events

    def check(self, method: str, path: str, status: int, answer: Answer) -> None:
        operations = [each for pattern, each in self._paths if pattern.fullmatch(path.partition("?")[0])]
        operation = next((each[method.lower()] for each in operations if method.lower() in each), None)
        if operation is None:  # it is not described, so nothing may be there
            assert status in (404, 405) or not path.startswith("/api"), f"{method} {path} is answered with {status} and not described"
            return
        if "default" in operation["responses"]:  # it is described elsewhere, by those whose protocol it is
            return
        assert str(status) in operation["responses"], f"{method} {path} is answered with {status}, which is not described"
        self.asked.add((operation["operationId"], status))
        described = operation["responses"][str(status)]
        if "$ref" in described:
            described = self.document["components"]["responses"][described["$ref"].rpartition("/")[2]]
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert kind in described.get("content", {"": None}), f"{method} {path} is answered with {kind}, which is not described"
        if kind == "application/json":
            schema = {**described["content"]["application/json"]["schema"], "components": self.strict}
            jsonschema.Draft202012Validator(schema).validate(answer.json)


def _strict(document: Any) -> Any:
    """The components, with nothing allowed that they do not name."""

    def tightened(schema: Any) -> Any:
        if isinstance(schema, dict):
            tight = {name: tightened(each) for name, each in schema.items()}
            return {**tight, "additionalProperties": False} if "properties" in schema and "type" in schema else tight
        return [tightened(each) for each in schema] if isinstance(schema, list) else schema

    return {"schemas": tightened(document["components"]["schemas"])}
