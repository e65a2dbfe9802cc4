"""The bare limit: a hand-written loop that does the least that is correct.

A message is encoded once, when it is said. A request is the join of what is there. A durable conversation appends rows to SQLite with the
settings of Legato's store: write-ahead log, `synchronous=NORMAL`, and `FULL` for what must be known before a tool starts. Nothing else: no
validation, no events, no leases, no checks, no second writer.
"""

from __future__ import annotations

import asyncio
import json
import platform
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import _path  # noqa: F401 - this tree can be imported from here on

from bench.measuring import Clock, Figures, Options, crowd, crowd_reply, first_and_last, main, median_opening, size_of
from bench.sdk_calls import KEY, MODEL, Say, w7
from bench.workloads import (
    INSTRUCTIONS,
    PASSED,
    TOOLS,
    Call,
    Play,
    Seen,
    Turn,
    arguments,
    chat_with_tools,
    ping_pong,
    plain_chat,
)

SYNC = {"normal": ("NORMAL", "NORMAL"), "effects": ("NORMAL", "FULL"), "full": ("FULL", "FULL")}
"""For an ordinary append, and for one before a tool starts."""
HEAD = json.dumps({"model": MODEL, "input": [{"role": "developer", "content": INSTRUCTIONS}]})[:-2].encode()
TAIL = b"]}"

quoted = json.encoder.encode_basestring_ascii


