"""Engines that make sure a session is being driven somewhere: Temporal, Restate, or this process. `contract.py` says what all of them keep.

`TemporalEngine` and `RestateEngine` are imported when they are first used: each needs an SDK of its own.
"""

from typing import TYPE_CHECKING

from legato.engines.address import engine_at
from legato.engines.contract import Dead, Engine, Submitted
from legato.engines.limits import ModelLimits
from legato.engines.local import LocalEngine
from legato.engines.pace import Pace
from legato.engines.permits import Limit
from legato.engines.worker import Worker

if TYPE_CHECKING:
    from legato.engines.restate import RestateEngine
    from legato.engines.temporal import TemporalEngine

__all__ = [
    "Dead",
    "Engine",
    "Limit",
    "LocalEngine",
    "ModelLimits",
    "Pace",
    "RestateEngine",
    "Submitted",
    "TemporalEngine",
    "Worker",
    "engine_at",
]


def __getattr__(name: str) -> object:
    if name == "TemporalEngine":
        from legato.engines.temporal import TemporalEngine

        return TemporalEngine
    if name == "RestateEngine":
        from legato.engines.restate import RestateEngine

        return RestateEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
