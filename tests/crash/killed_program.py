"""The program that is killed: it drives one SQLite session through a fixed story.

Its tools write to a file, and it writes each acknowledged append to a pipe before it continues. `process_kills` starts it again until the
story is over.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, ToolContext, tool
from legato.core.facts import AnyFact, Opened
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from legato.testing.scripted_users import ScriptedUser, Verdict, approve_all
from legato.workflow.workflow import Workflow

SESSION = "killed"
EFFECTS_FILE = "effects"
MESSAGES = ["Order 7 arrived broken", "And order 8?", "Thank you"]
IDEMPOTENT_TOOLS = frozenset({"look_up"})
TOOLS_NEEDING_APPROVAL = frozenset({"refund"})


class AcknowledgingStore(SQLiteStore):
    """A store that writes each acknowledged append to a pipe, before its caller gets the acknowledgement."""

    pipe: int = -1

    async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
        length = await super().append(ledger, expected, facts, **more)
        os.write(self.pipe, f"{expected} {length} {','.join(type(fact).__name__ for fact in facts)}\n".encode())
        return length


def build_desk(effects_file: int) -> Workflow:
    """A desk whose tools append a line to a file, flushed to the disk, and do nothing else."""

    def record_effect(ctx: ToolContext[Any], effect: str) -> str:
        os.write(effects_file, f"{ctx.idempotency_key} {effect}\n".encode())
        os.fsync(effects_file)
        return effect

    @tool(idempotent=True)
    async def look_up(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return record_effect(ctx, f"look_up-{order}")

    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return record_effect(ctx, f"refund-{order}")

    @tool
    async def notify(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return record_effect(ctx, f"notify-{order}")

    def triage(request: ModelRequest) -> Any:
        if request.messages[-1].text == "Thank you":
            return "You are welcome."
        return [call("look_up", order=str(7 + request.agent_reply_count)), handoff("refunds", "wants money")]

    def refunds(request: ModelRequest) -> Any:
        order = str(7 + request.agent_reply_count // 3)
        match request.agent_reply_count % 3:
            case 0:
                return [call("refund", order=order), call("notify", order=order), call("look_up", order=order)]
            case 1:
                return ["Refunded.", handoff("closing")]
            case _:
                return "Back to triage."

    def reply(request: ModelRequest) -> Any:
        if request.agent == "triage":
            return triage(request)
        if request.agent == "closing":
            return (
                [call("notify", order="closed"), handoff("triage")]
                if request.agent_reply_count % 2
                else f"Closed {request.agent_reply_count}."
            )
        return refunds(request)

    model = ScriptedModel(reply)
    return (
        HandoffBuilder(
            "desk",
            [
                Agent("triage", model=model, tools=[look_up]),
                Agent("refunds", model=model, tools=[refund, notify, look_up]),
                Agent("closing", model=model, tools=[notify]),
            ],
        )
        .with_next_turn("start")
        .build()
    )


async def run_story(folder: Path, pipe: int) -> None:
    """Continue the story from the ledger's last fact to its end."""
    effects_file = os.open(folder / EFFECTS_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    store = AcknowledgingStore(folder / "ledger.db")
    store.pipe = pipe
    session = build_desk(effects_file).session(SESSION, store=store)

    def decide(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return approve_all(request)  # type: ignore[return-value]
        opened = next(fact for fact in session.facts if isinstance(fact, Opened))
        key = f"{opened.ledger_id}:{request.call}"
        effects = [line.split(" ")[1] for line in (folder / EFFECTS_FILE).read_text().splitlines() if line.split(" ")[0] == key]
        return ("answer", effects[-1]) if effects else "approve"

    await ScriptedUser(MESSAGES, decide).play(session)
    await store.close()


def main(folder: str, pipe: str) -> None:
    asyncio.run(run_story(Path(folder), int(pipe)))
    os.write(int(pipe), b"over\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
