"""Tools of real MCP servers: their names, approval, and outputs."""

import sys

import pytest

from legato import Agent, HandoffBuilder, Image, tool
from legato.core.facts import CallReturned
from legato.emulator import serve
from legato.emulator.fake_models import ReplyCall
from legato.errors import BadInput
from legato.models import OpenAIResponses
from legato.testing import ScriptedModel, call
from legato.tools.mcp import MCPServer
from tests.tools.mcp.conftest import StdioExample, build_clerk
from tests.tools.mcp.example_server import PICTURE


async def run_calls(example, *calls, **options):
    """Run calls, and return the session and their `CallReturned` facts."""
    session = build_clerk(await example.make_server(needs_approval=False, **options).tools(), list(calls)).session()
    assert (await session.run("go")).text == "done"
    return session, [fact for fact in session.facts if isinstance(fact, CallReturned)]


async def test_results_and_errors_become_outputs(example):
    session, returned = await run_calls(
        example, call("add", a=2, b=3), call("weather", city="Rome"), call("picture"), call("fails"), call("add", a="two", b=3)
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


async def test_calls_need_approval_unless_read_only(http_example):
    example = http_example
    tools = {each.name: each for each in await example.make_server().tools()}
    assert {name for name, each in tools.items() if each.needs_approval} == {"pay", "look", "log_in_now"}
    assert not any(each.idempotent for each in tools.values()), "the server's hints are not trusted by default"


RULES = {
    "everything": (True, {"add", "pay"}),
    "nothing": (False, set()),
    "by name": (["add"], {"add"}),
    "by function": (lambda context, arguments, call: arguments.get("cents", 0) > 100, {"pay"}),
}


@pytest.mark.parametrize("rule", RULES)
async def test_needs_approval_rule_is_applied(http_example, rule):
    given, asked = RULES[rule]
    async with http_example.make_server(needs_approval=given) as server:
        session = build_clerk(await server.tools(), [call("add", a=1, b=1), call("pay", cents=500)]).session()
        result = await session.run("go")
        assert {request.tool for request in result.pending} == asked


async def test_approved_call_runs_once_with_its_arguments(example):
    session = build_clerk(await example.make_server().tools(), call("pay", cents=250)).session()
    (request,) = (await session.run("pay")).pending
    assert (request.tool, request.arguments, example.effects) == ("pay", {"cents": 250}, [])
    await session.approve(request)
    assert (await session.resume()).text == "done"
    assert example.effects == ["pay 250"]


async def test_names_get_prefixes_and_valid_characters(http_example):
    example = http_example
    tools = await example.make_server(prefix="w_", only=["add", "log.in/now"]).tools()
    assert [each.name for each in tools] == ["w_add", "w_log_in_now"]
    assert tools[1].secrets == {"password"}


async def test_secret_argument_is_masked_in_requests(http_example):
    example = http_example
    session = build_clerk(await example.make_server().tools(), call("log_in_now", user="ada", password="hunter2")).session()
    (request,) = (await session.run("log in")).pending
    assert "ada" in str(request)
    assert "hunter2" not in str(request)


async def test_two_servers_and_a_function_run_together(http_example):
    example = http_example

    @tool
    async def here() -> str:
        """Here."""
        return "here"

    tools = [
        *await example.make_server(prefix="a_", only=["add"]).tools(),
        *await example.make_server(prefix="b_", only=["add"]).tools(),
        here,
    ]
    session = build_clerk(tools, [call("a_add", a=1, b=1), call("b_add", a=2, b=2), call("here")]).session()
    await session.run("go")
    assert sorted(fact.output for fact in session.facts if isinstance(fact, CallReturned)) == ["2", "4", "here"]


async def test_timed_out_call_may_have_taken_effect(example):
    (example.folder / "hang").touch()
    _, (returned,) = await run_calls(example, call("pay", cents=1), timeout=0.5)
    assert returned.status == "timeout"
    assert "may have taken effect" in returned.output
    await example.wait_for_effects(1)
    assert example.effects == ["pay 1"]


async def test_published_server_works_through_provider_sdk():
    """The published mcp-server-time, the OpenAI SDK, with the emulator as the provider."""
    time = MCPServer("time", command=[sys.executable, "-m", "mcp_server_time"], prefix="time_")
    async with time as server, serve(fake_model=[ReplyCall("time_convert_time", ZONES), "Midnight."]) as emulator:
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
def test_invalid_options_are_refused_at_once(given):
    with pytest.raises(BadInput):
        MCPServer("w", **given)


async def test_unknown_tool_names_are_refused(http_example):
    example = http_example
    with pytest.raises(BadInput, match="has no tool 'nonesuch'"):
        await example.make_server(only=["nonesuch"]).tools()
    with pytest.raises(BadInput, match="names an unknown tool"):
        await example.make_server(needs_approval=["nonesuch"]).tools()
    with pytest.raises(BadInput, match="tool 'add' of MCP server 'example': a tool cannot be named"):
        await example.make_server(prefix="handoff_to_", only=["add"]).tools()


def test_tools_sync_needs_no_event_loop(tmp_path):
    tools = StdioExample(tmp_path).make_server(only=["add"]).tools_sync()
    agent = Agent("clerk", model=ScriptedModel([call("add", a=20, b=1), "21"]), tools=tools)
    assert agent.run_sync("go").text == "21", "the call runs in another event loop, over another connection"
