"""`agents.memory`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.sessions import SQLiteSession

__all__ = ["SQLiteSession"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
