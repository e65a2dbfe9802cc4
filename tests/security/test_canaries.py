"""Two canaries, one story through every face: what is `Secret` is in the ledger and in requests to the provider; the context is in neither.

The story is told three times, over the API, as OpenAI's Responses and over AG-UI, with a real provider's SDK against the emulator. All that
a server ever sends, logs, traces or shows is gathered, and searched.
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
from legato.core.codec import encode
from legato.core.workflow_graph import Graph
from legato.emulator import Emulator
from legato.emulator import serve as emulate
from legato.emulator.minds import Use
from legato.models import OpenAIResponses
from legato.server import serve
from legato.stores import SQLiteStore
from legato.telemetry import instrument
from tests.server.asking import Client

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
    """Fail, in words that have nothing secret."""
    raise ValueError("it is closed")


def desk(provider: Emulator) -> Workflow:
    model = OpenAIResponses("gpt-5.1", base_url=provider.openai_url, api_key="any")
    clerk = Agent("clerk", "Pay people.", model, [pay, fail], context_providers=[lambda turn: f"It is {len(turn.context)}."])
    return HandoffBuilder("desk", [clerk]).build()


class Heard:
    """All that came out of a server."""

    def __init__(self) -> None:
        self.told: dict[str, bytes] = {}

    def add(self, where: str, what: bytes | str) -> None:
        self.told[where] = self.told.get(where, b"") + (what.encode() if isinstance(what, str) else what)

    def has(self, canary: str) -> list[str]:
        return [where for where, what in self.told.items() if canary.encode() in what]


@pytest.fixture
def provider() -> Iterator[Emulator]:
    script = [Use("fail", json.dumps({"pin": SECRET})), Use("pay", ARGUMENTS), "It is paid.", "You are welcome."]
    with emulate(mind=script) as emulator:
        yield emulator


def looked_at(client: Client, id: str, heard: Heard) -> None:
    """All that the API shows of a session."""
    at = f"/api/sessions/{quote(id, safe='')}"
    paths = ["/", "/api", "/api/openapi.json", "/api/sessions", "/api/inbox", f"/api/sessions?search={SECRET}", at]
    paths += [f"{at}/{each}" for each in ("facts", "pending", "calls", "usage", "export", "export?as=markdown", "export?as=session")]
    paths += [f"{at}/calls/{number}" for number in range(len(client.get(f"{at}/calls")["calls"]))]
    for path in paths:
        heard.add(f"GET {path.replace(SECRET, '...')}", client.ask("GET", path).body)
    with client.events(id) as events:
        for event in events:
            heard.add(f"{at}/events", json.dumps(event))
            if event["event"] == "status":
                break


def over_the_api(client: Client, heard: Heard) -> str:
    client.post("/api/sessions", {"id": "s", "message": "Pay Ann"}, 201)
    [request] = client.until("s", "pending")["pending"]
    looked_at(client, "s", heard)
    edited = {**request["arguments"], "to": "Bob"}  # the secret goes back as the digest that it was shown as
    answer = {"request": request["id"], "digest": request["digest"], "verdict": "edit", "arguments": edited}
    heard.add("an answer", json.dumps(client.post("/api/sessions/s/answers", answer)))
    assert client.until("s", "waiting")["last"]["text"] == "It is paid."
    heard.add("items of a conversation", client.ask("GET", "/v1/conversations/s/items?limit=100").body)
    assert b"mcp_approval_response" in heard.told["items of a conversation"]
    heard.add("a refused answer", client.ask("POST", "/api/sessions/s/answers", answer).body)
    heard.add("a fork", client.ask("POST", "/api/sessions/s/fork", {"id": "fork"}).body)
    return "s"


def over_openai(client: Client, heard: Heard) -> str:
    body = {"model": "desk", "input": "Pay Ann", "stream": True}
    heard.add("responses, streamed", client.ask("POST", "/v1/responses", body).body)
    [row] = client.get("/api/sessions")["sessions"]
    assert row["status"] == "pending"
    body = {"model": "desk", "messages": [{"role": "user", "content": "Pay Ann"}]}
    heard.add("chat completions", client.ask("POST", "/v1/chat/completions", body).body)
    heard.add("items that wait", client.ask("GET", f"/v1/conversations/{row['id']}/items").body)
    assert b"mcp_approval_request" in heard.told["items that wait"]
    assert b'"object":"response"' in heard.told["responses, streamed"]
    assert b'"chat.completion"' in heard.told["chat completions"]
    return str(row["id"])


def over_agui(client: Client, heard: Heard) -> str:
    said = [{"id": "m1", "role": "user", "content": "Pay Ann"}]
    body = {"threadId": "t", "runId": "r", "state": {}, "messages": said, "tools": [], "context": [], "forwardedProps": {}}
    heard.add("AG-UI", client.ask("POST", "/agui", body, {"accept": "text/event-stream"}).body)
    assert b"RUN_FINISHED" in heard.told["AG-UI"]
    [row] = client.get("/api/sessions")["sessions"]
    assert row["status"] == "pending"
    return str(row["id"])


def told(story: Any, provider: Emulator, path: Path) -> tuple[Heard, str, bytes]:
    """A story, told and looked at: all that was heard, the session's id, and the exact session, secrets and all."""
    spans, heard = InMemorySpanExporter(), Heard()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    watched = instrument(desk(provider), tracer_provider=tracers, content=True)
    with serve(watched, store=SQLiteStore(path), context=lambda session: {"credential": CONTEXT}) as server:
        client = Client(server)
        id = story(client, heard)
        looked_at(client, id, heard)
        exact = client.ask("GET", f"/api/sessions/{quote(id, safe='')}/export?as=session&exact=yes").body
    for span in spans.get_finished_spans():
        heard.add(f"the span {span.name}", span.to_json())
    return heard, id, exact


