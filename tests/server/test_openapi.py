"""/api/openapi.json is valid and correct. `checked_client.py` validates the responses of all other tests against it."""

from __future__ import annotations

import base64
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from legato.server.app import ENDPOINTS
from tests.inspection.support_desk import build_refund_desk
from tests.server.checked_client import CheckedClient
from tests.server.conftest import Serve


def request_everything(api: CheckedClient) -> None:
    """Request every endpoint, in one conversation."""
    api.get("/api")
    api.get("/api/openapi.json")
    picture = {"part": "image", "base64": base64.b64encode(b"...").decode()}
    api.post("/api/sessions", {"id": "s", "message": [{"part": "text", "text": "Money back!"}, picture]}, 201)
    api.wait_for_status("s", "pending")
    [request] = api.get("/api/sessions/s/pending")["pending"]
    api.get("/api/inbox")
    api.get("/api/sessions?search=money&status=pending")
    api.post("/api/sessions/s/answers", {"request": request["id"], "digest": request["digest"], "verdict": "approve"})
    api.wait_for_status("s", "waiting")
    api.post("/api/sessions/s/messages", {"message": "Thanks"}, 202)
    api.wait_for_status("s", "waiting")
    facts = api.get("/api/sessions/s/facts")["facts"]
    api.request("GET", f"/api/sessions/s/contents/{facts[1]['content'][1]['digest']}")
    api.get("/api/sessions/s/course")
    api.get("/api/sessions/s/usage")
    for each in api.get("/api/sessions/s/calls")["calls"]:
        api.get(f"/api/sessions/s/calls/{each['n']}")
    api.post("/api/sessions/s/fork", {"at": 2, "id": "t"}, 201)
    api.post("/api/sessions/s/resume", {}, 202)
    api.post("/api/sessions/s/cancel", {})
    api.request("GET", "/api/sessions/s/export")
    api.request("DELETE", "/api/sessions/s")


def test_description_is_valid_openapi(serve_workflows: Serve) -> None:
    document = serve_workflows(build_refund_desk()).description
    OpenAPIV31SpecValidator(document).validate()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"] for each in operations)
    of_openai = [each["summary"] for path, ways in document["paths"].items() for each in ways.values() if path.startswith("/v1/")]
    assert len({*of_openai}) == len(of_openai)


def test_every_operation_responds_as_described(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    request_everything(api)
    good = {name for name, status in api.answered_operations if status < 300}
    assert good == {each.handler.__name__ for each in ENDPOINTS} | {"openapi"}


def test_request_bodies_have_exactly_described_fields(serve_workflows: Serve) -> None:
    api = serve_workflows(build_refund_desk())
    api.post("/api/sessions", {"id": "s"}, 201)
    for path, operations in api.description["paths"].items():
        body: Any = operations.get("post", {}).get("requestBody")
        if body is None or not path.startswith("/api"):
            continue
        schema = api.description["components"]["schemas"][body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        assert schema["additionalProperties"] is False
        refused = api.request("POST", path.replace("{id}", "s"), {"surprise": 1})
        assert (refused.status, refused.error) == (400, "bad_input")
        for field in schema.get("required", ()):
            assert field in api.request("POST", path.replace("{id}", "s"), {}).json["error"]["message"]
            break


@pytest.mark.parametrize("spoil", [lambda row: row["properties"].pop("agent"), lambda row: row["required"].append("colour")])
def test_checked_client_detects_seeded_differences(serve_workflows: Serve, spoil: Any) -> None:
    """A field that is missing from the response or from the description."""
    api = serve_workflows(build_refund_desk())
    api.post("/api/sessions", {"id": "s"}, 201)
    spoil(api.strict_components["schemas"]["SessionSummary"])
    with pytest.raises(jsonschema.ValidationError):
        api.get("/api/sessions")
