"""Agents under the SDK's names."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypedDict

from legato.compat.agents.context import RunContextWrapper, TContext
from legato.compat.agents.default_models import default_settings_for, get_default_model_settings
from legato.compat.agents.exceptions import ModelBehaviorError, UserError
from legato.compat.agents.function_tools import Approval, Enabled, FunctionTool, Tool
from legato.compat.agents.guardrail import InputGuardrail, OutputGuardrail
from legato.compat.agents.settings import ModelSettings
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.workflow.agent import make_output_type


class StopAtTools(TypedDict):
    """Tools whose output is the run's."""

    stop_at_tool_names: list[str]


@dataclass(frozen=True)
class AgentOutputSchema:
    """An output type, with or without a strict schema; either way the reply is validated."""

    output_type: Any
    strict_json_schema: bool = True

    def is_plain_text(self) -> bool:
        """Return True if the output is plain text."""
        return self.output_type is None or self.output_type is str

    def is_strict_json_schema(self) -> bool:
        """Return the requested strictness. A provider enforces a schema only if it is closed."""
        return self.strict_json_schema

    def json_schema(self) -> dict[str, Any]:
        """The schema that the model is told of."""
        if self.is_plain_text():
            raise UserError("an output of just words has no schema")
        schema: dict[str, Any] = json.loads(make_output_type(self.output_type).schema)
        return schema

    def validate_json(self, json_str: str) -> Any:
        """The output; `ModelBehaviorError` if it does not fit."""
        try:
            return json_str if self.is_plain_text() else make_output_type(self.output_type).parse(json_str)
        except ValueError as error:
            raise ModelBehaviorError(str(error)) from error

    def name(self) -> str:
        """The name of the type."""
        return getattr(self.output_type, "__name__", str(self.output_type))


@mirrors("Agent")
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
    model_settings: ModelSettings = field(default_factory=get_default_model_settings)
    input_guardrails: list[InputGuardrail[Any]] = field(default_factory=list)
    output_guardrails: list[OutputGuardrail[Any]] = field(default_factory=list)
    output_type: Any = None
    hooks: Any = None
    tool_use_behavior: Any = "run_llm_again"
    reset_tool_choice: bool = True

    def __post_init__(self) -> None:
        if self.model is not None and self.model_settings == get_default_model_settings():
            self.model_settings = default_settings_for(self.model)

    def clone(self, **changes: Any) -> Agent[TContext]:
        """The same agent with some of it changed. Lists are shared, as in the SDK."""
        if "model" in changes and self.model_settings == default_settings_for(self.model):
            changes = {"model_settings": default_settings_for(changes["model"]), **changes}
        return replace(self, **changes)

    async def get_system_prompt(self, run_context: RunContextWrapper[TContext]) -> str | None:
        """The instructions, as they are in this run."""
        if self.instructions is None or isinstance(self.instructions, str):
            return self.instructions
        made = self.instructions(run_context, self)
        text: str = await made if inspect.isawaitable(made) else made
        return text

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Tool]:
        """The tools that are enabled."""
        return [each for each in self.tools if await is_enabled_in_run(getattr(each, "is_enabled", True), run_context, self)]

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
        from legato.compat.agents.agent_tool import agent_as_tool

        check_arguments("Agent.as_tool", unknown)
        unknown.clear()  # what is left of them is unset, or means nothing
        return agent_as_tool(
            self, tool_name, tool_description, custom_output_extractor, is_enabled, run_config, max_turns, needs_approval, unknown
        )


AgentBase = Agent
"""The SDK has other agents too (realtime); here there is one kind."""


async def is_enabled_in_run(enabled: Enabled, wrapper: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
    """Return True if a tool or handoff is available in this run."""
    if isinstance(enabled, bool):
        return enabled
    verdict: Any = enabled(wrapper, agent)
    return bool(await verdict if inspect.isawaitable(verdict) else verdict)
