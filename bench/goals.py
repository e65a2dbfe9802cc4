"""Legato's performance goals, each with the measured result.

A goal against peers is checked at its size if peers were measured there, else at the largest size of a peer; the result names the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bench.measurements import BARE, LEGATO, Cell, Measurements, find_bare_variant


class Goal(NamedTuple):
    """A goal and its result."""

    workload: str
    requirement: str
    result: str
    is_met: bool | None
    """None: this run does not show it."""


def check_goals(measurements: Measurements) -> list[Goal]:
    parts = (
        check_handoffs,
        check_durable_handoffs,
        check_chats,
        check_approvals,
        check_crowds,
        check_imports,
        check_sdk_calls,
        check_openings,
    )
    return [goal for part in parts for goal in part(measurements)]


def make_goal(workload: str, requirement: str, value: float | None, fits: Callable[[float], bool], result: str) -> Goal:
    if value is None:
        return Goal(workload, requirement, "not measured", None)
    return Goal(workload, requirement, result.format(value), fits(value))


def divide(value: float | None, other: float | None) -> float | None:
    return value / other if value and other else None


def find_fastest(cells: Iterable[Cell]) -> Cell | None:
    return min(cells, key=lambda cell: cell.median() or math.inf, default=None)


def compare_cpu(
    measurements: Measurements, workload: str, goal: int, variant: str, factor: float, what: str, fits: Callable[[Cell], bool]
) -> Goal:
    """Compare Legato's CPU time with the fastest peer that loses nothing, with our stores for peers, and with the bare limit."""
    n = measurements.find_common_size(workload, goal)
    ours = measurements.get_median(workload, LEGATO, variant, n)
    cells = [cell for cell in measurements.select_faultless_peers(workload, n) if fits(cell)]
    best, written = (find_fastest(cell for cell in cells if cell.is_shipped is shipped) for shipped in (True, False))
    requirement = f"at least {factor:g}x less CPU per {what} than the fastest peer that loses nothing"
    result = f"{{:,.0f}}x less than {best.system} {best.variant}".rstrip() + f" (n = {n:,})" if best else ""
    spread = [cell.list_values("cpu_ms") for cell in measurements.select(workload, LEGATO, variant, n)]
    if best and spread and len(spread[0]) > 1:  # shows whether the result is within the noise
        least, most = ((best.median() or 0.0) / value for value in (max(spread[0]), min(spread[0])))
        result = result.replace("(n =", f"({least:,.0f} .. {most:,.0f}x by Legato's repetitions; n =")
    if written and (ratio := divide(written.median(), ours)):
        result += f"; {ratio:,.0f}x less than {written.system} with a store that we wrote for it"
    if ratio := divide(ours, measurements.get_median(workload, BARE, find_bare_variant(workload, variant), n)):
        result += f"; {ratio:.1f}x the bare limit{'' if variant in ('', 'memory') else ' of the same durability'}"
    return make_goal(workload, requirement, divide(best.median() if best else None, ours), lambda v: v >= factor, result)


def is_any_cell(cell: Cell) -> bool:
    return True


def is_in_memory(cell: Cell) -> bool:
    return cell.variant == "memory"


def is_stored(cell: Cell) -> bool:
    return cell.variant != "memory"


def check_handoffs(measurements: Measurements) -> Iterator[Goal]:
    yield compare_cpu(measurements, "W1", 400, "", 100, "handoff", is_any_cell)
    # Legato's fake model gets the groups and joins nothing, so nothing is subtracted: the ratio is the measured one.
    first, last = (measurements.get_median("W1", LEGATO, "", 400, f"{which}_hundred_ms") for which in ("first", "last"))
    requirement = "the last hundred handoffs cost what the first hundred cost (at most 1.1x)"
    yield make_goal("W1", requirement, divide(last, first), lambda v: v <= 1.1, f"{{:.2f}}x ({last or 0:.3f} ms after {first or 0:.3f} ms)")


def check_durable_handoffs(measurements: Measurements) -> Iterator[Goal]:
    yield compare_cpu(measurements, "W2", 400, "effects", 100, "durable handoff", is_stored)
    for level, bare in (("effects", "normal"), ("full", "full")):
        ratio = divide(measurements.get_median("W2", LEGATO, level, 400), measurements.get_median("W2", BARE, bare, 400))
        requirement = f"at most 5x the bare limit (durability {level}, synchronous={bare.upper()})"
        yield make_goal("W2", requirement, ratio, lambda v: v <= 5, "{:.1f}x")
    stored_bytes, text_bytes = (measurements.get_median("W2", LEGATO, "effects", 400, what) for what in ("stored_bytes", "said_bytes"))
    yield make_goal("W2", "bytes in the file at most 2x the bytes said", divide(stored_bytes, text_bytes), lambda v: v <= 2, "{:.2f}x")


def check_chats(measurements: Measurements) -> Iterator[Goal]:
    yield compare_cpu(measurements, "W3", 200, "memory", 50, "turn, in memory,", is_in_memory)
    yield compare_cpu(measurements, "W3", 200, "effects", 50, "turn, durable,", is_stored)


