"""`agents.models`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.default_models import (
    get_default_model,
    get_default_model_settings,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
)
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["get_default_model", "get_default_model_settings", "gpt_5_reasoning_settings_required", "is_gpt_5_default"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
