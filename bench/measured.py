"""What a run measured, from its JSON lines, to be asked by workload, system, variant and size."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
LEGATO, BARE = "legato", "bare limit"
ORDER = (LEGATO, BARE, "openai-agents", "agent-framework", "langgraph", "pydantic-ai", "google-adk")


@dataclass
class Cell:
    """All repetitions of one measurement."""

    system: str
    workload: str
    variant: str
    n: int
    lines: list[Line]
    note: str = ""

    def all(self, what: str) -> list[float]:
        values = [line.get(what, line.get("extra", {}).get(what)) for line in self.lines]
        return [value for value in values if value is not None]

    def get(self, what: str = "cpu_ms") -> float | None:
        """The median of a figure."""
        values = self.all(what)
        return statistics.median(values) if values else None

    @property
    def shipped(self) -> bool:
        """Not by a store that we wrote for it, because it brings none."""
        return "by us" not in self.variant

    @property
    def kept_open(self) -> bool:
        """W4: its store stays open from one approval to the next."""
        return self.variant.endswith("kept open")

    @property
    def whole(self) -> bool:
        """It ended, and nothing was lost or doubled."""
        return bool(self.lines) and all(line["ended"] and not line.get("lost") and not line.get("doubled") for line in self.lines)

    @property
    def faults(self) -> str:
        """What was wrong with it, in a word or two."""
        worst = {name: max(self.all(name), default=0) for name in ("lost", "doubled")}
        told = [f"{int(number):,} {name}" for name, number in worst.items() if number]
        if not all(line["ended"] for line in self.lines):
            told.append("did not end")
        return ", ".join(told) or "none"


class Measured:
    """What a run measured, to be asked by workload, system, variant and size."""

    def __init__(self, lines: list[Line]) -> None:
        cells: dict[tuple[str, str, str, int], Cell] = {}
        for line in lines:
            key = (line["workload"], line["system"], line.get("variant", ""), line["n"])
            cell = cells.setdefault(key, Cell(line["system"], line["workload"], line.get("variant", ""), line["n"], []))
            if "cpu_ms" in line:
                cell.lines.append(line)
            cell.note = cell.note or line.get("note", "")
        self.cells = sorted(cells.values(), key=lambda cell: (cell.workload, _rank(cell.system), cell.n))

    def of(self, workload: str, system: str = "", variant: str | None = None, n: int = 0) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if cell.workload == workload
            and (not system or cell.system == system)
            and (variant is None or cell.variant == variant)
            and (not n or cell.n == n)
        ]

    def value(self, workload: str, system: str, variant: str, n: int, what: str = "cpu_ms") -> float | None:
        found = self.of(workload, system, variant, n)
        return found[0].get(what) if found else None

    def peers(self, workload: str, n: int) -> list[Cell]:
        """Peers that ended at this size and lost nothing."""
        return [cell for cell in self.of(workload, n=n) if cell.system not in (LEGATO, BARE) and cell.whole]

    def common(self, workload: str, goal: int) -> int:
        """The size that the goal names if a peer that loses nothing was measured there, else the largest that one was."""
        sizes = {cell.n for cell in self.of(workload) if cell.system not in (LEGATO, BARE) and cell.whole}
        return goal if goal in sizes else max((n for n in sizes if self.of(workload, LEGATO, n=n)), default=goal)


def _rank(system: str) -> int:
    return ORDER.index(system) if system in ORDER else len(ORDER)


def counterpart(workload: str, variant: str) -> str:
    """Which of the bare limit's ways is the same work with the same promises."""
    if workload == "W2":
        return "full" if variant == "full" else "normal"
    if workload == "W3":
        return variant if variant in ("memory", "full") else "effects"
    if workload == "W4":
        if variant in ("text", "whole state"):
            return "whole state"
        return "store" if variant == "store" or variant.endswith("kept open") else "opened anew"
    return variant


def legatos(workload: str, variant: str) -> str:
    """Which of Legato's ways a peer's is compared with: the default one."""
    return {"W2": "effects", "W3": "memory" if variant == "memory" else "effects", "W4": "store"}.get(workload, variant)
