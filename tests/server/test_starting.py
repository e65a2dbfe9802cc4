"""A server from Python: how it starts and stops, and what it refuses to be made of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Workflow
from legato.engines import Dead, Engine
from legato.engines.contract import Advance
from legato.errors import BadInput, StoreRefused
from legato.server import Server, serve
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from tests.server.asking import Client

TOKEN = "0123456789abcdef"


def hello(name: str = "hello", store: MemoryStore | None = None) -> Workflow:
    builder = HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(lambda seen: "Hello!"))])
    return (builder.with_checkpointing(store) if store else builder).build()


class Elsewhere(Engine):
    """Only remembers who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []

    async def wake(self, session: str, priority: int = 0) -> None:
        self.woken.append(session)

    async def dead(self, limit: int = 100) -> Sequence[Dead]:
        return []

    async def retry(self, session: str) -> None:
        raise NotImplementedError

    async def serve(self, advance: Advance, stop: asyncio.Event, ready: Callable[[], None], at_once: int, grace: float) -> None:
        raise AssertionError("no worker is here")

    async def close(self) -> None:
        """It has nothing."""


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "others could connect, and no token was chosen": ({"host": "0.0.0.0"}, "choose a token yourself"),
    "a token that could be guessed": ({"token": "short"}, "this cannot be the token"),
    "a token with a space": ({"token": "0123456789 abcdef"}, "this cannot be the token"),
    "a host that is no host": ({"allow_hosts": ["http://desk.example/"]}, "this is no host"),
    "a host with a star": ({"allow_hosts": ["*.example"]}, "this is no host"),
    "any origin": ({"allow_origins": ["*"]}, "this is no origin"),
    "the origin of a file": ({"allow_origins": ["null"]}, "this is no origin"),
    "an origin with a path": ({"allow_origins": ["https://desk.example/"]}, "this is no origin"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_it_refuses_to_be_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Server(hello(), **options)


def test_it_serves_at_least_one_workflow_and_none_twice() -> None:
    with pytest.raises(BadInput, match="a worker serves workflows"):
        Server([])
    with pytest.raises(BadInput, match="the same name"):
        Server([hello(), hello()])
    with pytest.raises(BadInput, match="different stores"):
        Server([hello("one", MemoryStore()), hello("two", MemoryStore())])


def test_an_address_that_is_taken_or_not_of_this_machine_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadInput, match="the server cannot listen on"):
        Server(hello(), port=taken.getsockname()[1]).start()
    with pytest.raises(BadInput, match=r"the server cannot listen on 192\.0\.2\.1"):
        Server(hello(), host="192.0.2.1", token=TOKEN).start()


def test_it_serves_the_store_that_its_workflows_were_built_with() -> None:
    store = MemoryStore()
    with serve([hello("one", store), hello("two")]) as server:
        Client(server).begin("Hi", "s", workflow="two")
        assert server.serving.store is store


async def test_a_program_with_an_event_loop_uses_it_as_well_and_goes_on_with_its_sessions() -> None:
    workflow, store = hello(), MemoryStore()
    async with serve(workflow, store=store) as server:
        client = Client(server)
        await asyncio.to_thread(client.begin, "Hi", "s")
    session = await workflow.session("s", store=store).refresh()
    assert (session.status, session.messages[-1].text) == ("waiting", "Hello!")
    assert (await session.run("Again")).text == "Hello!"


def test_it_is_started_once_and_stopping_it_twice_is_harmless() -> None:
    server = serve(hello())
    assert "not running" in repr(server)
    with pytest.raises(BadInput, match="not running"):
        server.url
    with server:
        assert server.url in repr(server)
        assert server.console == f"{server.url}/#token={server.token}"
        with pytest.raises(BadInput, match="was started before"):
            server.start()
    server.stop()
    with pytest.raises(BadInput, match="was started before"):
        server.start()


async def test_a_store_that_lets_nobody_in_ends_the_server_with_that_error() -> None:
    class Shut(MemoryStore):
        async def unrested(self, limit: int = 100, after: Any = None) -> Any:
            raise StoreRefused("this user may not read")

    server = serve(hello(), store=Shut())
    async with asyncio.timeout(60):
        with pytest.raises(StoreRefused):
            await server.run()


def test_two_servers_in_one_process_have_tokens_of_their_own() -> None:
    with serve(hello()) as one, serve(hello()) as two:
        assert one.token != two.token
        assert Client(one).ask("GET", "/api").status == 200
        assert Client(one.url, two.token).ask("GET", "/api").status == 401


def test_a_server_whose_engine_drives_elsewhere_records_what_it_is_given_and_leaves_the_driving_to_its_workers() -> None:
    engine = Elsewhere()
    with serve(hello(), engine=engine) as server:
        client = Client(server)
        assert client.get("/api")["drives"] is False
        assert client.post("/api/sessions", {"id": "s", "message": "Hi"}, 201)["status"] == "running"
        assert engine.woken == ["s"]


def test_a_wrong_token_is_told_from_a_missing_one() -> None:
    with serve(hello()) as server:
        client = Client(server)
        assert client.ask("GET", "/api/sessions", headers={"authorization": ""}).error == "no_token"
        wrong = client.ask("GET", "/api/sessions", headers={"authorization": f"Bearer {server.token}x"})
        assert (wrong.status, wrong.error) == (401, "wrong_token")
        assert server.token.encode() not in wrong.body


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_bearer_scheme_is_accepted_in_any_case(scheme: str) -> None:
    with serve(hello()) as server:
        answer = Client(server).ask("GET", "/api/sessions", headers={"authorization": f"{scheme} {server.token}"})
        assert answer.status == 200
