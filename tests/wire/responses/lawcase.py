"""A case of the law book as plain data: what is set up before, a request that breaks one clause, the answer to it, one that obeys.

Nothing here knows how a request is judged, so that the same cases can be put to the laws themselves and to a server that enforces
them. In requests and bodies, `{r1.output[0].id}` stands for what the step saved as `r1` produced; a string that is nothing else
becomes the thing itself, whatever it is. `[:4]` and `[-4:]` are the ends of a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from legato.emulator.minds.base import Item

PLAIN = "gpt-4o-mini"  # does not reason; its window has 128,000 tokens
THINKS = "gpt-5.5"
THINKS_TOO = "gpt-5.6-terra"
UNKNOWN = "no-such-model"


@dataclass(frozen=True)
class Step:
    """Something that happens before the request in question."""

    kind: Literal["respond", "conversation", "delete", "expire", "lock"]
    name: str  # what it is saved as, or what it is done to
    body: dict[str, Any] = field(default_factory=dict)
    say: tuple[Item, ...] = ()
    finish: Literal["stop", "length"] = "stop"
    account: str = ""  # empty: the account that the request in question comes from

    @classmethod
    def respond(cls, body: dict[str, Any], *say: Item, save_as: str, finish: Literal["stop", "length"] = "stop", account: str = "") -> Step:
        """An accepted request, and what the model says to it. The response is saved: `{r1.id}`, `{r1.output[0]}` ..."""
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
    """One clause. `breaks` is None where nothing can break it. `profile`: the switches that differ from the defaults."""

    clause: str
    breaks: dict[str, Any] | None
    body: dict[str, Any]
    status: int
    obeys: dict[str, Any]
    profile: dict[str, Any] = field(default_factory=dict)
    setup: tuple[Step, ...] = ()


def refused(
    clause: str,
    breaks: dict[str, Any],
    obeys: dict[str, Any],
    message: str,
    param: str | None = None,
    code: str | None = None,
    *,
    status: int = 400,
    profile: Mapping[str, Any] | None = None,
    setup: tuple[Step, ...] = (),
) -> LawCase:
    """A clause that can be broken, and the answer."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    return LawCase(clause, breaks, body, status, obeys, dict(profile or {}), setup)


def allowed(clause: str, obeys: dict[str, Any], *setup: Step) -> LawCase:
    """A clause that says what is accepted."""
    return LawCase(clause, None, {}, 200, obeys, setup=setup)


NAME = re.compile(r"\{([a-z]\w*)((?:\.\w+|\[\d+\]|\[:4\]|\[-4:\])*)\}")
ENDS = {":4": slice(4), "-4:": slice(-4, None)}


def filled(value: Any, saved: Mapping[str, Any]) -> Any:
    """A request or body with what the steps saved put in its places.

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
    if whole and whole[1] in saved:
        return _reached(saved[whole[1]], whole[2])
    return NAME.sub(lambda found: str(_reached(saved[found[1]], found[2])) if found[1] in saved else found[0], value)


def _reached(thing: Any, way: str) -> Any:
    for member, index in re.findall(r"\.(\w+)|\[([-:\d]+)\]", way):
        thing = thing[member] if member else thing[ENDS[index] if index in ENDS else int(index)]
    return thing


# -- the pieces that requests are made of ------------------------------------------------------------------------------

USER = {"role": "user", "content": "hello"}
AGAIN = {"role": "user", "content": "and then?"}
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}


def ask(input: Any = "hello", model: str = PLAIN, **fields: Any) -> dict[str, Any]:
    """A request that is legal as far as it goes."""
    return {"model": model, "input": input, **fields}


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """The same with less in it."""
    return {key: value for key, value in body.items() if key not in names}


def call(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """A function call, without an id of its own unless it is given one."""
    return {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}", **members}


def output(call_id: str = "call_1", **members: Any) -> dict[str, Any]:
    """The output of a function call."""
    return {"type": "function_call_output", "call_id": call_id, "output": "found", **members}


def reference(id: str) -> dict[str, Any]:
    """A reference to an item."""
    return {"type": "item_reference", "id": id}


def said(content: Any = "yes", **members: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": content, **members}
