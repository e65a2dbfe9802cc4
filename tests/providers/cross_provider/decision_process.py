"""A workflow with a gated and an open tool, and a process that decides its requests: sessions come on standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.runtime.session import Session
from tests.providers.failures.emulator_harness import FORMATS, find_expected_contents, find_replies


def make_desk(model: Any, ran: list[str]) -> Workflow:
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


async def decide_requests(session: Session, decisions: dict[str, str]) -> None:
    """Answer each request, the last one first."""
    for request in reversed(session.pending):
        folder = request.arguments["folder"]
        match decisions[folder]:
            case "approve":
                await session.approve(request)
            case "reject":
                await session.reject(request, f"leave {folder} alone")
            case "edit":
                await session.edit(request, {"folder": f"{folder}/cache"})


async def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """Load a session, decide its requests and resume it. Returns the tool runs and the expected contents of the next request."""
    ran: list[str] = []
    model = FORMATS[case["wire"]](SimpleNamespace(url=case["url"]), case["key"], stream=case["stream"])
    session = await make_desk(model, ran).load(case["text"]).refresh()
    await decide_requests(session, case["verdicts"])
    result = await session.resume()
    await model._clients().close()
    should = await find_expected_contents(session, -1)
    return {"text": result.text, "error": result.error, "ran": ran, "response": find_replies(session)[-1].response_id, "seen": should}


async def main() -> list[dict[str, Any]]:
    return [await run_case(case) for case in json.load(sys.stdin)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
