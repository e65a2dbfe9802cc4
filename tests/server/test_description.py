"""/api/openapi.json: valid, and true. Every answer that any test of the API gets is held against it (`described.py`)."""

from __future__ import annotations

import base64
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from legato.server.app import ENDPOINTS
from tests.inspection.desk import refunding
from tests.server.conftest import Serve
from tests.server.described import Described


def everything_asked(api: Described) -> None:
    """One conversation that asks for all there is."""
    api.get("/api")
    api.get("/api/openapi.json")
    picture = {"part": "image", "base64": base64.b64encode(b"...").decode()}
    api.post("/api/sessions", {"id": "s", "message": [{"part": "text", "text": "Money back!"}, picture]}, 201)
    api.until("s", "pending")
    [request] = api.get("/api/sessions/s/pending")["pending"]
    api.get("/api/inbox")
    api.get("/api/sessions?search=money&status=pending")
    api.post("/api/sessions/s/answers", {"request": request["id"], "digest": request["digest"], "verdict": "approve"})
    api.until("s", "waiting")
    api.post("/api/sessions/s/messages", {"message": "Thanks"}, 202)
    api.until("s", "waiting")
    facts = api.get("/api/sessions/s/facts")["facts"]
    api.ask("GET", f"/api/sessions/s/contents/{facts[1]['content'][1]['digest']}")
    api.get("/api/sessions/s/course")
    api.get("/api/sessions/s/usage")
    for each in api.get("/api/sessions/s/calls")["calls"]:
        api.get(f"/api/sessions/s/calls/{each['n']}")
    api.post("/api/sessions/s/fork", {"at": 2, "id": "t"}, 201)
    api.post("/api/sessions/s/resume", {}, 202)
    api.post("/api/sessions/s/cancel", {})
    api.ask("GET", "/api/sessions/s/export")
    api.ask("DELETE", "/api/sessions/s")


def test_it_is_valid_openapi(served: Serve) -> None:
    document = served(refunding()).document
    OpenAPIV31SpecValidator(document).validate()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"] for each in operations)
    of_openai = [each["summary"] for path, ways in document["paths"].items() for each in ways.values() if path.startswith("/v1/")]
    assert len({*of_openai}) == len(of_openai)


def test_every_operation_answers_as_it_is_described(served: Serve) -> None:
    api = served(refunding())
    everything_asked(api)
    good = {name for name, status in api.asked if status < 300}
    assert good == {each.does.__name__ for each in ENDPOINTS} | {"openapi"}


def test_what_is_sent_has_the_fields_that_are_described_and_no_others(served: Serve) -> None:
    api = served(refunding())
    api.post("/api/sessions", {"id": "s"}, 201)
    for path, operations in api.document["paths"].items():
        body: Any = operations.get("post", {}).get("requestBody")
        if body is None or not path.startswith("/api"):
            continue
        schema = api.document["components"]["schemas"][body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        assert schema["additionalProperties"] is False
        refused = api.ask("POST", path.replace("{id}", "s"), {"surprise": 1})
        assert (refused.status, refused.error) == (400, "bad_input")
        for field in schema.get("required", ()):
            assert field in api.ask("POST", path.replace("{id}", "s"), {}).json["error"]["message"]
            break


@pytest.mark.parametrize("spoil", [lambda row: row["properties"].pop("agent"), lambda row: row["required"].append("colour")])
def test_whoever_holds_answers_against_the_description_sees_what_is_missing_from_either(served: Serve, spoil: Any) -> None:
    api = served(refunding())
    api.post("/api/sessions", {"id": "s"}, 201)
    spoil(api.strict["schemas"]["Row"])
    with pytest.raises(jsonschema.ValidationError):
        api.get("/api/sessions")
