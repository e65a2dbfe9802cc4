"""What can go wrong at a provider, on demand. May know: asks and what a mind says. Decides: which fault a request gets.

A fault is written as a word and its options: `rate_limit retry_after=2`, `cut event=5`, `error_event form=flat`. It comes from the
request's own header (`x-legato-fault`), from a plan (`rate_limit@3`: the third request; `server_error~5%`: by rate), from a test
(`emulator.fault("cut byte=200")`: the next request), or from a rule of the mind's script.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from legato.emulator.asks import Failure
from legato.emulator.minds.base import Item, Refused, Say, Use
from legato.errors import BadInput

Stage: TypeAlias = Literal["before", "state", "say", "stream"]
HEADER = "x-legato-fault"


class Kind(Struct, frozen=True):
    """A kind of fault: when it strikes, its options with their defaults, and what happens."""

    stage: Stage
    tells: str
    options: dict[str, float | str] = {}

    @property
    def written(self) -> str:
        """How its options are written: with their defaults, or N or WORD where there is none."""
        numbers = {name: "N" if value < 0 else f"{value:g}" for name, value in self.options.items() if isinstance(value, float)}
        return " ".join(f"{name}={numbers.get(name) or value or 'WORD'}" for name, value in self.options.items())


KINDS: dict[str, Kind] = {
    "rate_limit": Kind("before", "429 with retry-after", {"retry_after": 1.0}),
    "quota": Kind("before", "429: the account's quota is used up"),
    "server_error": Kind("before", "an error of the provider's own", {"status": 500.0}),
    "overloaded": Kind("before", "the provider has no room: 503, Anthropic 529", {"retry_after": 0.0}),
    "timeout": Kind("before", "no answer for so many seconds, then 504", {"seconds": 30.0}),
    "unauthorized": Kind("before", "401: the key is refused"),
    "context_length": Kind("before", "the input is too long for the model"),
    "filtered_input": Kind("before", "the input is refused by the content filter (Azure's body)"),
    "hang_up": Kind("before", "the connection is closed without an answer"),
    "locked": Kind("state", "another request is at work on the conversation"),
    "expired": Kind("state", "the response named by previous_response_id is gone"),
    "incomplete": Kind("say", "the reply is cut short by the token limit"),
    "refusal": Kind("say", "the model declines"),
    "content_filter": Kind("say", "the reply is stopped by the content filter"),
    "duplicate_call_ids": Kind("say", "all calls of the reply have one id"),
    "constant_call_ids": Kind("say", "calls have the same id in every reply", {"id": "call_0"}),
    "unknown_tool": Kind("say", "the model calls a tool that nobody gave it", {"name": "no_such_tool"}),
    "broken_arguments": Kind("say", "the arguments of the calls are no JSON"),
    "slow": Kind("stream", "so many seconds between events", {"delay": 0.05}),
    "cut": Kind("stream", "the connection breaks after so many events, or bytes", {"event": -1.0, "byte": -1.0}),
    "error_event": Kind(
        "stream", "the stream fails after so many events", {"after": 2.0, "form": "nested", "kind": "server_error", "message": ""}
    ),
}


IN_STREAMS = ("server_error", "rate_limit", "quota", "overloaded", "timeout", "context_length", "content_filter")
"""What an error inside a stream may be about."""


class Fault(Struct, frozen=True):
    """One fault with its options."""

    kind: str
    options: dict[str, float | str] = {}

    @property
    def stage(self) -> Stage:
        """When it strikes."""
        return KINDS[self.kind].stage

    def number(self, name: str) -> float:
        """An option that is a number."""
        value = self.options.get(name, KINDS[self.kind].options.get(name, 0.0))
        return value if isinstance(value, float) else 0.0

    def word(self, name: str) -> str:
        """An option that is a word."""
        return str(self.options.get(name, KINDS[self.kind].options.get(name, "")))

    def __str__(self) -> str:
        told = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self.options.items()]
        return " ".join([self.kind, *told])


def parse(text: str) -> Fault:
    """A fault as people write it.

    >>> parse("cut event=5")
    Fault(kind='cut', options={'event': 5.0})
    """
    words = text.split()
    kind = KINDS.get(words[0]) if words else None
    if kind is None:
        raise BadInput(f"there is no fault {text!r}", expected=f"one of {', '.join(KINDS)}, then options as name=value")
    options: dict[str, float | str] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals or name not in kind.options:
            allowed = ", ".join(kind.options) or "no options"
            raise BadInput(f"the fault {words[0]!r} has no option {word!r}", expected=allowed, do=f"write it as {words[0]} name=value")
        options[name] = _number(words[0], name, value) if isinstance(kind.options[name], float) else _word(words[0], name, value)
    return Fault(words[0], options)


def _number(kind: str, name: str, text: str) -> float:
    least, most = (400, 599) if name == "status" else (0, 1_000_000_000)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:  # nor is "nan"
        raise BadInput(f"{name} of the fault {kind!r} cannot be {text!r}", expected=f"a number from {least} to {most}")
    return number


def _word(kind: str, name: str, text: str) -> str:
    allowed = {"form": ("nested", "flat"), "kind": IN_STREAMS}.get(name, ())
    if not text or (allowed and text not in allowed):
        raise BadInput(f"{name} of the fault {kind!r} cannot be {text!r}", expected=" or ".join(allowed) or "a word")
    return text


class Planned(Struct, frozen=True):
    """A fault and the requests that get it: these numbers, or this share of all. With neither, all."""

    fault: Fault
    numbers: tuple[int, ...] = ()
    rate: float = 1.0

    def strikes(self, seed: int, place: int, number: int) -> bool:
        """Whether the request of this number gets it. The same for the same seed."""
        if self.numbers:
            return number in self.numbers
        dice = hashlib.sha256(f"{seed}/{place}/{number}".encode()).digest()
        return int.from_bytes(dice[:6], "big") / 2**48 < self.rate


_PLANNED = re.compile(r"^(?P<fault>[^@~]*?)\s*(?:@(?P<numbers>\d+(?:,\d+)*)|~(?P<rate>\d+(?:\.\d+)?)%)?$")


def planned(text: str) -> Planned:
    """A line of a plan.

    >>> planned("rate_limit retry_after=2@3,4").numbers
    (3, 4)
    >>> planned("server_error~5%").rate
    0.05
    """
    match = _PLANNED.match(text.strip())
    if match is None:
        raise BadInput(f"the fault {text!r} cannot be read", expected="FAULT, FAULT@3 (the third request) or FAULT~5% (by rate)")
    numbers = tuple(int(number) for number in match["numbers"].split(",")) if match["numbers"] else ()
    return Planned(parse(match["fault"]), numbers, float(match["rate"]) / 100 if match["rate"] else 1.0)


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
            return msgspec.structs.replace(say, finish="length")
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


