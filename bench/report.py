"""The report of a run: tables with medians and ratios, plots, and each goal with its result.

Ratios matter most: every figure is compared with the bare limit and with Legato, in the same run on the same machine.
"""

from __future__ import annotations

import ast
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bench.environments import ALL_SYSTEMS, SCRIPTS_FOLDER
from bench.goals import check_goals
from bench.measurements import BARE, LEGATO, Cell, Measurements, find_bare_variant, find_legato_variant
from bench.plots import draw_log_log

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


def render_table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def format_ratio(value: float | None, other: float | None) -> str:
    """Format the ratio of two values; empty if one of them is missing."""
    return format_number(value / other) if value and other else ""


def format_number(value: float) -> str:
    """Format a number with three significant digits, and without exponents."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def render_workload_table(measurements: Measurements, workload: str) -> str:
    unit = TITLES[workload][1]
    head = ["system", "n", f"CPU ms per {unit}", "noise", "to the bare limit", "to Legato", "lost, doubled", *EXTRA_COLUMNS[workload][0]]
    rows = []
    for cell in measurements.select(workload):
        if workload in ("W1", "W2", "W8") and cell.n not in _select_sizes(measurements, workload):
            continue
        name = f"{cell.system}, {cell.variant}" if cell.variant else cell.system
        if not cell.lines:
            rows.append([name, f"{cell.n:,}", cell.note, *[""] * (len(head) - 3)])
            continue
        cpu, spread = cell.median(), cell.list_values("cpu_ms")
        bare = measurements.get_median(workload, BARE, find_bare_variant(workload, cell.variant), cell.n)
        ours = measurements.get_median(workload, LEGATO, find_legato_variant(workload, cell.variant), cell.n)
        noise = f"{format_number(min(spread))} .. {format_number(max(spread))}" if len(spread) > 1 else ""
        shown = format_number(cpu) if cpu else ""
        rows.append(
            [
                name,
                f"{cell.n:,}",
                shown,
                noise,
                format_ratio(cpu, bare),
                format_ratio(cpu, ours),
                cell.fault_summary,
                *EXTRA_COLUMNS[workload][1](cell),
            ]
        )
    return render_table(head, rows)


def _select_sizes(measurements: Measurements, workload: str) -> set[int]:
    """Return the sizes in the table: the goal's and the largest. The plot has them all."""
    if workload == "W8":
        return {measurements.find_common_size(workload, 1_000), 1_000, 10_000}
    return {measurements.find_common_size(workload, 400), 400, 800}


def _format_megabytes(value: float | None) -> str:
    return f"{value / 1e6:,.2f}" if value else ""


def _format_stored_ratio(cell: Cell) -> str:
    return format_ratio(cell.median("stored_bytes"), cell.median("said_bytes"))


def _format_figure(cell: Cell, what: str, form: str = "", scale: float = 1.0) -> str:
    value = cell.median(what)
    if value is None:
        return ""
    return f"{value * scale:{form}}" if form else format_number(value * scale)


EXTRA_COLUMNS: dict[str, tuple[list[str], Callable[[Cell], list[str]]]] = {
    "W1": (["last hundred to first"], lambda c: [_format_figure(c, "last_to_first", ".2f")]),
    "W2": (
        ["last hundred to first", "MB left", "to the texts", "MB written"],
        lambda c: [
            _format_figure(c, "last_to_first", ".2f"),
            _format_megabytes(c.median("stored_bytes")),
            _format_stored_ratio(c),
            _format_megabytes(c.median("written_bytes")),
        ],
    ),
    "W3": (["MB left", "to the texts"], lambda c: [_format_megabytes(c.median("stored_bytes")), _format_stored_ratio(c)]),
    "W4": (
        ["MB saved", "to the texts", "MB written"],
        lambda c: [_format_megabytes(c.median("stored_bytes")), _format_stored_ratio(c), _format_megabytes(c.median("written_bytes"))],
    ),
    "W5": (
        ["conversations per s", "per CPU s", "KB per waiting one"],
        lambda c: [
            _format_figure(c, "conversations_per_s"),
            format_number(1e3 / cpu) if (cpu := c.median()) else "",
            _format_figure(c, "bytes_per_waiting", ",.0f", 1 / 1024),
        ],
    ),
    "W6": (
        ["ms until ready", "packages", "MB installed"],
        lambda c: [
            _format_figure(c, "ready_ms", ",.0f"),
            _format_figure(c, "packages", ".0f"),
            _format_megabytes(c.median("installed_bytes")),
        ],
    ),
    "W7": (
        ["to the bare SDK call", "to finished bytes", "API"],
        lambda c: [
            _format_figure(c, "to_bare_sdk", ".2f"),
            _format_figure(c, "to_sdk_bytes", ".2f"),
            str(c.lines[0]["extra"].get("api", "")),
        ],
    ),
    "W8": (
        ["wall ms", "MB stored", "to the texts", "CPU ms per turn to fill"],
        lambda c: [
            _format_figure(c, "wall_ms"),
            _format_megabytes(c.median("stored_bytes")),
            _format_stored_ratio(c),
            _format_figure(c, "turn_ms"),
        ],
    ),
}
NOTES = {
    "W1": "Every reply (about a hundred tokens) hands over to the other agent.",
    "W2": "Each system's recommended store on a local file; *by us* is a store that we wrote for one that is shipped without. The bare "
    "limit to compare with has `synchronous=NORMAL`; for Legato's `full`, it has `FULL`.",
    "W3": "The user speaks, the model calls three tools at once, then answers. What is durable is compared with a bare limit that waits "
    "for the disk before tools start, as Legato does by default.",
    "W4": "One gated call and two open ones per cycle. Tools, agents, graphs and workflows are made once, and not measured; the state is "
    "read again for every approval. Legato's `store`: a new handle of the process's store, as in a web server; nothing is saved, "
    "because everything is saved always. `opened anew`: the SQLite file with a new store, as in another process. `text`: the session "
    "as text, "
    "written to a file and read from it. Peers open their stores anew, or have them *kept open* if the name says so; a file of "
    "JSON is written and read whole. `store` is compared with the fastest of all, `opened anew` with the fastest that opens its store "
    "anew too.",
    "W5": "One question, ten handoffs back and forth, one answer; the last request is searched for lost, doubled and foreign texts. "
    "`0ms` and `50ms`: the latency of the model. `memory`: the memory per conversation while all wait for the model at once.",
    "W6": "CPU time of a fresh interpreter with the import, less one without. *Until ready*: with the imports of a program with two agents "
    "and a store. Packages and size: of a base install that can do handoffs, without extras.",
    "W7": "CPU time of the client alone. *Bare SDK call*: `client.responses.create(...)` (or that of Chat Completions) with the same "
    "body in the same process; *finished bytes*: the SDK sends bytes that are encoded already, and does not decode the answer.",
    "W8": "A turn is a message and its answer. Opening is the work of a new handle until the conversation could continue.",
}
PLOTS = {
    "W1": ("W1: CPU per handoff, nothing stored", "handoffs in one conversation", "CPU ms per handoff", "cpu_ms"),
    "W2": ("W2: CPU per handoff, durable after every turn", "handoffs in one conversation", "CPU ms per handoff", "cpu_ms"),
    "W8": ("W8: opening a stored conversation", "turns in it", "CPU ms to open", "cpu_ms"),
}


