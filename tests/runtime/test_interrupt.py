"""Ctrl-C loses nothing, and a tool that hangs holds up nobody."""

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
from tests.runtime.test_interrupt import build
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
async def test_ctrl_c_in_the_middle_of_a_tool_ends_at_once_and_loses_nothing(tmp_path, kind):
    path = tmp_path / "s.db"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-c", PROGRAM, path, kind]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    for line in program.stdout:
        if line.strip() == "tool_returned":  # the quick one is recorded, the slow one runs
            break
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=120)  # a program that is asked to end does not wait for a tool, which runs for ten minutes

    async with SQLiteStore(path) as store:
        session = build(store, kind).session("s")
        await session.resume()
        [request] = session.pending
        assert request.kind == "outcome", "nobody knows how the slow tool ended, so a person is asked"
        await session.answer(request, "it did work")
        result = await session.resume()
        assert result.text == "done"
        outputs = [message.text for message in (await session.seen()).messages if message.role == "tool"]
        assert outputs == ["quick", "it did work"]


def test_a_program_ends_although_a_sync_tool_never_returned_from_its_time_limit():
    release, ended = threading.Event(), []

    @tool(timeout=0.05)
    def stuck() -> str:
        ended.append(release.wait(600))
        return "never"

    result = Agent("a", model=ScriptedModel([call("stuck"), "it hung"]), tools=[stuck]).run_sync("go")
    assert result.text == "it hung"
    assert ended == []
    release.set()
