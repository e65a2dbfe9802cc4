"""The bare limit: a hand-written loop that does the least that is correct.

A message is encoded once, when it is added. A request is a join of the encoded items. A durable conversation appends rows to SQLite with
the settings of Legato's store: write-ahead log, `synchronous=NORMAL`, and `FULL` for appends before a tool starts. Nothing else: no
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

import _path  # noqa: F401 - adds this tree to the import path

from bench.script_harness import (
    Clock,
    Figures,
    Options,
    compare_first_and_last,
    main,
    measure_crowd,
    measure_opening,
    measure_size,
    reply_in_crowd,
)
from bench.sdk_calls import KEY, MODEL, SendMessage, measure_sdk_calls
from bench.workloads import (
    HANDOFF_OUTPUT,
    INSTRUCTIONS,
    TOOLS,
    Call,
    Play,
    PlayTurn,
    RequestContent,
    encode_arguments,
    make_ping_pong,
    make_plain_chat,
    make_tool_chat,
)

SYNCHRONOUS_MODES = {"normal": ("NORMAL", "NORMAL"), "effects": ("NORMAL", "FULL"), "full": ("FULL", "FULL")}
"""The values of `synchronous` for an ordinary append, and for an append before a tool starts."""
HEAD = json.dumps({"model": MODEL, "input": [{"role": "developer", "content": INSTRUCTIONS}]})[:-2].encode()
TAIL = b"]}"

quote = json.encoder.encode_basestring_ascii


class ConversationFile:
    """The rows of one conversation in an SQLite file."""

    def __init__(self, path: Path, sync: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS items(position INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self.ordinary, self.before_tools = SYNCHRONOUS_MODES[sync]
        self.current_mode = ""

    def append(self, items: list[bytes], before_tools: bool) -> None:
        mode = self.before_tools if before_tools else self.ordinary
        if mode != self.current_mode:
            self.db.execute(f"PRAGMA synchronous={mode}")
            self.current_mode = mode
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO items(body) VALUES (?)", ((item,) for item in items))
        self.db.execute("COMMIT")

    def read(self) -> list[bytes]:
        return [body for (body,) in self.db.execute("SELECT body FROM items ORDER BY position")]


class Conversation:
    """The encoded items of a conversation, in memory and optionally in a file."""

    def __init__(self, file: ConversationFile | None = None) -> None:
        self.file = file
        self.items = [b"," + item for item in file.read()] if file else []
        """Each begins with the comma that separates it from the one before, so that a request is one join, and one copy."""

    def add(self, *items: bytes, before_tools: bool = False) -> None:
        if self.file:
            self.file.append(list(items), before_tools)
        self.items.extend(b"," + item for item in items)

    def request(self) -> bytes:
        return b"".join((HEAD, *self.items, TAIL))


def encode_message(role: str, text: str) -> bytes:
    return f'{{"role":"{role}","content":{quote(text)}}}'.encode()


def encode_turn(turn: PlayTurn) -> list[bytes]:
    """Encode a reply's text and calls."""
    return [encode_message("assistant", turn.text), *map(encode_call, turn.calls)]


def encode_call(call: Call) -> bytes:
    return f'{{"type":"function_call","call_id":"{call.id}","name":"{call.tool}","arguments":{quote(encode_arguments(call))}}}'.encode()


def encode_output(id: str, text: str) -> bytes:
    return f'{{"type":"function_call_output","call_id":"{id}","output":{quote(text)}}}'.encode()


class Model:
    """The fake model: it gets the bytes of a request."""

    def __init__(self, play: Play) -> None:
        self.play = play

    async def reply(self, request: bytes) -> PlayTurn:
        return self.play.reply(lambda: read_request_content(request))


def read_request_content(request: bytes) -> RequestContent:
    items = json.loads(request)["input"]
    return RequestContent(
        [item.get("content") or item.get("output", "") for item in items],
        [item["call_id"] for item in items if item.get("type") == "function_call"],
        [item["call_id"] for item in items if item.get("type") == "function_call_output"],
    )


async def run(conversation: Conversation, model: Model, tools: dict[str, Callable[[str], Awaitable[str]]], gated: str = "") -> PlayTurn:
    """Run until the model makes no call, or a call that needs approval. Handoffs are answered; the agents share model and history."""
    while True:
        turn = await model.reply(conversation.request())
        if not turn.calls:
            conversation.add(*encode_turn(turn))
            return turn
        if turn.calls[0].target:
            conversation.add(*encode_turn(turn), encode_output(turn.calls[0].id, HANDOFF_OUTPUT))
            continue
        conversation.add(*encode_turn(turn), before_tools=True)
        open_calls = [call for call in turn.calls if call.tool != gated]
        outputs = await asyncio.gather(*(tools[call.tool](json.loads(encode_arguments(call))["key"]) for call in open_calls))
        conversation.add(*(encode_output(call.id, text) for call, text in zip(open_calls, outputs, strict=True)))
        if gated:
            return turn


def make_tools(play: Play) -> dict[str, Callable[[str], Awaitable[str]]]:
    def make(tool: str) -> Callable[[str], Awaitable[str]]:
        async def look(key: str) -> str:
            return play.make_tool_output(tool, key)

        return look

    return {tool: make(tool) for tool in TOOLS}


# -- workloads ---------------------------------------------------------------------------------------------------------------------


async def run_w1(options: Options) -> AsyncIterator[Figures]:
    play = make_ping_pong(options.n)
    conversation = Conversation()
    with Clock(play) as clock:
        conversation.add(encode_message("user", play.make_user_message(0)))
        await run(conversation, Model(play), {})
    yield clock.make_figures(options.n, extra=compare_first_and_last(play))