def write_plots(measurements: Measurements, into: Path) -> None:
    for workload, (title, x_label, y_label, what) in PLOTS.items():
        lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for cell in measurements.select(workload):
            value = cell.median(what)
            if value:
                lines[f"{cell.system}, {cell.variant}" if workload == "W2" else cell.system].append((cell.n, value))
        (into / f"{workload}.svg").write_text(draw_log_log(title, x_label, y_label, lines))


def list_setups() -> list[str]:
    """Return the docstring of each system's script: its configuration, what favours it, what was not possible."""
    sections = []
    for system in ALL_SYSTEMS:
        docstring = ast.get_docstring(ast.parse((SCRIPTS_FOLDER / system.script).read_text())) or ""
        sections.append(f"### {system.name}\n\n{docstring}")
    return sections


def render_page(measurements: Measurements, plots_at: str) -> str:
    repeats = max((len(cell.lines) for cell in measurements.cells), default=0)
    versions: dict[str, set[str]] = defaultdict(set)
    for cell in measurements.cells:
        versions[cell.system] |= {line["version"] for line in cell.lines if line.get("version")}
    named = ", ".join(f"{system} {' and '.join(sorted(found))}" for system, found in versions.items() if found and system != BARE)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores of a shared machine"
    parts = [
        "# Benchmarks",
        "Legato compared with its peers and with *the bare limit*, a hand-written loop that does the least that is correct: it joins the "
        "request from encoded items, appends to SQLite with the settings of Legato's store, and does nothing else. `make bench` measures "
        "each workload in one run. `bench/systems/` has one script per system, which describes its setup and what was not possible. The "
        "model is a fake that answers at once, so that the system alone is measured. *Lost, doubled*: texts, calls and outputs that are "
        "missing in the last requests, or that they have more than once.",
        f"Measured: {named}; {machine}. CPU time of all threads, medians of {'1 run' if repeats == 1 else f'up to {repeats} runs'} "
        "(of peers fewer, where one takes long), noise as least .. most. Absolute times are this machine's; ratios are the point."
        + ("" if repeats > 2 else " **A quick run**: peers at smaller sizes, everything fewer times than a verdict needs."),
        "## Goals",
        render_table(
            ["", "goal", "measured", ""],
            [
                [goal.workload, goal.requirement, goal.result, {True: "met", False: "**not met**", None: "?"}[goal.is_met]]
                for goal in check_goals(measurements)
            ],
        ),
    ]
    for workload in sorted({cell.workload for cell in measurements.cells}):
        parts.append(f"## {workload}: {TITLES[workload][0]}")
        parts.append(NOTES[workload])
        if workload in PLOTS:
            parts.append(f"![{PLOTS[workload][0]}]({plots_at}{workload}.svg)")
        parts.append(render_workload_table(measurements, workload))
    parts += ["## How each is set up", "As the script of each begins.", *list_setups()]
    notes = sorted({f"- {cell.system}, {cell.workload}: {cell.note}" for cell in measurements.cells if cell.note and cell.lines})
    if notes:
        parts += ["## Notes", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def write_report(results: Path, summary: Path) -> str:
    """Write plots and page; return a summary of the goals."""
    lines = [json.loads(line) for line in (results / "measurements.jsonl").read_text().splitlines()]
    measurements = Measurements(lines)
    write_plots(measurements, results)
    summary.write_text(render_page(measurements, f"{os.path.relpath(results, summary.parent)}/"))
    marks = {True: "met    ", False: "NOT MET", None: "?      "}
    return (
        "\n".join(f"{marks[goal.is_met]}  {goal.workload}  {goal.requirement}: {goal.result}" for goal in check_goals(measurements))
        + f"\n{summary}"
    )
