"""Two canaries: a `Secret` argument is only in the ledger and in requests to the provider; the context is in neither.

The same conversation runs three times: over the API, OpenAI's endpoints and AG-UI, with a real provider's SDK against the emulator.
Everything that the server sends, logs or traces is collected and searched.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from legato import Agent, HandoffBuilder, Secret, ToolContext, Workflow, tool
from legato.core.codec import encode_fact
from legato.core.workflow_graph import WorkflowGraph
from legato.emulator import Emulator
from legato.emulator import serve as emulate
from legato.emulator.fake_models import ReplyCall
from legato.models import OpenAIResponses
from legato.server import serve
from legato.stores import SQLiteStore
from legato.telemetry import instrument
from tests.server.api_client import ApiClient

SECRET = "canary-secret-8b1f"
CONTEXT = "canary-context-55aa"
ARGUMENTS = json.dumps({"to": "Ann", "pin": SECRET})


@tool(needs_approval=True)
async def pay(to: str, pin: Secret[str], context: ToolContext[Any]) -> str:
    """Pay somebody."""
    assert context.context["credential"] == CONTEXT
    assert pin == SECRET
    return f"{to} has the money"


@tool
async def fail(pin: Secret[str]) -> str:
    """Fail, without a secret in the error."""
    raise ValueError("it is closed")


def build_desk(provider: Emulator) -> Workflow:
    model = OpenAIResponses("gpt-5.1", base_url=provider.openai_url, api_key="any")
    clerk = Agent("clerk", "Pay people.", model, [pay, fail], context_providers=[lambda turn: f"It is {len(turn.context)}."])
    return HandoffBuilder("desk", [clerk]).build()


class CollectedOutputs:
    """All outputs of a server, by place."""

    def __init__(self) -> None:
        self.by_place: dict[str, bytes] = {}

    def add(self, place: str, output: bytes | str) -> None:
        self.by_place[place] = self.by_place.get(place, b"") + (output.encode() if isinstance(output, str) else output)

    def find_places(self, canary: str) -> list[str]:
        return [place for place, output in self.by_place.items() if canary.encode() in output]


@pytest.fixture
def provider() -> Iterator[Emulator]:
    script = [ReplyCall("fail", json.dumps({"pin": SECRET})), ReplyCall("pay", ARGUMENTS), "It is paid.", "You are welcome."]
    with emulate(fake_model=script) as emulator:
        yield emulator


def collect_pages(client: ApiClient, id: str, outputs: CollectedOutputs) -> None:
    """Collect everything that the API shows of a session."""
    at = f"/api/sessions/{quote(id, safe='')}"
    paths = ["/", "/api", "/api/openapi.json", "/api/sessions", "/api/inbox", f"/api/sessions?search={SECRET}", at]
    paths += [f"{at}/{each}" for each in ("facts", "pending", "calls", "usage", "export", "export?as=markdown", "export?as=session")]
    paths += [f"{at}/calls/{number}" for number in range(len(client.get(f"{at}/calls")["calls"]))]
    for path in paths:
        outputs.add(f"GET {path.replace(SECRET, '...')}", client.request("GET", path).body)
    with client.open_events(id) as events:
        for event in events:
            outputs.add(f"{at}/events", json.dumps(event))
            if event["event"] == "status":
                break


def run_over_api(client: ApiClient, outputs: CollectedOutputs) -> str:
    client.post("/api/sessions", {"id": "s", "message": "Pay Ann"}, 201)
    [request] = client.wait_for_status("s", "pending")["pending"]
    collect_pages(client, "s", outputs)
    edited = {**request["arguments"], "to": "Bob"}  # the secret is sent back as its digest
    answer = {"request": request["id"], "digest": request["digest"], "verdict": "edit", "arguments": edited}
    outputs.add("an answer", json.dumps(client.post("/api/sessions/s/answers", answer)))
    assert client.wait_for_status("s", "waiting")["last"]["text"] == "It is paid."
    outputs.add("items of a conversation", client.request("GET", "/v1/conversations/s/items?limit=100").body)
    assert b"mcp_approval_response" in outputs.by_place["items of a conversation"]
    outputs.add("a refused answer", client.request("POST", "/api/sessions/s/answers", answer).body)
    outputs.add("a fork", client.request("POST", "/api/sessions/s/fork", {"id": "fork"}).body)
    return "s"


def run_over_openai(client: ApiClient, outputs: CollectedOutputs) -> str:
    body = {"model": "desk", "input": "Pay Ann", "stream": True}
    outputs.add("responses, streamed", client.request("POST", "/v1/responses", body).body)
    [row] = client.get("/api/sessions")["sessions"]
    assert row["status"] == "pending"
    body = {"model": "desk", "messages": [{"role": "user", "content": "Pay Ann"}]}
    outputs.add("chat completions", client.request("POST", "/v1/chat/completions", body).body)
    outputs.add("items that wait", client.request("GET", f"/v1/conversations/{row['id']}/items").body)
    assert b"mcp_approval_request" in outputs.by_place["items that wait"]
    assert b'"object":"response"' in outputs.by_place["responses, streamed"]
    assert b'"chat.completion"' in outputs.by_place["chat completions"]
    return str(row["id"])


def run_over_agui(client: ApiClient, outputs: CollectedOutputs) -> str:
    messages = [{"id": "m1", "role": "user", "content": "Pay Ann"}]
    body = {"threadId": "t", "runId": "r", "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {}}
    outputs.add("AG-UI", client.request("POST", "/agui", body, {"accept": "text/event-stream"}).body)
    assert b"RUN_FINISHED" in outputs.by_place["AG-UI"]
    [row] = client.get("/api/sessions")["sessions"]
    assert row["status"] == "pending"
    return str(row["id"])


def run_story(story: Any, provider: Emulator, path: Path) -> tuple[CollectedOutputs, str, bytes]:
    """Run a story, and return all outputs, the session's id, and the exact session with its secrets."""
    spans, outputs = InMemorySpanExporter(), CollectedOutputs()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    workflow = instrument(build_desk(provider), tracer_provider=tracers, content=True)
    with serve(workflow, store=SQLiteStore(path), context=lambda session: {"credential": CONTEXT}) as server:
        client = ApiClient(server)
        id = story(client, outputs)
        collect_pages(client, id, outputs)
        exact = client.request("GET", f"/api/sessions/{quote(id, safe='')}/export?as=session&exact=yes").body
    for span in spans.get_finished_spans():
        outputs.add(f"the span {span.name}", span.to_json())
    return outputs, id, exact


