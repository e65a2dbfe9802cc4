"""What is counted. May know: facts. Decides: what belongs to which run, and what was spent by whom.

A *run* is what follows a message of the user, until the next one.
"""

from __future__ import annotations

from legato.core.facts import NO_USAGE, Content, Usage
from legato.core.messages import text_of

LASTING = ("tokens", "cost")
"""Limits over a whole conversation: allowances for them outlast the run they were given in."""


class Tally:
    """What one run has counted, and what it was allowed on top of its limits."""

    __slots__ = ("active_ms", "allowances", "edges", "handoffs", "number", "output_retries", "prompts", "tool_calls", "turns")

    def __init__(self, before: Tally | None = None) -> None:
        self.number: int = before.number + 1 if before else 0
        self.turns = 0
        self.handoffs = 0
        self.tool_calls = 0
        self.active_ms = 0
        self.prompts = 0
        self.output_retries = 0
        self.edges: dict[tuple[str, str], int] = {}
        self.allowances: dict[str, int] = {}
        if before and before.allowances:
            self.allowances = {name: before.allowances[name] for name in LASTING if name in before.allowances}

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
        self._spans: list[tuple[int, int]] = []  # disjoint and in order

    def add(self, start: int, end: int) -> int:
        """How much of this time had not been counted yet."""
        new = max(0, end - start)
        while self._spans and self._spans[-1][1] > start:
            low, high = self._spans.pop()
            new -= max(0, min(high, end) - max(low, start))
            start, end = min(low, start), max(high, end)
        self._spans.append((start, end))
        if len(self._spans) > MOST_SPANS:
            del self._spans[0]
        return new


class Spent:
    """Tokens and money, in all, by agent and by handoff; and the letters that have been said, for estimates."""

    __slots__ = ("by_handoff", "last", "letters", "of", "total")

    def __init__(self) -> None:
        self.total = Usage()
        self.of: dict[str, Usage] = {}
        self.by_handoff: list[tuple[str, str, Usage]] = []
        self.last = Usage()
        self.letters = 0

    def spend(self, agent: str, usage: Usage) -> None:
        """A model was paid."""
        if usage is NO_USAGE:
            return
        self.total += usage
        self.of[agent] = self.of.get(agent, NO_USAGE) + usage
        self.last = usage
        if self.by_handoff:
            source, target, spent = self.by_handoff[-1]
            self.by_handoff[-1] = (source, target, spent + usage)

    def count_words(self, content: Content) -> None:
        """Something was said."""
        self.letters += len(content) if isinstance(content, str) else len(text_of(content))

    def __repr__(self) -> str:
        return f"<spent {self.total.total} tokens>"