def check_approvals(measurements: Measurements) -> Iterator[Goal]:
    yield compare_cpu(measurements, "W4", 200, "store", 20, "cycle (a new handle of the process's store)", is_any_cell)
    yield compare_cpu(measurements, "W4", 200, "opened anew", 20, "cycle (the file opened anew)", lambda cell: not cell.is_kept_open)
    history = measurements.get_median("W4", BARE, "whole state", 200, "stored_bytes")
    for variant, most in (("store", 2.0), ("text", 1.3)):
        ratio = divide(measurements.get_median("W4", LEGATO, variant, 200, "stored_bytes"), history)
        requirement = f"saved state ({variant}) at most {most:g}x the history, as the bare limit writes it"
        yield make_goal("W4", requirement, ratio, lambda v, most=most: v <= most, "{:.2f}x")


def check_crowds(measurements: Measurements) -> Iterator[Goal]:
    n = measurements.find_common_size("W5", 1_000)
    best = find_fastest(cell for cell in measurements.select_faultless_peers("W5", n) if cell.variant == "0ms")
    ours, theirs = measurements.get_median("W5", LEGATO, "0ms", n), best.median() if best else None
    rates = f"{1e3 / ours:,.0f} and {1e3 / theirs:,.0f} per CPU second, n = {n:,}" if ours and theirs else ""
    requirement = "at least 20x the conversations per second of the fastest peer that loses nothing, at 0 ms"
    result = f"{{:,.1f}}x those of {best.system} ({rates})" if best else ""
    yield make_goal("W5", requirement, divide(theirs, ours), lambda v: v >= 20, result)
    yield check_crowd_at_50_ms(measurements)
    waiting = measurements.get_median("W5", LEGATO, "memory", 1_000, "bytes_per_waiting")
    yield make_goal("W5", "at most 50 KB of memory per waiting conversation", divide(waiting, 1024), lambda v: v <= 50, "{:.1f} KB")


def check_crowd_at_50_ms(measurements: Measurements) -> Goal:
    """Check the 50 ms variant: it must be within 10 % of the bare limit, or keep a core busy with about as much work as at 0 ms."""
    requirement = (
        "at 50 ms within 10 % of the bare limit, or bound by CPU (a core 90 % busy) that is accounted for (at most 1.25x that at 0 ms)"
    )
    slow, limit = (measurements.get_median("W5", system, "50ms", 1_000, "conversations_per_s") for system in (LEGATO, BARE))
    at_0, at_50 = (measurements.get_median("W5", LEGATO, variant, 1_000) for variant in ("0ms", "50ms"))
    more, busy = divide(at_50, at_0), (at_50 or 0.0) * (slow or 0.0) / 1e3
    result = f"{{:.2f}}x its conversations per second; {busy:.0%} of a core busy"
    if more:
        result += f"; {at_50:.2f} ms of CPU per conversation, {more:.2f}x the {at_0:.2f} at 0 ms"
    goal = make_goal("W5", requirement, divide(slow, limit), lambda v: v >= 0.9, result)
    if goal.is_met is False and busy >= 0.9:
        return goal._replace(is_met=None if more is None else more <= 1.25, result=f"{goal.result}: bound by CPU")
    return goal


def check_imports(measurements: Measurements) -> Iterator[Goal]:
    ours, least = (measurements.get_median("W6", system, "", 1, "import_ms") for system in (LEGATO, BARE))
    result = f"{{:.2f}}x ({ours or 0:.0f} and {least or 0:.0f} ms)"
    requirement = "`from legato import Agent` at most 1.5x `import asyncio, json, sqlite3`"
    yield make_goal("W6", requirement, divide(ours, least), lambda v: v <= 1.5, result)
    yield make_goal(
        "W6", "base install at most 10 packages", measurements.get_median("W6", LEGATO, "", 1, "packages"), lambda v: v <= 10, "{:.0f}"
    )


def check_sdk_calls(measurements: Measurements) -> Iterator[Goal]:
    for variant in ("whole", "streamed"):
        ratio, floor = (measurements.get_median("W7", LEGATO, variant, 200, what) for what in ("to_bare_sdk", "to_sdk_bytes"))
        result = f"{{:.2f}}x; {floor or 0:.2f}x the SDK sending finished bytes"
        yield make_goal("W7", f"at most 10 % over the bare SDK call after 200 turns, {variant}", ratio, lambda v: v <= 1.1, result)


def check_openings(measurements: Measurements) -> Iterator[Goal]:
    yield make_goal(
        "W8",
        "10,000 turns open in under 200 ms",
        measurements.get_median("W8", LEGATO, "", 10_000, "wall_ms"),
        lambda v: v < 200,
        "{:.0f} ms",
    )
    fewer, more = (measurements.get_median("W8", LEGATO, "", n) for n in (1_000, 10_000))
    power = math.log10(more / fewer) if fewer and more else None
    yield make_goal("W8", "linear: exponent at most 1.05 (1,000 to 10,000 turns)", power, lambda v: v <= 1.05, "{:.2f}")
