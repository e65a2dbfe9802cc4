"""The measurements of a run, from its JSON lines, by workload, system, variant and size."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

Line = dict[str, Any]
LEGATO, BARE = "legato", "bare limit"
SYSTEM_ORDER = (LEGATO, BARE, "openai-agents", "agent-framework", "langgraph", "pydantic-ai", "google-adk")


@dataclass
class Cell:
    """All repetitions of one measurement."""

    system: str
    workload: str
    variant: str
    n: int
    lines: list[Line]
    note: str = ""

    def list_values(self, what: str) -> list[float]:
        values = [line.get(what, line.get("extra", {}).get(what)) for line in self.lines]
        return [value for value in values if value is not None]

    def median(self, what: str = "cpu_ms") -> float | None:
        """Return the median of a figure."""
        values = self.list_values(what)
        return statistics.median(values) if values else None

    @property
    def is_shipped(self) -> bool:
        """False for a store that we wrote for a system that has none."""
        return "by us" not in self.variant

    @property
    def is_kept_open(self) -> bool:
        """W4: True if the store stays open from one approval to the next."""
        return self.variant.endswith("kept open")

    @property
    def is_faultless(self) -> bool:
        """True if it ended, and nothing was lost or doubled."""
        return bool(self.lines) and all(line["ended"] and not line.get("lost") and not line.get("doubled") for line in self.lines)

    @property
    def fault_summary(self) -> str:
        """A short summary of lost and doubled texts, or "none"."""
        worst = {name: max(self.list_values(name), default=0) for name in ("lost", "doubled")}
        faults = [f"{int(number):,} {name}" for name, number in worst.items() if number]
        if not all(line["ended"] for line in self.lines):
            faults.append("did not end")
        return ", ".join(faults) or "none"


class Measurements:
    """The measurements of a run, by workload, system, variant and size."""

    def __init__(self, lines: list[Line]) -> None:
        cells: dict[tuple[str, str, str, int], Cell] = {}
        for line in lines:
            key = (line["workload"], line["system"], line.get("variant", ""), line["n"])
            cell = cells.setdefault(key, Cell(line["system"], line["workload"], line.get("variant", ""), line["n"], []))
            if "cpu_ms" in line:
                cell.lines.append(line)
            cell.note = cell.note or line.get("note", "")
        self.cells = sorted(cells.values(), key=lambda cell: (cell.workload, _rank_system(cell.system), cell.n))

    def select(self, workload: str, system: str = "", variant: str | None = None, n: int = 0) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if cell.workload == workload
            and (not system or cell.system == system)
            and (variant is None or cell.variant == variant)
            and (not n or cell.n == n)
        ]

    def get_median(self, workload: str, system: str, variant: str, n: int, what: str = "cpu_ms") -> float | None:
        found = self.select(workload, system, variant, n)
        return found[0].median(what) if found else None

    def select_faultless_peers(self, workload: str, n: int) -> list[Cell]:
        """Return the peers that ended at this size and lost nothing."""
        return [cell for cell in self.select(workload, n=n) if cell.system not in (LEGATO, BARE) and cell.is_faultless]

    def find_common_size(self, workload: str, goal: int) -> int:
        """Return the goal's size if a peer that loses nothing was measured there, else the largest size of such a peer."""
        sizes = {cell.n for cell in self.select(workload) if cell.system not in (LEGATO, BARE) and cell.is_faultless}
        return goal if goal in sizes else max((n for n in sizes if self.select(workload, LEGATO, n=n)), default=goal)


def _rank_system(system: str) -> int:
    return SYSTEM_ORDER.index(system) if system in SYSTEM_ORDER else len(SYSTEM_ORDER)


def find_bare_variant(workload: str, variant: str) -> str:
    """Return the variant of the bare limit that does the same work with the same promises."""
    if workload == "W2":
        return "full" if variant == "full" else "normal"
    if workload == "W3":
        return variant if variant in ("memory", "full") else "effects"
    if workload == "W4":
        if variant in ("text", "whole state"):
            return "whole state"
        return "store" if variant == "store" or variant.endswith("kept open") else "opened anew"
    return variant


def find_legato_variant(workload: str, variant: str) -> str:
    """Return the variant of Legato that a peer's variant is compared with: the default one."""
    return {"W2": "effects", "W3": "memory" if variant == "memory" else "effects", "W4": "store"}.get(workload, variant)
