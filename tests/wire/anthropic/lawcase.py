"""A case for a clause of the Messages law book: a request that breaks it and nothing else, and the nearest that obeys it.

A case can be run through HTTP as it stands, against a server whose switches are those of `profile` and which has the models of
`world.py`. What a case needs to have happened before is its `setup`: each step is a request, what the model says to it, and the name
under which the reply is kept. A string such as `"{r1.content}"` or `"{r1.content.0.signature}"` stands for that part of a reply. Where
`tokens` is set, the case is about a prompt of so many tokens, which only whoever counts them can say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from legato.emulator.minds.base import Item

_PART = re.compile(r"\{(\w+)((?:\.\w+)+)\}")


@dataclass(frozen=True)
class Step:
    """A request that was answered before."""

    request: dict[str, Any]
    say: list[Item]
    save_as: str
    headers: dict[str, str] = field(default_factory=dict)
    account: str = "account-1"


@dataclass(frozen=True)
class LawCase:
    """One case. A clause that only permits something is never broken: it has no `breaks`. The `body` is without the request's id."""

    clause: str
    breaks: Any = None
    body: dict[str, Any] | None = None
    status: int = 400
    obeys: Any = None
    profile: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    setup: tuple[Step, ...] = ()
    tokens: int = 0
    version: bool = True  # whether `anthropic-version` is sent when the clause is broken
    account: str = "account-1"

    def __str__(self) -> str:
        return self.clause


def filled(thing: Any, saved: Mapping[str, Any]) -> Any:
    """A request with the parts of earlier replies in their places."""
    if isinstance(thing, dict):
        return {name: filled(value, saved) for name, value in thing.items()}
    if isinstance(thing, list):
        return [filled(value, saved) for value in thing]
    match = _PART.fullmatch(thing) if isinstance(thing, str) else None
    if not match:
        return thing
    found = saved[match[1]]
    for step in match[2].split(".")[1:]:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found
