"""From JSON lines to a page: tables with medians and ratios, plots, and each goal with what was measured.

Ratios are what counts: every figure stands beside the bare limit and beside Legato, in the same run on the same machine.
"""

from __future__ import annotations

import ast
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bench.environments import ALL, SYSTEMS
from bench.goals import goals
from bench.measured import BARE, LEGATO, Cell, Measured, counterpart, legatos
from bench.plots import log_log

TITLES = {
    "W1": ("ping-pong handoffs, nothing stored", "handoff"),
    "W2": ("ping-pong handoffs, durable after every turn", "handoff"),
    "W3": ("a chat with three parallel tools in every turn", "turn"),
    "W4": ("approval cycles: saved, loaded, approved, resumed", "cycle"),
    "W5": ("many conversations at once, each with ten handoffs", "conversation"),
    "W6": ("import time, installed size, dependencies", "import"),
    "W7": ("the `openai` SDK against a loopback server, after a long history", "call"),
    "W8": ("a stored conversation: its size, and the time to open it", "opening"),
}


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def times(value: float | None, other: float | None) -> str:
    """How many times the other one, or nothing where one of them is missing."""
    return number(value / other) if value and other else ""


def number(value: float) -> str:
    """Three figures, and no powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def workload_table(of: Measured, workload: str) -> str:
    unit = TITLES[workload][1]
    head = ["system", "n", f"CPU ms per {unit}", "noise", "to the bare limit", "to Legato", "lost, doubled", *EXTRA[workload][0]]
    rows = []
    for cell in of.of(workload):
        if workload in ("W1", "W2", "W8") and cell.n not in _shown_sizes(of, workload):
            continue
        name = f"{cell.system}, {cell.variant}" if cell.variant else cell.system
        if not cell.lines:
            rows.append([name, f"{cell.n:,}", cell.note, *[""] * (len(head) - 3)])
            continue
        cpu, spread = cell.get(), cell.all("cpu_ms")
        bare = of.value(workload, BARE, counterpart(workload, cell.variant), cell.n)
        ours = of.value(workload, LEGATO, legatos(workload, cell.variant), cell.n)
        noise = f"{number(min(spread))} .. {number(max(spread))}" if len(spread) > 1 else ""
        shown = number(cpu) if cpu else ""
        rows.append([name, f"{cell.n:,}", shown, noise, times(cpu, bare), times(cpu, ours), cell.faults, *EXTRA[workload][1](cell)])
    return table(head, rows)


def _shown_sizes(of: Measured, workload: str) -> set[int]:
    """Where sizes are many, the table has the goal's and the largest; the plot has them all."""
    if workload == "W8":
        return {of.common(workload, 1_000), 1_000, 10_000}
    return {of.common(workload, 400), 400, 800}


def _megabytes(value: float | None) -> str:
    return f"{value / 1e6:,.2f}" if value else ""


def _ratio(cell: Cell) -> str:
    return times(cell.get("stored_bytes"), cell.get("said_bytes"))


def _figure(cell: Cell, what: str, form: str = "", scale: float = 1.0) -> str:
    value = cell.get(what)
    if value is None:
        return ""
    return f"{value * scale:{form}}" if form else number(value * scale)


EXTRA: dict[str, tuple[list[str], Callable[[Cell], list[str]]]] = {
    "W1": (["last hundred to first"], lambda c: [_figure(c, "last_to_first", ".2f")]),
    "W2": (
        ["last hundred to first", "MB left", "to what was said", "MB written"],
        lambda c: [_figure(c, "last_to_first", ".2f"), _megabytes(c.get("stored_bytes")), _ratio(c), _megabytes(c.get("written_bytes"))],
    ),
    "W3": (["MB left", "to what was said"], lambda c: [_megabytes(c.get("stored_bytes")), _ratio(c)]),
    "W4": (
        ["MB saved", "to what was said", "MB written"],
        lambda c: [_megabytes(c.get("stored_bytes")), _ratio(c), _megabytes(c.get("written_bytes"))],
    ),
    "W5": (
        ["conversations per s", "per CPU s", "KB per waiting one"],
        lambda c: [
            _figure(c, "conversations_per_s"),
            number(1e3 / cpu) if (cpu := c.get()) else "",
            _figure(c, "bytes_per_waiting", ",.0f", 1 / 1024),
        ],
    ),
    "W6": (
        ["ms until ready", "packages", "MB installed"],
        lambda c: [_figure(c, "ready_ms", ",.0f"), _figure(c, "packages", ".0f"), _megabytes(c.get("installed_bytes"))],
    ),
    "W7": (
        ["to the bare SDK call", "to finished bytes", "API"],
        lambda c: [_figure(c, "to_bare_sdk", ".2f"), _figure(c, "to_sdk_bytes", ".2f"), str(c.lines[0]["extra"].get("api", ""))],
    ),
    "W8": (
        ["wall ms", "MB stored", "to what was said", "CPU ms per turn to fill"],
        lambda c: [_figure(c, "wall_ms"), _megabytes(c.get("stored_bytes")), _ratio(c), _figure(c, "turn_ms")],
    ),
}
NOTES = {
    "W1": "Every reply (about a hundred tokens) hands over to the other agent.",
    "W2": "Each system's recommended store on a local file; *by us* is a store that we wrote for one that is shipped without. The bare "
    "limit to compare with has `synchronous=NORMAL`; for Legato's `full`, it has `FULL`.",
    "W3": "The user speaks, the model calls three tools at once, then answers. What is durable is compared with a bare limit that waits "
    "for the disk before tools start, as Legato does by default.",
    "W4": "One gated call and two open ones per cycle. Tools, agents, graphs and workflows are made once, and not measured; the state is "
    "read anew for every approval. Legato's `store`: a new handle of the process's store, as a web server has it; nothing is saved, "
    "because it always is. `opened anew`: the SQLite file, by a new store, as another process would. `text`: the session as text, "
    "written to a file and read from it. Peers open their stores anew, or, where it is said, have them *kept open*; what is a file of "
    "JSON is written and read whole. `store` is judged beside the fastest of all, `opened anew` beside the fastest of those that open "
    "anew too.",
    "W5": "One question, ten handoffs back and forth, one answer; the last request is searched for what is lost, doubled, or another's. "
    "`0ms` and `50ms`: how long the model takes. `memory`: what a conversation takes while all wait for the model at once.",
    "W6": "CPU time of a fresh interpreter with the import, less one without. *Until ready*: with what a program with two agents and a "
    "store imports. Packages and size: of a base install that can do handoffs, without extras.",
    "W7": "CPU time of the client alone. *Bare SDK call*: `client.responses.create(...)` (or that of Chat Completions) with the very same "
    "body in the same process; *finished bytes*: the SDK sends bytes that are written already, and what comes back is not looked at.",
    "W8": "A turn is a message and its answer. Opening is what a new handle does until it could go on.",
}
PLOTS = {
    "W1": ("W1: CPU per handoff, nothing stored", "handoffs in one conversation", "CPU ms per handoff", "cpu_ms"),
    "W2": ("W2: CPU per handoff, durable after every turn", "handoffs in one conversation", "CPU ms per handoff", "cpu_ms"),
    "W8": ("W8: opening a stored conversation", "turns in it", "CPU ms to open", "cpu_ms"),
}


