"""What is served. May know: definitions. Decides: what of a definition is shown."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

import msgspec

from legato.server.api.shapes import About, AgentShape, HandoffShape, ToolShape, WorkflowShape
from legato.server.api.table import Asked, Endpoint, Nothing
from legato.tools import Tool
from legato.workflow.workflow import Workflow


async def about(asked: Asked[Nothing, Nothing]) -> About:
    """The workflows, and where their sessions are."""
    serving = asked.serving
    return About(version("legato"), serving.place, serving.drives, [_workflow(each) for each in serving.workflows.values()])


def _workflow(workflow: Workflow) -> WorkflowShape:
    definition = workflow.definition
    agents = [
        AgentShape(each.name, each.model.name, each.description, [_tool(tool) for tool in each.tools.values()])
        for each in definition.agents.values()
    ]
    handoffs = [HandoffShape(edge.source, edge.target, edge.tool, edge.needs_approval) for edge in definition.graph.edges]
    return WorkflowShape(workflow.name, workflow.description, definition.graph.start, agents, handoffs)


def _tool(tool: Tool) -> ToolShape:
    asks: bool | Literal["depends"] = tool.needs_approval if isinstance(tool.needs_approval, bool) else "depends"
    parameters = msgspec.json.decode(tool.parameters)
    return ToolShape(tool.name, tool.description, parameters, asks, tool.deferred, sorted(tool.secrets))


ENDPOINTS = [Endpoint("GET", "/api", about, "What is served here", gives=About)]
