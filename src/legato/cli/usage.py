"""What a conversation has used. May know: what is shown of it. Decides: how sums read at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from legato.cli.telling import Colours, table, tell
from legato.inspection.spending import Spending, TokenRange, Used


def tell_usage(spent: Spending, losses: Sequence[str], agents: Sequence[str]) -> None:
    """Tokens and cost: in all, by agent, by handoff; and what was sent again because of handoffs."""
    colours = Colours(agents)
    rows: list[list[str | tuple[str, str]]] = []
    rows += [[(agent, colours.of(agent)), *_cells(usage)] for agent, usage in spent.agents.items()]
    rows += [[(f"after {each.source} to {each.target}", "dim"), *_cells(each.usage, _resent(each.resent))] for each in spent.handoffs]
    rows.append([("in all", "bold"), *_cells(spent.total, _resent(spent.resent))])
    columns = ["", "input", "cached", "output", "reasoning", "dollars"]
    if spent.handoffs:
        columns.append("sent again")
    table(columns, [row[: len(columns)] for row in rows])
    for loss in losses:
        tell((f"  not carried over: {loss}", "dim"))


def _cells(usage: Used, resent: str = "") -> list[str | tuple[str, str]]:
    return [f"{usage.input:,}", f"{usage.cached:,}", f"{usage.output:,}", f"{usage.reasoning:,}", _cost(usage), resent]


def _resent(tokens: TokenRange | None) -> str:
    if tokens is None:
        return "not known"
    if tokens.least == tokens.most:
        return f"{tokens.most:,}"
    return f"{tokens.least:,} to {tokens.most:,}" if tokens.least else f"at most {tokens.most:,}"


def _cost(usage: Used) -> str:
    if usage.dollars is None:
        return "not known"
    return f"{usage.dollars:.6f} + not known" if usage.unpriced else f"{usage.dollars:.6f}"
