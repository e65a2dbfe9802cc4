"""A workflow as an MCP server, with the official client, over both transports and both versions of the protocol."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from legato.cli.commands.mcp import mcp
from legato.errors import BadInput
from legato.mcp import WorkflowServer
from legato.stores import SQLiteStore
from tests.mcp.refund_desk import desk

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-tests-0123456789"
CANARY = "canary-pin-1234"
REFUND_MESSAGE = "Order 7 arrived broken"


def make_command(*more):
    return [sys.executable, "-m", "legato.cli", "mcp", *more]


class ServedDesk:
    """A served workflow in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.store = f"sqlite:{folder / 's.sqlite'}"
        self.env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": os.environ["PATH"]}
        self.asked = []
        self.progress = []

    @property
    def refunds(self):
        path = self.folder / "refunds"
        return path.read_text().splitlines() if path.exists() else []

    def answer_forms(self, *answers):
        """Return an elicitation callback that answers forms in this order."""
        remaining = list(answers)

        async def fill_in(context, params):
            self.asked.append(params.message)
            return remaining.pop(0)

        return fill_in if answers else None

    @asynccontextmanager
    async def connect_in_process(self, mode, *answers, **options):
        """Connect a client to a server in this process, over in-memory streams."""
        async with SQLiteStore(self.folder / "s.sqlite") as store:
            offered = WorkflowServer(desk, store, **options)
            async with Client(offered.server, mode=mode, elicitation_callback=self.answer_forms(*answers)) as client:
                yield client

    @asynccontextmanager
    async def connect_over_stdio(self, mode, *answers, options=()):
        """Connect a client to the command, which it starts."""
        started = make_command("tests.mcp.refund_desk:desk", "--store", self.store, *options)
        parameters = StdioServerParameters(command=started[0], args=started[1:], env=self.env, cwd=self.folder)
        async with Client(stdio_client(parameters), mode=mode, elicitation_callback=self.answer_forms(*answers)) as client:
            yield client

    async def say(self, client, words, **more):
        async def note(progress, total, message):
            self.progress.append(message)

        return await client.call_tool("the_desk", {"message": words, **more}, progress_callback=note)


@pytest.fixture
def served(tmp_path):
    return ServedDesk(tmp_path)


@pytest.fixture(params=["legacy", "auto"], ids=["2025", "2026"])
def mode(request):
    return request.param


def accept_form(decision, **words):
    return ElicitResult(action="accept", content={"decision": decision, **words})


@pytest.fixture(params=["process", "in-process"])
def connect(request, served, monkeypatch):
    """Return a function that connects a client, in this process or over standard streams."""
    monkeypatch.chdir(served.folder)
    return served.connect_over_stdio if request.param == "process" else served.connect_in_process


