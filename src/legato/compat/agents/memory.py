"""`agents.memory`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.sessions import SQLiteSession
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["SQLiteSession"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
