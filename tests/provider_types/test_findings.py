"""Seeded bugs in answers are found: members that are missing or unknown, and values of another type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from legato.emulator import serve
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.emulator.conftest import fetch
from tests.provider_types import answer_recorder
from tests.provider_types.answer_types import SentAnswer, find_type_errors
from tests.provider_types.known_differences import KNOWN_DIFFERENCES, is_known
from tests.provider_types.openapi_types import OpenAPIDescription

REQUEST_HEADERS = {"authorization": "Bearer sk-test", "x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}
MESSAGES = [{"role": "user", "content": "Hi"}]
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/responses": {"model": "gpt-5.1", "input": "Hi", "tools": [TOOL]},
    "/v1/chat/completions": {"model": "gpt-5.1", "messages": MESSAGES, "tools": [{"type": "function", "function": {"name": "look_up"}}]},
    "/v1/messages": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "messages": MESSAGES,
        "tools": [{"name": "look_up", "input_schema": {"type": "object"}}],
    },
}


@pytest.fixture(scope="module")
def recorded_answers() -> dict[tuple[str, bool], SentAnswer]:
    """An answer of each API with text and a call, whole and streamed, as it was sent."""
    found = {}
    with serve(fake_model=lambda prompt: [ReplyThought("Hm."), ReplyText("One moment."), ReplyCall("look_up", "{}")]) as emulator:
        for path, request in REQUESTS.items():
            for streamed in (False, True):
                answer = fetch("POST", emulator.url + path, json={**request, "stream": streamed}, headers=REQUEST_HEADERS)
                headers = {"content-type": answer.headers["content-type"]}
                found[path, streamed] = SentAnswer("emulator", "POST", path, REQUEST_HEADERS, 200, headers, answer.content, True)
    return found


def list_mutations(value: Any, mutate: Callable[[dict[str, Any]], None]) -> list[Any]:
    """Return copies of a JSON value, each with one of its objects mutated."""
    text = json.dumps(value)
    count = len(list(list_objects(json.loads(text))))
    copies = [json.loads(text) for _ in range(count)]
    for number, copy in enumerate(copies):
        mutate(list(list_objects(copy))[number])
    return copies


def list_objects(value: Any) -> list[dict[str, Any]]:
    """Return all objects in a value that a type describes: not those of arguments and schemas, which may have any members."""
    if isinstance(value, list):
        return [each for one in value for each in list_objects(one)]
    if not isinstance(value, dict):
        return []
    return [value, *(each for name, one in value.items() if name not in ("parameters", "input", "metadata") for each in list_objects(one))]


def find_unknown_differences(sent: SentAnswer) -> list[str]:
    return [str(finding) for finding in find_type_errors(sent) if not is_known(finding.source, str(finding))]


@pytest.mark.parametrize("path", REQUESTS)
def test_an_unknown_member_is_found_in_any_object(recorded_answers: dict[tuple[str, bool], SentAnswer], path: str) -> None:
    sent = recorded_answers[path, False]
    body = json.loads(sent.body)
    body.pop("billing", None)  # its members are not described, so they are not checked
    copies = list_mutations(body, lambda each: each.update(unheard_of=1))
    assert len(copies) > 4
    for copy in copies:
        assert any(
            "unheard_of: unknown to" in finding for finding in find_unknown_differences(sent._replace(body=json.dumps(copy).encode()))
        ), copy


@pytest.mark.parametrize("path", REQUESTS)
def test_a_required_member_that_is_missing_is_found(recorded_answers: dict[tuple[str, bool], SentAnswer], path: str) -> None:
    sent = recorded_answers[path, False]
    for name in ("id", "model", "usage" if path == "/v1/messages" else "object"):
        body = json.loads(sent.body)
        del body[name]
        assert find_unknown_differences(sent._replace(body=json.dumps(body).encode()))


@pytest.mark.parametrize("path", REQUESTS)
def test_a_value_of_another_type_is_found(recorded_answers: dict[tuple[str, bool], SentAnswer], path: str) -> None:
    sent = recorded_answers[path, False]
    for name, wrong in (("id", 7), ("model", None), ("usage", {"input_tokens": "12"}), ("usage", [])):
        body = json.loads(sent.body) | {name: wrong}
        assert find_unknown_differences(sent._replace(body=json.dumps(body).encode())), name


@pytest.mark.parametrize("path", REQUESTS)
def test_bugs_in_events_are_found(recorded_answers: dict[tuple[str, bool], SentAnswer], path: str) -> None:
    sent = recorded_answers[path, True]
    assert find_unknown_differences(sent) == []
    events = sent.body.split(b"\n\n")
    for number, event in enumerate(events):
        if b"data: {" in event and b"ping" not in event:
            broken = event.replace(b"data: {", b'data: {"unheard_of": 1, ', 1)
            assert find_unknown_differences(sent._replace(body=b"\n\n".join([*events[:number], broken, *events[number + 1 :]])))


def test_answer_of_recorded_application_is_checked() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"id": "gpt", "object": "model",', "more_body": True})
        await send({"type": "http.response.body", "body": b' "created": "now", "owned_by": "us"}'})

    async def ask() -> None:
        async def send(message: Any) -> None:
            pass

        scope = {"type": "http", "method": "GET", "path": "/v1/models/gpt", "headers": []}
        await answer_recorder.RecordingApp(application, "emulator")(scope, None, send)  # type: ignore[arg-type]

    asyncio.run(ask())
    findings = [finding for finding in answer_recorder.take_findings() if "(by the sdk)" in finding]
    assert findings == ["GET /v1/models/gpt 200: created: 'now' is no int (by the sdk)"]


TEXT = {"type": "string"}
DESCRIPTION = {
    "Part": {"type": "object", "properties": {"type": {"type": "string", "enum": ["text"]}, "text": TEXT}, "required": ["type", "text"]},
    "Picture": {"type": "object", "properties": {"type": {"type": "string", "enum": ["picture"]}, "url": TEXT}, "required": ["type"]},
    "Base": {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "number"}}, "required": ["id"]},
    "Message": {
        "allOf": [
            {"$ref": "#/components/schemas/Base"},
            {
                "type": "object",
                "properties": {
                    "content": {
                        "type": "array",
                        "items": {"oneOf": [{"$ref": "#/components/schemas/Part"}, {"$ref": "#/components/schemas/Picture"}]},
                    },
                    "error": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
                    "anything": {"type": "object"},
                },
                "required": ["content", "error"],
            },
        ]
    },
}
VALID_MESSAGE: dict[str, Any] = {"id": "a", "at": 1, "content": [{"type": "text", "text": "Hi"}, {"type": "picture"}], "error": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"anything": {"x": 1}}, []),
        ({"id": 7}, ["id: 7 is no string"]),
        ({"at": True}, ["at: True is no number"]),
        ({"error": 7}, ["error: 7 is no string"]),
        ({"more": 1}, ["more: unknown to Message"]),
        ({"content": [{"type": "text"}]}, ["content[0].text: missing in Part"]),
        ({"content": [{"type": "text", "text": "Hi", "url": ""}]}, ["content[0].url: unknown to Part"]),
        ({"content": [{"type": "film"}]}, ["content[0]: no variant of the schema is a 'film'"]),
        ({"metadata": {"a": 1}}, ["metadata.a: 1 is no string"]),
    ],
)
def test_a_description_is_read_strictly(tmp_path: Path, changes: dict[str, Any], expected: list[str]) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps({"components": {"schemas": DESCRIPTION}}))
    assert [str(each) for each in OpenAPIDescription(path).find_differences(VALID_MESSAGE | changes, "Message")] == expected


def test_missing_required_description_member_is_found(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps({"components": {"schemas": DESCRIPTION}}))
    found = [str(each) for each in OpenAPIDescription(path).find_differences({"content": []}, "Message")]
    assert found == ["error: missing in Message", "id: missing in Message"]


def test_every_known_difference_has_a_reason() -> None:
    assert all(known.reason for known in KNOWN_DIFFERENCES)
    assert not is_known("sdk", "POST /v1/responses 200: unheard_of: unknown to Response")
