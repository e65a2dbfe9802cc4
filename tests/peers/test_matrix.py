"""The checks of `make peers` find problems in a client's report and in the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from legato.server import Server, serve
from legato.stores import MemoryStore
from tests.peers import environments
from tests.peers.desk import EXPECTATIONS, GREETING, build_workflows
from tests.peers.matrix import ROWS, find_ledger_problems, find_report_problems


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(build_workflows(), store=MemoryStore(), grace=2.0) as running:
        yield running


def connect_client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0)


def test_ledger_with_each_message_once_passes(server: Server) -> None:
    with connect_client(server) as client:
        first = client.responses.create(model="previous-id", input="Hello")
        client.responses.create(model="previous-id", input="What did I say?", previous_response_id=first.id)
    assert list(find_ledger_problems(server, "previous id", EXPECTATIONS["previous id"])) == []


def test_a_message_that_is_recorded_twice_is_found(server: Server) -> None:
    with connect_client(server) as client:
        for message in ("Hello", "Hello", "What did I say?"):
            client.responses.create(model="conversation", input=message, conversation="one")
    found = list(find_ledger_problems(server, "conversation", EXPECTATIONS["conversation"]))
    problem = "the ledger has the messages ['Hello', 'Hello', 'What did I say?'] instead of ['Hello', 'What did I say?']"
    assert found == [problem, "the ledger has 3 replies instead of 2"]


def test_a_second_session_is_found(server: Server) -> None:
    with connect_client(server) as client:
        for message in ("Hello", "What did I say?"):
            client.responses.create(model="several-turns", input=message)
    assert list(find_ledger_problems(server, "several turns", EXPECTATIONS["several turns"])) == ["2 sessions instead of one"]
    assert list(find_ledger_problems(server, "plain", EXPECTATIONS["plain"])) == ["0 sessions instead of one"]


def test_an_approval_that_was_not_given_is_found(server: Server) -> None:
    with connect_client(server) as client:
        client.responses.create(model="approval", input="Refund order 7.")
    assert list(find_ledger_problems(server, "approval", EXPECTATIONS["approval"])) == [
        "the ledger has 1 replies instead of 2",
        "the ledger has 0 approvals instead of 1",
        "the ledger has 0 outputs instead of 1",
    ]


def test_missing_client_output_is_found() -> None:
    assert list(find_report_problems("plain", EXPECTATIONS["plain"], {"texts": [GREETING]})) == []
    assert list(find_report_problems("plain", EXPECTATIONS["plain"], {"texts": ["Hello"]})) == [
        f"reported texts ['Hello'] instead of ['{GREETING}']"
    ]
    streamed = {"texts": [GREETING], "pieces": [GREETING]}
    assert list(find_report_problems("streamed", EXPECTATIONS["streamed"], streamed)) == [f"the pieces of the stream are ['{GREETING}']"]


def test_every_row_has_a_program_and_an_environment() -> None:
    for row in ROWS:
        assert (Path(__file__).parent / "clients" / row.program).exists()
        assert row.environment == "npm" or row.environment in environments.PYTHON_PACKAGES


def test_every_version_is_pinned() -> None:
    assert all("==" in package for packages in environments.PYTHON_PACKAGES.values() for package in packages)
    assert all("@" in package[1:] for package in environments.NPM_PACKAGES)


def test_missing_npm_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"needs node and npm"):
        environments.install_npm()
