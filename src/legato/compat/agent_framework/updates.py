"""Legato's events as the framework's updates."""

from __future__ import annotations

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.messages import AgentResponseUpdate
from legato.runtime.events import Event, OutputData, ToolData


def update_of(event: Event) -> AgentResponseUpdate | None:
    """The update that an event is: words, a call that starts, its output. None for all else."""
    data = event.data
    if event.type == "output" and isinstance(data, OutputData):
        return _update(data.author_name, [Content.from_text(data.text)])
    if event.type == "tool_started" and isinstance(data, ToolData):
        return _update(data.agent, [Content.from_function_call(str(data.call), data.tool, arguments=data.arguments)])
    if event.type == "tool_returned" and isinstance(data, ToolData):
        return _update(data.agent, [Content.from_function_result(str(data.call), result=data.output)], role="tool")
    return None


def _update(agent: str, contents: list[Content], role: str = "assistant") -> AgentResponseUpdate:
    return AgentResponseUpdate(contents=contents, role=role, author_name=agent, agent_id=agent)
