"""Server-sent events: a real server, and a client that is disconnected at random moments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from legato import Agent, HandoffBuilder, Secret, Workflow, tool
from legato.errors import BadInput
from legato.sse import EventStream, sse
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call


class SlowModel(ScriptedModel):
    """A model that pauses after every word."""

    async def _emit_text(self, text: str, emit: Any) -> None:
        for number, word in enumerate(text.split(" ")):
            emit(word if not number else f" {word}")
            await asyncio.sleep(0.002)


def build_chat_workflow(model: Any, store: Any, **more: Any) -> Workflow:
    return HandoffBuilder("chat", [Agent("a", model=model, **more)]).with_checkpointing(store).build()


@asynccontextmanager
async def serve_events(workflow: Workflow, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve the sessions of a workflow as event streams, and return an HTTP client."""

    async def events(request: Any) -> EventStream:
        return EventStream(workflow.session(request.path_params["id"]), **options)

    app = Starlette(routes=[Route("/{id}", events)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no notification
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        await serving


async def read_events(response: Any) -> AsyncIterator[dict[str, str]]:
    """Yield the events of a response, as a browser reads them."""
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            yield event
            event = {}


class BrowserClient:
    """A client that shows events, remembers the last id, and reconnects when it is disconnected."""

    def __init__(self, client: httpx2.AsyncClient, dice: Random) -> None:
        self.client, self.dice = client, dice
        self.last_event_id, self.event_ids = "", []
        self.lines: list[str] = []
        self.partial_output = ""
        self.connections = 0

    async def watch(self, until: str) -> None:
        while until not in self.lines:
            self.connections += 1
            headers = {"last-event-id": self.last_event_id} if self.last_event_id else {}
            try:
                async with asyncio.timeout(self.dice.expovariate(20) if self.connections < 30 else 60):
                    async with self.client.stream("GET", "/s", headers=headers) as response:
                        assert response.status_code == 200
                        async for event in read_events(response):
                            self.show_event(event)
                            if until in self.lines or (self.connections < 30 and self.dice.random() < 0.1):
                                break
            except (TimeoutError, httpx2.HTTPError):
                pass

    def show_event(self, event: dict[str, str]) -> None:
        if id := event.get("id"):
            self.last_event_id = id
            self.event_ids.append(id)
        body = json.loads(event["data"])
        assert body["type"] == event["event"]
        match body["type"]:
            case "said":
                self.lines.append(f"user: {body['data']['text']}")
            case "output_reset":
                self.partial_output = ""
            case "output" if body["data"]["delta"]:
                assert "id" not in event
                self.partial_output += body["data"]["text"]
            case "output":
                assert self.partial_output == ""
            case "message":
                assert self.partial_output in ("", body["data"]["text"])
                self.partial_output = ""
                self.lines.append(f"{body['data']['author_name']}: {body['data']['text']}")


async def test_reconnecting_client_gets_every_event_once(tmp_path):
    """The client loses its connection at random moments."""
    async with SQLiteStore(tmp_path / "s.db") as store:
        workflow = build_chat_workflow(
            SlowModel(lambda request: f"this is the answer number {request.reply_count} to what was asked"), store
        )
        async with serve_events(workflow) as client:
            browsers = [BrowserClient(client, Random(seed)) for seed in range(8)]
            watching = [asyncio.ensure_future(browser.watch("a: this is the answer number 11 to what was asked")) for browser in browsers]
            session = workflow.session("s")
            for number in range(12):
                await session.run(f"question {number}")
            async with asyncio.timeout(60):
                await asyncio.gather(*watching)
        whole = [str(message) for message in session.messages]
    for browser in browsers:
        assert browser.lines == whole
        assert len(set(browser.event_ids)) == len(browser.event_ids)
    assert sum(browser.connections for browser in browsers) > 40


async def test_deltas_are_sent_during_reply():
    go = asyncio.Event()

    class Waits(ScriptedModel):
        async def _emit_text(self, text: str, emit: Any) -> None:
            emit("Hello")
            await go.wait()
            emit(" there")

    workflow = build_chat_workflow(Waits(["Hello there"]), MemoryStore())
    async with serve_events(workflow) as client, client.stream("GET", "/s") as response:
        running = asyncio.ensure_future(workflow.session("s").run("Hi")._complete())
        events = read_events(response)
        assert (await anext(events))["event"] == "said"
        piece = await anext(events)
        assert json.loads(piece["data"]) == {
            "type": "output",
            "position": -1,
            "data": {"text": "Hello", "author_name": "a", "delta": True, "attempt": 1},
        }
        assert "id" not in piece
        go.set()
        await running


async def test_secret_arguments_are_sent_as_digests():
    @tool(needs_approval=True)
    async def log_in(user: str, password: Secret[str]) -> str:
        return "in"

    model = ScriptedModel(by_agent={"a": [call("log_in", user="ada", password="hunter2"), "Done."]})
    workflow = build_chat_workflow(model, MemoryStore(), tools=[log_in])
    session = workflow.session("s")
    await session.run("Log me in.")
    first = b"".join([written async for written in sse(workflow.session("s"), until_idle=True)])
    await session.approve(session.pending[0])
    await session.resume()
    written = first + b"".join([written async for written in sse(workflow.session("s"), until_idle=True)])
    assert b"hunter2" not in written
    asked = json.loads(next(line for line in first.splitlines() if b'"request_info"' in line).removeprefix(b"data: "))
    assert asked["data"]["arguments"] == {"user": "ada", "password": "secret:0d8eee62d2ec63b1"}
    assert b"raw_arguments" not in written


async def test_every_event_is_one_json_line():
    @tool
    async def look() -> str:
        return "seen\r\n\r\ndata: forged"

    model = ScriptedModel(by_agent={"a": [call("look"), "one\n\nid: 7\ntwo\r\u2028three"]})
    workflow = build_chat_workflow(model, MemoryStore(), tools=[look])
    await workflow.session("s").run("Hi\n\nevent: forged")
    written = b"".join([written async for written in sse(workflow.session("s"), until_idle=True)])
    for block in written.split(b"\n\n")[:-1]:
        for line in block.split(b"\n"):
            assert line.startswith((b":", b"id: ", b"event: ", b"data: ")), line
            assert b"\r" not in line
    data = [json.loads(line.removeprefix(b"data: ")) for line in written.split(b"\n") if line.startswith(b"data: ")]
    assert [each["type"] for each in data] == ["said", "tool_started", "tool_returned", "output", "message", "request_info", "status"]
    assert [each["data"]["text"] for each in data if each["type"] == "message"] == ["one\n\nid: 7\ntwo\r\u2028three"]


async def test_idle_connection_gets_keep_alive_comments():
    workflow = build_chat_workflow(ScriptedModel(["Hello"]), MemoryStore())
    written = []
    async with aclosing(sse(workflow.session("s"), keep_alive=0.01)) as lines:
        for _ in range(4):
            written.append(await anext(lines))
        assert written == [b":\n\n"] * 4
        await workflow.session("s").run("Hi")
        while b"event: said" not in written[-1]:
            written.append(await anext(lines))


async def test_invalid_and_outdated_cursors_are_refused(tmp_path):
    """An invalid cursor is answered with 400, and one of a deleted conversation with 204, after which browsers do not reconnect."""
    store = SQLiteStore(tmp_path / "s.db")
    workflow = build_chat_workflow(ScriptedModel(["Hello", "Again"]), store)
    async with serve_events(workflow, until_idle=True) as client:
        await workflow.session("s").run("Hi")
        ids = [event["id"] async for event in read_events(await client.get("/s"))]
        assert (await client.get("/s", headers={"last-event-id": "nonsense"})).status_code == 400
        assert (await client.get("/s", headers={"last-event-id": ids[-1]})).status_code == 200
        await store.delete("s")
        assert (await client.get("/s", headers={"last-event-id": ids[-1]})).status_code == 204
        await workflow.session("s").run("Hi")
        assert (await client.get("/s", headers={"last-event-id": ids[-1]})).status_code == 204
        await store.close()
        assert (await client.get("/s")).status_code == 503


async def test_first_connection_may_pass_last_event_id():
    workflow = build_chat_workflow(ScriptedModel(["Hello"]), MemoryStore())
    await workflow.session("s").run("Hi")
    whole = [event async for event in workflow.session("s").follow(until_idle=True)]
    async with serve_events(workflow, last_event_id=whole[0].cursor, until_idle=True) as client:
        events = [event async for event in read_events(await client.get("/s"))]
        assert [event.get("id") for event in events] == [None, *(event.cursor for event in whole[1:])]
        events = [event async for event in read_events(await client.get("/s", headers={"last-event-id": whole[-2].cursor}))]
        assert [event["event"] for event in events] == ["output_reset", "status"], "the header of the browser takes precedence"


async def test_deleted_session_of_open_handle_ends_stream():
    store = MemoryStore()
    workflow = build_chat_workflow(ScriptedModel(["Hello"]), store)
    session = workflow.session("s")
    await session.run("Hi")
    await store.delete("s")
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    await EventStream(session)({"type": "http", "headers": []}, receive, send)
    assert sent[0]["status"] == 204


async def test_sse_refuses_invalid_cursor():
    with pytest.raises(BadInput, match="cursor"):
        await anext(sse(build_chat_workflow(ScriptedModel(["Hello"]), MemoryStore()).session("s"), "nonsense"))


async def test_disconnected_client_releases_its_subscriptions():
    store = MemoryStore()
    workflow = build_chat_workflow(ScriptedModel(["Hello"]), store)
    async with serve_events(workflow) as client:
        async with client.stream("GET", "/s") as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            await workflow.session("s").run("Hi")
            async with aclosing(read_events(response)) as events:
                await anext(events)
            assert store.delta_channel.subscriber_version("s")
        async with asyncio.timeout(60):
            while store.delta_channel.subscriber_version("s") or store._watchers:  # noqa: ASYNC110 - there is no notification
                await asyncio.sleep(0.01)
