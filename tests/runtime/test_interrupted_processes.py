"""Interrupted processes: Ctrl-C loses nothing, and a hanging tool does not block the end of a program."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call

PROGRAM = """
import asyncio, sys, time
from tests.runtime.test_interrupted_processes import build
from legato.stores import SQLiteStore

async def main():
    async with SQLiteStore(sys.argv[1]) as store:
        async for event in build(store, sys.argv[2]).session("s").run("go", stream=True):
            print(event.type, flush=True)

asyncio.run(main())
"""


def build(store, kind):
    @tool
    async def quick() -> str:
        return "quick"

    @tool
    async def slow_async() -> str:
        await asyncio.sleep(600)
        return "slow"

    @tool
    def slow_thread() -> str:
        time.sleep(600)
        return "slow"

    model = ScriptedModel(by_agent={"a": [["working", call("quick"), call(f"slow_{kind}")], "done"]})
    return HandoffBuilder("w", [Agent("a", model=model, tools=[quick, slow_async, slow_thread])]).with_checkpointing(store).build()


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_ctrl_c_during_tool_loses_nothing(tmp_path, kind):
    """The process ends at once."""
    path = tmp_path / "s.db"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-c", PROGRAM, path, kind]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    for line in program.stdout:
        if line.strip() == "tool_returned":  # the quick one is recorded, the slow one runs
            break
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=120)  # the program does not wait for the tool, which would take ten minutes

    async with SQLiteStore(path) as store:
        session = build(store, kind).session("s")
        await session.resume()
        [request] = session.pending
        assert request.kind == "outcome", "the outcome of the slow tool is unknown, so a person has to decide"
        await session.answer(request, "it did work")
        result = await session.resume()
        assert result.text == "done"
        outputs = [message.text for message in (await session.seen()).messages if message.role == "tool"]
        assert outputs == ["quick", "it did work"]


def test_program_ends_despite_hanging_sync_tool():
    release, ended = threading.Event(), []

    @tool(timeout=0.05)
    def stuck() -> str:
        ended.append(release.wait(600))
        return "never"

    result = Agent("a", model=ScriptedModel([call("stuck"), "it hung"]), tools=[stuck]).run_sync("go")
    assert result.text == "it hung"
    assert ended == []
    release.set()
