"""Suggestions for misspelled words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return a question that suggests the nearest candidate; empty if none is near.

    >>> did_you_mean("rate_limits", ["rate_limit", "quota"]), did_you_mean("rain", ["quota"])
    ("did you mean 'rate_limit'?", '')
    """
    near = difflib.get_close_matches(word[:60], list(candidates), 1)
    return f"did you mean {near[0]!r}?" if near else ""
