"""What is known of a Chat Completions model. May know: data. Decides: nothing; the API itself holds nothing between requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct


class ModelInfo(Struct, frozen=True):
    """What matters about a model."""

    name: str
    reasons: bool | None = None  # whether it reasons before it speaks; None: not known
    window: int = 0  # tokens; 0: no limit known
    developer: bool = True  # whether it takes the role `developer`
    tools_with_effort: bool = True  # whether function tools and `reasoning_effort` go together


Models: TypeAlias = Callable[[str], ModelInfo | None]


def any_model(name: str) -> ModelInfo | None:
    """Every name is a model: what a request is judged by on its own.

    >>> any_model("gpt-4o").name
    'gpt-4o'
    """
    return ModelInfo(name)
