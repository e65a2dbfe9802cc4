"""Handoffs under the SDK's names.

A filter is pure and sees the conversation as it was when control passed. Here it chooses among what was said: the choice is recorded with
the reply, and the unit is the group (a message, or a reply with its calls and their outputs), so that no call is ever seen without its
output. A filter that rewrites what was said, or keeps half of a reply, is refused.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from legato.compat.agents.context import TContext
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.extensions import handoff_filters
from legato.compat.agents.function_tools import Enabled
from legato.compat.agents.items import RunItem, TResponseInputItem
from legato.compat.agents.ledger_items import Find, input_list, run_items
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.core.groups import Group
from legato.core.workflow_graph import WorkflowGraph
from legato.history import custom, own_tools
from legato.runtime.definition import History

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent


@dataclass(frozen=True)
class HandoffInputData:
    """The conversation when control passes: what was there before the run, what the run did before the handoff, and the handoff itself."""

    input_history: str | tuple[TResponseInputItem, ...]
    pre_handoff_items: tuple[RunItem, ...]
    new_items: tuple[RunItem, ...]
    run_context: Any = None
    input_items: tuple[RunItem, ...] | None = None

    def clone(self, **changes: Any) -> HandoffInputData:
        """The same with some of it changed."""
        return replace(self, **changes)


HandoffInputFilter: TypeAlias = Callable[[HandoffInputData], HandoffInputData]


@mirrors("Handoff")
@dataclass
class Handoff(Generic[TContext]):
    """A handoff to an agent. Made by `handoff(...)`."""

    agent: Agent[Any]
    tool_name: str
    tool_description: str = ""
    on_handoff: Callable[..., Any] | None = field(default=None, repr=False)
    input_type: Any = None
    input_filter: HandoffInputFilter | None = field(default=None, repr=False)
    is_enabled: Enabled = True
    needs_approval: bool = False
    """Ours: a person decides before control passes."""

    @property
    def agent_name(self) -> str:
        return self.agent.name

    @classmethod
    def default_tool_name(cls, agent: Agent[Any]) -> str:
        """The tool by which a model hands over to this agent."""
        return re.sub(r"[^a-z0-9_]", "_", f"transfer_to_{agent.name}".lower())[:64]

    @classmethod
    def default_tool_description(cls, agent: Agent[Any]) -> str:
        """Return the description of the handoff's tool where the handoff has none."""
        return agent.handoff_description or f"Hand the conversation over to {agent.name}."


def handoff(
    agent: Agent[Any],
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: Callable[..., Any] | None = None,
    input_type: Any = None,
    input_filter: HandoffInputFilter | None = None,
    nest_handoff_history: bool | None = None,
    is_enabled: Enabled = True,
    needs_approval: bool = False,
) -> Handoff[Any]:
    """A handoff with a name, a callback, a typed input or a filter of its own."""
    if input_type is not None and on_handoff is None:
        raise UserError("input_type needs on_handoff: a function of (context, input) that takes it")
    if on_handoff is not None and len(inspect.signature(on_handoff).parameters) != (2 if input_type is not None else 1):
        takes = "(context, input)" if input_type is not None else "(context)"
        raise UserError(f"on_handoff of the handoff to {agent.name!r} must be a function of {takes}")
    check_arguments("handoff", {"nest_handoff_history": nest_handoff_history})
    name = tool_name_override or Handoff.default_tool_name(agent)
    return Handoff(agent, name, tool_description_override or "", on_handoff, input_type, input_filter, is_enabled, needs_approval)


def history_of(
    chosen: HandoffInputFilter | None, target: str, graph: Callable[[], WorkflowGraph], find: Find, context: Any
) -> History | None:
    """Return the history policy for a filter."""
    if chosen is None:
        return None
    if chosen is handoff_filters.remove_all_tools:
        return own_tools()  # others' tool traffic is not seen; what the agent itself then calls, it must see

    def choose(groups: list[Group]) -> Sequence[Group]:
        last = max((index for index, group in enumerate(groups) if group.handed_to == target), default=-1)
        return [*_filter_groups(chosen, groups[: last + 1], graph(), find, context), *groups[last + 1 :]] if last >= 0 else groups

    choose.__name__ = getattr(chosen, "__name__", "input_filter")
    return custom(choose)


def _filter_groups(chosen: HandoffInputFilter, groups: list[Group], graph: WorkflowGraph, find: Find, context: Any) -> list[Group]:
    """Return the groups that a filter keeps. A filter keeps a group whole, or not at all."""
    said = max((index for index, group in enumerate(groups[:-1]) if group.fact is None), default=-1)
    items: list[list[Any]] = [input_list([group], _Absent()) for group in groups[: said + 1]]
    items += [list(run_items([group], graph, find)) for group in groups[said + 1 :]]
    history, generated = chain.from_iterable(items[: said + 1]), chain.from_iterable(items[said + 1 : -1])
    left = _call_filter(chosen, HandoffInputData(tuple(history), tuple(generated), tuple(items[-1]), context))
    kept = {id(item) for item in left}
    if not kept <= {id(item) for item in chain.from_iterable(items)}:
        raise UserError(
            "this input_filter changes what was said, or adds to it: return some of the items that it was given. To tell the next agent "
            "something else, use its instructions; to shorten the conversation, legato.history.summarised(...)"
        )
    whole = []
    for group, its_items in zip(groups, items, strict=True):
        found = sum(id(item) in kept for item in its_items)
        if found and found == len(its_items):
            whole.append(group)
        elif found:
            raise UserError(
                "this input_filter keeps a part of a reply and drops the rest, so a call could be without its output: keep or drop all of "
                "it, or use handoff_filters.remove_all_tools by itself, or legato.history.own_tools()"
            )
    return whole


def _call_filter(chosen: HandoffInputFilter, given: HandoffInputData) -> list[Any]:
    """Return the items that a filter returns."""
    result: Any = chosen(given)
    if inspect.isawaitable(result):
        raise UserError("an input_filter is a plain function here: it is asked whenever a request is made, and must be pure")
    return [*_history(result), *result.pre_handoff_items, *(result.new_items if result.input_items is None else result.input_items)]


def _history(result: HandoffInputData) -> Sequence[Any]:
    if isinstance(result.input_history, str):
        raise UserError("this input_filter changes what was said: return some of the items of input_history")
    return result.input_history


class _Absent(dict[str, bytes]):
    """Bytes that a filter does not get to see: an item names its picture all the same."""

    def __missing__(self, digest: str) -> bytes:
        return b""