async def test_client_sends_message_and_answers_pending_request(served, connect, mode):
    """It is informed of progress meanwhile."""
    async with connect(mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["the_desk", "the_desk_pending", "the_desk_answer"]
        assert tools["the_desk_pending"].annotations.read_only_hint
        told = (await served.say(client, REFUND_MESSAGE, session="s")).structured_content
        assert (told["status"], told["session"], served.refunds) == ("pending", "s", [])
        (request,) = told["pending"]
        assert (request["kind"], request["tool"], request["arguments"]["cents"]) == ("approval", "refund", 250)
        assert request["arguments"]["pin"].startswith("secret:")
        assert any("triage -> refunds" in message for message in served.progress)
        seen = (await client.call_tool("the_desk_pending", {"session": "s"})).structured_content
        assert seen["pending"] == [request]
        answer = {"session": "s", "request": request["id"], "decision": "approve"}
        done = await client.call_tool("the_desk_answer", answer)
        assert done.structured_content["answer"] == "Done: refunded 250"
        assert served.refunds == ["7 250"]
        again = await client.call_tool("the_desk_answer", answer)
        assert again.is_error
        assert "is not pending" in again.content[0].text
    assert CANARY not in repr([told, seen, done, served.progress, served.asked])


async def test_elicitation_repeats_call_and_records_message_once(served, connect, mode):
    async with connect(mode, accept_form("approve")) as client:
        told = (await served.say(client, REFUND_MESSAGE, session="s")).structured_content
        assert (told["status"], told["answer"], served.refunds) == ("waiting", "Done: refunded 250", ["7 250"])
        (question,) = served.asked
        assert "refunds wants to run refund" in question
        assert CANARY not in question
    async with SQLiteStore(served.folder / "s.sqlite") as store:
        session = await desk.session("s", store=store).refresh()
        assert [message.text for message in session.messages] == [REFUND_MESSAGE, "Done: refunded 250"]


ANSWERS = {
    "a no with words": (accept_form("reject", words="not without a receipt"), "waiting"),
    "the form declined": (ElicitResult(action="decline"), "waiting"),
    "the form dismissed": (ElicitResult(action="cancel"), "pending"),
    "nonsense": (accept_form("approve it!"), None),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_only_explicit_approval_runs_the_call(served, mode, answer, monkeypatch):
    """Whatever else a user does with the form."""
    monkeypatch.chdir(served.folder)
    given, status = ANSWERS[answer]
    async with served.connect_in_process(mode, given, given) as client:
        told = await served.say(client, REFUND_MESSAGE, session="s")
        if status is None:
            assert told.is_error
        else:
            assert told.structured_content["status"] == status
        seen = (await client.call_tool("the_desk_pending", {"session": "s"})).structured_content
        assert len(seen["pending"]) == (0 if status == "waiting" else 1)
        assert served.refunds == []


async def test_another_process_continues_stored_session(served, mode):
    async with served.connect_in_process(mode) as client:
        told = (await served.say(client, REFUND_MESSAGE)).structured_content
    async with served.connect_in_process(mode) as client:
        seen = (await client.call_tool("the_desk_pending", {"session": told["session"]})).structured_content
        assert seen["pending"] == told["pending"]
        rejected = {"session": told["session"], "request": told["pending"][0]["id"], "decision": "reject", "words": "no"}
        assert (await client.call_tool("the_desk_answer", rejected)).structured_content["status"] == "waiting"


async def test_message_with_key_is_recorded_once_despite_prints(served, mode):
    """What a tool prints does not disturb the protocol."""
    async with served.connect_over_stdio(mode) as client:
        first = await served.say(client, "What is there?", session="s", key="k")
        second = await served.say(client, "What is there?", session="s", key="k")
        assert first.structured_content["answer"] == second.structured_content["answer"] == "I saw an empty shelf."
        other = await served.say(client, "Something else", session="s", key="k")
        assert other.is_error
        assert "was used before for something else" in other.content[0].text


async def test_server_without_answer_tool_needs_people(served, mode):
    async with served.connect_in_process(mode, answers=False) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["the_desk", "the_desk_pending"]
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("the_desk_answer", {})


@pytest.mark.parametrize("arguments", [{}, {"message": 5}, {"message": "x", "more": 1}])
async def test_invalid_arguments_are_refused_and_record_nothing(served, arguments):
    async with served.connect_in_process("auto") as client:
        with pytest.raises(MCPError, match="the arguments are invalid"):
            await client.session.call_tool("the_desk", arguments)


# -- over HTTP -------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def http_port(served):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = ["tests.mcp.refund_desk:desk", "--store", served.store, "--http", "--port", str(port)]
    process = subprocess.Popen(
        make_command(*given), env={**served.env, "LEGATO_MCP_TOKEN": TOKEN}, cwd=served.folder, stderr=subprocess.PIPE, text=True
    )
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            await asyncio.sleep(0.02)
    yield port
    process.send_signal(signal.SIGINT)
    _, said = await asyncio.to_thread(process.communicate)
    assert TOKEN not in said, "a token that was given is not shown"


async def test_approval_by_elicitation_works_over_http(served, http_port, mode):
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
        Client(
            streamable_http_client(f"http://127.0.0.1:{http_port}/mcp", http_client=http),
            mode=mode,
            elicitation_callback=served.answer_forms(accept_form("approve")),
        ) as client,
    ):
        told = (await served.say(client, REFUND_MESSAGE)).structured_content
        assert (told["answer"], served.refunds) == ("Done: refunded 250", ["7 250"])
        assert any("triage -> refunds" in message for message in served.progress)


async def test_http_requires_token_host_and_origin(http_port):
    ours = f"127.0.0.1:{http_port}"
    bearer = f"Bearer {TOKEN}"
    right = (bearer, f"bearer {TOKEN}")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"accept": "application/json, text/event-stream"}
    refused = []
    async with httpx2.AsyncClient() as http:
        for host in (ours, "evil.example", f"evil.example:{http_port}", "127.0.0.1:1"):
            for origin in (None, f"http://{ours}", "http://evil.example", "null"):
                for token in (None, *right, bearer[:-1], f"{bearer}x", bearer.upper(), f"Basic {TOKEN}", "Bearer"):
                    for method in ("POST", "GET", "DELETE"):
                        headers = {**accept, "host": host}
                        headers |= {name: value for name, value in (("origin", origin), ("authorization", token)) if value}
                        answer = await http.request(method, f"http://{ours}/mcp", headers=headers, json=body if method == "POST" else None)
                        good = (host, origin) == (ours, None) and token in right
                        expected = 401 if token not in right else 421 if host != ours else 403
                        if not good:
                            refused.append(answer.status_code == expected)
                            assert answer.status_code == expected, (method, headers, answer.status_code, answer.text)
                            assert "the_desk" not in answer.text
                        elif method == "POST":
                            assert answer.status_code in (200, 400), answer.text
    assert len(refused) == 378


