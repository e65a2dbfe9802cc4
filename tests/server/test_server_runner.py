"""`legato.server.Server` in a program: start, stop, and invalid options."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.engines import Engine, ParkedSession
from legato.engines.engine import StepFunction
from legato.errors import BadInput, StoreRefused
from legato.server import Server, serve
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from tests.server.api_client import ApiClient

TOKEN = "0123456789abcdef"


def make_workflow(name: str = "hello", store: MemoryStore | None = None) -> Workflow:
    builder = HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(lambda seen: "Hello!"))])
    return (builder.with_checkpointing(store) if store else builder).build()


class RecordingEngine(Engine):
    """An engine that only records which sessions were woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []

    async def wake(self, session: str, priority: int = 0) -> None:
        self.woken.append(session)

    async def list_parked(self, limit: int = 100) -> Sequence[ParkedSession]:
        return []

    async def retry(self, session: str) -> None:
        raise NotImplementedError

    async def serve(self, advance: StepFunction, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        raise AssertionError("no worker is here")

    async def close(self) -> None:
        """Do nothing."""


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "others could connect, and no token was chosen": ({"host": "0.0.0.0"}, "choose a token yourself"),
    "a token that could be guessed": ({"token": "short"}, "this cannot be the token"),
    "a token with a space": ({"token": "0123456789 abcdef"}, "this cannot be the token"),
    "an invalid host": ({"allow_hosts": ["http://desk.example/"]}, "this is not a valid host"),
    "a host with a star": ({"allow_hosts": ["*.example"]}, "this is not a valid host"),
    "any origin": ({"allow_origins": ["*"]}, "this is not a valid origin"),
    "the origin of a file": ({"allow_origins": ["null"]}, "this is not a valid origin"),
    "an origin with a path": ({"allow_origins": ["https://desk.example/"]}, "this is not a valid origin"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_server_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Server(make_workflow(), **options)


def test_workflows_must_be_present_and_unique() -> None:
    with pytest.raises(BadInput, match="a worker serves workflows"):
        Server([])
    with pytest.raises(BadInput, match="the same name"):
        Server([make_workflow(), make_workflow()])
    with pytest.raises(BadInput, match="different stores"):
        Server([make_workflow("one", MemoryStore()), make_workflow("two", MemoryStore())])


def test_address_that_cannot_be_bound_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadInput, match="the server cannot listen on"):
        Server(make_workflow(), port=taken.getsockname()[1]).start()
    with pytest.raises(BadInput, match=r"the server cannot listen on 192\.0\.2\.1"):
        Server(make_workflow(), host="192.0.2.1", token=TOKEN).start()


def test_store_of_workflows_is_the_default() -> None:
    store = MemoryStore()
    with serve([make_workflow("one", store), make_workflow("two")]) as server:
        ApiClient(server).create_session("Hi", "s", workflow="two")
        assert server.registry.store is store


async def test_async_program_shares_sessions_with_server() -> None:
    workflow, store = make_workflow(), MemoryStore()
    async with serve(workflow, store=store) as server:
        client = ApiClient(server)
        await asyncio.to_thread(client.create_session, "Hi", "s")
    session = await workflow.session("s", store=store).refresh()
    assert (session.status, session.messages[-1].text) == ("waiting", "Hello!")
    assert (await session.run("Again")).text == "Hello!"


def test_server_starts_once_and_stops_repeatedly() -> None:
    server = serve(make_workflow())
    assert "not running" in repr(server)
    with pytest.raises(BadInput, match="not running"):
        server.url
    with server:
        assert server.url in repr(server)
        assert server.console_url == f"{server.url}/#token={server.token}"
        with pytest.raises(BadInput, match="was started before"):
            server.start()
    server.stop()
    with pytest.raises(BadInput, match="was started before"):
        server.start()


async def test_unavailable_store_stops_server_with_its_error() -> None:
    class Shut(MemoryStore):
        async def list_runnable(self, limit: int = 100, after: Any = None) -> Any:
            raise StoreRefused("this user may not read")

    server = serve(make_workflow(), store=Shut())
    async with asyncio.timeout(60):
        with pytest.raises(StoreRefused):
            await server.run()


def test_servers_in_one_process_have_different_tokens() -> None:
    with serve(make_workflow()) as one, serve(make_workflow()) as two:
        assert one.token != two.token
        assert ApiClient(one).request("GET", "/api").status == 200
        assert ApiClient(one.url, two.token).request("GET", "/api").status == 401


def test_server_with_remote_engine_only_records_input() -> None:
    engine = RecordingEngine()
    with serve(make_workflow(), engine=engine) as server:
        client = ApiClient(server)
        assert client.get("/api")["drives"] is False
        assert client.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)["status"] == "running"
        assert engine.woken == ["s"]


def test_wrong_and_missing_token_are_distinguished() -> None:
    with serve(make_workflow()) as server:
        client = ApiClient(server)
        assert client.request("GET", "/api/sessions", headers={"authorization": ""}).error == "no_token"
        wrong = client.request("GET", "/api/sessions", headers={"authorization": f"Bearer {server.token}x"})
        assert (wrong.status, wrong.error) == (401, "wrong_token")
        assert server.token.encode() not in wrong.body


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_bearer_scheme_is_accepted_in_any_case(scheme: str) -> None:
    with serve(make_workflow()) as server:
        answer = ApiClient(server).request("GET", "/api/sessions", headers={"authorization": f"{scheme} {server.token}"})
        assert answer.status == 200
