"""What a conversation has used. May know: sessions. Decides: how sums are shown."""

from __future__ import annotations

from legato.cli.telling import Colours, table, tell
from legato.core.facts import Usage
from legato.session import Session


def tell_usage(session: Session) -> None:
    """Tokens and cost: in all, by agent, by handoff."""
    colours = Colours(session.workflow.agents)
    rows: list[list[str | tuple[str, str]]] = []
    rows += [[(agent, colours.of(agent)), *_cells(usage)] for agent, usage in session.usage_by_agent.items()]
    rows += [[(f"after {source} to {target}", "dim"), *_cells(usage)] for source, target, usage in session.usage_by_handoff]
    rows.append([("in all", "bold"), *_cells(session.usage)])
    table(("", "input", "cached", "output", "reasoning", "dollars"), rows)
    for loss in session.losses:
        tell((f"  not carried over: {loss}", "dim"))


def _cells(usage: Usage) -> list[str | tuple[str, str]]:
    cost = f"{usage.dollars:.6f}" if usage.cost else "not known"
    return [f"{usage.input:,}", f"{usage.cached:,}", f"{usage.output:,}", f"{usage.reasoning:,}", cost]
