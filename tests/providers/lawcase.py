"""A case of a law book as plain data: what happens before, a request that breaks one clause and nothing else, the exact answer to it,
and the nearest request that obeys.

Nothing here knows how a request is judged, so the same cases are put to the laws themselves (tests/providers) and, over HTTP, to a server
that enforces them (tests/emulator/test_clauses_over_http.py).

In requests and bodies, `{r1.output[0].id}` stands for what the step saved as `r1` produced; a string that is nothing else becomes the
thing itself, whatever it is. `[:4]` and `[-4:]` are the ends of a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from legato.emulator.minds.base import Item

Finish: TypeAlias = Literal["stop", "length"]


@dataclass(frozen=True)
class Step:
    """Something that happens before the request in question."""

    kind: Literal["respond", "conversation", "delete", "expire", "lock"]
    name: str  # what it is saved as, or what it is done to
    body: dict[str, Any] = field(default_factory=dict)
    say: tuple[Item, ...] = ()
    finish: Finish = "stop"
    account: str = ""  # empty: the account that the request in question comes from

    @classmethod
    def respond(cls, body: dict[str, Any], *say: Item, save_as: str, finish: Finish = "stop", account: str = "") -> Step:
        """An accepted request, and what the model says to it. The reply is saved: `{r1.id}`, `{r1.output[0]}`, `{r1.content}` ..."""
        return cls("respond", save_as, body, say, finish, account)

    @classmethod
    def conversation(cls, *items: dict[str, Any], save_as: str) -> Step:
        """A new conversation that holds these items."""
        return cls("conversation", save_as, {"items": list(items)})

    @classmethod
    def delete(cls, name: str) -> Step:
        """The response is deleted."""
        return cls("delete", name)

    @classmethod
    def expire(cls, name: str) -> Step:
        """The response becomes older than the provider keeps it."""
        return cls("expire", name)

    @classmethod
    def lock(cls, name: str) -> Step:
        """Another request begins on the conversation and has not ended."""
        return cls("lock", name)


@dataclass(frozen=True)
class LawCase:
    """One case of one clause. A clause that only permits something is never broken: it has no `breaks`.

    The `body` of the answer is without what no case can know, such as a request's id. `profile`: the switches that differ from the
    defaults. `tokens`: the case is about a prompt of so many tokens, whichever words make it so long.
    """

    clause: str
    breaks: Any = None
    body: dict[str, Any] | None = None
    status: int = 400
    obeys: Any = None
    profile: dict[str, Any] = field(default_factory=dict)
    setup: tuple[Step, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)  # beside those that every client of the API sends
    omits: tuple[str, ...] = ()  # those that are not sent when the clause is broken
    tokens: int = 0

    def __str__(self) -> str:
        return self.clause


NAME = re.compile(r"\{([a-z]\w*)((?:\.\w+|\[\d+\]|\[:4\]|\[-4:\])*)\}")
ENDS = {":4": slice(4), "-4:": slice(-4, None)}


def filled(value: Any, saved: Mapping[str, Any]) -> Any:
    """A request or body with what the steps saved put in its places. A name that nothing was saved as is a mistake of the case.

    >>> filled({"id": "{r1.id}", "said": "about {r1.id}"}, {"r1": {"id": "resp_1"}})
    {'id': 'resp_1', 'said': 'about resp_1'}
    """
    if isinstance(value, dict):
        return {key: filled(inner, saved) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, saved) for inner in value]
    if not isinstance(value, str):
        return value
    whole = NAME.fullmatch(value)
    if whole:
        return _reached(saved[whole[1]], whole[2])
    return NAME.sub(lambda found: str(_reached(saved[found[1]], found[2])), value)


def _reached(thing: Any, way: str) -> Any:
    for member, index in re.findall(r"\.(\w+)|\[([-:\d]+)\]", way):
        thing = thing[member] if member else thing[ENDS[index] if index in ENDS else int(index)]
    return thing
