"""Workflows for workers of these tests whose models are slow: one is silent until the folder has a file `go`, one asks to wait."""

from __future__ import annotations

import asyncio
from typing import Any

from legato import Agent, HandoffBuilder, Workflow
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.testing import ScriptedModel
from tests.engines.desk import folder


async def wait_for_go(seen: Request) -> str:
    with (folder() / "silent").open("a") as file:
        file.write(f"{seen.session}\n")
    while not (folder() / "go").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.05)
    return "At last."


def ask_to_wait(seen: Request) -> str:
    """The user says for how many seconds."""
    if seen.attempt == 1:
        raise ModelFailed("slow down", retryable=True, retry_after=float(seen.messages[-1].text))
    return "Hello!"


def workflow_of(name: str, reply: Any) -> Workflow:
    return HandoffBuilder(name, [Agent("clerk", model=ScriptedModel(reply, name=name))]).build()


silent = workflow_of("silent", wait_for_go)
limited = workflow_of("limited", ask_to_wait)
healthy = workflow_of("healthy", lambda seen: "Hello!")
