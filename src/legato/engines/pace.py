"""What follows a step. May know: nothing but data. Decides: when a session is driven again, and when it is set aside.

Both engines ask here, in the worker: what they keep themselves is the number of tries, and a timer.
"""

from __future__ import annotations

from dataclasses import dataclass

from legato.engines.advance import Rest


@dataclass(frozen=True)
class Step:
    """What an engine does next. As plain data: it goes through the engine.

    `wait`: seconds until the session is driven again, unless it is woken before; None: not before it is woken. `parked`: it is set
    aside until a person retries it, because of `error`. `model`: it waits for a slot of this model, in the worker that made the step;
    an engine that knows when one is free there need not wait so long.
    """

    how: str
    wait: float | None = None
    parked: bool = False
    error: str = ""
    failed: int = 0
    broken: int = 0
    model: str = ""


@dataclass(frozen=True)
class Pace:
    """How patient workers are, in seconds.

    `failed`: after a model's failure that may pass; when these are used up the session stays failed until it is woken. `raised`: after
    a step that raised; when these are used up the session is set aside. `elsewhere`: while another driver holds the lease.

    >>> Pace().after(Rest("broken", error="ValueError at desk.py:7"), failed=0, broken=4).parked
    True
    """

    failed: tuple[float, ...] = (15, 60, 300, 900, 3600)
    raised: tuple[float, ...] = (1, 4, 15, 60)
    elsewhere: float = 1.0

    def after(self, rest: Rest, failed: int, broken: int) -> Step:
        """What to do after a step, given how often the session failed and broke before it without a good one in between."""
        match rest.how:
            case "left":
                return Step("left", 0.0, failed=failed, broken=broken)
            case "elsewhere":
                return Step("elsewhere", self.elsewhere, failed=failed, broken=broken)
            case "busy":
                return Step("busy", rest.again, failed=failed, broken=broken, model=rest.model)
            case "retrying":
                return Step("retrying", rest.again, error=rest.error, failed=failed)
            case "broken" if broken >= len(self.raised):
                return Step("broken", parked=True, error=rest.error)
            case "broken":
                return Step("broken", self.raised[broken], error=rest.error, failed=failed, broken=broken + 1)
            case "failed" if rest.again is not None and failed < len(self.failed):
                return Step("failed", max(self.failed[failed], rest.again), error=rest.error, failed=failed + 1)
        return Step(rest.how, error=rest.error)
