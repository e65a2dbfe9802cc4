"""A process that continues a conversation of its parent process, and prints its result as JSON.

Run as `python child_process.py <function> <arguments>`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from legato import Agent, ToolContext, tool
from legato.core.view import ModelRequest
from legato.errors import LegatoError
from legato.runtime.session import Session
from legato.stores import PostgresStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call
from legato.testing.scripted_users import ScriptedUser
from legato.testing.story import RequestRecorder, World
from legato.workflow.builder import HandoffBuilder
from legato.workflow.workflow import Workflow
from tests.stories import approvals, conversation_checks, handoffs


@contextlib.asynccontextmanager
async def open_store(place: str) -> AsyncIterator[Store]:
    """Open the store at a place: a path means a file; a DSN and a tenant, separated by a bar, a database."""
    if "|" in place:
        dsn, _, tenant = place.partition("|")
        async with PostgresStore(dsn, tenant=tenant) as store:
            yield store
    else:
        async with SQLiteStore(place) as file:
            yield file


def to_pairs(requests: list[ModelRequest]) -> list[list[tuple[str, str]]]:
    return [[(message.role, message.text) for message in request.messages] for request in requests]


async def play_session(session: Session, requests: list[ModelRequest], person: ScriptedUser, world: World) -> dict[str, Any]:
    """Let a person continue the session, and return the requests, the deeds and the status."""
    await person.play(session)
    await conversation_checks.rebuild_requests(session)
    return {"requests": to_pairs(requests), "deeds": [deed for _, deed in world.effects], "status": session.status}


async def decide_cleanups() -> list[dict[str, Any]]:
    """Read sessions of the cleanup desk from stdin and decide the two cleanups of each."""
    results = []
    for job in json.loads(sys.stdin.read()):
        world, requests = World(), list[ModelRequest]()
        session = approvals.build_cleanup_desk(world).with_middleware(RequestRecorder(requests)).load(job["text"])
        await session.refresh()
        requested = [(request.tool, request.arguments) for request in session.pending]
        person = ScriptedUser(["Clean up and check"], approvals.make_decide(job["verdicts"]))
        results.append({"pending": requested, **await play_session(session, requests, person, world)})
    return results


async def continue_session(path: str, id: str, *messages: str) -> dict[str, Any]:
    """Open a session of the three-turns desk in a file, and send more messages."""
    async with open_store(path) as store:
        world, requests = World(), list[ModelRequest]()
        session = handoffs.build_three_turns(world).with_middleware(RequestRecorder(requests)).session(id, store=store)
        return await play_session(session, requests, ScriptedUser(messages), world)


def build_slow_desk(world: World, flag: Path) -> Workflow:
    """Return a desk whose tool runs until a file appears."""

    @tool
    async def slow(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "slow")
        flag.with_suffix(".started").write_text(str(os.getpid()))
        while not flag.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.005)
        return "slowly done"

    def reply(seen: ModelRequest) -> Any:
        if not any(message.role == "tool" for message in seen.messages):
            return call("slow")
        return f"I heard {sum(message.role == 'user' for message in seen.messages)} messages."

    return HandoffBuilder("slow", [Agent("snail", model=ScriptedModel(reply), tools=[slow])]).build()


async def drive_slowly(path: str, flag: str) -> dict[str, Any]:
    async with open_store(path) as store:
        world = World()
        result = await build_slow_desk(world, Path(flag)).session("slow", store=store).run("Go")
        return {"text": result.text, "deeds": [deed for _, deed in world.effects], "status": result.status}


async def approve_on_signal(path: str, request: str) -> dict[str, Any]:
    """Wait for a line on stdin, then approve at once and drive."""
    async with open_store(path) as store:
        world = World()
        workflow = approvals.build_refund_desk(world, "queue")
        session = workflow.session("refund", store=store)
        await session.refresh()
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            await session.approve(request)
            outcome = "approved"
        except LegatoError as error:
            outcome = error.code
        await session.resume()
        return {"outcome": outcome, "deeds": [deed for _, deed in world.effects], "status": session.status}


if __name__ == "__main__":
    function, *arguments = sys.argv[1:]
    print(json.dumps(asyncio.run(globals()[function](*arguments))), flush=True)