def plots(of: Measured, into: Path) -> None:
    for workload, (title, across, up, what) in PLOTS.items():
        lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for cell in of.of(workload):
            value = cell.get(what)
            if value:
                lines[f"{cell.system}, {cell.variant}" if workload == "W2" else cell.system].append((cell.n, value))
        (into / f"{workload}.svg").write_text(log_log(title, across, up, lines))


def set_up() -> list[str]:
    """What the scripts say of themselves: how they are configured, what is in their favour, what was not possible."""
    told = []
    for system in ALL:
        words = ast.get_docstring(ast.parse((SYSTEMS / system.script).read_text())) or ""
        told.append(f"### {system.name}\n\n{words}")
    return told


def page(of: Measured, plots_at: str) -> str:
    repeats = max((len(cell.lines) for cell in of.cells), default=0)
    versions: dict[str, set[str]] = defaultdict(set)
    for cell in of.cells:
        versions[cell.system] |= {line["version"] for line in cell.lines if line.get("version")}
    named = ", ".join(f"{system} {' and '.join(sorted(found))}" for system, found in versions.items() if found and system != BARE)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores of a shared machine"
    parts = [
        "# Benchmarks",
        "Legato beside its peers and beside *the bare limit*, a hand-written loop that does the least that is correct: it joins the "
        "request from what is there, appends to SQLite with the settings of Legato's store, and does nothing else. `make bench` measures "
        "each workload in one run. `bench/systems/` has one script per system, which says how it is set up and what was not possible. The "
        "model is a fake that answers at once, so that what is measured is the system alone. *Lost, doubled*: what the last requests lack "
        "of all that was said (words, calls, outputs), and what stands in them more than once.",
        f"Measured: {named}; {machine}. CPU time of all threads, medians of {'1 run' if repeats == 1 else f'up to {repeats} runs'} "
        "(of peers fewer, where one takes long), noise as least .. most. Absolute times are this machine's; ratios are the point."
        + ("" if repeats > 2 else " **A quick run**: peers at smaller sizes, everything fewer times than a verdict needs."),
        "## Goals",
        table(
            ["", "goal", "measured", ""],
            [[goal.workload, goal.asks, goal.measured, {True: "met", False: "**not met**", None: "?"}[goal.met]] for goal in goals(of)],
        ),
    ]
    for workload in sorted({cell.workload for cell in of.cells}):
        parts.append(f"## {workload}: {TITLES[workload][0]}")
        parts.append(NOTES[workload])
        if workload in PLOTS:
            parts.append(f"![{PLOTS[workload][0]}]({plots_at}{workload}.svg)")
        parts.append(workload_table(of, workload))
    parts += ["## How each is set up", "As the script of each begins.", *set_up()]
    notes = sorted({f"- {cell.system}, {cell.workload}: {cell.note}" for cell in of.cells if cell.note and cell.lines})
    if notes:
        parts += ["## Notes", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def write(results: Path, summary: Path) -> str:
    """Write plots and page; what is worth telling at once: the goals."""
    lines = [json.loads(line) for line in (results / "measurements.jsonl").read_text().splitlines()]
    of = Measured(lines)
    plots(of, results)
    summary.write_text(page(of, f"{os.path.relpath(results, summary.parent)}/"))
    marks = {True: "met    ", False: "NOT MET", None: "?      "}
    return "\n".join(f"{marks[goal.met]}  {goal.workload}  {goal.asks}: {goal.measured}" for goal in goals(of)) + f"\n{summary}"
