"""`agents.run_state`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.state import RunState

__all__ = ["RunState"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
