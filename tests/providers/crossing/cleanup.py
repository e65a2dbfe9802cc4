"""A desk with a gated tool and an open one, and the process that decides its requests: `python cleanup.py`, sessions on standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.runtime.session import Session
from tests.providers.failures.wires import WIRES, answers, should_hear


def desk(model: Any, ran: list[str]) -> Workflow:
    @tool(needs_approval=True)
    def cleanup(folder: str) -> str:
        """Remove what is in a folder."""
        ran.append(f"cleanup {folder}")
        return f"{folder} is clean"

    @tool
    def diagnose() -> str:
        """Look how things are."""
        ran.append("diagnose")
        return "all is well"

    keeper = Agent("keeper", instructions="You keep things clean.", model=model, tools=[cleanup, diagnose])
    return HandoffBuilder("cleanup", [keeper]).build()


async def decide(session: Session, verdicts: dict[str, str]) -> None:
    """Answer each request, the last one first."""
    for request in reversed(session.pending):
        folder = request.arguments["folder"]
        match verdicts[folder]:
            case "approve":
                await session.approve(request)
            case "reject":
                await session.reject(request, f"leave {folder} alone")
            case "edit":
                await session.edit(request, {"folder": f"{folder}/cache"})


async def decided(case: dict[str, Any]) -> dict[str, Any]:
    """Take a session up here, decide what it asks, and let it go on; what was done, and what the model should have been told."""
    ran: list[str] = []
    model = WIRES[case["wire"]](SimpleNamespace(url=case["url"]), case["key"], stream=case["stream"])
    session = await desk(model, ran).load(case["text"]).refresh()
    await decide(session, case["verdicts"])
    result = await session.resume()
    await model._clients().close()
    should = await should_hear(session, -1)
    return {"text": result.text, "error": result.error, "ran": ran, "response": answers(session)[-1].response_id, "seen": should}


async def main() -> list[dict[str, Any]]:
    return [await decided(case) for case in json.load(sys.stdin)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
