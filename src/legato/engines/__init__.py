"""Engines, which make sure that sessions are driven: by Temporal, by Restate, or within this process. `engine.py` has their rules.

`TemporalEngine` and `RestateEngine` are imported at their first use: each needs an SDK of its own.
"""

from typing import TYPE_CHECKING

from legato.engines.engine import Engine, EngineSession, ParkedSession
from legato.engines.engine_urls import open_engine
from legato.engines.local_engine import LocalEngine
from legato.engines.model_permits import Limit
from legato.engines.model_rate_limits import ModelLimits
from legato.engines.retry_policy import RetryPolicy
from legato.engines.worker import Worker

if TYPE_CHECKING:
    from legato.engines.restate.engine import RestateEngine
    from legato.engines.temporal.engine import TemporalEngine

__all__ = [
    "Engine",
    "EngineSession",
    "Limit",
    "LocalEngine",
    "ModelLimits",
    "ParkedSession",
    "RestateEngine",
    "RetryPolicy",
    "TemporalEngine",
    "Worker",
    "open_engine",
]


def __getattr__(name: str) -> object:
    if name == "TemporalEngine":
        from legato.engines.temporal.engine import TemporalEngine

        return TemporalEngine
    if name == "RestateEngine":
        from legato.engines.restate.engine import RestateEngine

        return RestateEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
