"""Conversations that are followed over bad lines. One seed is one story: what is said, what is lost, who dies and who comes late.

Notes of what is being said are lost, doubled, late and out of order; those who drive are killed in the middle of a word; those who follow
lose their line at any moment and come again with the last cursor. In the end every page shows the conversation, nothing twice and nothing
missing, and none has ever shown what nobody said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import count
from random import Random
from typing import Any

from legato import Agent, HandoffBuilder, Workflow, guardrail, tool
from legato.core.facts import Call, Words
from legato.core.messages_to_model import ERASED
from legato.core.view import Request
from legato.errors import ModelFailed
from legato.models import Reply
from legato.models.base import Emit
from legato.runtime.events import Event
from legato.stores import MemoryStore
from legato.stores.live import Heard, Listeners
from legato.testing.loop import SimulatedLoop, Timeline
from tests.streaming.page import Page

SYLLABLES = ("la", "le", "lo", "la la", " ", "\n", "é", "\x07", "🎻")
SECRET_AGENT = "judge"
"""Whose words are judged before anybody sees them."""


class BadLine:
    """Carries notes badly."""

    pace = 0.03
    longest = 300

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._line = Listeners()
        self.bad = dice.choice((0.0, 0.05, 0.3, 0.9))
        self.pace = dice.choice((0.0, 0.03, 0.5))
        self.carried: list[bytes] = []

    def listeners(self, ledger: str) -> int:
        return self._line.listeners(ledger)

    def hear(self, ledger: str, heard: Heard) -> AbstractAsyncContextManager[None]:
        return self._line.hear(ledger, heard)

    def tell(self, ledger: str, note: bytes) -> None:
        assert len(note) <= self.longest, f"a note of {len(note)} bytes"
        self.carried.append(note)
        for _ in range(self._dice.choice((0, 1, 1, 2)) if self._dice.random() < self.bad else 1):
            if self._dice.random() < self.bad:
                asyncio.get_running_loop().call_later(self._dice.random() * 3, self._line.tell, ledger, note)
            else:
                self._line.tell(ledger, note)


class Talker:
    """Says something else each time it is asked, in pieces, and sometimes breaks off."""

    name = "talker"

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._asked = count()
        self.spoken: list[tuple[int, list[str]]] = []  # how far it saw each time, and what it emitted
        self.replies: list[tuple[int, list[str]]] = []  # and what it said in the end

    async def reply(self, request: Request, emit: Emit) -> Reply:
        dice = Random(f"{self._dice.random()} {next(self._asked)}")
        said = ""
        spoken: list[str] = []
        self.spoken.append((request.upto, spoken))
        for _ in range(dice.randrange(1, 20)):
            piece = dice.choice(SYLLABLES) * dice.choice((1, 1, 1, 40))
            said += piece
            if dice.random() < 0.95:  # some models tell less than they say
                spoken.append(piece)
                emit(piece)
            if dice.random() < 0.4:
                await asyncio.sleep(dice.random() * 0.3)
            if dice.random() < 0.03:
                raise ModelFailed("broke off", retryable=True)
        self.replies.append((request.upto, [said]))
        calls = [Call("look", "{}"), Call(f"handoff_to_{'judge' if request.agent == 'clerk' else 'clerk'}", "{}")]
        taken = [call for call in calls if dice.random() < 0.3] if request.turn < 40 else []
        return Reply(items=(Words(said), *taken))


class Kept(MemoryStore):
    """As a store of many processes: the lease of one that died is free, and words come over a bad line."""

    line: BadLine

    @property
    def live(self) -> Any:
        return self.line

    def bury(self) -> None:
        for ledger in self._ledgers.values():
            ledger.held = None


def workflow(dice: Random, store: MemoryStore, model: Talker) -> Workflow:
    @tool(idempotent=True)
    async def look() -> str:
        await asyncio.sleep(dice.random() * 0.1)
        return "seen"

    @guardrail("output")
    async def passes(context: Any, output: Any) -> None:
        await asyncio.sleep(dice.random() * 0.1)

    agents = [Agent("clerk", model=model, tools=[look]), Agent(SECRET_AGENT, model=model, tools=[look], guardrails=[passes])]
    return HandoffBuilder("choir", agents).with_checkpointing(store).build()


async def drive(choir: Workflow, dice: Random, times: int) -> None:
    """Say everything that there is to say; said again after a death, it is recorded once."""
    session = choir.session("s")
    for number in range(times):
        result = await session.run(f"message {number}", key=f"m{number}")
        while result.status in ("failed", "pending", "running"):
            for request in result.pending:
                await session.approve(request)
            result = await session.resume()
        await asyncio.sleep(dice.random() * 2)


async def interrupt(choir: Workflow, dice: Random) -> None:
    await asyncio.sleep(dice.random() * 4)
    await choir.session("s").cancel("enough")


async def erase(choir: Workflow, dice: Random) -> None:
    """Somebody wants what they said erased, or what they were told."""
    await asyncio.sleep(dice.random() * 6)
    session = await choir.session("s").refresh()
    if session.messages:
        await session.redact(dice.choice(session.messages))


async def look_on(choir: Workflow, dice: Random, page: Page, over: list[bool]) -> None:
    """Follow, lose the line, come again; until there is nothing more to come."""
    if dice.random() < 0.5:
        await asyncio.sleep(dice.random() * 5)
    while True:
        last = over[0]
        line = choir.session("s").follow(after=page.cursor, until_rest=last)
        try:
            async with asyncio.timeout(None if last else dice.expovariate(0.5)), aclosing(line) as events:
                async for event in events:
                    page.see(event)
                    if not last and dice.random() < 0.03:
                        break
                    if dice.random() < 0.1:
                        await asyncio.sleep(dice.random())
        except TimeoutError:
            pass
        if last:
            return
        page.lose_the_line()
        await asyncio.sleep(dice.random() * 0.5)


async def told(choir: Workflow) -> list[Event]:
    return [event async for event in choir.session("s").follow(until_rest=True)]


def play(seed: int) -> tuple[list[Page], BadLine]:
    """One story. `AssertionError` if a page shows something else than what happened."""
    timeline = Timeline(seed)
    loops: list[SimulatedLoop] = []

    def process() -> SimulatedLoop:
        loops.append(SimulatedLoop(timeline))
        return loops[-1]

    try:
        return _play(seed, timeline, process)
    finally:
        for loop in loops:
            loop.bury()


def _play(seed: int, timeline: Timeline, process: Callable[[], SimulatedLoop]) -> tuple[list[Page], BadLine]:
    dice = Random(f"story {seed}")
    store = Kept()
    line = store.line = BadLine(Random(f"line {seed}"))
    model = Talker(Random(f"words {seed}"))
    choir = workflow(Random(f"tools {seed}"), store, model)
    over, pages = [False], [Page() for _ in range(3)]
    watching = [process().create_task(look_on(choir, Random(f"page {seed} {n}"), page, over)) for n, page in enumerate(pages)]
    erasing: list[asyncio.Task[None]] = []
    for left in range(dice.randrange(4), -1, -1):
        machine = process()
        driving = machine.create_task(drive(choir, dice, 4))
        if dice.random() < 0.4:
            process().create_task(interrupt(choir, dice))
        if dice.random() < 0.5:
            erasing.append(process().create_task(erase(choir, Random(f"erased {seed} {left}"))))
        until = timeline.now + dice.random() * 5
        timeline.run(lambda driving=driving, left=left, until=until: driving.done() or (left > 0 and timeline.now > until))  # type: ignore[misc]
        if driving.done():
            driving.result()
        else:
            machine.kill()
            store.bury()
    timeline.run(lambda: all(task.done() for task in erasing))
    over[0] = True
    timeline.run(lambda: all(task.done() for task in watching), most=2_000_000)
    for task in (*watching, *erasing):
        task.result()
    assert not timeline.errors, timeline.errors
    whole = process().run_until_complete(told(choir))
    for position in (position for event in whole if event.type == "redacted" for position in event.data.positions):
        assert not any(event.position == position and event.data.text != ERASED for event in whole if event.type in ("said", "message"))
    spoken = [(upto, "".join(each)) for upto, each in model.spoken + model.replies]
    for page in pages:
        page.check(whole)
        for shown, erased in page.shown:
            assert any(each.startswith(shown) for upto, each in spoken if upto >= erased), f"{shown!r} was not said since {erased}"
    assert not any(SECRET_AGENT.encode() in note for note in line.carried), "words were told before they were judged"
    return pages, line
