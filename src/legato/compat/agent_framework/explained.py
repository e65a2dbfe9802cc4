"""What is accepted and has no effect. May know: nothing. Decides: how it is told."""

from __future__ import annotations

import warnings
from functools import cache

from legato.compat import MeansNothingHere


@cache  # told once for each name; if the warning is made an error, it is told again
def explain(name: str, why: str) -> None:
    """Say that `name` means nothing here, and why."""
    warnings.warn(f"{name} means nothing here: {why}", MeansNothingHere, stacklevel=4)


def explain_all(given: dict[str, object], why: dict[str, str]) -> None:
    """Say so for each of the arguments that were given."""
    for name, value in given.items():
        if value:
            explain(name, why[name])