STORIES = [over_the_api, over_openai, over_agui]


@pytest.mark.parametrize("story", STORIES)
def test_no_canary_leaves_by_any_face(
    story: Any, provider: Emulator, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "desk.sqlite"
    heard, id, exact = told(story, provider, path)
    ours = [record for record in caplog.records if record.name.startswith(("legato", "uvicorn", "starlette"))]
    heard.add("the log", "\n".join(record.getMessage() + str(record.exc_text or "") for record in ours))
    heard.add("the terminal", "".join(capfd.readouterr()))

    assert heard.has(SECRET) == []
    assert heard.has(CONTEXT) == []
    assert len(heard.told) > 20

    # Where it has to be, it is: else nothing was shown by this.
    async def facts() -> bytes:
        async with SQLiteStore(path) as store:
            return b"\n".join(encode(fact) for fact in await store.read(id))

    ledger, requests = asyncio.run(facts()), b"".join(msgspec.json.encode(each.request) for each in provider.exchanges)
    assert SECRET.encode() in ledger
    assert SECRET.encode() in requests
    assert SECRET.encode() in exact  # which was asked for twice
    assert CONTEXT.encode() not in ledger + requests + exact + path.read_bytes()
    if story is over_the_api:
        shown = b"".join(heard.told.values())
        assert b"secret:" in shown
        assert b"Bob has the money" in shown


SHOW_IT = {
    over_the_api: (
        "facts",
        "calls/1",
        "/events",
        "export",
        "export?as=markdown",
        "/api/inbox",
        "the span execute_tool pay",
        "items of a conversation",
    ),
    over_openai: ("facts", "/pending", "responses, streamed", "chat completions", "items that wait"),
    over_agui: ("facts", "/pending", "AG-UI"),
}


@pytest.mark.parametrize("story", STORIES)
def test_whoever_searches_would_find_it_where_nothing_is_hidden(
    story: Any, provider: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Graph, "secrets", lambda self, *names: ())
    heard, _, _ = told(story, provider, tmp_path / "desk.sqlite")
    found = heard.has(SECRET)
    for place in SHOW_IT[story]:
        assert any(where.endswith(place) for where in found), f"{place} has it, and is not searched: {found}"
