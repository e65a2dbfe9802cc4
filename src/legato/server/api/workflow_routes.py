"""The route that describes the served workflows."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

import msgspec

from legato.server.api.api_types import AgentInfo, HandoffInfo, ServerInfo, ToolInfo, WorkflowInfo
from legato.server.api.endpoints import ApiRequest, Endpoint, NoFields
from legato.tools import Tool
from legato.workflow.workflow import Workflow


async def describe_server(request: ApiRequest[NoFields, NoFields]) -> ServerInfo:
    """Describe the served workflows, and the store of their sessions."""
    registry = request.registry
    return ServerInfo(
        version("legato"), registry.store_name, registry.drives, [_describe_workflow(each) for each in registry.workflows.values()]
    )


def _describe_workflow(workflow: Workflow) -> WorkflowInfo:
    definition = workflow.definition
    agents = [
        AgentInfo(each.name, each.model.name, each.description, [_describe_tool(tool) for tool in each.tools.values()])
        for each in definition.agents.values()
    ]
    handoffs = [HandoffInfo(edge.source, edge.target, edge.tool, edge.needs_approval) for edge in definition.graph.edges]
    return WorkflowInfo(workflow.name, workflow.description, definition.graph.start, agents, handoffs)


def _describe_tool(tool: Tool) -> ToolInfo:
    needs_approval: bool | Literal["depends"] = tool.needs_approval if isinstance(tool.needs_approval, bool) else "depends"
    parameters = msgspec.json.decode(tool.parameters)
    return ToolInfo(tool.name, tool.description, parameters, needs_approval, tool.deferred, sorted(tool.secrets))


ENDPOINTS = [Endpoint("GET", "/api", describe_server, "Describe the server", response_type=ServerInfo)]
