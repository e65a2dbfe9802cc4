"""Limits on the tool calls of one reply: how many there are, and how large their arguments.

They are checked once, when the reply comes. `Answered` records those that it exceeds, so the same calls are refused whenever and wherever
its ledger is read, also where the workflow has other limits by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from legato.core import wording
from legato.core.facts import Answered, Call
from legato.core.graph import Limits


def byte_length(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def with_exceeded_limits(answered: Answered, limits: Limits) -> Answered:
    """The reply with the limits that its calls exceed; the same object if they exceed none."""
    calls = [item for item in answered.items if type(item) is Call]
    most_calls, most_bytes = limits.calls_per_reply, limits.argument_bytes
    if most_calls is not None and len(calls) > most_calls:
        answered = replace(answered, calls_allowed=int(most_calls))
    if most_bytes is not None and any(byte_length(call.arguments) > most_bytes for call in calls):
        answered = replace(answered, argument_bytes_allowed=int(most_bytes))
    return answered


def refusals(answered: Answered, calls: Sequence[Call]) -> list[str]:
    """For each call of a reply, why it does not run; empty for one that is within the limits."""
    most_calls, most_bytes = answered.calls_allowed, answered.argument_bytes_allowed
    words = []
    for number, call in enumerate(calls):
        if 0 <= most_calls <= number:
            words.append(wording.too_many_calls(len(calls), most_calls))
        elif 0 <= most_bytes < (size := byte_length(call.arguments)):
            words.append(wording.arguments_too_large(size, most_bytes))
        else:
            words.append("")
    return words
