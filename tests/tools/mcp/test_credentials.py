"""S4: credentials of MCP servers are in no ledger, log, error or repr."""

import logging

import pytest

from legato.errors import MCPFailed
from legato.testing import call
from legato.tools.mcp import MCPServer
from tests.tools.mcp.conftest import StdioExample, build_clerk

CANARY = "canary-3f9a-of-a-credential"


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


async def test_environment_of_server_appears_nowhere(tmp_path, logged, capfd):
    async with StdioExample(tmp_path).make_server(env={"TOKEN": CANARY}) as server:
        session = build_clerk(await server.tools(), [call("add", a=1, b=1), call("says_secret")]).session("s")
        await session.run("go")
        text = await session.to_string()
        assert "token ***" in text, "the credential is masked in an output"
        assert CANARY not in text + repr(server) + logged.text + "".join(capfd.readouterr())


async def test_standard_error_is_reported_without_credentials(logged):
    server = MCPServer("w", command=["sh", "-c", 'echo "bad token $TOKEN" >&2; exit 3'], env={"TOKEN": CANARY})
    with pytest.raises(MCPFailed) as error:
        await server.tools()
    assert "bad token ***" in str(error.value)
    assert CANARY not in repr(error.value) + str(error.value.__cause__) + str(error.value.__context__) + logged.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", f"http://me:{CANARY}@127.0.0.1:9/mcp?key={CANARY}"])
async def test_headers_and_url_credentials_appear_nowhere(url, logged, monkeypatch):
    monkeypatch.setattr("legato.tools.mcp.mcp_server.RETRY_PAUSES_S", (0.0,))
    server = MCPServer("w", url=url, headers={"Authorization": f"Bearer {CANARY}"})
    with pytest.raises(MCPFailed) as error:
        await server.tools()
    assert "127.0.0.1:9/mcp" in str(error.value)
    assert CANARY not in str(error.value) + repr(server) + str(error.value.__context__)
    if "@" not in url:
        assert CANARY not in logged.text
