"""The syntax of faults.

A fault is a word with options: `rate_limit retry_after=2`, `cut event=5`, `error_event message=Try later`. In a plan a line may end with
the requests that get the fault: `rate_limit@3` the third, `server_error~5%` a share of all. faults.py has the effects of faults.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.emulator.suggestions import did_you_mean
from legato.errors import BadInput

Stage: TypeAlias = Literal["before", "state", "reply", "stream"]

STREAM_ERROR_KINDS = ("server_error", "rate_limit", "quota", "overloaded", "timeout", "context_length", "content_filter")
"""The kinds of errors inside a stream."""

_OPTION_WORDS = {"form": ("nested", "flat"), "kind": STREAM_ERROR_KINDS}
_REST_OF_LINE_OPTION = "message"  # the option that may have spaces: it takes the rest of the line


class FaultKind(Struct, frozen=True):
    """A kind of fault: its stage, its effect in words, and its options with their defaults."""

    stage: Stage
    description: str
    options: dict[str, float | str] = {}

    @property
    def option_syntax(self) -> str:
        """The options as they are written: with their default, or N or TEXT without one, or the allowed words."""
        numbers = {name: "N" if value < 0 else f"{value:g}" for name, value in self.options.items() if isinstance(value, float)}
        words = {name: "|".join(_OPTION_WORDS.get(name, (str(value) or "TEXT",))) for name, value in self.options.items()}
        return " ".join(f"{name}={numbers.get(name) or words[name]}" for name in self.options)


FAULT_KINDS: dict[str, FaultKind] = {
    "rate_limit": FaultKind("before", "429 with retry-after", {"retry_after": 1.0}),
    "quota": FaultKind("before", "429: the account's quota is used up"),
    "server_error": FaultKind("before", "an error of the provider's own", {"status": 500.0}),
    "overloaded": FaultKind("before", "the provider has no room: 503, Anthropic 529", {"retry_after": 0.0}),
    "timeout": FaultKind("before", "no answer for so many seconds, then 504", {"seconds": 30.0}),
    "unauthorized": FaultKind("before", "401: the key is refused"),
    "context_length": FaultKind("before", "the input is too long for the model"),
    "filtered_input": FaultKind("before", "the input is refused by the content filter (Azure's body)"),
    "hang_up": FaultKind("before", "the connection is closed without an answer"),
    "locked": FaultKind("state", "another request is at work on the conversation"),
    "expired": FaultKind("state", "the response named by previous_response_id is gone"),
    "incomplete": FaultKind("reply", "the reply is cut short by the token limit"),
    "refusal": FaultKind("reply", "the model declines"),
    "content_filter": FaultKind("reply", "the reply is stopped by the content filter"),
    "duplicate_call_ids": FaultKind("reply", "all calls of the reply have one id"),
    "constant_call_ids": FaultKind("reply", "calls have the same id in every reply", {"id": "call_0"}),
    "unknown_tool": FaultKind("reply", "the model calls a tool that the request does not have", {"name": "no_such_tool"}),
    "broken_arguments": FaultKind("reply", "the arguments of the calls are no JSON"),
    "slow": FaultKind("stream", "so many seconds between events; a whole answer comes as late", {"delay": 0.05}),
    "cut": FaultKind("stream", "the connection breaks after so many events, or bytes", {"event": -1.0, "byte": -1.0}),
    "error_event": FaultKind(
        "stream", "the stream fails after so many events", {"after": 2.0, "form": "nested", "kind": "server_error", "message": ""}
    ),
}


class EmulatorFault(Struct, frozen=True):
    """A fault with its options."""

    kind: str
    options: dict[str, float | str] = {}

    @property
    def stage(self) -> Stage:
        """The stage of a request at which the fault is applied."""
        return FAULT_KINDS[self.kind].stage

    def get_number(self, name: str) -> float:
        """Return an option that is a number."""
        value = self.options.get(name, FAULT_KINDS[self.kind].options.get(name, 0.0))
        return value if isinstance(value, float) else 0.0

    def get_word(self, name: str) -> str:
        """Return an option that is a word."""
        return str(self.options.get(name, FAULT_KINDS[self.kind].options.get(name, "")))

    def __str__(self) -> str:
        options = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self.options.items()]
        return " ".join([self.kind, *options])


def parse_fault(text: str) -> EmulatorFault:
    """Parse a fault.

    >>> parse_fault("cut event=5")
    EmulatorFault(kind='cut', options={'event': 5.0})
    >>> parse_fault("error_event after=1 message=Try again later.").get_word("message")
    'Try again later.'
    """
    name, _, rest = text.strip().partition(" ")
    kind = FAULT_KINDS.get(name)
    if kind is None:
        do = _plan_syntax_hint(name) or did_you_mean(name, FAULT_KINDS)
        raise BadInput(f"there is no fault {text!r}", expected="a word of `legato emulator --faults`, then name=value", do=do)
    options: dict[str, float | str] = {}
    while rest := rest.strip():
        option, equals, value = rest.partition(" ")[0].partition("=")
        if not equals or option not in kind.options:
            allowed = ", ".join(kind.options) or "no options"
            do = _plan_syntax_hint(rest) or did_you_mean(option, kind.options) or f"write it as {name} name=value"
            raise BadInput(f"the fault {name!r} has no option {rest.partition(' ')[0]!r}", expected=allowed, do=do)
        if option == _REST_OF_LINE_OPTION:
            value, rest = rest.partition("=")[2].strip(), ""
        else:
            rest = rest.partition(" ")[2]
        options[option] = (
            _parse_number(name, option, value) if isinstance(kind.options[option], float) else _parse_word(name, option, value)
        )
    if "event" in options and "byte" in options:
        raise BadInput("a fault 'cut' is after so many events or so many bytes, not both", found=text, do="leave one of them out")
    return EmulatorFault(name, options)


def _plan_syntax_hint(word: str) -> str:
    """Return the hint for a word that selects requests, which only a plan may have."""
    return "@3, @3,4 and ~5% are allowed only at the end of a line of a plan (faults=, --fault)" if "@" in word or "~" in word else ""


def _parse_number(kind: str, name: str, text: str) -> float:
    minimum, maximum = (400, 599) if name == "status" else (0, 1_000_000_000)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not minimum <= number <= maximum:  # nor is "nan"
        expected = f"a number from {minimum} to {maximum}"
        raise BadInput(f"{name} of the fault {kind!r} cannot be {text!r}", expected=expected, do=_plan_syntax_hint(text))
    return number


def _parse_word(kind: str, name: str, text: str) -> str:
    allowed = _OPTION_WORDS.get(name, ())
    if not text or (allowed and text not in allowed):
        raise BadInput(
            f"{name} of the fault {kind!r} cannot be {text!r}", expected=" or ".join(allowed) or "a word", do=did_you_mean(text, allowed)
        )
    return text


class PlannedFault(Struct, frozen=True):
    """A fault and the requests that get it: some numbers, or a share of all requests. By default all."""

    fault: EmulatorFault
    request_numbers: tuple[int, ...] = ()
    rate: float = 1.0

    def applies_to(self, seed: int, line_index: int, number: int) -> bool:
        """Return True if the request with this number gets the fault. The result is the same for the same seed."""
        if self.request_numbers:
            return number in self.request_numbers
        digest = hashlib.sha256(f"{seed}/{line_index}/{number}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48 < self.rate


_PLAN_LINE = re.compile(r"(?P<fault>.*?)\s*(?:@(?P<numbers>\d+(?:,\d+)*)|~(?P<rate>\d+(?:\.\d+)?)%)?", re.DOTALL)


def parse_plan_line(text: str) -> PlannedFault:
    """Parse a line of a plan.

    >>> parse_plan_line("rate_limit retry_after=2@3,4").request_numbers
    (3, 4)
    >>> parse_plan_line("server_error~5%").rate
    0.05
    """
    match = _PLAN_LINE.fullmatch(text.strip())
    assert match is not None  # every part of it may be empty
    numbers = tuple(int(number) for number in match["numbers"].split(",")) if match["numbers"] else ()
    rate = float(match["rate"]) / 100 if match["rate"] else 1.0
    if 0 in numbers:
        raise BadInput(f"the fault {text!r} is for request 0, which there is not", do="count from 1: FAULT@1 is for the first request")
    if not 0 < rate <= 1:
        raise BadInput(f"the fault {text!r} cannot have that rate", expected="more than 0% and at most 100%")
    return PlannedFault(parse_fault(match["fault"]), numbers, rate)
