"""A hostile MCP server can neither block the event loop of a client nor fill its memory."""

import asyncio
import subprocess
import sys

import pytest

from legato.errors import BadInput, MCPFailed
from legato.tools.json_schema_arguments import JSONSchemaArguments
from legato.tools.json_schema_validation import MAX_STEPS, SchemaValidator, TooMuchWork
from legato.tools.mcp import MCPServer, MCPToolError, SchemaNotEnforced, mcp_server
from legato.tools.mcp.server_connection import HTTPTransport, mask_secrets
from legato.tools.tool_arguments import BadArguments
from legato.tools.tool_context import OutcomeUnknown
from tests.tools.mcp.conftest import ROOT, HttpExample
from tests.tools.mcp.hostile_server import EVIL, LOOKAHEAD, TOOLS

EVIL_WORD = "a" * 60 + "b"


class HostileHttp(HttpExample):
    def __init__(self, folder, kind):
        super().__init__(folder)
        self.kind = kind

    def start(self):
        command = [sys.executable, "-m", "tests.tools.mcp.hostile_server", self.kind, "--http", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT)
        self.wait_until_open()


def hostile(kind, **options):
    command = [sys.executable, "-m", "tests.tools.mcp.hostile_server", kind]
    return MCPServer("hostile", command=command, cwd=ROOT, needs_approval=False, **options)


@pytest.fixture
async def hostile_http(tmp_path):
    """Return a function that starts a hostile server over HTTP."""
    processes = []

    async def start(kind):
        process = HostileHttp(tmp_path, kind)
        await asyncio.to_thread(process.start)
        processes.append(process)
        return process.make_server(needs_approval=False)

    yield start
    for process in processes:
        for each in process.servers:
            await each.aclose()
        await process.kill()


def run_with_kill_switch(program):
    """Run a program in a process of its own: if the test fails, it would never end, and could not be interrupted."""
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True, capture_output=True, text=True).stdout


