"""A case for a clause of the Chat Completions law book: a request that breaks it and nothing else, and the nearest that obeys it.

A case can be run through HTTP as it stands, against a server whose switches are those of `profile` and which has the models of
`world.py`. Where `tokens` is set, the case is about a prompt of so many tokens, which only whoever counts them can say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LawCase:
    """One case. A clause that only permits something is never broken: it has no `breaks`."""

    clause: str
    breaks: Any = None
    body: dict[str, Any] | None = None
    status: int = 400
    obeys: Any = None
    profile: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0

    def __str__(self) -> str:
        return self.clause
