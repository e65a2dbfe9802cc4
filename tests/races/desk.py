"""A desk for two racing processes: one tool with approval, not idempotent, which writes a line to a file."""

from __future__ import annotations

import asyncio
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.view import ModelRequest
from legato.errors import NotPending
from legato.stores import PostgresStore, SQLiteStore, Store
from legato.testing import ScriptedModel, call


def open_store(database: str) -> Store:
    """Open the store of a SQLite path or a Postgres DSN."""
    return SQLiteStore(database) if database.startswith("/") else PostgresStore(database)


def build_desk(book: Path, store: Store) -> Workflow:
    @tool(needs_approval=True)
    async def pay(order: str, ctx: ToolContext[None]) -> str:
        """Pay an order."""
        written = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(written, f"{order}\n".encode())
        os.close(written)
        return f"paid {order}"

    def reply(seen: ModelRequest) -> object:
        return "done" if seen.messages[-1].role == "tool" else call("pay", order=seen.messages[-1].text)

    return HandoffBuilder("desk", [Agent("payer", model=ScriptedModel(reply), tools=[pay])]).with_checkpointing(store).build()


def approve_all(database: str, book: Path, times: int, together: Barrier, results: Path) -> None:
    """Approve the request of every session at the same time as the other process, and resume it."""
    won, lost = asyncio.run(_approve_all(database, book, times, together))
    results.write_text(f"{won} {lost}")


async def _approve_all(database: str, book: Path, times: int, together: Barrier) -> tuple[int, int]:
    won = lost = 0
    store = open_store(database)
    try:
        desk = build_desk(book, store)
        for number in range(times):
            session = await desk.session(f"s{number}").refresh()
            request = session.pending[0]
            together.wait()
            try:
                await session.approve(request)
                won += 1
            except NotPending:
                lost += 1
            result = await session.resume()
            assert result.status == "waiting", result
            together.wait()
    finally:
        await store.close()
    return won, lost
