"""Workflows with slow models: one is silent until the folder has a file `go`, one asks to wait."""

from __future__ import annotations

import asyncio
from typing import Any

from legato import Agent, HandoffBuilder, Workflow
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.testing import ScriptedModel
from tests.engines.desk import shared_folder


async def wait_for_go(seen: ModelRequest) -> str:
    with (shared_folder() / "silent").open("a") as file:
        file.write(f"{seen.session_id}\n")
    while not (shared_folder() / "go").exists():  # noqa: ASYNC110 - another process creates it
        await asyncio.sleep(0.05)
    return "At last."


def ask_to_wait(seen: ModelRequest) -> str:
    """Fail the first attempt, with the message as the number of seconds to wait."""
    if seen.attempt == 1:
        raise ModelFailed("slow down", retryable=True, retry_after=float(seen.messages[-1].text))
    return "Hello!"


def make_workflow(name: str, reply: Any) -> Workflow:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(reply, name=name))]).build()


silent = make_workflow("silent", wait_for_go)
limited = make_workflow("limited", ask_to_wait)
healthy = make_workflow("healthy", lambda seen: "Hello!")
