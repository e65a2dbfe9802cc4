"""D2 with servers that die. What is certain is done; what nobody can know is asked, and nothing is silently repeated."""

import asyncio
import os

import pytest
from msgspec.structs import replace

from legato.core.facts import CallLost, CallReturned, CallStarted
from legato.errors import MCPFailed
from legato.testing import call
from legato.tools.mcp import MCPServer
from legato.tools.mcp.connection import Command
from tests.tools.mcp.conftest import Stdio, clerk, opened


@pytest.fixture
async def started(tmp_path, monkeypatch):
    """One that is started by whoever uses it."""
    async with opened(Stdio, tmp_path, monkeypatch) as place:
        yield place


def count(session, kind):
    return sum(isinstance(fact, kind) for fact in session.facts)


async def killed_in_the_middle(world, tool, **options):
    """A session whose call had done its deed when the server was killed, before it answered."""
    (world.folder / "hang").touch()
    tools = await world.server(needs_approval=False, **options).tools()
    session = clerk(tools, tool).session()
    running = asyncio.ensure_future(_run(session))
    await world.done(1)
    (world.folder / "hang").unlink()
    await world.die()
    await world.restart()
    return session, await running


async def _run(session):
    return await session.run("go")


async def test_a_server_killed_in_the_middle_of_a_call_leaves_a_question_and_no_second_deed(mortal_world):
    world = mortal_world
    session, result = await killed_in_the_middle(world, call("pay", cents=7))
    (request,) = result.pending
    assert (request.kind, request.tool) == ("outcome", "pay")
    assert (await session.resume()).status == "pending"
    assert world.deeds == ["pay 7"]
    await session.approve(request)  # a person looked, and wants it again
    assert (await session.resume()).text == "done"
    assert world.deeds == ["pay 7", "pay 7"]


async def test_what_the_server_calls_idempotent_is_repeated_where_the_user_trusts_that(started):
    world = started
    session, result = await killed_in_the_middle(world, call("look", key="k"), trust_idempotent_hints=True)
    assert result.text == "done"
    assert world.deeds == ["look k", "look k"]
    assert (count(session, CallStarted), count(session, CallLost)) == (2, 1), "the repetition is on record"


async def test_what_the_server_calls_idempotent_is_not_repeated_unless_the_user_trusts_that(started):
    world = started
    _, result = await killed_in_the_middle(world, call("look", key="k"))
    assert [request.kind for request in result.pending] == ["outcome"]
    assert world.deeds == ["look k"]


async def test_a_server_that_was_restarted_between_two_calls_is_connected_to_again(mortal_world):
    world = mortal_world
    tools = await world.server(needs_approval=False).tools()
    session = clerk(tools, call("pay", cents=1), call("pay", cents=2)).session()
    again = clerk(tools, call("pay", cents=3)).session()
    await session.run("go")
    await world.die()
    await world.restart()
    assert (await again.run("go")).text == "done"
    assert world.deeds == ["pay 1", "pay 2", "pay 3"]
    assert not count(again, CallLost)


async def test_a_server_that_is_gone_for_good_is_an_error_for_the_model_and_nothing_ran(mortal_world, monkeypatch):
    world = mortal_world
    server = world.server(needs_approval=False)
    tools = await server.tools()
    await world.die()
    monkeypatch.setattr("legato.tools.mcp.server.PATIENCE", (0.0, 0.0))
    server._way = _elsewhere(server._way)
    session = clerk(tools, call("pay", cents=1)).session()
    assert (await session.run("go")).text == "done"
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert returned.status == "error"
    assert "nothing was run" in returned.output or "was not run" in returned.output
    assert world.deeds == []


def _elsewhere(way):
    """Nobody starts it again."""
    return replace(way, command=("no-such-program",)) if isinstance(way, Command) else way


async def test_a_program_that_never_answers_is_given_up_and_ended(tmp_path):
    server = MCPServer("mute", command=["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], connect_timeout=0.3)
    with pytest.raises(MCPFailed, match="it did not answer in time"):
        await server.tools()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_cancel_stops_the_call_and_the_connection_serves_on(world):
    (world.folder / "hang").touch()
    tools = await world.server(needs_approval=False).tools()
    session = clerk(tools, call("pay", cents=1)).session()
    running = asyncio.ensure_future(_run(session))
    await world.done(1)
    await session.cancel()
    assert (await running).status == "cancelled"
    (world.folder / "hang").unlink()
    other = clerk(tools, call("pay", cents=2)).session()
    assert (await other.run("go")).text == "done"
    assert world.deeds == ["pay 1", "pay 2"]
