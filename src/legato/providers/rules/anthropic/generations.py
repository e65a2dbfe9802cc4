"""What a model's name says about it. May know: names. Decides: which generation a model is of, and what its generation takes.

Every table has the month of its evidence. A name that says nothing, such as that of another vendor's model, is held to nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

Generation: TypeAlias = tuple[int, int]

_NAME = re.compile(r"claude-(?:v|[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")

EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EFFORTS_BY_GENERATION: tuple[tuple[Generation, tuple[str, ...]], ...] = (
    ((4, 7), EFFORTS),  # measured 2026-09
    ((4, 6), ("low", "medium", "high", "max")),  # measured 2026-09
    ((4, 5), ("low", "medium", "high")),  # documents of 2026-04
)
_NO_EFFORT = re.compile(r"claude-(?:haiku|sonnet)-4[-.]5")  # of generation 4.5 only Opus takes one; measured 2026-06


@lru_cache(maxsize=1024)
def generation(model: str) -> Generation | None:
    """The generation of a model of Anthropic's; None if the name does not say it.

    >>> generation("claude-opus-5-5"), generation("claude-3-5-haiku-latest"), generation("claude-sonnet-4-20250514"), generation("gpt-5")
    ((5, 5), (3, 5), (4, 0), None)
    """
    found = _NAME.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def efforts(model: str) -> tuple[str, ...] | None:
    """The efforts that a model can be asked for; none if it takes no effort at all. None: they are not known.

    >>> efforts("claude-opus-4-6"), efforts("claude-haiku-4-5"), efforts("a-model")
    (('low', 'medium', 'high', 'max'), (), None)
    """
    made = generation(model)
    if made is None:
        return None
    if _NO_EFFORT.search(model):
        return ()
    return next((levels for first, levels in _EFFORTS_BY_GENERATION if made >= first), ())


def samples(model: str) -> bool:
    """Tell whether a model takes other values than the defaults of `temperature`, `top_p` and `top_k`: up to Claude 4.6 (2026-06)."""
    return (generation(model) or (0, 0)) < (4, 7)


def samples_by_one(model: str) -> bool:
    """Tell whether a model takes `temperature` or `top_p`, but not both: since Claude 4.1 (2025-10)."""
    return (generation(model) or (0, 0)) >= (4, 1)


def prefills(model: str) -> bool:
    """Tell whether a model goes on from words of the assistant: up to Claude 4.5 (2026-11)."""
    return (generation(model) or (9, 9)) < (4, 6)


def pairs_by_id(model: str) -> bool:
    """Tell whether a model asks for the ids of calls and results to agree. Claude 3 did not (2024-06)."""
    return generation(model) != (3, 0)
