"""The usage report of a session as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from legato.cli.terminal import AgentColours, print_line, print_table
from legato.inspection.usage_report import TokenRange, TokenUsage, UsageReport


def print_usage(report: UsageReport, losses: Sequence[str], agents: Sequence[str]) -> None:
    """Print tokens and cost, by agent, by handoff and in total, with the tokens that were resent because of handoffs."""
    colours = AgentColours(agents)
    rows: list[list[str | tuple[str, str]]] = []
    rows += [[(agent, colours.of(agent)), *_format_cells(usage)] for agent, usage in report.agents.items()]
    rows += [
        [(f"after {each.source} to {each.target}", "dim"), *_format_cells(each.usage, _format_resent(each.resent))]
        for each in report.handoffs
    ]
    rows.append([("total", "bold"), *_format_cells(report.total, _format_resent(report.resent))])
    columns = ["", "input", "cached", "output", "reasoning", "dollars"]
    if report.handoffs:
        columns.append("resent")
    print_table(columns, [row[: len(columns)] for row in rows])
    for loss in losses:
        print_line((f"  not sent: {loss}", "dim"))


def _format_cells(usage: TokenUsage, resent: str = "") -> list[str | tuple[str, str]]:
    return [f"{usage.input:,}", f"{usage.cached:,}", f"{usage.output:,}", f"{usage.reasoning:,}", _format_cost(usage), resent]


def _format_resent(tokens: TokenRange | None) -> str:
    if tokens is None:
        return "not known"
    if tokens.least == tokens.most:
        return f"{tokens.most:,}"
    return f"{tokens.least:,} to {tokens.most:,}" if tokens.least else f"at most {tokens.most:,}"


def _format_cost(usage: TokenUsage) -> str:
    if usage.dollars is None:
        return "not known"
    return f"{usage.dollars:.6f} + not known" if usage.unpriced else f"{usage.dollars:.6f}"
