"""Many people, their models, and the databases that keep their conversations: simulated event by event. Knows no clock and no database.

It backs the arithmetic of `docs/capacity.md`. A person thinks, then says something; the agents take some steps, each a call of a model and
the append of what came of it; then the person thinks again. An append queues at the database of its conversation's shard, which serves so
many at a time. All times are drawn at random around their means, so queues form as they do in life; the arithmetic knows only the means.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from typing import NamedTuple


class Habits(NamedTuple):
    """What a conversation is like. Times in seconds, all of them means."""

    think: float
    """From an answer to the next message."""
    steps: int
    """Appends of one run, two at least: the message, each reply, each batch of results."""
    latency: float
    """What a model or a tool takes between two appends."""

    def run(self, service: float) -> float:
        """From a message to the last append of what follows from it. The message itself waits for no model."""
        return (self.steps - 1) * self.latency + self.steps * service


class Database(NamedTuple):
    """What one database can do, as measured."""

    at_once: int
    """How many appends it works at side by side."""
    service: float
    """Seconds that it works at one."""

    @property
    def most(self) -> float:
        """Appends per second, with no pause between them."""
        return self.at_once / self.service


class Expected(NamedTuple):
    """The arithmetic: what the means imply, while no queue forms."""

    appends: float
    """Per second, on all databases together."""
    active: float
    """Conversations that somebody is driving at this moment."""
    busy: float
    """How much of its time a database works."""


class Seen(NamedTuple):
    """What happened in a simulated stretch of time."""

    appends: float
    active: float
    busy: float
    """Of the busiest database."""
    wait: float
    """Mean seconds that an append queued."""
    wait_99: float
    """99 of 100 queued no longer than this."""


def expected(conversations: int, habits: Habits, database: Database, shards: int = 1) -> Expected:
    """By Little's law: the number of conversations in a stage is their rate times the time that they spend in it."""
    run = habits.run(database.service)
    rate = conversations / (habits.think + run)
    appends = rate * habits.steps
    return Expected(appends, rate * run, appends / shards / database.most)


def simulate(
    conversations: int, habits: Habits, database: Database, seconds: float, shards: int = 1, seed: int = 0, warm: float = 0.0
) -> Seen:
    """Let them talk for `warm` seconds, then watch for `seconds`.

    Everybody begins somewhere in the middle of thinking, or of a run, as often as the means imply: so little has to settle.
    """
    dice = random.Random(seed)
    # (when, conversation, steps left): it is done waiting for its model, and appends. Thinking is waiting with all steps left.
    waiting: list[tuple[float, int, int]] = []
    run = habits.run(database.service)
    for number in range(conversations):
        if dice.random() * (habits.think + run) < habits.think:
            waiting.append((dice.expovariate(1 / habits.think), number, habits.steps))
        else:
            waiting.append((dice.expovariate(1 / habits.latency), number, dice.randint(1, habits.steps - 1)))
    heapq.heapify(waiting)
    active = sum(left < habits.steps for _, _, left in waiting)

    queues: list[deque[tuple[float, int, int]]] = [deque() for _ in range(shards)]
    free = [database.at_once] * shards
    served: list[tuple[float, int, int, int]] = []  # (when it is done, shard, conversation, steps left)
    until = warm + seconds
    now, counted, active_time, work, waits = 0.0, 0, 0.0, [0.0] * shards, list[float]()

    def serve(shard: int) -> None:
        while free[shard] and queues[shard]:
            since, number, left = queues[shard].popleft()
            free[shard] -= 1
            takes = dice.expovariate(1 / database.service)
            heapq.heappush(served, (now + takes, shard, number, left))
            if now >= warm:
                waits.append(now - since)
                work[shard] += min(takes, until - now)

    while True:
        then = min(waiting[0][0] if waiting else until, served[0][0] if served else until)
        if then >= until:
            active_time += active * (until - max(now, warm))
            break
        if then > warm:
            active_time += active * (then - max(now, warm))
        now = then
        if served and served[0][0] == then:
            _, shard, number, left = heapq.heappop(served)
            free[shard] += 1
            counted += now >= warm
            left -= 1
            active -= left == 0
            pause, left = (habits.latency, left) if left else (habits.think, habits.steps)
            heapq.heappush(waiting, (now + dice.expovariate(1 / pause), number, left))
        else:
            _, number, left = heapq.heappop(waiting)
            active += left == habits.steps
            shard = number % shards  # any even spread: a digest of its id, in life
            queues[shard].append((now, number, left))
        serve(shard)
    waits.sort()
    longest = waits[len(waits) * 99 // 100] if waits else 0.0
    return Seen(counted / seconds, active_time / seconds, max(work) / seconds / database.at_once, sum(waits) / max(1, len(waits)), longest)