STORIES = [run_over_api, run_over_openai, run_over_agui]


@pytest.mark.parametrize("story", STORIES)
def test_canaries_appear_in_no_output(
    story: Any, provider: Emulator, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "desk.sqlite"
    outputs, id, exact = run_story(story, provider, path)
    log_records = [record for record in caplog.records if record.name.startswith(("legato", "uvicorn", "starlette"))]
    outputs.add("the log", "\n".join(record.getMessage() + str(record.exc_text or "") for record in log_records))
    outputs.add("the terminal", "".join(capfd.readouterr()))

    assert outputs.find_places(SECRET) == []
    assert outputs.find_places(CONTEXT) == []
    assert len(outputs.by_place) > 20

    # The canaries are where they belong; otherwise this test would show nothing.
    async def facts() -> bytes:
        async with SQLiteStore(path) as store:
            return b"\n".join(encode_fact(fact) for fact in await store.read(id))

    ledger, requests = asyncio.run(facts()), b"".join(msgspec.json.encode(each.request_body) for each in provider.exchanges)
    assert SECRET.encode() in ledger
    assert SECRET.encode() in requests
    assert SECRET.encode() in exact  # the exact export needs two options
    assert CONTEXT.encode() not in ledger + requests + exact + path.read_bytes()
    if story is run_over_api:
        joined_outputs = b"".join(outputs.by_place.values())
        assert b"secret:" in joined_outputs
        assert b"Bob has the money" in joined_outputs


PLACES_WITH_SECRET = {
    run_over_api: (
        "facts",
        "calls/1",
        "/events",
        "export",
        "export?as=markdown",
        "/api/inbox",
        "the span execute_tool pay",
        "items of a conversation",
    ),
    run_over_openai: ("facts", "/pending", "responses, streamed", "chat completions", "items that wait"),
    run_over_agui: ("facts", "/pending", "AG-UI"),
}


@pytest.mark.parametrize("story", STORIES)
def test_unmasked_canary_is_found_in_outputs(story: Any, provider: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds the canary if secrets are not masked."""
    monkeypatch.setattr(WorkflowGraph, "find_secret_arguments", lambda self, *names: ())
    outputs, _, _ = run_story(story, provider, tmp_path / "desk.sqlite")
    places = outputs.find_places(SECRET)
    for expected in PLACES_WITH_SECRET[story]:
        assert any(place.endswith(expected) for place in places), f"{expected} has the canary, and is not searched: {places}"
