"""`agents.result`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.run_result import RunResult
from legato.compat.agents.streaming import RunResultStreaming
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["RunResult", "RunResultStreaming"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
