"""S4: credentials of MCP servers are in no ledger, log, error or repr."""

import logging

import pytest

from legato.errors import MCPFailed
from legato.testing import call
from legato.tools.mcp import MCPServer
from tests.tools.mcp.conftest import Stdio, clerk

CANARY = "canary-3f9a-of-a-credential"


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


async def test_the_environment_of_a_server_is_told_nowhere(tmp_path, logged, capfd):
    async with Stdio(tmp_path).server(env={"TOKEN": CANARY}) as server:
        session = clerk(await server.tools(), [call("add", a=1, b=1), call("says_secret")]).session("s")
        await session.run("go")
        text = await session.to_string()
        assert "token ***" in text, "an error that repeats it is an output without it"
        assert CANARY not in text + repr(server) + logged.text + "".join(capfd.readouterr())


async def test_what_a_server_says_before_it_dies_is_told_without_it(logged):
    server = MCPServer("w", command=["sh", "-c", 'echo "bad token $TOKEN" >&2; exit 3'], env={"TOKEN": CANARY})
    with pytest.raises(MCPFailed) as error:
        await server.tools()
    assert "bad token ***" in str(error.value)
    assert CANARY not in repr(error.value) + str(error.value.__cause__) + str(error.value.__context__) + logged.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", f"http://me:{CANARY}@127.0.0.1:9/mcp?key={CANARY}"])
async def test_headers_and_what_is_in_an_address_are_told_nowhere(url, logged, monkeypatch):
    monkeypatch.setattr("legato.tools.mcp.server.PATIENCE", (0.0,))
    server = MCPServer("w", url=url, headers={"Authorization": f"Bearer {CANARY}"})
    with pytest.raises(MCPFailed) as error:
        await server.tools()
    assert "127.0.0.1:9/mcp" in str(error.value)
    assert CANARY not in str(error.value) + repr(server) + str(error.value.__context__)
    if "@" not in url:
        assert CANARY not in logged.text
