"""What is counted. May know: facts. Decides: what belongs to which run, and what was spent by whom.

A *run* is what follows a message of the user, until the next one.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage

LASTING = ("tokens", "cost")
"""Limits over a whole conversation: allowances for them outlast the run they were given in."""


class Tally(Struct, eq=False):
    """What one run has counted, and what it was allowed on top of its limits."""

    number: int = 0
    turns: int = 0
    handoffs: int = 0
    tool_calls: int = 0
    tool_rounds: int = 0
    """The replies with tool calls that the active agent has made in a row, since a message or control arrived."""
    active_ms: int = 0
    prompts: int = 0
    output_retries: int = 0
    edges: dict[tuple[str, str], int] = {}
    allowances: dict[str, int] = {}

    def following(self) -> Tally:
        """That of the next run."""
        tally = Tally(self.number + 1)
        if self.allowances:
            tally.allowances = {name: self.allowances[name] for name in LASTING if name in self.allowances}
        return tally

    def count_edge(self, source: str, target: str) -> None:
        """Control went from one agent to another."""
        self.edges[source, target] = self.edges.get((source, target), 0) + 1

    def __repr__(self) -> str:
        return f"<run {self.number}: {self.turns} turns, {self.handoffs} handoffs, {self.tool_calls} tool calls>"


MOST_SPANS = 64
"""How many separate pieces of work are remembered. Only work that began before all of them could be counted twice."""


class WorkTime:
    """The time that was worked, where what was done in parallel counts once. Told of each piece of work when it ends."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: deque[tuple[int, int]] = deque(maxlen=MOST_SPANS)  # disjoint and in order

    def uncounted(self, start: int, end: int) -> int:
        """How much of this time has not been counted yet."""
        return max(0, end - start) - sum(max(0, min(high, end) - max(low, start)) for low, high in self._spans)

    def add(self, start: int, end: int) -> int:
        """How much of this time had not been counted yet."""
        spans, new = self._spans, max(0, end - start)
        while spans and spans[-1][1] > start:
            low, high = spans.pop()
            new -= max(0, min(high, end) - max(low, start))
            start, end = min(low, start), max(high, end)
        spans.append((start, end))
        return new


class Spent:
    """Tokens and money, in all, by agent and by handoff; the number of model replies; the letters that were said, for estimates."""

    __slots__ = ("_total", "by_handoff", "last", "letters", "of", "turns")

    def __init__(self) -> None:
        self._total: Usage | None = NO_USAGE  # None: to be added up, when somebody asks
        self.of: dict[str, Usage] = {}
        self.by_handoff: list[tuple[str, str, Usage]] = []
        self.last = Usage()
        self.letters = 0
        self.turns = 0

    @property
    def total(self) -> Usage:
        """Of all agents."""
        if self._total is None:
            self._total = sum(self.of.values(), NO_USAGE)
        return self._total

    def spend(self, agent: str, usage: Usage) -> None:
        """A model was paid."""
        if usage is NO_USAGE:
            return
        self.spend_in_child(agent, usage)
        self.last = usage

    def spend_in_child(self, agent: str, usage: Usage) -> None:
        """A model was paid in a child session: that is part of every sum, and tells nothing of the next request made here."""
        self._total = None
        self.of[agent] = self.of.get(agent, NO_USAGE) + usage
        if self.by_handoff:
            source, target, spent = self.by_handoff[-1]
            self.by_handoff[-1] = (source, target, spent + usage)

    def __repr__(self) -> str:
        return f"<spent {self.total.total} tokens>"
