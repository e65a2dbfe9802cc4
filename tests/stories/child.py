"""Another process: takes up a conversation where its parent left it, and tells as JSON what it did.

Run as `python child.py <what> <arguments>`.
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
from legato.core.view import Request
from legato.errors import LegatoError
from legato.runtime.session import Session
from legato.stores import PostgresStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call
from legato.testing.people import Person
from legato.testing.story import Asked, World
from legato.workflow.workflow import HandoffBuilder, Workflow
from tests.stories import approvals, checking, handoffs


@contextlib.asynccontextmanager
async def opened(where: str) -> AsyncIterator[Store]:
    """A path means a file; a DSN and a tenant, with a bar between them, a database."""
    if "|" in where:
        dsn, _, tenant = where.partition("|")
        async with PostgresStore(dsn, tenant=tenant) as store:
            yield store
    else:
        async with SQLiteStore(where) as file:
            yield file


def shown(requests: list[Request]) -> list[list[tuple[str, str]]]:
    return [[(message.role, message.text) for message in request.messages] for request in requests]


async def told(session: Session, requests: list[Request], person: Person, world: World) -> dict[str, Any]:
    """Let a person carry the session on here, and tell what was asked and done."""
    await person.play(session)
    await checking.requests_of(session)
    return {"requests": shown(requests), "deeds": [deed for _, deed in world.deeds], "status": session.status}


async def cleanup() -> list[dict[str, Any]]:
    """Read sessions of the cleanup desk from stdin and decide the two cleanups of each."""
    results = []
    for given in json.loads(sys.stdin.read()):
        world, requests = World(), list[Request]()
        session = approvals.cleanup_desk(world).observed_by(Asked(requests)).load(given["text"])
        await session.refresh()
        asked = [(request.tool, request.arguments) for request in session.pending]
        person = Person(["Clean up and check"], approvals.decided(given["verdicts"]))
        results.append({"asked": asked, **await told(session, requests, person, world)})
    return results


async def go_on(path: str, id: str, *messages: str) -> dict[str, Any]:
    """Open a session of the three-turns desk in a file and say more."""
    async with opened(path) as store:
        world, requests = World(), list[Request]()
        session = handoffs.three_turns(world).observed_by(Asked(requests)).session(id, store=store)
        return await told(session, requests, Person(messages), world)


def slow_desk(world: World, flag: Path) -> Workflow:
    """A desk whose tool runs until a file appears."""

    @tool
    async def slow(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "slow")
        flag.with_suffix(".started").write_text(str(os.getpid()))
        while not flag.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.005)
        return "slowly done"

    def reply(seen: Request) -> Any:
        if not any(message.role == "tool" for message in seen.messages):
            return call("slow")
        return f"I heard {sum(message.role == 'user' for message in seen.messages)} messages."

    return HandoffBuilder("slow", [Agent("snail", model=ScriptedModel(reply), tools=[slow])]).build()


async def drive_slowly(path: str, flag: str) -> dict[str, Any]:
    async with opened(path) as store:
        world = World()
        result = await slow_desk(world, Path(flag)).session("slow", store=store).run("Go")
        return {"text": result.text, "deeds": [deed for _, deed in world.deeds], "status": result.status}


async def approve(path: str, request: str) -> dict[str, Any]:
    """Wait for a line on stdin, then approve at once and drive."""
    async with opened(path) as store:
        world = World()
        workflow = approvals.refund_desk(world, "queue")
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
        return {"outcome": outcome, "deeds": [deed for _, deed in world.deeds], "status": session.status}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(asyncio.run(globals()[what](*arguments))), flush=True)
