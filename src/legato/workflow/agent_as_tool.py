"""Agents that work as tools of other agents: each call works in a child session of its own (`runtime/child_sessions.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from legato.runtime.child_sessions import child_id, child_store, raise_if_waiting, run_child
from legato.stores.contract import Store
from legato.tools import Tool, ToolContext, tool

if TYPE_CHECKING:
    from legato.runtime.definition import WorkflowInterface
    from legato.runtime.session import Session
    from legato.workflow.workflow import Workflow


class WorksIn(Struct, frozen=True):
    """Opens the conversations of an agent that works as a tool."""

    workflow: Workflow

    async def __call__(self, id: str, store: Store, context: Any) -> Session:
        return self.workflow.session(id, store=store, context=context)


def workflow_as_tool(workflow: Workflow, name: str, description: str) -> Tool:
    """A workflow as a tool: it is given a task, works in a child session, and returns its reply."""

    async def ask(task: str, ctx: ToolContext[Any]) -> object:
        session = workflow.session(child_id(ctx.session_id, ctx.idempotency_key), store=child_store(), context=ctx.context)
        result = await run_child(session, task, ctx.idempotency_key)
        raise_if_waiting(session)
        if session.state.halt == "limit":
            raise RuntimeError(f"{workflow.name} was stopped at its limit and did not finish. What it did before may have taken effect.")
        if result.status not in ("waiting", "terminated"):
            raise RuntimeError(f"{workflow.name} did not finish: {result.status}")
        return result.output

    # It may be started again: the task is delivered once by its key, and the conversation goes on.
    return replace(tool(name=name, description=description, idempotent=True)(ask), works_in=WorksIn(workflow))


def workflow_of(tool: Tool) -> Workflow | None:
    """The workflow that works as this tool."""
    return tool.works_in.workflow if isinstance(tool.works_in, WorksIn) else None


def with_child_workflows(workflows: Iterable[WorkflowInterface]) -> Iterator[WorkflowInterface]:
    """Yield the workflows, and those that work as tools of their agents, at any depth."""
    for workflow in workflows:
        yield workflow
        tools = [tool for agent in workflow.definition.agents.values() for tool in agent.tools.values()]
        yield from with_child_workflows([child for tool in tools if (child := workflow_of(tool)) is not None])


def with_workflow(tool: Tool, make: Callable[[Workflow], Workflow]) -> Tool:
    """The same tool with what `make` makes of the workflow that works as it, if one does."""
    if (workflow := workflow_of(tool)) is None:
        return tool
    made = workflow_as_tool(make(workflow), tool.name, tool.description)
    return replace(tool, function=made.function, works_in=made.works_in)
