"""Faults of the provider on demand: the plan that chooses them, and what they do.

A fault comes from the request's header (`x-legato-fault`), from a test (`emulator.fault("cut byte=200")`: the next request), from the
plan, or from a rule of the fake model's script. fault_syntax.py has the syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText
from legato.emulator.fault_syntax import FAULT_KINDS, EmulatorFault, parse_fault, parse_plan_line
from legato.emulator.request_types import ProviderFailure

__all__ = [
    "FAULT_HEADER",
    "FAULT_KINDS",
    "EmulatorFault",
    "FaultPlan",
    "apply_reply_fault",
    "make_failure",
    "parse_fault",
    "parse_plan_line",
]

FAULT_HEADER = "x-legato-fault"


class FaultPlan:
    """The plan of faults, which gives each request its fault."""

    def __init__(self, lines: Iterable[str] = (), seed: int = 0) -> None:
        self._plan = [parse_plan_line(line) for line in lines]
        self._seed = seed
        self._queue: list[EmulatorFault] = []

    def add(self, text: str) -> None:
        """Queue a fault for the next request without a fault of its own."""
        self._queue.append(parse_fault(text))

    def take_fault(self, number: int, header: str | None) -> EmulatorFault | None:
        """Return the fault of a request, or None: the header's, else a queued one, else one of the plan."""
        if header:
            return parse_fault(header)
        if self._queue:
            return self._queue.pop(0)
        return next((line.fault for line_index, line in enumerate(self._plan) if line.applies_to(self._seed, line_index, number)), None)

    def __repr__(self) -> str:
        return f"<fault plan: {len(self._plan)} lines, {len(self._queue)} queued>"


_STATUS = {
    "rate_limit": 429,
    "quota": 429,
    "overloaded": 503,
    "timeout": 504,
    "unauthorized": 401,
    "context_length": 400,
    "filtered_input": 400,
}


def make_failure(fault: EmulatorFault) -> ProviderFailure:
    """Return the provider's failure for a fault of the stage "before", or for an error event."""
    kind = fault.get_word("kind") if fault.kind == "error_event" else fault.kind
    kind = "content_filter" if kind == "filtered_input" else kind
    status = int(fault.get_number("status")) or _STATUS.get(fault.kind, _STATUS.get(kind, 500))
    return ProviderFailure(kind, status, fault.get_word("message"), fault.get_number("retry_after"))


def apply_reply_fault(reply: FakeReply, fault: EmulatorFault) -> FakeReply:
    """Return a reply with a fault applied."""
    match fault.kind:
        case "incomplete":
            return msgspec.structs.replace(reply, items=_cut_last_item(reply.items), finish="length")
        case "content_filter":
            return msgspec.structs.replace(reply, finish="content_filter")
        case "refusal":
            return FakeReply((ReplyRefusal("I'm sorry, but I can't help with that."),))
        case "duplicate_call_ids":
            return _change_calls(reply, lambda call: msgspec.structs.replace(call, id="call_duplicate"))
        case "constant_call_ids":
            return _change_calls(reply, lambda call: msgspec.structs.replace(call, id=fault.get_word("id")))
        case "unknown_tool":
            changed = _change_calls(reply, lambda call: msgspec.structs.replace(call, tool=fault.get_word("name")))
            return changed if changed != reply else FakeReply((*reply.items, ReplyCall(fault.get_word("name"))))
        case "broken_arguments":
            return _change_calls(reply, lambda call: msgspec.structs.replace(call, arguments=call.arguments.rstrip("}") + ', "'))
    return reply


def _change_calls(reply: FakeReply, change: Callable[[ReplyCall], FakeReplyItem]) -> FakeReply:
    return msgspec.structs.replace(reply, items=tuple(change(item) if isinstance(item, ReplyCall) else item for item in reply.items))


def _cut_last_item(items: tuple[FakeReplyItem, ...]) -> tuple[FakeReplyItem, ...]:
    """Return the items with the last one cut in half: half of the text, or of the arguments, which are then no JSON. A thought stays."""
    match items:
        case (*before, ReplyCall() as call):
            return (*before, msgspec.structs.replace(call, arguments=call.arguments[: len(call.arguments) // 2]))
        case (*before, ReplyText() | ReplyRefusal() as item):
            return (*before, type(item)(item.text[: len(item.text) // 2]))
    return items
