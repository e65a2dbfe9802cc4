"""Counters for limits and usage: since the user's last message, and over the whole session."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage
from legato.core.limits import SESSION_LIMITS


class RunCounters(Struct, eq=False):
    """The counters since the user's last message, and the allowances that a person granted on top of the limits."""

    message_count: int = 0
    """The number of messages of the user in the whole session."""
    turns: int = 0
    handoffs: int = 0
    tool_calls: int = 0
    tool_rounds: int = 0
    """The number of replies with tool calls that the active agent made in a row since a message or control arrived."""
    work_ms: int = 0
    prompts: int = 0
    output_retries: int = 0
    handoffs_by_edge: dict[tuple[str, str], int] = {}
    allowances: dict[str, int] = {}

    def start_next_run(self) -> RunCounters:
        """Return the counters from the user's next message on."""
        counters = RunCounters(self.message_count + 1)
        if self.allowances:
            counters.allowances = {name: self.allowances[name] for name in SESSION_LIMITS if name in self.allowances}
        return counters

    def count_handoff(self, source: str, target: str) -> None:
        """Count a handoff from one agent to another."""
        self.handoffs_by_edge[source, target] = self.handoffs_by_edge.get((source, target), 0) + 1

    def __repr__(self) -> str:
        return f"<run {self.message_count}: {self.turns} turns, {self.handoffs} handoffs, {self.tool_calls} tool calls>"


MAX_WORK_SPANS = 64
"""The number of separate time spans that are remembered. Only work that began before all of them could be counted twice."""


class WorkTime:
    """The time spent on work, where parallel work counts once. Each piece of work is added when it ends."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: deque[tuple[int, int]] = deque(maxlen=MAX_WORK_SPANS)  # disjoint and in order

    def measure_uncounted_ms(self, start: int, end: int) -> int:
        """Return how many milliseconds of a span have not been counted yet."""
        return max(0, end - start) - sum(max(0, min(high, end) - max(low, start)) for low, high in self._spans)

    def add(self, start: int, end: int) -> int:
        """Count a span, and return how many of its milliseconds had not been counted before."""
        spans, new = self._spans, max(0, end - start)
        while spans and spans[-1][1] > start:
            low, high = spans.pop()
            new -= max(0, min(high, end) - max(low, start))
            start, end = min(low, start), max(high, end)
        spans.append((start, end))
        return new


class UsageTotals:
    """Tokens and cost in total, by agent and since each handoff; the number of model replies; the characters said, for estimates."""

    __slots__ = ("_total", "by_agent", "by_handoff", "characters", "last_request", "turns")

    def __init__(self) -> None:
        self._total: Usage | None = NO_USAGE  # None: summed up when it is read
        self.by_agent: dict[str, Usage] = {}
        self.by_handoff: list[tuple[str, str, Usage]] = []
        self.last_request = Usage()
        self.characters = 0
        self.turns = 0

    @property
    def total(self) -> Usage:
        """The usage of all agents."""
        if self._total is None:
            self._total = sum(self.by_agent.values(), NO_USAGE)
        return self._total

    def add_request(self, agent: str, usage: Usage) -> None:
        """Add the usage of a model request."""
        if usage is NO_USAGE:
            return
        self.add_child_usage(agent, usage)
        self.last_request = usage

    def add_child_usage(self, agent: str, usage: Usage) -> None:
        """Add usage of a child session: it is part of every sum, but says nothing about the size of the next request made here."""
        self._total = None
        self.by_agent[agent] = self.by_agent.get(agent, NO_USAGE) + usage
        if self.by_handoff:
            source, target, spent = self.by_handoff[-1]
            self.by_handoff[-1] = (source, target, spent + usage)

    def __repr__(self) -> str:
        return f"<usage: {self.total.total} tokens>"
