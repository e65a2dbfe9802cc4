"""Limits of runs, replies and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from legato.core import texts_for_model
from legato.core.facts import Call, ModelReplied
from legato.errors import BuildError

SESSION_LIMITS = ("tokens", "cost")
"""The limits that count over the whole session: an allowance for one of them stays valid after the user's next message."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits at which a run pauses and asks, and limits on one reply and one tool output. Each is optional; None means no limit.

    `turns`, `handoffs`, `same_edge` (handoffs from one agent to the same other), `tool_calls` and `seconds` (of work, not of waiting for
    people) count since the user's last message. `seconds` also stops a model request in progress; tools are allowed to finish. `tokens`
    and `cost` (dollars) count over the whole session. `tool_rounds` counts the replies with tool calls that one agent makes in a row: a
    model that calls tools endlessly pauses after 50. `cost` needs prices: if one turns out to be unknown, the run pauses too.

    The last three limits do not pause a run; the model receives an error instead. `calls_per_reply` is the number of tool calls in one
    reply, handoffs included: calls beyond it are not run, and no handoff of that reply is taken. `argument_bytes` is the size of a call's
    arguments: a larger call is not run. `output_bytes` is the size of a tool's output, with images and files: the tool has run, and the
    model is informed of that in place of a larger output.

    >>> Limits(turns=20, same_edge=3).turns
    20
    """

    turns: int | None = None
    handoffs: int | None = None
    same_edge: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    tool_rounds: int | None = 50
    calls_per_reply: int | None = 128
    argument_bytes: int | None = 1_048_576
    output_bytes: int | None = 10_485_760

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
                raise BuildError(f"the limit {name} must be a number from 0 on", found=repr(value), do="leave it out for no limit")

    @property
    def ends_loops(self) -> bool:
        """True if a limit pauses an endless loop of handoffs or prompts."""
        bounds = (self.turns, self.handoffs, self.same_edge, self.tokens, self.cost, self.seconds)
        return any(bound is not None for bound in bounds)


# -- limits on the calls of one reply ----------------------------------------------------------------------------------
# They are checked once, when the reply arrives. `ModelReplied` records the limits that it exceeds, so the same calls are refused whenever
# the ledger is folded, also if the workflow has other limits by then.


def measure_utf8_bytes(text: str) -> int:
    """Return the size of a text in UTF-8, in bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def record_exceeded_limits(reply: ModelReplied, limits: Limits) -> ModelReplied:
    """Return the reply with the limits that its calls exceed; the same object if they exceed none."""
    calls = [item for item in reply.items if type(item) is Call]
    max_calls, max_bytes = limits.calls_per_reply, limits.argument_bytes
    if max_calls is not None and len(calls) > max_calls:
        reply = replace(reply, calls_allowed=int(max_calls))
    if max_bytes is not None and any(measure_utf8_bytes(call.arguments) > max_bytes for call in calls):
        reply = replace(reply, argument_bytes_allowed=int(max_bytes))
    return reply


def explain_exceeded_limits(reply: ModelReplied, calls: Sequence[Call]) -> list[str]:
    """Return, for each call of a reply, the text that says why it does not run; empty for a call within the limits."""
    max_calls, max_bytes = reply.calls_allowed, reply.argument_bytes_allowed
    errors = []
    for number, call in enumerate(calls):
        if 0 <= max_calls <= number:
            errors.append(texts_for_model.too_many_calls(len(calls), max_calls))
        elif 0 <= max_bytes < (size := measure_utf8_bytes(call.arguments)):
            errors.append(texts_for_model.arguments_too_large(size, max_bytes))
        else:
            errors.append("")
    return errors