class File:
    """The rows of one conversation."""

    def __init__(self, path: Path, sync: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS items(position INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self.ordinary, self.before_tools = SYNC[sync]
        self.now = ""

    def append(self, items: list[bytes], before_tools: bool) -> None:
        wanted = self.before_tools if before_tools else self.ordinary
        if wanted != self.now:
            self.db.execute(f"PRAGMA synchronous={wanted}")
            self.now = wanted
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO items(body) VALUES (?)", ((item,) for item in items))
        self.db.execute("COMMIT")

    def read(self) -> list[bytes]:
        return [body for (body,) in self.db.execute("SELECT body FROM items ORDER BY position")]


class Conversation:
    """What was said, encoded; in a file too, if there is one."""

    def __init__(self, file: File | None = None) -> None:
        self.file = file
        self.items = [b"," + item for item in file.read()] if file else []
        """Each with the comma that parts it from what comes before: so a request is one join, and one copy."""

    def add(self, *items: bytes, before_tools: bool = False) -> None:
        if self.file:
            self.file.append(list(items), before_tools)
        self.items.extend(b"," + item for item in items)

    def request(self) -> bytes:
        return b"".join((HEAD, *self.items, TAIL))


def words(role: str, text: str) -> bytes:
    return f'{{"role":"{role}","content":{quoted(text)}}}'.encode()


def said(turn: Turn) -> list[bytes]:
    """A reply's words and calls."""
    return [words("assistant", turn.text), *map(called, turn.calls)]


def called(call: Call) -> bytes:
    return f'{{"type":"function_call","call_id":"{call.id}","name":"{call.tool}","arguments":{quoted(arguments(call))}}}'.encode()


def output(id: str, text: str) -> bytes:
    return f'{{"type":"function_call_output","call_id":"{id}","output":{quoted(text)}}}'.encode()


class Model:
    """The fake model: it is given the bytes of a request."""

    def __init__(self, play: Play) -> None:
        self.play = play

    async def reply(self, request: bytes) -> Turn:
        return self.play.next(lambda: seen(request))


def seen(request: bytes) -> Seen:
    items = json.loads(request)["input"]
    return Seen(
        [item.get("content") or item.get("output", "") for item in items],
        [item["call_id"] for item in items if item.get("type") == "function_call"],
        [item["call_id"] for item in items if item.get("type") == "function_call_output"],
    )


async def run(talk: Conversation, model: Model, tools: dict[str, Callable[[str], Awaitable[str]]], gated: str = "") -> Turn:
    """Until the model calls nothing, or something that waits for a person. Handoffs are answered; the agents share model and history."""
    while True:
        turn = await model.reply(talk.request())
        if not turn.calls:
            talk.add(*said(turn))
            return turn
        if turn.calls[0].to:
            talk.add(*said(turn), output(turn.calls[0].id, PASSED))
            continue
        talk.add(*said(turn), before_tools=True)
        open_calls = [call for call in turn.calls if call.tool != gated]
        outputs = await asyncio.gather(*(tools[call.tool](json.loads(arguments(call))["key"]) for call in open_calls))
        talk.add(*(output(call.id, text) for call, text in zip(open_calls, outputs, strict=True)))
        if gated:
            return turn


def tools_of(play: Play) -> dict[str, Callable[[str], Awaitable[str]]]:
    def make(tool: str) -> Callable[[str], Awaitable[str]]:
        async def look(key: str) -> str:
            return play.output(tool, key)

        return look

    return {tool: make(tool) for tool in TOOLS}


# -- the workloads -----------------------------------------------------------------------------------------------------------------


async def w1(options: Options) -> AsyncIterator[Figures]:
    play = ping_pong(options.n)
    talk = Conversation()
    with Clock(play) as clock:
        talk.add(words("user", play.user(0)))
        await run(talk, Model(play), {})
    yield clock.figures(options.n, extra=first_and_last(play))


async def w2(options: Options) -> AsyncIterator[Figures]:
    for sync in ("normal", "full"):
        if options.wants(sync):
            play, path = ping_pong(options.n), options.folder / f"{sync}.db"
            file = File(path, sync)
            talk = Conversation(file)
            with Clock(play) as clock:
                talk.add(words("user", play.user(0)))
                await run(talk, Model(play), {})
            file.db.close()
            yield clock.figures(options.n, sync, stored_bytes=size_of(path), written_bytes=clock.written, extra=first_and_last(play))


async def w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "effects", "full"):
        if options.wants(variant):
            play, path = chat_with_tools(options.n), options.folder / f"{variant}.db"
            file = None if variant == "memory" else File(path, variant)
            talk, model, tools = Conversation(file), Model(play), tools_of(play)
            with Clock(play) as clock:
                for number in range(options.n):
                    talk.add(words("user", play.user(number)))
                    await run(talk, model, tools)
            if file:
                file.db.close()
            yield clock.figures(options.n, variant, stored_bytes=size_of(path) if file else None, written_bytes=clock.written)


async def w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("store", "opened anew", "whole state"):
        if options.wants(variant):
            yield await approvals(options.n, variant, options.folder / variant)


async def approvals(n: int, variant: str, path: Path) -> Figures:
    play = chat_with_tools(n)
    model, tools, gated = Model(play), tools_of(play), TOOLS[0]
    kept = File(path, "effects") if variant == "store" else None

    def opened() -> Conversation:
        """As a new handle, or another process, would find it."""
        if variant != "whole state":
            return Conversation(kept or File(path, "effects"))
        talk = Conversation()
        talk.items = [f",{json.dumps(item)}".encode() for item in json.loads(path.read_bytes())] if path.exists() else []
        return talk

    def saved(talk: Conversation) -> None:
        if talk.file and not kept:
            talk.file.db.close()
        elif not talk.file:
            path.write_bytes(b"[" + b"".join(talk.items)[1:] + b"]")

    with Clock(play) as clock:
        talk = opened()
        for number in range(n):
            talk.add(words("user", play.user(number)))
            asked = await run(talk, model, tools, gated)
            saved(talk)
            talk = opened()
            approved = next(call for call in asked.calls if call.tool == gated)
            talk.add(output(approved.id, await tools[gated](approved.key)), before_tools=True)
            await run(talk, model, tools)
        saved(talk)
        if kept:
            kept.db.close()
    return clock.figures(n, variant, stored_bytes=size_of(path), written_bytes=clock.written)


async def w5(options: Options) -> AsyncIterator[Figures]:
    class CrowdModel(Model):
        """One model for everybody."""

        async def reply(self, request: bytes) -> Turn:
            return await crowd_reply(lambda: seen(request))

    model = CrowdModel(Play([]))

    async def converse(question: str) -> str:
        talk = Conversation()
        talk.add(words("user", question))
        return (await run(talk, model, {})).text

    async for figures in crowd(options, converse):
        yield figures


async def bare_sdk(options: Options) -> AsyncIterator[Figures]:
    """W7: the history as a list, the SDK's own call, its answer appended."""

    async def conversation(base_url: str, stream: bool) -> Say:
        import openai

        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
        history: list[dict[str, Any]] = []

        async def say(text: str) -> None:
            history.append({"role": "user", "content": text})
            asked: Any = {"model": MODEL, "instructions": INSTRUCTIONS, "input": history, "stream": stream, "store": False}
            answer: Any = await client.responses.create(**asked)
            if stream:
                async for event in answer:
                    if event.type == "response.completed":
                        answer = event.response
            history.append({"role": "assistant", "content": answer.output_text})

        return say

    async for figures in w7(options, conversation):
        yield figures


async def w8(options: Options) -> AsyncIterator[Figures]:
    play, path = plain_chat(options.n), options.folder / "long.db"
    model, file = Model(play), File(path, "normal")
    talk = Conversation(file)
    with Clock(play) as clock:
        for number in range(options.n):
            talk.add(words("user", play.user(number)))
            await run(talk, model, {})
    file.db.close()

    async def opening() -> Conversation:
        return Conversation(File(path, "normal"))

    async def closing(opened: Conversation) -> None:
        assert opened.file is not None
        assert len(opened.items) == 2 * options.n
        opened.file.db.close()

    figures = clock.figures(options.n, stored_bytes=size_of(path), written_bytes=clock.written)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await median_opening(opening, closing)
    yield figures


if __name__ == "__main__":
    main("bare limit", platform.python_version(), {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W7": bare_sdk, "W8": w8})
