"""Agents as the SDK has them. May know: tools, handoffs, guardrails. Decides: what an agent may be made of here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypedDict

from legato.compat.agents.context import RunContextWrapper, TContext
from legato.compat.agents.guardrail import InputGuardrail, OutputGuardrail
from legato.compat.agents.settings import ModelSettings
from legato.compat.agents.tools import Approval, Enabled, FunctionTool


class StopAtTools(TypedDict):
    """Tools whose output is the run's."""

    stop_at_tool_names: list[str]


@dataclass(frozen=True)
class AgentOutputSchema:
    """An output type, with or without a strict schema; either way the reply is validated."""

    output_type: Any
    strict_json_schema: bool = True


@dataclass
class Agent(Generic[TContext]):
    """One participant. It holds no conversation; a run looks at it when it begins.

    >>> Agent(name="triage", instructions="Route the customer.").clone(name="night triage").name
    'night triage'
    """

    name: str
    handoff_description: str | None = None
    tools: list[Any] = field(default_factory=list)
    mcp_servers: list[Any] = field(default_factory=list)
    mcp_config: Any = None
    instructions: str | Callable[[RunContextWrapper[TContext], Agent[TContext]], Any] | None = None
    prompt: Any = None
    handoffs: list[Any] = field(default_factory=list)
    model: Any = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    input_guardrails: list[InputGuardrail[Any]] = field(default_factory=list)
    output_guardrails: list[OutputGuardrail[Any]] = field(default_factory=list)
    output_type: Any = None
    hooks: Any = None
    tool_use_behavior: Any = "run_llm_again"
    reset_tool_choice: bool = True

    def clone(self, **changes: Any) -> Agent[TContext]:
        """The same agent with some of it changed. Lists are shared, as in the SDK."""
        return replace(self, **changes)

    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        custom_output_extractor: Callable[..., Any] | None = None,
        is_enabled: Enabled = True,
        run_config: Any = None,
        max_turns: int | None = None,
        needs_approval: Approval = False,
        **unknown: Any,
    ) -> FunctionTool:
        """This agent as a tool: it is given a task, works in a conversation of its own in the same store, and returns its output."""
        from legato.compat.agents.nested import agent_as_tool

        return agent_as_tool(
            self, tool_name, tool_description, custom_output_extractor, is_enabled, run_config, max_turns, needs_approval, unknown
        )