PATTERNS = {
    "pattern": ({"properties": {"word": {"pattern": EVIL}}}, {"word": EVIL_WORD}),
    "pattern of names": ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, {EVIL_WORD: 1}),
    "pattern in another dialect": (
        {"properties": {"word": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": EVIL}}},
        {"word": EVIL_WORD},
    ),
    "pattern within data": ({"$ref": "#/default", "default": {"propertyNames": {"pattern": EVIL}}}, {EVIL_WORD: 1}),
}


@pytest.mark.parametrize("case", PATTERNS)
def test_evil_pattern_is_matched_in_linear_time(case):
    schema, values = PATTERNS[case]
    program = (
        f"from legato.tools.json_schema_validation import SchemaValidator\nprint(len(SchemaValidator({schema!r}).find_errors({values!r})))"
    )
    assert run_with_kill_switch(program) == "1\n"


DOUBLED = {"d60": {"type": "string"}}
WORK = {
    kind: {"$ref": "#/$defs/d0", "$defs": {**{f"d{at}": {kind: [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)}, **DOUBLED}}
    for kind in ("allOf", "anyOf", "oneOf")
}
WORK["dependentSchemas"] = {
    "$ref": "#/$defs/d0",
    "unevaluatedProperties": False,
    "$defs": {**{f"d{at}": {"dependentSchemas": {name: {"$ref": f"#/$defs/d{at + 1}"} for name in "ab"}} for at in range(60)}, **DOUBLED},
}
WORK["enum"] = {"properties": {"a": {"items": {"enum": [{"a": at} for at in range(5000)]}}}}
WORK["large pattern"] = {"properties": {"c": {"pattern": "^(.?){600}x$"}}}


@pytest.mark.parametrize("case", WORK)
def test_validation_stops_at_its_budget(case):
    schema = WORK[case]
    program = (
        "from legato.tools.json_schema_validation import SchemaValidator, TooMuchWork\n"
        f"schema = SchemaValidator({schema!r})\n"
        f"try: schema.find_errors({{'a': [{{'a': 4999}}] * 5000, 'b': 1, 'c': 'y' * 1_000_000}})\n"
        "except TooMuchWork: print('stopped')"
    )
    assert run_with_kill_switch(program) == "stopped\n"


UNREADABLE = {
    "long": ({"description": "x" * 300_000}, "longer than"),
    "many parts": ({"allOf": [{} for _ in range(20_000)]}, "too much work"),
    "odd dialect": ({"$schema": []}, "is not text"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_schema_that_cannot_be_read_is_refused(case):
    schema, words = UNREADABLE[case]
    with pytest.raises(BadInput, match=f"the schema of MCP tool 'large' is not valid: .*{words}") as error:
        JSONSchemaArguments.from_schema("large", schema)
    assert "only=" in error.value.do


def test_large_arguments_are_checked_within_budget():
    row = {"type": "object", "properties": {name: {"type": "string"} for name in "abcde"}, "required": list("abcde")}
    schema = SchemaValidator({"properties": {"rows": {"items": row}}})
    assert schema.find_errors({"rows": [dict.fromkeys("abcde", "x")] * 1000}) == []
    with pytest.raises(TooMuchWork):
        schema.find_errors({"rows": [dict.fromkeys("abcde", "x")] * MAX_STEPS})


def test_model_is_told_to_pass_fewer_arguments():
    arguments = JSONSchemaArguments.from_schema("doubles", TOOLS["doubling"][0].input_schema)
    with pytest.raises(BadArguments, match="it did not run: pass fewer in one call"):
        arguments.validate("doubles", '{"word": "a"}')


async def test_reference_to_an_address_is_not_fetched(tmp_path):
    asked = []

    async def answer(reader, writer):
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as http_server:
        address = f"http://127.0.0.1:{http_server.sockets[0].getsockname()[1]}/schema"
        file = tmp_path / "schema.json"
        file.write_text("{}")
        for url in (address, file.as_uri()):
            arguments = JSONSchemaArguments.from_schema("fetches", {"properties": {"word": {"$ref": url}}})
            with pytest.raises(BadArguments, match="could not be checked"):
                await asyncio.to_thread(arguments.validate, "fetches", '{"word": 1}')
    assert asked == []


async def test_unsupported_pattern_is_reported_and_the_rest_enforced():
    async with hostile("patterns", only=["looks"]) as server:
        with pytest.warns(SchemaNotEnforced) as warned:
            (looks,) = await server.tools()
        assert [str(each.message).splitlines()[1] for each in warned] == [f"  - looks: pattern {LOOKAHEAD!r}"]
        await server.tools()  # the warning comes once
        assert looks.arguments.validate("looks", '{"word": "no digit"}') == {"word": "no digit"}
        with pytest.raises(BadArguments, match="count: 'two' is not of type 'integer'"):
            looks.arguments.validate("looks", '{"word": "no digit", "count": "two"}')


@pytest.mark.parametrize("words", ["no such key: k3y+99/secret", "no such key: k3y 99/secret", "at ?key=k3y+99/secret&v=1", "pa55word"])
def test_repeated_credentials_of_an_address_are_hidden(words):
    address = HTTPTransport(url="http://user:pa55word@host/mcp?key=k3y+99/secret&v=1", headers={})
    assert "99/secret" not in mask_secrets(address, words)
    assert "pa55word" not in mask_secrets(address, words)


def test_secret_names_and_values_are_not_repeated():
    secret = {"type": "object", "format": "password", "additionalProperties": False}
    arguments = JSONSchemaArguments.from_schema("pays", {"properties": {"card": secret}})
    for given in ('{"card": {"4111": 1}}', '{"card": "4111"}'):
        with pytest.raises(BadArguments) as error:
            arguments.validate("pays", given)
        assert "4111" not in str(error.value)


async def test_output_schema_is_not_matched_against_results():
    program = (
        "import asyncio, warnings\n"
        "from tests.tools.mcp.test_hostile_servers import hostile\n"
        "async def main():\n"
        "    async with hostile('patterns', only=['returns']) as server:\n"
        "        (tool,) = await server.tools()\n"
        "        print(await tool.function())\n"
        "asyncio.run(main())"
    )
    assert await asyncio.to_thread(run_with_kill_switch, program) == "said\n"


async def test_list_of_too_many_tools_is_refused():
    async with hostile("tools") as server:
        with pytest.raises(MCPFailed, match="the list of tools of MCP server 'hostile' is too long") as error:
            await server.tools()
        assert "1,000 tools" in error.value.expected
        assert "only=" in error.value.do


async def test_few_tools_can_be_chosen_from_many():
    async with hostile("tools", only=["tool_7", "tool_19999"]) as server:
        assert [each.name for each in await server.tools()] == ["tool_7", "tool_19999"]


async def test_list_without_a_last_page_is_refused():
    async with hostile("pages") as server:
        with pytest.raises(MCPFailed, match="too long"):
            await server.tools()


async def test_other_tasks_run_while_a_list_is_read(monkeypatch):
    monkeypatch.setattr(mcp_server, "MAX_TOOLS", 20_000)
    order = []
    async with hostile("tools", only=[f"tool_{at}" for at in range(100)]) as server:
        await server._connect(must_recheck=True)
        original = server._make_tool
        monkeypatch.setattr(server, "_make_tool", lambda listed: order.append("tool") or original(listed))

        async def tick():
            while True:
                order.append("tick")
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        await server._make_tools(server._current_tools)
        ticking.cancel()
    assert "tool tool" not in " ".join(order)


async def test_compressed_answer_is_not_unpacked(hostile_http):
    server = await hostile_http("compressed")
    (tool,) = await server.tools()
    with pytest.raises(OutcomeUnknown, match="the answer is compressed, which was not asked for"):
        await tool.function()


async def test_long_http_answer_is_not_read_completely(hostile_http):
    server = await hostile_http("long")
    (tool,) = await server.tools()
    with pytest.raises(MCPToolError, match=r"the answer is longer than 16,777,216 bytes\. It may have taken effect"):
        await tool.function()


async def test_long_line_ends_the_connection():
    async with hostile("long") as server:
        (tool,) = await server.tools()
        with pytest.raises(OutcomeUnknown):
            await tool.function()


async def test_endless_first_line_is_reported():
    server = MCPServer("endless", command=[sys.executable, "-c", "while True: print('x' * 65536, end='')"], connect_timeout=3)
    with pytest.raises(MCPFailed, match="a line of more than 16,777,216 bytes"):
        await server.tools()
