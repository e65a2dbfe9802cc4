"""Measurements of the cost of size, as ratios within one run, so that they hold on any machine."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from legato import Agent, HandoffBuilder, Limits, Workflow
from legato.core.facts import Call, OutputText
from legato.core.groups import AssistantEntry
from legato.core.history_policies import Everything
from legato.core.messages import render_content
from legato.core.view import ModelRequest, select_groups
from legato.models import ModelReply
from legato.models.model import Emit
from legato.runtime.session import Session
from legato.stores import SQLiteStore
from legato.stores.contract import Store
from legato.testing import handoff

REPLY = "I have looked into this part of the question and will pass on what I found, so that nothing is lost on the way. " * 4
"""About a hundred tokens: a short reply of a model."""


class PassingModel:
    """A model that hands over to the other agent `times` times, then answers. It costs nothing itself."""

    name = "passing"

    def __init__(self, times: int, on_request: Callable[[], None] = lambda: None) -> None:
        self._times = times
        self._on_request = on_request

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self._on_request()
        if request.reply_count >= self._times:
            return ModelReply(items=(OutputText(f"done: {request.groups[0].content}"),))
        return ModelReply(items=(OutputText(REPLY), handoff("b" if request.agent == "a" else "a", "your turn")))


def build_ping_pong(model: PassingModel, store: Store | None = None) -> Workflow:
    builder = HandoffBuilder("ping-pong", [Agent("a", "You are a.", model), Agent("b", "You are b.", model)])
    if store is not None:
        builder.with_checkpointing(store)
    return builder.with_limits(Limits(turns=1_000_000)).build()


async def measure_handoffs(path: Path, times: int = 800) -> dict[str, float]:
    """Hand back and forth in one run; compare the last hundred handoffs with the first, and the file with its texts."""
    marks: list[float] = []
    async with SQLiteStore(path) as store:
        workflow = build_ping_pong(PassingModel(times, lambda: marks.append(time.process_time())), store)
        session = workflow.session("s")
        gc.disable()  # a collection would count for the hundred handoffs in which it happens
        try:
            result = await session.run("go")
        finally:
            gc.enable()
        assert result.text == "done: go"
        spans = [after - before for before, after in pairwise(marks)]
        first, last = statistics.median(spans[:100]), statistics.median(spans[-100:])
        text_bytes = count_conversation_bytes(session)
    return {"first_ms": first * 1e3, "last_ms": last * 1e3, "last/first": last / first, "file/said": path.stat().st_size / text_bytes}


def count_conversation_bytes(session: Session) -> int:
    """Return the bytes of all texts, calls (tool and arguments) and outputs, as every agent gets them."""
    total = 0
    for group in select_groups(session.state, Everything(), "a"):
        for entry in group.entries:
            if not isinstance(entry, AssistantEntry):
                total += len(render_content(entry.content).encode())
                continue
            for item in entry.items:
                total += len(f"{item.tool}{item.arguments}".encode() if isinstance(item, Call) else item.text.encode())
    return total


async def measure_opening(path: Path, facts: int = 10_000) -> dict[str, float]:
    """Open a conversation of many facts; compare that with the minimum: read the rows and parse their JSON."""
    async with SQLiteStore(path) as store:
        workflow = build_ping_pong(PassingModel(facts // 2), store)
        await workflow.session("s").run("go")
    best, limit = float("inf"), float("inf")
    for _ in range(5):
        async with SQLiteStore(path) as store:
            await store.list()  # opening the file is not measured
            begun = time.perf_counter()
            session = await build_ping_pong(PassingModel(0), store).session("s").refresh()
            best = min(best, time.perf_counter() - begun)
            assert session.status == "waiting"
        begun = time.perf_counter()
        with sqlite3.connect(path) as connection:
            rows = [json.loads(body) for (body,) in connection.execute("SELECT body FROM facts ORDER BY key")]
        limit = min(limit, time.perf_counter() - begun)
        connection.close()
    return {"facts": len(rows), "open_ms": best * 1e3, "bare_ms": limit * 1e3, "open/bare": best / limit}


async def measure_concurrent_sessions(sessions: int = 1_000, times: int = 10) -> dict[str, float]:
    """Run many conversations concurrently in one process, ten handoffs each, and check that none gets another's text."""
    workflow = build_ping_pong(PassingModel(times))
    begun = time.process_time()

    async def run_session(number: int) -> str:
        result = await workflow.session(f"s{number}").run(f"question {number}")
        return str(result.text)

    answers = await asyncio.gather(*(run_session(number) for number in range(sessions)))
    assert answers == [f"done: question {number}" for number in range(sessions)], "a conversation got another's text"
    spent = time.process_time() - begun
    return {"sessions": sessions, "cpu_s": spent, "handoffs/s": sessions * times / spent}
