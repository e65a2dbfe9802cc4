"""`agents.model_settings`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.facade_gaps import absent_name
from legato.compat.agents.settings import ModelSettings

__all__ = ["ModelSettings"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
