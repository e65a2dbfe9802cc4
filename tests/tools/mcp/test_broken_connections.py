"""D2 with servers that die: a call whose outcome is unknown is asked about, and never repeated silently."""

import asyncio
import os

import pytest
from msgspec.structs import replace

from legato.core.facts import CallLost, CallReturned, CallStarted
from legato.errors import MCPFailed
from legato.testing import call
from legato.tools.mcp import MCPServer
from legato.tools.mcp.server_connection import StdioTransport
from tests.tools.mcp.conftest import StdioExample, build_clerk, open_example


@pytest.fixture
async def stdio_example(tmp_path, monkeypatch):
    """Return an example server over stdio that the test may kill."""
    async with open_example(StdioExample, tmp_path, monkeypatch) as example:
        yield example


def count_facts(session, kind):
    return sum(isinstance(fact, kind) for fact in session.facts)


async def run_killed_call(example, tool, **options):
    """Run a session whose server is killed after the effect of a call, before it answers."""
    (example.folder / "hang").touch()
    tools = await example.make_server(needs_approval=False, **options).tools()
    session = build_clerk(tools, tool).session()
    running = asyncio.ensure_future(_run(session))
    await example.wait_for_effects(1)
    (example.folder / "hang").unlink()
    await example.kill()
    await example.restart()
    return session, await running


async def _run(session):
    return await session.run("go")


async def test_call_on_killed_server_is_asked_about(killable_example):
    """A server killed in the middle of a call leaves a request for the outcome, and the tool does not run again."""
    example = killable_example
    session, result = await run_killed_call(example, call("pay", cents=7))
    (request,) = result.pending
    assert (request.kind, request.tool) == ("outcome", "pay")
    assert (await session.resume()).status == "pending"
    assert example.effects == ["pay 7"]
    await session.approve(request)  # a person decides to rerun the call
    assert (await session.resume()).text == "done"
    assert example.effects == ["pay 7", "pay 7"]


async def test_trusted_idempotent_call_is_repeated(stdio_example):
    example = stdio_example
    session, result = await run_killed_call(example, call("look", key="k"), trust_idempotent_hints=True)
    assert result.text == "done"
    assert example.effects == ["look k", "look k"]
    assert (count_facts(session, CallStarted), count_facts(session, CallLost)) == (2, 1), "the repetition is on record"


async def test_untrusted_idempotent_call_is_not_repeated(stdio_example):
    example = stdio_example
    _, result = await run_killed_call(example, call("look", key="k"))
    assert [request.kind for request in result.pending] == ["outcome"]
    assert example.effects == ["look k"]


async def test_restarted_server_is_connected_to_again(killable_example):
    example = killable_example
    tools = await example.make_server(needs_approval=False).tools()
    session = build_clerk(tools, call("pay", cents=1), call("pay", cents=2)).session()
    again = build_clerk(tools, call("pay", cents=3)).session()
    await session.run("go")
    await example.kill()
    await example.restart()
    assert (await again.run("go")).text == "done"
    assert example.effects == ["pay 1", "pay 2", "pay 3"]
    assert not count_facts(again, CallLost)


async def test_missing_server_is_an_error_output(killable_example, monkeypatch):
    example = killable_example
    server = example.make_server(needs_approval=False)
    tools = await server.tools()
    await example.kill()
    monkeypatch.setattr("legato.tools.mcp.mcp_server.RETRY_PAUSES_S", (0.0, 0.0))
    server._transport = _break_transport(server._transport)
    session = build_clerk(tools, call("pay", cents=1)).session()
    assert (await session.run("go")).text == "done"
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert returned.status == "error"
    assert "nothing was run" in returned.output or "was not run" in returned.output
    assert example.effects == []


def _break_transport(transport):
    """Return the transport with a program that cannot be stdio_example."""
    return replace(transport, command=("no-such-program",)) if isinstance(transport, StdioTransport) else transport


async def test_silent_server_process_is_ended(tmp_path):
    server = MCPServer("mute", command=["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], connect_timeout=0.3)
    with pytest.raises(MCPFailed, match="it did not answer in time"):
        await server.tools()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_cancelled_call_leaves_the_connection_open(example):
    (example.folder / "hang").touch()
    tools = await example.make_server(needs_approval=False).tools()
    session = build_clerk(tools, call("pay", cents=1)).session()
    running = asyncio.ensure_future(_run(session))
    await example.wait_for_effects(1)
    await session.cancel()
    assert (await running).status == "cancelled"
    (example.folder / "hang").unlink()
    other = build_clerk(tools, call("pay", cents=2)).session()
    assert (await other.run("go")).text == "done"
    assert example.effects == ["pay 1", "pay 2"]
