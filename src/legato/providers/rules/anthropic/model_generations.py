"""The generation of a model, from its name, and the capabilities of each generation.

Every table has the month of its evidence. A name without a generation, such as that of another vendor's model, has no limits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Generation: TypeAlias = tuple[int, int]

_NAME = re.compile(r"claude-(?:v|[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")

EFFORT_LEVELS = ("low", "medium", "high", "xhigh", "max")
_EFFORTS_BY_GENERATION: tuple[tuple[Generation, tuple[str, ...]], ...] = (
    ((4, 7), EFFORT_LEVELS),  # measured 2026-09
    ((4, 6), ("low", "medium", "high", "max")),  # measured 2026-09
    ((4, 5), ("low", "medium", "high")),  # documents of 2026-04
)
_MODELS_WITHOUT_EFFORT = re.compile(r"claude-(?:haiku|sonnet)-4[-.]5")  # of generation 4.5 only Opus accepts one; measured 2026-06


@lru_cache(maxsize=1024)
def parse_generation(model: str) -> Generation | None:
    """Return the generation of a model of Anthropic's. None: the name does not tell it.

    >>> [parse_generation(name) for name in ("claude-opus-5-5", "claude-3-5-haiku-latest", "claude-sonnet-4-20250514", "gpt-5")]
    [(5, 5), (3, 5), (4, 0), None]
    """
    match = _NAME.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else None


def find_efforts(model: str) -> tuple[str, ...] | None:
    """Return the efforts that a model accepts; empty if it accepts none. None: not known.

    >>> find_efforts("claude-opus-4-6"), find_efforts("claude-haiku-4-5"), find_efforts("a-model")
    (('low', 'medium', 'high', 'max'), (), None)
    """
    generation = parse_generation(model)
    if generation is None:
        return None
    if _MODELS_WITHOUT_EFFORT.search(model):
        return ()
    return next((levels for first, levels in _EFFORTS_BY_GENERATION if generation >= first), ())


def accepts_sampling(model: str) -> bool:
    """Return True if a model accepts other values than the defaults of `temperature`, `top_p` and `top_k`: up to Claude 4.6 (2026-06)."""
    return (parse_generation(model) or (0, 0)) < (4, 7)


def accepts_one_sampling_option(model: str) -> bool:
    """Return True if a model accepts `temperature` or `top_p`, but not both: since Claude 4.1 (2025-10)."""
    return (parse_generation(model) or (0, 0)) >= (4, 1)


def accepts_prefill(model: str) -> bool:
    """Return True if a model continues a final assistant message: up to Claude 4.5 (2026-11)."""
    return (parse_generation(model) or (9, 9)) < (4, 6)


def compares_call_ids(model: str) -> bool:
    """Return True if the ids of tool uses and results must agree. Claude 3 did not compare them (2024-06)."""
    return parse_generation(model) != (3, 0)
