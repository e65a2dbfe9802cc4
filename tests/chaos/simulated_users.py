"""The simulated users of the conversations, all in one process that is never killed.

A user sends the next message when the conversation is idle, and now and then while it runs; answers pending requests; and reports the
outcome of a lost attempt from the activity log. Operations that fail because a server is down are repeated, with the same key. Some
messages are delivered twice at the same moment, some are recorded without waking the engine, and some requests are answered twice at once,
differently.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from legato.core.facts import MessageReceived
from legato.core.pending_requests import Pending
from legato.engines import Engine, EngineSession
from legato.errors import LegatoError, NotPending, StoreError, StoreLocked, StoreUnavailable
from legato.stores.contract import Store
from legato.testing.scripted_users import Verdict, give_answer
from tests.chaos.activity_log import ActivityLog
from tests.chaos.desk import desk, make_user_messages

RETRY_DELAY_S = 0.2
"""The delay before a user repeats a failed operation."""


@dataclass
class SimulatedUsers:
    """All users, and counts of what they did."""

    engine: Engine
    store: Store
    activity_log: ActivityLog
    seed: int
    turns: int
    event_counts: Counter[str] = field(default_factory=Counter)
    ended_sessions: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    last_activity_at: float = field(default_factory=time.monotonic)
    """The time of the last activity in any conversation."""

    async def talk(self, name: str) -> None:
        """Continue a conversation to its end."""
        messages, dice, seen = make_user_messages(self.seed, name, self.turns), Random(f"{self.seed} {name} person"), 0
        session = self.engine.session(desk, name, self.store)
        while True:
            try:
                await session.refresh()
                if (length := session.state.length) > seen:
                    seen, self.last_activity_at = length, time.monotonic()
                sent_count = sum(1 for fact in session.facts if isinstance(fact, MessageReceived))
                match session.status:
                    case "running" if sent_count < len(messages) and dice.random() < 0.02:
                        self.event_counts["interruptions"] += 1
                        await self._say(session, sent_count, messages[sent_count], dice)
                    case "running":
                        await self.store.wait(name, length, 3.0)
                    case "pending":
                        await self._answer(session, dice)
                    case "new" | "waiting" if sent_count < len(messages):
                        await asyncio.sleep(dice.uniform(0, 0.2))
                        await self._say(session, sent_count, messages[sent_count], dice)
                    case "waiting":
                        self.ended_sessions.add(name)
                        return
                    case status:
                        self.problems.append(f"{name} is {status}: {session.error}")
                        return
            except (StoreUnavailable, StoreLocked):
                self.event_counts["store errors"] += 1
                await asyncio.sleep(RETRY_DELAY_S)
            except LegatoError as error:
                self.problems.append(f"{name}: {error!r}"[:300])
                return

    async def _say(self, session: EngineSession, number: int, words: str, dice: Random) -> None:
        key, chance = f"message {number}", dice.random()
        if chance < 0.03:  # as if the client died before it woke the engine
            self.event_counts["messages without a wake"] += 1
            await desk.session(session.id, store=self.store).say(words, key=key)
        elif chance < 0.08:
            self.event_counts["messages delivered twice"] += 1
            again = self.engine.session(desk, session.id, self.store)
            await _run_all(session.say(words, key=key), again.say(words, key=key))
        else:
            await session.say(words, key=key)

    async def _answer(self, session: EngineSession, dice: Random) -> None:
        for request in session.pending:
            self.event_counts[f"{request.kind} answered"] += 1
            if request.kind == "approval" and dice.random() < 0.2:
                await self._answer_twice(session, request)
                continue
            try:
                await give_answer(session, request, self._verdict(request, session))
            except NotPending:
                await session.refresh()  # its outcome came late, or it was superseded

    def _verdict(self, request: Pending, session: EngineSession) -> Verdict:
        dice = Random(request.id)
        if request.kind == "result":
            return ("answer", f"shipped {request.arguments['order']}")
        if request.kind == "outcome":
            self.activity_log.read()
            key = f"{session.state.ledger_id}:{request.call}"
            return (
                "answer",
                self.activity_log.tool_outputs.get(key)
                or ("begun, and not finished" if self.activity_log.started_tools.get(key) else "not done"),
            )
        return dice.choice(["approve", "approve", "approve", ("reject", "not now"), ("edit", {"order": f"{request.arguments['order']}!"})])

    async def _answer_twice(self, session: EngineSession, request: Pending) -> None:
        """Answer twice at the same moment: one answer wins."""
        other = self.engine.session(desk, session.id, self.store)
        answers = [give_answer(session, request, "approve"), give_answer(other, request, ("reject", "no"))]
        results = await asyncio.gather(*answers, return_exceptions=True)
        win_count = sum(each is None for each in results)
        failed = [each for each in results if isinstance(each, StoreError)]
        self.event_counts["answers raced"] += 1
        if win_count > 1 or not (win_count or failed or all(isinstance(each, NotPending) for each in results)):
            self.problems.append(f"{session.id}: two answers to {request.id} ended as {results}")
        if failed:
            raise failed[0]


async def _run_all(*awaitables: object) -> None:
    """Run awaitables concurrently; when all have ended, raise the first exception."""
    for each in await asyncio.gather(*awaitables, return_exceptions=True):  # type: ignore[call-overload]
        if isinstance(each, BaseException):
            raise each