async def test_request_with_two_lengths_is_refused_over_http(http_port):
    head = [f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{http_port}\r\nauthorization: Bearer {TOKEN}"]
    head += ["content-length: 5", "transfer-encoding: chunked", "", "0\r\n\r\n"]
    reader, writer = await asyncio.open_connection("127.0.0.1", http_port)
    writer.write("\r\n".join(head).encode())
    received = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close\r\n" in received.lower()


INVALID_OPTIONS = {
    "no colon": ({"target": "shop"}, "does not name a workflow"),
    "no module": ({"target": "no_such_module:desk"}, "there is no module 'no_such_module'"),
    "no name": ({"target": "tests.mcp.refund_desk:nobody"}, "has no 'nobody'"),
    "no workflow": ({"target": "tests.mcp.refund_desk:nothing"}, "is not a workflow"),
    "no store": ({"store": "redis:x"}, "store"),
    "every machine and no token": ({"http": True, "host": "0.0.0.0"}, "choose a token yourself"),
    "a token to guess": ({"http": True, "token": "1234"}, "16 or more"),
}


@pytest.mark.parametrize("case", INVALID_OPTIONS)
def test_invalid_workflow_or_options_are_refused(served, case):
    given, words = INVALID_OPTIONS[case]
    with pytest.raises(BadInput, match=words):
        mcp(**{"target": "tests.mcp.refund_desk:desk", "store": served.store, **given})


def test_command_reports_errors_off_the_protocol_stream(served):
    done = subprocess.run(make_command("shop"), env=served.env, cwd=served.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not name a workflow" in done.stderr
    assert "Traceback" not in done.stderr


async def test_emulator_without_key_leaves_standard_output_clean(served):
    (served.folder / "asks.py").write_text("from legato import Agent\nclerk = Agent('clerk', model='openai:gpt-5.1')\n")
    started = make_command("asks:clerk", "--store", served.store)
    for options, status in (((), "waiting"), (("--no-stand-in",), "failed")):
        parameters = StdioServerParameters(command=started[0], args=[*started[1:], *options], env=served.env, cwd=served.folder)
        async with Client(stdio_client(parameters), mode="auto") as client:
            told = await client.call_tool("clerk", {"message": "Hello", "session": status})
            assert (told.structured_content or {}).get("status", "failed") == status, told
