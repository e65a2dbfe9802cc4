"""Agents that work as tools of other agents: each call works in a child session of its own (`runtime/child_sessions.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from legato.runtime.child_sessions import choose_child_session_id, find_parent_store, raise_if_unfinished, run_child_session
from legato.stores.contract import Store
from legato.tools import Tool, ToolContext, tool

if TYPE_CHECKING:
    from legato.runtime.definition import WorkflowInterface
    from legato.runtime.session import Session
    from legato.workflow.workflow import Workflow


class WorkflowOpener(Struct, frozen=True):
    """A function that opens the child sessions of an agent that works as a tool."""

    workflow: Workflow

    async def __call__(self, id: str, store: Store, context: Any) -> Session:
        return self.workflow.session(id, store=store, context=context)


def make_workflow_tool(workflow: Workflow, name: str, description: str) -> Tool:
    """Return a workflow as a tool, which takes a task, works in a child session, and returns the reply."""

    async def ask(task: str, ctx: ToolContext[Any]) -> object:
        session = workflow.session(
            choose_child_session_id(ctx.session_id, ctx.idempotency_key), store=find_parent_store(), context=ctx.context
        )
        result = await run_child_session(session, task, ctx.idempotency_key)
        raise_if_unfinished(session)
        if session.state.stop_reason == "limit":
            raise RuntimeError(f"{workflow.name} was stopped at its limit and did not finish. What it did before may have taken effect.")
        if result.status not in ("waiting", "terminated"):
            raise RuntimeError(f"{workflow.name} did not finish: {result.status}")
        return result.output

    # It may be started again: the task is delivered once by its key, and the conversation goes on.
    return replace(tool(name=name, description=description, idempotent=True)(ask), open_child_session=WorkflowOpener(workflow))


def find_tool_workflow(tool: Tool) -> Workflow | None:
    """Return the workflow that works as this tool; None if none does."""
    return tool.open_child_session.workflow if isinstance(tool.open_child_session, WorkflowOpener) else None


def iter_workflow_tree(workflows: Iterable[WorkflowInterface]) -> Iterator[WorkflowInterface]:
    """Yield these workflows and the workflows that work as tools of their agents, at any depth."""
    for workflow in workflows:
        yield workflow
        tools = [tool for agent in workflow.definition.agents.values() for tool in agent.tools.values()]
        yield from iter_workflow_tree([child for tool in tools if (child := find_tool_workflow(tool)) is not None])


def replace_workflow_of_tool(tool: Tool, make: Callable[[Workflow], Workflow]) -> Tool:
    """Return the tool with the workflow that works as it, if any, replaced by what `make` returns for that workflow."""
    if (workflow := find_tool_workflow(tool)) is None:
        return tool
    replacement = make_workflow_tool(make(workflow), tool.name, tool.description)
    return replace(tool, function=replacement.function, open_child_session=replacement.open_child_session)
