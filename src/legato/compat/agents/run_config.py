"""`agents.run_config`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.building import RunConfig
from legato.compat.agents.mirroring import absent_name

__all__ = ["RunConfig"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
