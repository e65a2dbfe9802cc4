"""Real servers, as processes: one that an agent's tools start themselves, and one that listens."""

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
from legato.tools.mcp import MCPServer, connection, server

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
        async with asyncio.timeout(60):
            places = [place for each in self.opened for place in each._places.values() if place.connection]
            while not all(place.connection.over for place in places):  # noqa: ASYNC110 - the end of a process is heard of, not known
                await asyncio.sleep(0.01)

    async def restart(self):
        """The next call starts it."""

    @property
    def deeds(self):
        path = self.folder / "deeds"
        return path.read_text().splitlines() if path.exists() else []

    async def done(self, count):
        """Wait until so many deeds were done."""
        async with asyncio.timeout(60):
            while len(self.deeds) < count:  # noqa: ASYNC110 - another process does them
                await asyncio.sleep(0.01)


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
        raise AssertionError("it does not listen")


class Older(Http):
    """Spoken to as clients of 2025 did: with a handshake, and a session that the server forgets when it is restarted."""


@asynccontextmanager
async def opened(kind, folder, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", (0.0, *[0.2] * 150))  # however long a server needs to start on a busy machine
    if kind is Older:
        monkeypatch.setattr(connection, "Client", partial(Client, mode="legacy"))
    place = kind(folder)
    await place.restart()
    yield place
    for each in place.opened:
        await each.aclose()
    if isinstance(place, Http):
        await place.die()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One that listens for all tests of a module: starting a server takes longer than most of them do."""
    place = Http(tmp_path_factory.mktemp("world"))
    place.start()
    yield place
    place.process.kill()
    place.process.wait()


@pytest.fixture
async def listening(shared):
    """That one, as if it were new."""
    for name in ("deeds", "hang"):
        (shared.folder / name).unlink(missing_ok=True)
    shared.opened.clear()
    yield shared
    for each in shared.opened:
        await each.aclose()


@pytest.fixture(params=["stdio", "http"])
async def world(request, tmp_path):
    """A server, over each transport."""
    place = Stdio(tmp_path) if request.param == "stdio" else request.getfixturevalue("shared")
    for name in ("deeds", "hang"):
        (place.folder / name).unlink(missing_ok=True)
    place.opened.clear()
    yield place
    for each in place.opened:
        await each.aclose()


@pytest.fixture(params=[Stdio, Http, Older], ids=["stdio", "http", "http of 2025"])
async def mortal_world(request, tmp_path, monkeypatch):
    """The same, and over the older protocol, in which a server forgets its clients when it is restarted."""
    async with opened(request.param, tmp_path, monkeypatch) as place:
        yield place


def clerk(tools, *replies, **more):
    """A workflow of one agent that calls what it is told to, and then says done."""
    told = [*replies, "done"]
    model = ScriptedModel(lambda seen: told[min(seen.turn, len(told) - 1)])
    return HandoffBuilder("desk", [Agent("clerk", model=model, tools=tools, **more)]).build()


__all__ = ["ROOT", "Http", "Stdio", "call", "clerk"]
