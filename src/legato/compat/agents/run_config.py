"""`agents.run_config`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.unsupported_errors import absent_name
from legato.compat.agents.workflow_builder import RunConfig

__all__ = ["RunConfig"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
