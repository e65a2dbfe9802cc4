"""Tools of real MCP servers, in the hands of agents: what they are called, who is asked, and what comes back."""

import sys

import pytest

from legato import Agent, HandoffBuilder, Image, tool
from legato.core.facts import CallReturned
from legato.emulator import serve
from legato.emulator.minds import Use
from legato.errors import BadInput
from legato.models import OpenAIResponses
from legato.testing import ScriptedModel, call
from legato.tools.mcp import MCPServer
from tests.tools.mcp.conftest import Stdio, clerk
from tests.tools.mcp.world import PICTURE


async def played(world, *calls, **options):
    """What the calls led to: the session, and the texts of their outputs."""
    session = clerk(await world.server(needs_approval=False, **options).tools(), list(calls)).session()
    assert (await session.run("go")).text == "done"
    return session, [fact for fact in session.facts if isinstance(fact, CallReturned)]


async def test_words_data_and_pictures_reach_the_model_and_errors_are_outputs(world):
    session, returned = await played(
        world, call("add", a=2, b=3), call("weather", city="Rome"), call("picture"), call("fails"), call("add", a="two", b=3)
    )
    by_call = {fact.call.index: fact for fact in returned}
    assert by_call[0].output == "5"
    assert '"degrees": 21' in by_call[1].output
    words, picture = by_call[2].output
    assert words.text == "this is order 7"
    assert isinstance(picture, Image)
    assert await session.store.content(session.id, picture.digest) == PICTURE
    assert by_call[3].status == "error"
    assert "there is no order 8" in by_call[3].output
    assert "it did not run" in by_call[4].output
    assert "a: 'two' is not of type 'integer'" in by_call[4].output


async def test_people_are_asked_unless_the_server_says_that_a_tool_only_reads(listening):
    world = listening
    tools = {each.name: each for each in await world.server().tools()}
    assert {name for name, each in tools.items() if each.needs_approval} == {"pay", "look", "log_in_now"}
    assert not any(each.idempotent for each in tools.values()), "a hint of the server's is not believed unasked"


RULES = {
    "everything": (True, {"add", "pay"}),
    "nothing": (False, set()),
    "by name": (["add"], {"add"}),
    "by function": (lambda context, arguments, call: arguments.get("cents", 0) > 100, {"pay"}),
}


@pytest.mark.parametrize("rule", RULES)
async def test_who_is_asked_can_be_said(listening, rule):
    given, asked = RULES[rule]
    async with listening.server(needs_approval=given) as server:
        session = clerk(await server.tools(), [call("add", a=1, b=1), call("pay", cents=500)]).session()
        result = await session.run("go")
        assert {request.tool for request in result.pending} == asked


async def test_an_approved_call_runs_once_with_exactly_its_arguments(world):
    session = clerk(await world.server().tools(), call("pay", cents=250)).session()
    (request,) = (await session.run("pay")).pending
    assert (request.tool, request.arguments, world.deeds) == ("pay", {"cents": 250}, [])
    await session.approve(request)
    assert (await session.resume()).text == "done"
    assert world.deeds == ["pay 250"]


async def test_names_have_prefixes_and_only_letters_that_every_provider_takes(listening):
    world = listening
    tools = await world.server(prefix="w_", only=["add", "log.in/now"]).tools()
    assert [each.name for each in tools] == ["w_add", "w_log_in_now"]
    assert tools[1].secrets == {"password"}


async def test_a_secret_argument_is_hidden_where_people_look(listening):
    world = listening
    session = clerk(await world.server().tools(), call("log_in_now", user="ada", password="hunter2")).session()
    (request,) = (await session.run("log in")).pending
    assert "ada" in str(request)
    assert "hunter2" not in str(request)


async def test_two_servers_and_a_function_beside_one_another(listening):
    world = listening

    @tool
    async def here() -> str:
        """Here."""
        return "here"

    tools = [*await world.server(prefix="a_", only=["add"]).tools(), *await world.server(prefix="b_", only=["add"]).tools(), here]
    session = clerk(tools, [call("a_add", a=1, b=1), call("b_add", a=2, b=2), call("here")]).session()
    await session.run("go")
    assert sorted(fact.output for fact in session.facts if isinstance(fact, CallReturned)) == ["2", "4", "here"]


async def test_a_call_that_takes_too_long_is_answered_and_may_have_taken_effect(world):
    (world.folder / "hang").touch()
    _, (returned,) = await played(world, call("pay", cents=1), timeout=0.5)
    assert returned.status == "timeout"
    assert "may have taken effect" in returned.output
    await world.done(1)
    assert world.deeds == ["pay 1"]


async def test_a_server_from_pypi_serves_tools_to_an_agent_through_a_providers_sdk():
    """mcp-server-time as it is published, the OpenAI SDK, and the emulator with its law book between them."""
    time = MCPServer("time", command=[sys.executable, "-m", "mcp_server_time"], prefix="time_")
    async with time as server, serve(mind=[Use("time_convert_time", ZONES), "Midnight."]) as emulator:
        model = OpenAIResponses("gpt-5.1", base_url=emulator.openai_url, api_key="any")
        session = HandoffBuilder("desk", [Agent("clerk", model=model, tools=await server.tools())]).build().session()
        result = await session.run("What is 14:00 in Tokyo in New York?")
        assert result.status == "waiting", result
        (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
        assert returned.status == "ok"
        assert "America/New_York" in returned.output
        assert all(exchange.status == 200 for exchange in emulator.exchanges)


ZONES = '{"source_timezone": "Asia/Tokyo", "time": "14:00", "target_timezone": "America/New_York"}'


WRONG = {
    "neither command nor url": {},
    "both": {"command": ["x"], "url": "http://x"},
    "a command in one piece": {"command": "mcp-server-time"},
    "headers for a command": {"command": ["x"], "headers": {}},
    "env for a url": {"url": "http://x", "env": {}},
    "no address": {"url": "localhost:80"},
    "names in one piece": {"command": ["x"], "only": "add"},
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_said_at_once(given):
    with pytest.raises(BadInput):
        MCPServer("w", **given)


async def test_a_tool_that_is_wanted_and_not_there_is_told(listening):
    world = listening
    with pytest.raises(BadInput, match="has no tool 'nonesuch'"):
        await world.server(only=["nonesuch"]).tools()
    with pytest.raises(BadInput, match="names a tool that is not there"):
        await world.server(needs_approval=["nonesuch"]).tools()
    with pytest.raises(BadInput, match="tool 'add' of MCP server 'world': a tool cannot be named"):
        await world.server(prefix="handoff_to_", only=["add"]).tools()


def test_a_workflow_that_is_built_when_a_module_is_imported_needs_no_event_loop(tmp_path):
    tools = Stdio(tmp_path).server(only=["add"]).tools_sync()
    agent = Agent("clerk", model=ScriptedModel([call("add", a=20, b=1), "21"]), tools=tools)
    assert agent.run_sync("go").text == "21", "the call is made in another event loop, over a connection of its own"
