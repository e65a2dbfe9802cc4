"""Copy a state without its history, so that the copy can go on while the original stays as it is.

Groups are shared: a copy costs a pointer for each fact and group, and no work for any of them. Only what a later fact may still change is
copied: the sums, messages that no reply has seen, and the newest reply with its calls. A call of an earlier reply changes as well when a
late outcome or the use of its child session becomes known: `copy_call` copies it before that is applied.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from legato.core.counters import Spent, WorkTime
from legato.core.facts import AnyFact, CallReturned, ChildUsageReported
from legato.core.groups import Group, OpenCalls
from legato.core.state import State

RecordT = TypeVar("RecordT")


def copy_state(state: State) -> State:
    """Return a state that means the same. Facts that are applied to it, each after `copy_call`, leave the original as it is."""
    made = _copy_record(state)
    for name in _PARTS:
        setattr(made, name, _copy_record(getattr(state, name)))
    made.tail, made.waiting = [_copy_group(group) for group in state.tail], [_copy_group(group) for group in state.waiting]
    made.open = OpenCalls()
    if state.reply is not None:
        _copy_reply(made, state.reply.position)
    return made


def copy_call(state: State, fact: AnyFact) -> None:
    """Copy the earlier reply whose call this fact changes, if it does. The newest reply is the state's own already."""
    if type(fact) is CallReturned or type(fact) is ChildUsageReported:
        reply = state.reply
        if reply is not None and fact.call.position < reply.position:
            _copy_reply(state, fact.call.position)


def _copy_reply(state: State, position: int) -> None:
    """Replace the reply at this position by a copy."""
    for index in range(len(state.groups) - 1, -1, -1):
        group = state.groups[index]
        if group.position == position:
            made = state.groups[index] = _copy_group(group)
            if group is state.reply:
                state.reply, state.open = made, OpenCalls(list(made.calls))
            return


def _copy_group(group: Group) -> Group:
    made = _copy_record(group)
    made.calls = [_copy_record(call) for call in group.calls]
    for call in made.calls:
        call.attempts = tuple([_copy_record(attempt) for attempt in call.attempts])
        call.filed = None  # `OpenCalls` files it anew
    made._by_index = None
    return made


def _copy_record(record: RecordT) -> RecordT:
    """The same fields, with containers of its own."""
    is_struct = isinstance(record, Struct)
    made: Any = replace(record) if is_struct else type(record)()  # type: ignore[type-var]  # a struct, if it is one
    names: Any = type(record).__struct_fields__ if is_struct else type(record).__slots__  # type: ignore[attr-defined]
    for name in names:
        value = getattr(record, name)
        if type(value) in _CONTAINERS:
            setattr(made, name, value.copy())
        elif not is_struct:
            setattr(made, name, value)
    return cast(RecordT, made)


_CONTAINERS = (list, dict, set, deque)
_PARTS = [name for name in State.__struct_fields__ if isinstance(getattr(State(), name), (Struct, Spent, WorkTime))]
