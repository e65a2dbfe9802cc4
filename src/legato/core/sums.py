"""What is counted. May know: facts. Decides: what belongs to which run, and what was spent by whom.

A *run* is what follows a message of the user, until the next one. A message that a guardrail withholds began no run: whatever was
counted under it belongs to the run before.
"""

from __future__ import annotations

from legato.core.facts import NO_USAGE, Content, Usage
from legato.core.messages import text_of

LASTING = ("tokens", "cost")
"""Limits over a whole conversation: allowances for them outlast the run they were given in."""


class Tally:
    """What one run has counted, and what it was allowed on top of its limits."""

    __slots__ = (
        "active_ms",
        "allowances",
        "before",
        "edges",
        "handoffs",
        "number",
        "output_retries",
        "prompts",
        "tool_calls",
        "turns",
    )

    def __init__(self, before: Tally | None = None) -> None:
        self.before = before  # until it is certain that this run's message is not withheld
        self.number: int = before.number + 1 if before else 0
        self.turns = 0
        self.handoffs = 0
        self.tool_calls = 0
        self.active_ms = 0
        self.prompts = 0
        self.output_retries = 0
        self.edges: dict[tuple[str, str], int] = {}
        self.allowances: dict[str, int] = {name: before.allowances[name] for name in LASTING if name in before.allowances} if before else {}

    def count_edge(self, source: str, target: str, times: int = 1) -> None:
        """Control went from one agent to another."""
        self.edges[source, target] = self.edges.get((source, target), 0) + times

    def withdraw(self, withheld: Tally) -> Tally:
        """The tally in force once one of the newest messages turns out to have begun nothing: what it counted goes to the run before."""
        before, newest, later = withheld.before, self, self
        assert before is not None
        before._add(withheld)
        if newest is withheld:
            return before
        while later.before is not withheld:
            assert later.before is not None
            later = later.before
        later.before = before
        return newest

    def _add(self, after: Tally) -> None:
        for name in ("turns", "handoffs", "tool_calls", "active_ms", "prompts", "output_retries"):
            setattr(self, name, getattr(self, name) + getattr(after, name))
        for (source, target), times in after.edges.items():
            self.count_edge(source, target, times)
        for name, times in after.allowances.items():
            self.allowances[name] = times if name in LASTING else self.allowances.get(name, 0) + times

    def __repr__(self) -> str:
        return f"<run {self.number}: {self.turns} turns, {self.handoffs} handoffs, {self.tool_calls} tool calls>"


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
        self.of[agent] = self.of.get(agent, Usage()) + usage
        self.last = usage
        if self.by_handoff:
            source, target, spent = self.by_handoff[-1]
            self.by_handoff[-1] = (source, target, spent + usage)

    def count_words(self, content: Content) -> None:
        """Something was said."""
        self.letters += len(content) if isinstance(content, str) else len(text_of(content))

    def __repr__(self) -> str:
        return f"<spent {self.total.total} tokens>"
