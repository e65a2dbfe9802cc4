"""What is asked of Legato, each with what was measured.

A goal against peers is judged at its size if peers were measured there, else at the largest size that they were; which one is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bench.measured import BARE, LEGATO, Cell, Measured, counterpart


class Goal(NamedTuple):
    workload: str
    asks: str
    measured: str
    met: bool | None
    """None: it cannot be told from this run."""


def goals(of: Measured) -> list[Goal]:
    parts = (handoffs, durable_handoffs, chats, approvals, crowds, imports, sdk_calls, openings)
    return [goal for part in parts for goal in part(of)]


def judged(workload: str, asks: str, value: float | None, fits: Callable[[float], bool], shown: str) -> Goal:
    if value is None:
        return Goal(workload, asks, "not measured", None)
    return Goal(workload, asks, shown.format(value), fits(value))


def over(value: float | None, other: float | None) -> float | None:
    return value / other if value and other else None


def fastest(cells: Iterable[Cell]) -> Cell | None:
    return min(cells, key=lambda cell: cell.get() or math.inf, default=None)


def cheaper(of: Measured, workload: str, goal: int, variant: str, factor: float, what: str, fits: Callable[[Cell], bool]) -> Goal:
    """So many times less CPU than the fastest peer that loses nothing, as it is shipped; beside it a store of ours, and the bare limit."""
    n = of.common(workload, goal)
    ours = of.value(workload, LEGATO, variant, n)
    cells = [cell for cell in of.peers(workload, n) if fits(cell)]
    best, written = (fastest(cell for cell in cells if cell.shipped is shipped) for shipped in (True, False))
    asks = f"at least {factor:g}x less CPU per {what} than the fastest peer that loses nothing"
    shown = f"{{:,.0f}}x less than {best.system} {best.variant}".rstrip() + f" (n = {n:,})" if best else ""
    spread = [cell.all("cpu_ms") for cell in of.of(workload, LEGATO, variant, n)]
    if best and spread and len(spread[0]) > 1:  # a verdict near its bound may lie within the noise: so that is said
        least, most = ((best.get() or 0.0) / value for value in (max(spread[0]), min(spread[0])))
        shown = shown.replace("(n =", f"({least:,.0f} .. {most:,.0f}x by Legato's repetitions; n =")
    if written and (ratio := over(written.get(), ours)):
        shown += f"; {ratio:,.0f}x less than {written.system} with a store that we wrote for it"
    if ratio := over(ours, of.value(workload, BARE, counterpart(workload, variant), n)):
        shown += f"; {ratio:.1f}x the bare limit{'' if variant in ('', 'memory') else ' of the same durability'}"
    return judged(workload, asks, over(best.get() if best else None, ours), lambda v: v >= factor, shown)


def any_way(cell: Cell) -> bool:
    return True


def in_memory(cell: Cell) -> bool:
    return cell.variant == "memory"


def stored(cell: Cell) -> bool:
    return cell.variant != "memory"


def handoffs(of: Measured) -> Iterator[Goal]:
    yield cheaper(of, "W1", 400, "", 100, "handoff", any_way)
    # Legato's fake model is given the groups and joins nothing, so nothing is taken off: the ratio is the measured one.
    first, last = (of.value("W1", LEGATO, "", 400, f"{which}_hundred_ms") for which in ("first", "last"))
    asks = "the last hundred handoffs cost what the first hundred cost (at most 1.1x)"
    yield judged("W1", asks, over(last, first), lambda v: v <= 1.1, f"{{:.2f}}x ({last or 0:.3f} ms after {first or 0:.3f} ms)")


def durable_handoffs(of: Measured) -> Iterator[Goal]:
    yield cheaper(of, "W2", 400, "effects", 100, "durable handoff", stored)
    for level, bare in (("effects", "normal"), ("full", "full")):
        ratio = over(of.value("W2", LEGATO, level, 400), of.value("W2", BARE, bare, 400))
        asks = f"at most 5x the bare limit (durability {level}, synchronous={bare.upper()})"
        yield judged("W2", asks, ratio, lambda v: v <= 5, "{:.1f}x")
    kept, said = (of.value("W2", LEGATO, "effects", 400, what) for what in ("stored_bytes", "said_bytes"))
    yield judged("W2", "bytes in the file at most 2x the bytes said", over(kept, said), lambda v: v <= 2, "{:.2f}x")


def chats(of: Measured) -> Iterator[Goal]:
    yield cheaper(of, "W3", 200, "memory", 50, "turn, in memory,", in_memory)
    yield cheaper(of, "W3", 200, "effects", 50, "turn, durable,", stored)


def approvals(of: Measured) -> Iterator[Goal]:
    yield cheaper(of, "W4", 200, "store", 20, "cycle (a new handle of the process's store)", any_way)
    yield cheaper(of, "W4", 200, "opened anew", 20, "cycle (the file opened anew)", lambda cell: not cell.kept_open)
    history = of.value("W4", BARE, "whole state", 200, "stored_bytes")
    for variant, most in (("store", 2.0), ("text", 1.3)):
        ratio = over(of.value("W4", LEGATO, variant, 200, "stored_bytes"), history)
        asks = f"saved state ({variant}) at most {most:g}x the history, as the bare limit writes it"
        yield judged("W4", asks, ratio, lambda v, most=most: v <= most, "{:.2f}x")


def crowds(of: Measured) -> Iterator[Goal]:
    n = of.common("W5", 1_000)
    best = fastest(cell for cell in of.peers("W5", n) if cell.variant == "0ms")
    ours, theirs = of.value("W5", LEGATO, "0ms", n), best.get() if best else None
    rates = f"{1e3 / ours:,.0f} and {1e3 / theirs:,.0f} per CPU second, n = {n:,}" if ours and theirs else ""
    asks = "at least 20x the conversations per second of the fastest peer that loses nothing, at 0 ms"
    shown = f"{{:,.1f}}x those of {best.system} ({rates})" if best else ""
    yield judged("W5", asks, over(theirs, ours), lambda v: v >= 20, shown)
    yield at_fifty(of)
    waiting = of.value("W5", LEGATO, "memory", 1_000, "bytes_per_waiting")
    yield judged("W5", "at most 50 KB of memory per waiting conversation", over(waiting, 1024), lambda v: v <= 50, "{:.1f} KB")


def at_fifty(of: Measured) -> Goal:
    """Within 10 % of the bare limit; or a core is busy, and with the same work that 0 ms takes: CPU beyond that is not accounted for."""
    asks = "at 50 ms within 10 % of the bare limit, or bound by CPU (a core 90 % busy) that is accounted for (at most 1.25x that at 0 ms)"
    slow, limit = (of.value("W5", system, "50ms", 1_000, "conversations_per_s") for system in (LEGATO, BARE))
    at_0, at_50 = (of.value("W5", LEGATO, variant, 1_000) for variant in ("0ms", "50ms"))
    more, busy = over(at_50, at_0), (at_50 or 0.0) * (slow or 0.0) / 1e3
    shown = f"{{:.2f}}x its conversations per second; {busy:.0%} of a core busy"
    if more:
        shown += f"; {at_50:.2f} ms of CPU per conversation, {more:.2f}x the {at_0:.2f} at 0 ms"
    told = judged("W5", asks, over(slow, limit), lambda v: v >= 0.9, shown)
    if told.met is False and busy >= 0.9:
        return told._replace(met=None if more is None else more <= 1.25, measured=f"{told.measured}: bound by CPU")
    return told


def imports(of: Measured) -> Iterator[Goal]:
    ours, least = (of.value("W6", system, "", 1, "import_ms") for system in (LEGATO, BARE))
    shown = f"{{:.2f}}x ({ours or 0:.0f} and {least or 0:.0f} ms)"
    asks = "`from legato import Agent` at most 1.5x `import asyncio, json, sqlite3`"
    yield judged("W6", asks, over(ours, least), lambda v: v <= 1.5, shown)
    yield judged("W6", "base install at most 10 packages", of.value("W6", LEGATO, "", 1, "packages"), lambda v: v <= 10, "{:.0f}")


def sdk_calls(of: Measured) -> Iterator[Goal]:
    for variant in ("whole", "streamed"):
        ratio, floor = (of.value("W7", LEGATO, variant, 200, what) for what in ("to_bare_sdk", "to_sdk_bytes"))
        shown = f"{{:.2f}}x; {floor or 0:.2f}x the SDK sending finished bytes"
        yield judged("W7", f"at most 10 % over the bare SDK call after 200 turns, {variant}", ratio, lambda v: v <= 1.1, shown)


def openings(of: Measured) -> Iterator[Goal]:
    yield judged("W8", "10,000 turns open in under 200 ms", of.value("W8", LEGATO, "", 10_000, "wall_ms"), lambda v: v < 200, "{:.0f} ms")
    fewer, more = (of.value("W8", LEGATO, "", n) for n in (1_000, 10_000))
    power = math.log10(more / fewer) if fewer and more else None
    yield judged("W8", "linear: exponent at most 1.05 (1,000 to 10,000 turns)", power, lambda v: v <= 1.05, "{:.2f}")