async def run_w2(options: Options) -> AsyncIterator[Figures]:
    for sync in ("normal", "full"):
        if options.is_selected(sync):
            play, path = make_ping_pong(options.n), options.folder / f"{sync}.db"
            file = ConversationFile(path, sync)
            conversation = Conversation(file)
            with Clock(play) as clock:
                conversation.add(encode_message("user", play.make_user_message(0)))
                await run(conversation, Model(play), {})
            file.db.close()
            yield clock.make_figures(
                options.n, sync, stored_bytes=measure_size(path), written_bytes=clock.written_bytes, extra=compare_first_and_last(play)
            )


async def run_w3(options: Options) -> AsyncIterator[Figures]:
    for variant in ("memory", "effects", "full"):
        if options.is_selected(variant):
            play, path = make_tool_chat(options.n), options.folder / f"{variant}.db"
            file = None if variant == "memory" else ConversationFile(path, variant)
            conversation, model, tools = Conversation(file), Model(play), make_tools(play)
            with Clock(play) as clock:
                for number in range(options.n):
                    conversation.add(encode_message("user", play.make_user_message(number)))
                    await run(conversation, model, tools)
            if file:
                file.db.close()
            yield clock.make_figures(
                options.n, variant, stored_bytes=measure_size(path) if file else None, written_bytes=clock.written_bytes
            )


async def run_w4(options: Options) -> AsyncIterator[Figures]:
    for variant in ("store", "opened anew", "whole state"):
        if options.is_selected(variant):
            yield await run_approval_cycles(options.n, variant, options.folder / variant)


async def run_approval_cycles(n: int, variant: str, path: Path) -> Figures:
    play = make_tool_chat(n)
    model, tools, gated = Model(play), make_tools(play), TOOLS[0]
    shared_file = ConversationFile(path, "effects") if variant == "store" else None

    def open_conversation_again() -> Conversation:
        """Open the conversation as a new handle, or another process, would."""
        if variant != "whole state":
            return Conversation(shared_file or ConversationFile(path, "effects"))
        conversation = Conversation()
        conversation.items = [f",{json.dumps(item)}".encode() for item in json.loads(path.read_bytes())] if path.exists() else []
        return conversation

    def save_conversation(conversation: Conversation) -> None:
        if conversation.file and not shared_file:
            conversation.file.db.close()
        elif not conversation.file:
            path.write_bytes(b"[" + b"".join(conversation.items)[1:] + b"]")

    with Clock(play) as clock:
        conversation = open_conversation_again()
        for number in range(n):
            conversation.add(encode_message("user", play.make_user_message(number)))
            turn = await run(conversation, model, tools, gated)
            save_conversation(conversation)
            conversation = open_conversation_again()
            call = next(call for call in turn.calls if call.tool == gated)
            conversation.add(encode_output(call.id, await tools[gated](call.key)), before_tools=True)
            await run(conversation, model, tools)
        save_conversation(conversation)
        if shared_file:
            shared_file.db.close()
    return clock.make_figures(n, variant, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)


async def run_w5(options: Options) -> AsyncIterator[Figures]:
    class CrowdModel(Model):
        """One model for all conversations."""

        async def reply(self, request: bytes) -> PlayTurn:
            return await reply_in_crowd(lambda: read_request_content(request))

    model = CrowdModel(Play([]))

    async def run_conversation(question: str) -> str:
        conversation = Conversation()
        conversation.add(encode_message("user", question))
        return (await run(conversation, model, {})).text

    async for figures in measure_crowd(options, run_conversation):
        yield figures


async def run_w7(options: Options) -> AsyncIterator[Figures]:
    """W7: the history as a list, the SDK's own call, its answer appended."""

    async def start_conversation(base_url: str, stream: bool) -> SendMessage:
        import openai

        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=0)
        history: list[dict[str, Any]] = []

        async def say(text: str) -> None:
            history.append({"role": "user", "content": text})
            request: Any = {"model": MODEL, "instructions": INSTRUCTIONS, "input": history, "stream": stream, "store": False}
            answer: Any = await client.responses.create(**request)
            if stream:
                async for event in answer:
                    if event.type == "response.completed":
                        answer = event.response
            history.append({"role": "assistant", "content": answer.output_text})

        return say

    async for figures in measure_sdk_calls(options, start_conversation):
        yield figures


async def run_w8(options: Options) -> AsyncIterator[Figures]:
    play, path = make_plain_chat(options.n), options.folder / "long.db"
    model, file = Model(play), ConversationFile(path, "normal")
    conversation = Conversation(file)
    with Clock(play) as clock:
        for number in range(options.n):
            conversation.add(encode_message("user", play.make_user_message(number)))
            await run(conversation, model, {})
    file.db.close()

    async def open_conversation() -> Conversation:
        return Conversation(ConversationFile(path, "normal"))

    async def close_conversation(open_conversation_again: Conversation) -> None:
        assert open_conversation_again.file is not None
        assert len(open_conversation_again.items) == 2 * options.n
        open_conversation_again.file.db.close()

    figures = clock.make_figures(options.n, stored_bytes=measure_size(path), written_bytes=clock.written_bytes)
    figures.extra["turn_ms"] = figures.cpu_ms
    figures.cpu_ms, figures.wall_ms = await measure_opening(open_conversation, close_conversation)
    yield figures


if __name__ == "__main__":
    main(
        "bare limit",
        platform.python_version(),
        {"W1": run_w1, "W2": run_w2, "W3": run_w3, "W4": run_w4, "W5": run_w5, "W7": run_w7, "W8": run_w8},
    )
