"""What somebody may have meant. May know: words. Decides: which word is near enough to be offered."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that offers the nearest of the known words; empty if none is near.

    >>> did_you_mean("rate_limits", ["rate_limit", "quota"]), did_you_mean("rain", ["quota"])
    ("did you mean 'rate_limit'?", '')
    """
    near = difflib.get_close_matches(word[:60], list(known), 1)
    return f"did you mean {near[0]!r}?" if near else ""
