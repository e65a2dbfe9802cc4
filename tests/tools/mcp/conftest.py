"""Real MCP servers as processes, over stdio and HTTP."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from mcp import Client

from legato import Agent, HandoffBuilder
from legato.testing import ScriptedModel, call
from legato.tools.mcp import MCPServer, mcp_server, server_connection

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.tools.mcp.example_server"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class StdioExample:
    """The example server over stdio. The client starts it."""

    def __init__(self, folder):
        self.folder = folder
        self.servers = []

    def make_server(self, **options):
        server = MCPServer("example", command=[*COMMAND, str(self.folder)], cwd=ROOT, **options)
        self.servers.append(server)
        return server

    async def kill(self):
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        async with asyncio.timeout(60):
            loop_connections = [each for server in self.servers for each in server._loop_connections.values() if each.connection]
            while not all(each.connection.has_ended for each in loop_connections):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)

    async def restart(self):
        """Do nothing: the next call starts the server."""

    @property
    def effects(self):
        path = self.folder / "effects"
        return path.read_text().splitlines() if path.exists() else []

    async def wait_for_effects(self, count):
        """Wait until the server has recorded so many effects."""
        async with asyncio.timeout(60):
            while len(self.effects) < count:  # noqa: ASYNC110 - another process records them
                await asyncio.sleep(0.01)


class HttpExample(StdioExample):
    """The example server over HTTP, as a process of its own."""

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()
        self.process = None

    def make_server(self, **options):
        server = MCPServer("example", url=f"http://127.0.0.1:{self.port}/mcp", **options)
        self.servers.append(server)
        return server

    async def kill(self):
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    async def restart(self):
        await asyncio.to_thread(self.start)

    def start(self):
        self.process = subprocess.Popen([*COMMAND, str(self.folder), "--http", str(self.port)], cwd=ROOT)
        self.wait_until_open()

    def wait_until_open(self):
        for _ in range(1500):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("the server does not listen")


class LegacyHttpExample(HttpExample):
    """The example server with the protocol of 2025: with a handshake, and a session that a restarted server does not know."""


@asynccontextmanager
async def open_example(kind, folder, monkeypatch):
    monkeypatch.setattr(mcp_server, "RETRY_PAUSES_S", (0.0, *[0.2] * 150))  # starting takes long on a busy machine
    if kind is LegacyHttpExample:
        monkeypatch.setattr(server_connection, "Client", partial(Client, mode="legacy"))
    example = kind(folder)
    await example.restart()
    yield example
    for each in example.servers:
        await each.aclose()
    if isinstance(example, HttpExample):
        await example.kill()


@pytest.fixture(scope="module")
def shared_example(tmp_path_factory):
    """Run an HTTP server for all tests of a module: starting one takes longer than most tests."""
    example = HttpExample(tmp_path_factory.mktemp("example"))
    example.start()
    yield example
    example.process.kill()
    example.process.wait()


@pytest.fixture
async def http_example(shared_example):
    """Return the shared HTTP server, without traces of earlier tests."""
    for name in ("effects", "hang"):
        (shared_example.folder / name).unlink(missing_ok=True)
    shared_example.servers.clear()
    yield shared_example
    for each in shared_example.servers:
        await each.aclose()


@pytest.fixture(params=["stdio", "http"])
async def example(request, tmp_path):
    """Return an example server, over each transport."""
    example = StdioExample(tmp_path) if request.param == "stdio" else request.getfixturevalue("shared_example")
    for name in ("effects", "hang"):
        (example.folder / name).unlink(missing_ok=True)
    example.servers.clear()
    yield example
    for each in example.servers:
        await each.aclose()


@pytest.fixture(params=[StdioExample, HttpExample, LegacyHttpExample], ids=["stdio", "http", "http of 2025"])
async def killable_example(request, tmp_path, monkeypatch):
    """Return an example server that the test may kill, over each transport and with the older protocol."""
    async with open_example(request.param, tmp_path, monkeypatch) as example:
        yield example


def build_clerk(tools, *replies, **more):
    """Build a workflow of one agent with these replies, and then "done"."""
    script = [*replies, "done"]
    model = ScriptedModel(lambda request: script[min(request.reply_count, len(script) - 1)])
    return HandoffBuilder("desk", [Agent("clerk", model=model, tools=tools, **more)]).build()


__all__ = ["ROOT", "HttpExample", "StdioExample", "build_clerk", "call"]
