"""`agents.result`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.results import RunResult
from legato.compat.agents.streaming import RunResultStreaming

__all__ = ["RunResult", "RunResultStreaming"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
