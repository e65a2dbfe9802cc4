"""The people of the conversations, all in one process that nobody kills. May know: the ledger, and the book for what nobody knows.

A person says the next message when the conversation rests, and now and then while it runs; answers what is asked; tells the outcome of a
lost attempt after a look into the book. Whatever raises because a server is gone is done again, under the same key. Some messages are
delivered twice at the same moment, of some nobody is told but the ledger, and some questions are answered twice at once, differently.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from legato.core.facts import MessageReceived
from legato.core.pending_requests import Pending
from legato.engines import Engine, Submitted
from legato.errors import LegatoError, NotPending, StoreError, StoreLocked, StoreUnavailable
from legato.stores.contract import Store
from legato.testing.people import Verdict, give
from tests.chaos.book import Book
from tests.chaos.desk import desk, script

AGAIN = 0.2
"""Seconds before a person tries again what failed."""


@dataclass
class Crowd:
    """Everybody, and what they did."""

    engine: Engine
    store: Store
    book: Book
    seed: int
    turns: int
    done: Counter[str] = field(default_factory=Counter)
    ended: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    moved: float = field(default_factory=time.monotonic)
    """When anything last happened in any conversation."""

    async def talk(self, name: str) -> None:
        """Hold a conversation from wherever it is to its end."""
        messages, dice, seen = script(self.seed, name, self.turns), Random(f"{self.seed} {name} person"), 0
        session = self.engine.session(desk, name, self.store)
        while True:
            try:
                await session.refresh()
                if (length := session.state.length) > seen:
                    seen, self.moved = length, time.monotonic()
                spoken = sum(1 for fact in session.facts if isinstance(fact, MessageReceived))
                match session.status:
                    case "running" if spoken < len(messages) and dice.random() < 0.02:
                        self.done["interruptions"] += 1
                        await self._say(session, spoken, messages[spoken], dice)
                    case "running":
                        await self.store.wait(name, length, 3.0)
                    case "pending":
                        await self._answer(session, dice)
                    case "new" | "waiting" if spoken < len(messages):
                        await asyncio.sleep(dice.uniform(0, 0.2))
                        await self._say(session, spoken, messages[spoken], dice)
                    case "waiting":
                        self.ended.add(name)
                        return
                    case status:
                        self.broken.append(f"{name} is {status}: {session.error}")
                        return
            except (StoreUnavailable, StoreLocked):
                self.done["store errors told to people"] += 1
                await asyncio.sleep(AGAIN)
            except LegatoError as error:
                self.broken.append(f"{name}: {error!r}"[:300])
                return

    async def _say(self, session: Submitted, number: int, words: str, dice: Random) -> None:
        key, chance = f"message {number}", dice.random()
        if chance < 0.03:  # whoever said it died before telling the engine
            self.done["messages of which only the ledger was told"] += 1
            await desk.session(session.id, store=self.store).say(words, key=key)
        elif chance < 0.08:
            self.done["messages delivered twice"] += 1
            again = self.engine.session(desk, session.id, self.store)
            await _all(session.say(words, key=key), again.say(words, key=key))
        else:
            await session.say(words, key=key)

    async def _answer(self, session: Submitted, dice: Random) -> None:
        for request in session.pending:
            self.done[f"{request.kind} answered"] += 1
            if request.kind == "approval" and dice.random() < 0.2:
                await self._raced(session, request)
                continue
            try:
                await give(session, request, self._verdict(request, session))
            except NotPending:
                await session.refresh()  # it came back late, or was superseded; the ledger knows

    def _verdict(self, request: Pending, session: Submitted) -> Verdict:
        dice = Random(request.id)
        if request.kind == "result":
            return ("answer", f"shipped {request.arguments['order']}")
        if request.kind == "outcome":
            self.book.read()
            key = f"{session.state.ledger}:{request.call}"
            return ("answer", self.book.done.get(key) or ("begun, and not finished" if self.book.begun.get(key) else "not done"))
        return dice.choice(["approve", "approve", "approve", ("reject", "not now"), ("edit", {"order": f"{request.arguments['order']}!"})])

    async def _raced(self, session: Submitted, request: Pending) -> None:
        """Two people answer at the same moment: one of them wins."""
        other = self.engine.session(desk, session.id, self.store)
        given = [give(session, request, "approve"), give(other, request, ("reject", "no"))]
        found = await asyncio.gather(*given, return_exceptions=True)
        won = sum(each is None for each in found)
        failed = [each for each in found if isinstance(each, StoreError)]
        self.done["answers raced"] += 1
        if won > 1 or not (won or failed or all(isinstance(each, NotPending) for each in found)):
            self.broken.append(f"{session.id}: two answers to {request.id} ended as {found}")
        if failed:
            raise failed[0]


async def _all(*awaitables: object) -> None:
    """Do these at once; raise what one of them raised when all have ended."""
    for each in await asyncio.gather(*awaitables, return_exceptions=True):  # type: ignore[call-overload]
        if isinstance(each, BaseException):
            raise each
