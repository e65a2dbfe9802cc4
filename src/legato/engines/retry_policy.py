"""The retry policy of workers: when a session is driven again after a step, and when it is parked.

All engines use it, in the worker. Engines themselves only keep the number of tries, and a timer.
"""

from __future__ import annotations

from dataclasses import dataclass

from legato.engines.session_step import StepResult


@dataclass(frozen=True)
class NextStep:
    """The next action of an engine, as plain data: it passes through the engine, so its fields are names in stored payloads.

    `wait`: seconds until the session is driven again, unless it is woken before; None: not before it is woken. `parked`: the session is set
    aside until a person retries it, because of `error`. `failed` and `broken` count the failed and the broken steps in a row. `model`: the
    session waits for a slot of this model, in the worker that ran the step; an engine that knows of a free slot need not wait so long.
    """

    status: str
    wait: float | None = None
    parked: bool = False
    error: str = ""
    failed: int = 0
    broken: int = 0
    model: str = ""


@dataclass(frozen=True)
class RetryPolicy:
    """The delays of a worker before it drives a session again, in seconds.

    `failure_delays`: after a model's failure that may pass; after the last one the session stays failed until it is woken. `error_delays`:
    after a step that raised; after the last one the session is parked. `lease_retry_delay`: while another driver has the lease.

    >>> RetryPolicy().plan_next_step(StepResult("broken", error="ValueError at desk.py:7"), failed=0, broken=4).parked
    True
    """

    failure_delays: tuple[float, ...] = (15, 60, 300, 900, 3600)
    error_delays: tuple[float, ...] = (1, 4, 15, 60)
    lease_retry_delay: float = 1.0

    def plan_next_step(self, result: StepResult, failed: int, broken: int) -> NextStep:
        """Return the next action after a step. `failed` and `broken` count such steps before it, without a good one in between."""
        match result.status:
            case "interrupted":
                return NextStep("interrupted", 0.0, failed=failed, broken=broken)
            case "leased_elsewhere":
                return NextStep("leased_elsewhere", self.lease_retry_delay, failed=failed, broken=broken)
            case "no_free_slot":
                return NextStep("no_free_slot", result.retry_after, failed=failed, broken=broken, model=result.model)
            case "retrying":
                return NextStep("retrying", result.retry_after, error=result.error, failed=failed)
            case "broken" if broken >= len(self.error_delays):
                return NextStep("broken", parked=True, error=result.error)
            case "broken":
                return NextStep("broken", self.error_delays[broken], error=result.error, failed=failed, broken=broken + 1)
            case "failed" if result.retry_after is not None and failed < len(self.failure_delays):
                return NextStep("failed", max(self.failure_delays[failed], result.retry_after), error=result.error, failed=failed + 1)
        return NextStep(result.status, error=result.error)
