"""A program that gets killed. Drives one SQLite session through a fixed story; its tools write to a file, and it tells each acknowledged
position on a pipe before it goes on. Whoever kills it starts it again until the story is over."""

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
from legato.core.view import Request
from legato.stores import SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from legato.testing.people import Person, Verdict, approve_all
from legato.workflow.workflow import Workflow

SESSION = "victim"
MESSAGES = ["Order 7 arrived broken", "And order 8?", "Thank you"]
IDEMPOTENT = frozenset({"look_up"})
GATED = frozenset({"refund"})


class TellingStore(SQLiteStore):
    """Writes down what was acknowledged, for the one who will ask for it: after the append, before anybody acts on it."""

    acks: int = -1

    async def append(self, ledger: str, expected: int, facts: Sequence[AnyFact], **more: Any) -> int:
        length = await super().append(ledger, expected, facts, **more)
        os.write(self.acks, f"{expected} {length} {','.join(type(fact).__name__ for fact in facts)}\n".encode())
        return length


def build(deeds: int) -> Workflow:
    """A desk whose tools append a line to a file, flushed to the disk, and do nothing else."""

    def did(ctx: ToolContext[Any], what: str) -> str:
        os.write(deeds, f"{ctx.idempotency_key} {what}\n".encode())
        os.fsync(deeds)
        return what

    @tool(idempotent=True)
    async def look_up(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return did(ctx, f"look_up-{order}")

    @tool(needs_approval=True)
    async def refund(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return did(ctx, f"refund-{order}")

    @tool
    async def notify(order: str, ctx: ToolContext[Any]) -> str:
        await asyncio.sleep(0.0003)
        return did(ctx, f"notify-{order}")

    def triage(seen: Request) -> Any:
        if seen.messages[-1].text == "Thank you":
            return "You are welcome."
        return [call("look_up", order=str(7 + seen.agent_turn)), handoff("refunds", "wants money")]

    def refunds(seen: Request) -> Any:
        order = str(7 + seen.agent_turn // 3)
        match seen.agent_turn % 3:
            case 0:
                return [call("refund", order=order), call("notify", order=order), call("look_up", order=order)]
            case 1:
                return ["Refunded.", handoff("closing")]
            case _:
                return "Back to triage."

    def reply(seen: Request) -> Any:
        if seen.agent == "triage":
            return triage(seen)
        if seen.agent == "closing":
            return [call("notify", order="closed"), handoff("triage")] if seen.agent_turn % 2 else f"Closed {seen.agent_turn}."
        return refunds(seen)

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


async def live(folder: Path, acks: int) -> None:
    """One life: carry the story on from wherever the ledger says it is, to its end."""
    deeds = os.open(folder / "deeds", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    store = TellingStore(folder / "ledger.db")
    store.acks = acks
    session = build(deeds).session(SESSION, store=store)

    def decide(request: Pending) -> Verdict:
        if request.kind != "outcome":
            return approve_all(request)  # type: ignore[return-value]
        opened = next(fact for fact in session.facts if isinstance(fact, Opened))
        key = f"{opened.ledger}:{request.call}"
        done = [line.split(" ")[1] for line in (folder / "deeds").read_text().splitlines() if line.split(" ")[0] == key]
        return ("answer", done[-1]) if done else "approve"

    await Person(MESSAGES, decide).play(session)
    await store.close()


def main(folder: str, acks: str) -> None:
    asyncio.run(live(Path(folder), int(acks)))
    os.write(int(acks), b"over\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
