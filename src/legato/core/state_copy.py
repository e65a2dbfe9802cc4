"""Copies of a state that share its history: a copy can be advanced while the original stays the same.

Groups are shared, so a copy costs one pointer per fact and group. Only the parts that a later fact may change are copied: the counters,
new messages, and the newest reply with its calls. A late outcome or a usage report of a child session also changes a call of an earlier
reply: `copy_changed_reply` copies that reply before such a fact is applied.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from legato.core.counters import UsageTotals, WorkTime
from legato.core.facts import AnyFact, CallReturned, ChildUsageReported
from legato.core.groups import Group, OpenCalls
from legato.core.state import State

RecordT = TypeVar("RecordT")


def copy_state(state: State) -> State:
    """Return an equal state. Facts applied to it, each after `copy_changed_reply`, leave the original unchanged."""
    copy = _copy_record(state)
    for name in _STATE_PARTS:
        setattr(copy, name, _copy_record(getattr(state, name)))
    copy.new_messages = [_copy_group(group) for group in state.new_messages]
    copy.unchecked_messages = [_copy_group(group) for group in state.unchecked_messages]
    copy.open_calls = OpenCalls()
    if state.last_reply is not None:
        _copy_reply(copy, state.last_reply.position)
    return copy


def copy_changed_reply(state: State, fact: AnyFact) -> None:
    """Copy the earlier reply whose call this fact changes, if there is one. The newest reply has been copied already."""
    if type(fact) is CallReturned or type(fact) is ChildUsageReported:
        reply = state.last_reply
        if reply is not None and fact.call.position < reply.position:
            _copy_reply(state, fact.call.position)


def _copy_reply(state: State, position: int) -> None:
    """Replace the reply at this position with a copy."""
    for index in range(len(state.groups) - 1, -1, -1):
        group = state.groups[index]
        if group.position == position:
            copy = state.groups[index] = _copy_group(group)
            if group is state.last_reply:
                state.last_reply, state.open_calls = copy, OpenCalls(list(copy.calls))
            return


def _copy_group(group: Group) -> Group:
    copy = _copy_record(group)
    copy.calls = [_copy_record(call) for call in group.calls]
    for call in copy.calls:
        call.attempts = tuple([_copy_record(attempt) for attempt in call.attempts])
        call.index_key = None  # the copy's `OpenCalls` indexes it anew
    copy._by_index = None
    return copy


def _copy_record(record: RecordT) -> RecordT:
    """Return a shallow copy of a record, with copies of its containers."""
    is_struct = isinstance(record, Struct)
    copy: Any = replace(record) if is_struct else type(record)()  # type: ignore[type-var]  # a struct, if it is one
    names: Any = type(record).__struct_fields__ if is_struct else type(record).__slots__  # type: ignore[attr-defined]
    for name in names:
        value = getattr(record, name)
        if type(value) in _CONTAINERS:
            setattr(copy, name, value.copy())
        elif not is_struct:
            setattr(copy, name, value)
    return cast(RecordT, copy)


_CONTAINERS = (list, dict, set, deque)
_STATE_PARTS = [name for name in State.__struct_fields__ if isinstance(getattr(State(), name), (Struct, UsageTotals, WorkTime))]
