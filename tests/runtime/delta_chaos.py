"""Random faults while clients follow a conversation. One seed is one story of messages, faults, kills and late clients.

Deltas are lost, repeated, late and out of order; drivers are killed during a reply; clients are disconnected at any moment, and reconnect
with their last cursor. In the end every client shows the whole conversation once, and none has ever shown text that no model emitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from random import Random
from typing import Any

from legato import Agent, HandoffBuilder, Workflow, guardrail, tool
from legato.core.facts import Call, OutputText
from legato.core.texts_for_model import REDACTED_TEXT
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.models import ModelReply
from legato.models.model import Emit
from legato.runtime.events import Event
from legato.stores import MemoryStore
from legato.stores.delta_channel import LocalDeltaChannel, OnDelta
from legato.testing.simulated_event_loop import SimulatedLoop, Timeline
from tests.runtime.event_page import EventPage

SYLLABLES = ("la", "le", "lo", "la la", " ", "\n", "é", "\x07", "🎻")
CHECKED_AGENT = "judge"
"""The agent with output guardrails, whose text must not be shown before it is checked."""


class FaultyDeltaChannel:
    """A delta channel that loses, repeats and delays deltas."""

    batch_interval_s = 0.03
    max_delta_bytes = 300

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._channel = LocalDeltaChannel()
        self.fault_rate = dice.choice((0.0, 0.05, 0.3, 0.9))
        self.batch_interval_s = dice.choice((0.0, 0.03, 0.5))
        self.published: list[bytes] = []

    def subscriber_version(self, ledger: str) -> int:
        return self._channel.subscriber_version(ledger)

    def subscribe(self, ledger: str, on_delta: OnDelta) -> AbstractAsyncContextManager[None]:
        return self._channel.subscribe(ledger, on_delta)

    def publish(self, ledger: str, delta: bytes) -> None:
        assert len(delta) <= self.max_delta_bytes, f"a delta of {len(delta)} bytes"
        self.published.append(delta)
        for _ in range(self._dice.choice((0, 1, 1, 2)) if self._dice.random() < self.fault_rate else 1):
            if self._dice.random() < self.fault_rate:
                asyncio.get_running_loop().call_later(self._dice.random() * 3, self._channel.publish, ledger, delta)
            else:
                self._channel.publish(ledger, delta)


class RandomModel:
    """A model with random replies, which come in deltas and sometimes break off."""

    name = "talker"

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._request_count = count()
        self.emitted_texts: list[tuple[int, list[str]]] = []  # the position that each request saw, and what was emitted
        self.replies: list[tuple[int, list[str]]] = []  # the same with the complete replies

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        dice = Random(f"{self._dice.random()} {next(self._request_count)}")
        text = ""
        pieces: list[str] = []
        self.emitted_texts.append((request.upto, pieces))
        for _ in range(dice.randrange(1, 20)):
            piece = dice.choice(SYLLABLES) * dice.choice((1, 1, 1, 40))
            text += piece
            if dice.random() < 0.95:  # some models emit less than their reply has
                pieces.append(piece)
                emit(piece)
            if dice.random() < 0.4:
                await asyncio.sleep(dice.random() * 0.3)
            if dice.random() < 0.03:
                raise ModelFailed("broke off", retryable=True)
        self.replies.append((request.upto, [text]))
        calls = [Call("look", "{}"), Call(f"handoff_to_{'judge' if request.agent == 'clerk' else 'clerk'}", "{}")]
        chosen_calls = [call for call in calls if dice.random() < 0.3] if request.reply_count < 40 else []
        return ModelReply(items=(OutputText(text), *chosen_calls))


class ChaosStore(MemoryStore):
    """A store like one of many processes: leases of killed drivers can be freed, and deltas come by a faulty channel."""

    channel: FaultyDeltaChannel

    @property
    def delta_channel(self) -> Any:
        return self.channel

    def free_leases(self) -> None:
        for ledger in self._ledgers.values():
            ledger.lease = None


def make_workflow(dice: Random, store: MemoryStore, model: RandomModel) -> Workflow:
    @tool(idempotent=True)
    async def look() -> str:
        await asyncio.sleep(dice.random() * 0.1)
        return "seen"

    @guardrail("output")
    async def pass_slowly(context: Any, output: Any) -> None:
        await asyncio.sleep(dice.random() * 0.1)

    agents = [Agent("clerk", model=model, tools=[look]), Agent(CHECKED_AGENT, model=model, tools=[look], guardrails=[pass_slowly])]
    return HandoffBuilder("choir", agents).with_checkpointing(store).build()


async def drive(workflow: Workflow, dice: Random, message_count: int) -> None:
    """Send all messages. A driver that replaces a killed one sends them again, and each is recorded once."""
    session = workflow.session("s")
    for number in range(message_count):
        result = await session.run(f"message {number}", key=f"m{number}")
        while result.status in ("failed", "pending", "running"):
            for request in result.pending:
                await session.approve(request)
            result = await session.resume()
        await asyncio.sleep(dice.random() * 2)


async def interrupt(workflow: Workflow, dice: Random) -> None:
    await asyncio.sleep(dice.random() * 4)
    await workflow.session("s").cancel("enough")


async def erase(workflow: Workflow, dice: Random) -> None:
    """Erase a random message."""
    await asyncio.sleep(dice.random() * 6)
    session = await workflow.session("s").refresh()
    if session.messages:
        await session.redact(dice.choice(session.messages))


async def follow_with_disconnects(workflow: Workflow, dice: Random, page: EventPage, is_over: list[bool]) -> None:
    """Follow, disconnect and reconnect, until nothing more happens."""
    if dice.random() < 0.5:
        await asyncio.sleep(dice.random() * 5)
    while True:
        last = is_over[0]
        following = workflow.session("s").follow(after=page.cursor, until_idle=last)
        try:
            async with asyncio.timeout(None if last else dice.expovariate(0.5)), aclosing(following) as events:
                async for event in events:
                    page.show_event(event)
                    if not last and dice.random() < 0.03:
                        break
                    if dice.random() < 0.1:
                        await asyncio.sleep(dice.random())
        except TimeoutError:
            pass
        if last:
            return
        page.disconnect()
        await asyncio.sleep(dice.random() * 0.5)


async def read_events(workflow: Workflow) -> list[Event]:
    return [event async for event in workflow.session("s").follow(until_idle=True)]


def play(seed: int) -> tuple[list[EventPage], FaultyDeltaChannel]:
    """Play one story. `AssertionError` if a page shows something else than what happened."""
    timeline = Timeline(seed)
    loops: list[SimulatedLoop] = []

    def process() -> SimulatedLoop:
        loops.append(SimulatedLoop(timeline))
        return loops[-1]

    try:
        return _play(seed, timeline, process)
    finally:
        for loop in loops:
            loop.discard_tasks()


def _play(seed: int, timeline: Timeline, process: Callable[[], SimulatedLoop]) -> tuple[list[EventPage], FaultyDeltaChannel]:
    dice = Random(f"story {seed}")
    store = ChaosStore()
    channel = store.channel = FaultyDeltaChannel(Random(f"line {seed}"))
    model = RandomModel(Random(f"words {seed}"))
    workflow = make_workflow(Random(f"tools {seed}"), store, model)
    is_over, pages = [False], [EventPage() for _ in range(3)]
    watching = [
        process().create_task(follow_with_disconnects(workflow, Random(f"page {seed} {number}"), page, is_over))
        for number, page in enumerate(pages)
    ]
    erasing: list[asyncio.Task[None]] = []
    for left in range(dice.randrange(4), -1, -1):
        machine = process()
        driving = machine.create_task(drive(workflow, dice, 4))
        if dice.random() < 0.4:
            process().create_task(interrupt(workflow, dice))
        if dice.random() < 0.5:
            erasing.append(process().create_task(erase(workflow, Random(f"erased {seed} {left}"))))
        until = timeline.now + dice.random() * 5
        timeline.run(lambda driving=driving, left=left, until=until: driving.done() or (left > 0 and timeline.now > until))  # type: ignore[misc]
        if driving.done():
            driving.result()
        else:
            machine.kill()
            store.free_leases()
    timeline.run(lambda: all(task.done() for task in erasing))
    is_over[0] = True
    timeline.run(lambda: all(task.done() for task in watching), max_steps=2_000_000)
    for task in (*watching, *erasing):
        task.result()
    assert not timeline.errors, timeline.errors
    whole = process().run_until_complete(read_events(workflow))
    for position in (position for event in whole if event.type == "redacted" for position in event.data.positions):
        assert not any(
            event.position == position and event.data.text != REDACTED_TEXT for event in whole if event.type in ("said", "message")
        )
    emitted_texts = [(upto, "".join(each)) for upto, each in model.emitted_texts + model.replies]
    for page in pages:
        page.check(whole)
        for shown, last_erasure in page.shown_reply_texts:
            possible = [text for upto, text in emitted_texts if upto >= last_erasure]
            assert any(text.startswith(shown) for text in possible), f"{shown!r} was not emitted since {last_erasure}"
    assert not any(CHECKED_AGENT.encode() in delta for delta in channel.published), "text was published before it was checked"
    return pages, channel
