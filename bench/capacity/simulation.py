"""A simulation of many users, their models, and the databases of their conversations, event by event. It uses no clock and no database.

It checks the estimates of `docs/capacity.md`. A user thinks, then sends a message; the agents take some steps, each a model request and an
append; then the user thinks again. An append queues at the database of its conversation's shard, which serves a limited number at a time.
All times are random around their means, so queues form as in reality; the estimates use only the means.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from typing import NamedTuple


class Habits(NamedTuple):
    """The mean times of a conversation, in seconds, and its number of steps."""

    think_s: float
    """The time from an answer to the next message."""
    steps: int
    """The appends of one run, at least two: the message, each reply, each batch of results."""
    latency_s: float
    """The time of a model or a tool between two appends."""

    def get_run_seconds(self, service: float) -> float:
        """Return the time from a message to the last append of its run. The message itself waits for no model."""
        return (self.steps - 1) * self.latency_s + self.steps * service


class Database(NamedTuple):
    """The measured capacity of one database."""

    parallel_appends: int
    """The number of appends that it serves at the same time."""
    service_s: float
    """The time that it needs for one append."""

    @property
    def max_appends_per_s(self) -> float:
        """The number of appends per second without pauses."""
        return self.parallel_appends / self.service_s


class ExpectedLoad(NamedTuple):
    """The load that follows from the means, as long as no queue forms."""

    appends_per_s: float
    """The appends per second on all databases together."""
    active_conversations: float
    """The conversations that are driven at this moment."""
    utilization: float
    """The part of its time in which a database works."""


class SimulatedLoad(NamedTuple):
    """The load in a simulated period."""

    appends_per_s: float
    active_conversations: float
    utilization: float
    """The utilization of the busiest database."""
    mean_wait_s: float
    """The mean time of an append in a queue."""
    wait_p99_s: float
    """The time in a queue that 99 of 100 appends do not exceed."""


def calculate_load(conversations: int, habits: Habits, database: Database, shards: int = 1) -> ExpectedLoad:
    """Calculate the load by Little's law: the number of conversations in a stage is their rate times the time that they spend in it."""
    run = habits.get_run_seconds(database.service_s)
    rate = conversations / (habits.think_s + run)
    appends = rate * habits.steps
    return ExpectedLoad(appends, rate * run, appends / shards / database.max_appends_per_s)


def simulate_load(
    conversations: int, habits: Habits, database: Database, duration_s: float, shards: int = 1, seed: int = 0, warmup_s: float = 0.0
) -> SimulatedLoad:
    """Let them talk for `warm` seconds, then watch for `seconds`.

    Everybody begins somewhere in the middle of thinking, or of a run, as often as the means imply: so little has to settle.
    """
    dice = random.Random(seed)
    # (when, conversation, steps left): it is done waiting for its model, and appends. Thinking is waiting with all steps left.
    waiting: list[tuple[float, int, int]] = []
    run = habits.get_run_seconds(database.service_s)
    for number in range(conversations):
        if dice.random() * (habits.think_s + run) < habits.think_s:
            waiting.append((dice.expovariate(1 / habits.think_s), number, habits.steps))
        else:
            waiting.append((dice.expovariate(1 / habits.latency_s), number, dice.randint(1, habits.steps - 1)))
    heapq.heapify(waiting)
    active = sum(left < habits.steps for _, _, left in waiting)

    queues: list[deque[tuple[float, int, int]]] = [deque() for _ in range(shards)]
    free = [database.parallel_appends] * shards
    served: list[tuple[float, int, int, int]] = []  # (when it is done, shard, conversation, steps left)
    until = warmup_s + duration_s
    now, counted, active_time, work, waits = 0.0, 0, 0.0, [0.0] * shards, list[float]()

    def serve(shard: int) -> None:
        while free[shard] and queues[shard]:
            since, number, left = queues[shard].popleft()
            free[shard] -= 1
            takes = dice.expovariate(1 / database.service_s)
            heapq.heappush(served, (now + takes, shard, number, left))
            if now >= warmup_s:
                waits.append(now - since)
                work[shard] += min(takes, until - now)

    while True:
        then = min(waiting[0][0] if waiting else until, served[0][0] if served else until)
        if then >= until:
            active_time += active * (until - max(now, warmup_s))
            break
        if then > warmup_s:
            active_time += active * (then - max(now, warmup_s))
        now = then
        if served and served[0][0] == then:
            _, shard, number, left = heapq.heappop(served)
            free[shard] += 1
            counted += now >= warmup_s
            left -= 1
            active -= left == 0
            pause, left = (habits.latency_s, left) if left else (habits.think_s, habits.steps)
            heapq.heappush(waiting, (now + dice.expovariate(1 / pause), number, left))
        else:
            _, number, left = heapq.heappop(waiting)
            active += left == habits.steps
            shard = number % shards  # any even distribution: in reality a digest of the session id
            queues[shard].append((now, number, left))
        serve(shard)
    waits.sort()
    longest = waits[len(waits) * 99 // 100] if waits else 0.0
    return SimulatedLoad(
        counted / duration_s,
        active_time / duration_s,
        max(work) / duration_s / database.parallel_appends,
        sum(waits) / max(1, len(waits)),
        longest,
    )
