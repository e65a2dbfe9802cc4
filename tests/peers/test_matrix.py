"""What judges the cells of `make peers` sees what is wrong: in what a client saw, and in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from legato.server import Server, serve
from legato.stores import MemoryStore
from tests.peers import environments
from tests.peers.desk import COLUMNS, HELLO, workflows
from tests.peers.matrix import ROWS, list_wrong_facts, list_wrong_sights


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(workflows(), store=MemoryStore(), grace=2.0) as running:
        yield running


def client_of(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0)


def test_a_ledger_that_has_each_message_once_is_right(server: Server) -> None:
    with client_of(server) as client:
        first = client.responses.create(model="previous-id", input="Hello")
        client.responses.create(model="previous-id", input="What did I say?", previous_response_id=first.id)
    assert list(list_wrong_facts(server, "previous id", COLUMNS["previous id"])) == []


def test_a_message_that_is_recorded_twice_is_found(server: Server) -> None:
    with client_of(server) as client:
        for said in ("Hello", "Hello", "What did I say?"):
            client.responses.create(model="conversation", input=said, conversation="one")
    found = list(list_wrong_facts(server, "conversation", COLUMNS["conversation"]))
    said = "the ledger has ['Hello', 'Hello', 'What did I say?'] as said, instead of ['Hello', 'What did I say?']"
    assert found == [said, "the ledger has 3 replies instead of 2"]


def test_a_second_session_is_found(server: Server) -> None:
    with client_of(server) as client:
        for said in ("Hello", "What did I say?"):
            client.responses.create(model="several-turns", input=said)
    assert list(list_wrong_facts(server, "several turns", COLUMNS["several turns"])) == ["2 sessions instead of one"]
    assert list(list_wrong_facts(server, "plain", COLUMNS["plain"])) == ["0 sessions instead of one"]


def test_an_approval_that_was_not_given_is_found(server: Server) -> None:
    with client_of(server) as client:
        client.responses.create(model="approval", input="Refund order 7.")
    assert list(list_wrong_facts(server, "approval", COLUMNS["approval"])) == [
        "the ledger has 1 replies instead of 2",
        "the ledger has 0 approvals instead of 1",
        "the ledger has 0 outputs instead of 1",
    ]


def test_words_that_a_client_did_not_see_are_found() -> None:
    assert list(list_wrong_sights("plain", COLUMNS["plain"], {"texts": [HELLO]})) == []
    assert list(list_wrong_sights("plain", COLUMNS["plain"], {"texts": ["Hello"]})) == [f"saw texts ['Hello'] instead of ['{HELLO}']"]
    streamed = {"texts": [HELLO], "pieces": [HELLO]}
    assert list(list_wrong_sights("streamed", COLUMNS["streamed"], streamed)) == [f"the pieces of the stream are ['{HELLO}']"]


def test_every_row_has_a_program_and_an_environment() -> None:
    for row in ROWS:
        assert (Path(__file__).parent / "clients" / row.program).exists()
        assert row.environment == "npm" or row.environment in environments.PYTHON


def test_every_version_is_pinned() -> None:
    assert all("==" in package for packages in environments.PYTHON.values() for package in packages)
    assert all("@" in package[1:] for package in environments.NPM)


def test_missing_npm_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"needs node and npm"):
        environments.npm_folder()
