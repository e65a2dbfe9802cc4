"""`agents.model_settings`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.settings import ModelSettings
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["ModelSettings"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
