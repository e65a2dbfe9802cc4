"""Real servers, as processes: one that an agent's tools start themselves, and one that listens."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder
from legato.testing import ScriptedModel, call
from legato.tools.mcp import MCPServer

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.tools.mcp.world"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stdio:
    """Started by whoever uses it."""

    def __init__(self, folder):
        self.folder = folder
        self.opened = []

    def server(self, **options):
        made = MCPServer("world", command=[*COMMAND, str(self.folder)], cwd=ROOT, **options)
        self.opened.append(made)
        return made

    async def die(self):
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)

    async def restart(self):
        """The next call starts it."""

    @property
    def deeds(self):
        path = self.folder / "deeds"
        return path.read_text().splitlines() if path.exists() else []

    async def done(self, count):
        """Wait until so many deeds were done."""
        for _ in range(500):
            if len(self.deeds) >= count:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"only {self.deeds}")


class Http(Stdio):
    """Listens on a port."""

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()
        self.process = None

    def server(self, **options):
        made = MCPServer("world", url=f"http://127.0.0.1:{self.port}/mcp", **options)
        self.opened.append(made)
        return made

    async def die(self):
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    async def restart(self):
        self.process = subprocess.Popen([*COMMAND, str(self.folder), "--http", str(self.port)], cwd=ROOT)
        for _ in range(500):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return
        raise AssertionError("it does not listen")


@pytest.fixture(params=[Stdio, Http], ids=["stdio", "http"])
async def world(request, tmp_path):
    place = request.param(tmp_path)
    await place.restart()
    yield place
    for server in place.opened:
        await server.aclose()
    if isinstance(place, Http):
        await place.die()


def clerk(tools, *replies, **more):
    """A workflow of one agent that calls what it is told to, and then says done."""
    told = [*replies, "done"]
    model = ScriptedModel(lambda seen: told[min(seen.turn, len(told) - 1)])
    return HandoffBuilder("desk", [Agent("clerk", model=model, tools=tools, **more)]).build()


__all__ = ["ROOT", "Http", "Stdio", "call", "clerk"]
