"""`agents.usage`, by name."""

from typing import TYPE_CHECKING

from legato.compat.agents.context import InputTokensDetails, OutputTokensDetails, Usage
from legato.compat.agents.unsupported_errors import absent_name

__all__ = ["InputTokensDetails", "OutputTokensDetails", "Usage"]

if not TYPE_CHECKING:
    __getattr__ = absent_name
