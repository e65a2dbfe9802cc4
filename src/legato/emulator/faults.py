"""What can go wrong at a provider, on demand. May know: asks and what a mind says. Decides: which fault a request gets, and what it does.

A fault comes from the request's own header (`x-legato-fault`), from a test (`emulator.fault("cut byte=200")`: the next request), from a
plan, or from a rule of the mind's script. fault_words.py has the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from legato.emulator.asks import Failure
from legato.emulator.fault_words import KINDS, Fault, parse, planned
from legato.emulator.minds.base import Item, Refused, Say, Use, Words

__all__ = ["HEADER", "KINDS", "Fault", "FaultPlan", "failure_of", "parse", "planned", "spoil"]

HEADER = "x-legato-fault"


class FaultPlan:
    """Which request gets which fault."""

    def __init__(self, lines: Iterable[str] = (), seed: int = 0) -> None:
        self._lines = [planned(line) for line in lines]
        self._seed = seed
        self._next: list[Fault] = []

    def add(self, text: str) -> None:
        """The next request that has none of its own gets this fault; several queue."""
        self._next.append(parse(text))

    def due(self, number: int, header: str | None) -> Fault | None:
        """The fault of this request, if it gets one."""
        if header:
            return parse(header)
        if self._next:
            return self._next.pop(0)
        return next((line.fault for place, line in enumerate(self._lines) if line.strikes(self._seed, place, number)), None)

    def __repr__(self) -> str:
        return f"<fault plan: {len(self._lines)} lines, {len(self._next)} queued>"


_STATUS = {
    "rate_limit": 429,
    "quota": 429,
    "overloaded": 503,
    "timeout": 504,
    "unauthorized": 401,
    "context_length": 400,
    "filtered_input": 400,
}


def failure_of(fault: Fault) -> Failure:
    """What the provider answers with, for a fault that strikes before anything else, or inside a stream."""
    kind = fault.word("kind") if fault.kind == "error_event" else fault.kind
    kind = "content_filter" if kind == "filtered_input" else kind
    status = int(fault.number("status")) or _STATUS.get(fault.kind, _STATUS.get(kind, 500))
    return Failure(kind, status, fault.word("message"), fault.number("retry_after"))


def spoil(say: Say, fault: Fault) -> Say:
    """What the model says, spoiled."""
    match fault.kind:
        case "incomplete":
            return msgspec.structs.replace(say, items=_cut(say.items), finish="length")
        case "content_filter":
            return msgspec.structs.replace(say, finish="content_filter")
        case "refusal":
            return Say((Refused("I'm sorry, but I can't help with that."),))
        case "duplicate_call_ids":
            return _uses(say, lambda use: msgspec.structs.replace(use, id="call_duplicate"))
        case "constant_call_ids":
            return _uses(say, lambda use: msgspec.structs.replace(use, id=fault.word("id")))
        case "unknown_tool":
            spoiled = _uses(say, lambda use: msgspec.structs.replace(use, tool=fault.word("name")))
            return spoiled if spoiled != say else Say((*say.items, Use(fault.word("name"))))
        case "broken_arguments":
            return _uses(say, lambda use: msgspec.structs.replace(use, arguments=use.arguments.rstrip("}") + ', "'))
    return say


def _uses(say: Say, change: Callable[[Use], Item]) -> Say:
    return msgspec.structs.replace(say, items=tuple(change(item) if isinstance(item, Use) else item for item in say.items))


def _cut(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items, the last of them cut in its middle: half of the words, or arguments that are no JSON. A thought has no half."""
    match items:
        case (*before, Use() as use):
            return (*before, msgspec.structs.replace(use, arguments=use.arguments[: len(use.arguments) // 2]))
        case (*before, Words() | Refused() as said):
            return (*before, type(said)(said.text[: len(said.text) // 2]))
    return items
