"""`agents.run_state`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.state import RunState
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["RunState"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
