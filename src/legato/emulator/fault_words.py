"""How a fault is written. May know: words. Decides: which faults there are, and what may be written of each.

A fault is a word and its options: `rate_limit retry_after=2`, `cut event=5`, `error_event message=Try later`. In a plan a line may end in
the requests that get it: `rate_limit@3` the third, `server_error~5%` by rate. What a fault does stands in faults.py.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.emulator.spelling import did_you_mean
from legato.errors import BadInput

Stage: TypeAlias = Literal["before", "state", "say", "stream"]

IN_STREAMS = ("server_error", "rate_limit", "quota", "overloaded", "timeout", "context_length", "content_filter")
"""What an error inside a stream may be about."""

_WORDS = {"form": ("nested", "flat"), "kind": IN_STREAMS}
_LAST = "message"  # the option that may have spaces: it takes the rest of the line


class Kind(Struct, frozen=True):
    """A kind of fault: when it strikes, its options with their defaults, and what happens."""

    stage: Stage
    tells: str
    options: dict[str, float | str] = {}

    @property
    def written(self) -> str:
        """How its options are written: with their defaults, or N or TEXT where there is none, and what else a word may be."""
        numbers = {name: "N" if value < 0 else f"{value:g}" for name, value in self.options.items() if isinstance(value, float)}
        words = {name: "|".join(_WORDS.get(name, (str(value) or "TEXT",))) for name, value in self.options.items()}
        return " ".join(f"{name}={numbers.get(name) or words[name]}" for name in self.options)


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
    "slow": Kind("stream", "so many seconds between events; a whole answer comes as late", {"delay": 0.05}),
    "cut": Kind("stream", "the connection breaks after so many events, or bytes", {"event": -1.0, "byte": -1.0}),
    "error_event": Kind(
        "stream", "the stream fails after so many events", {"after": 2.0, "form": "nested", "kind": "server_error", "message": ""}
    ),
}


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
    >>> parse("error_event after=1 message=Try again later.").word("message")
    'Try again later.'
    """
    name, _, rest = text.strip().partition(" ")
    kind = KINDS.get(name)
    if kind is None:
        do = _for_plans(name) or did_you_mean(name, KINDS)
        raise BadInput(f"there is no fault {text!r}", expected="a word of `legato emulator --faults`, then name=value", do=do)
    options: dict[str, float | str] = {}
    while rest := rest.strip():
        option, equals, value = rest.partition(" ")[0].partition("=")
        if not equals or option not in kind.options:
            allowed = ", ".join(kind.options) or "no options"
            do = _for_plans(rest) or did_you_mean(option, kind.options) or f"write it as {name} name=value"
            raise BadInput(f"the fault {name!r} has no option {rest.partition(' ')[0]!r}", expected=allowed, do=do)
        if option == _LAST:
            value, rest = rest.partition("=")[2].strip(), ""
        else:
            rest = rest.partition(" ")[2]
        options[option] = _number(name, option, value) if isinstance(kind.options[option], float) else _word(name, option, value)
    if "event" in options and "byte" in options:
        raise BadInput("a fault 'cut' is after so many events or so many bytes, not both", found=text, do="leave one of them out")
    return Fault(name, options)


def _for_plans(word: str) -> str:
    """What to do about a word that says which requests get the fault."""
    return "@3, @3,4 and ~5% end a line of a plan (faults=, --fault), and stand nowhere else" if "@" in word or "~" in word else ""


def _number(kind: str, name: str, text: str) -> float:
    least, most = (400, 599) if name == "status" else (0, 1_000_000_000)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:  # nor is "nan"
        expected = f"a number from {least} to {most}"
        raise BadInput(f"{name} of the fault {kind!r} cannot be {text!r}", expected=expected, do=_for_plans(text))
    return number


def _word(kind: str, name: str, text: str) -> str:
    allowed = _WORDS.get(name, ())
    if not text or (allowed and text not in allowed):
        raise BadInput(
            f"{name} of the fault {kind!r} cannot be {text!r}", expected=" or ".join(allowed) or "a word", do=did_you_mean(text, allowed)
        )
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


_PLANNED = re.compile(r"(?P<fault>.*?)\s*(?:@(?P<numbers>\d+(?:,\d+)*)|~(?P<rate>\d+(?:\.\d+)?)%)?", re.DOTALL)


def planned(text: str) -> Planned:
    """A line of a plan.

    >>> planned("rate_limit retry_after=2@3,4").numbers
    (3, 4)
    >>> planned("server_error~5%").rate
    0.05
    """
    match = _PLANNED.fullmatch(text.strip())
    assert match is not None  # every part of it may be empty
    numbers = tuple(int(number) for number in match["numbers"].split(",")) if match["numbers"] else ()
    rate = float(match["rate"]) / 100 if match["rate"] else 1.0
    if 0 in numbers:
        raise BadInput(f"the fault {text!r} strikes no request 0", do="count from 1: FAULT@1 is for the first request")
    if not 0 < rate <= 1:
        raise BadInput(f"the fault {text!r} cannot strike at that rate", expected="more than 0% and at most 100%")
    return Planned(parse(match["fault"]), numbers, rate)
