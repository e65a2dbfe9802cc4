"""Workflows for the simulator: the current schedule decides what their models reply and what their tools do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from legato.core.facts import Content
from legato.core.messages import MessageInput, render_content, to_parts
from legato.core.view import ModelRequest
from legato.models.model import Emit, Model, ModelReply
from legato.runtime.definition import WorkflowDefinition, call_user_code
from legato.stores.memory import MemoryStore
from legato.testing.promise_checks import WorkflowRules
from legato.tools import Tool, ToolContext
from legato.workflow.agent_as_tool import find_tool_workflow, replace_workflow_of_tool
from legato.workflow.workflow import Workflow

if TYPE_CHECKING:
    from legato.testing.simulator import Schedule


class SimulatedError(Exception):
    """A failure of user code."""


class SimulatedWorkflow:
    """A workflow prepared for simulation. One instance serves many schedules."""

    def __init__(
        self,
        workflow: Workflow,
        real_tools: bool = False,
        wrap_model: Callable[[Model], Model] | None = None,
        make_message: Callable[[str], MessageInput | Iterable[MessageInput]] | None = None,
    ) -> None:
        self.make_message = make_message or str
        model: Model = wrap_model(SimulatedModel()) if wrap_model else SimulatedModel()
        self.schemas: dict[str, str] = {}
        self.workflow = self._simulate_workflow(workflow, model, real_tools)
        self.rules = WorkflowRules.from_workflow(workflow)

    def _simulate_workflow(self, workflow: Workflow, model: Model, real_tools: bool) -> Workflow:
        """Return the workflow with simulated models and tools, also in the agents that work as its tools."""
        definition = workflow.definition

        def simulate_tool(tool: Tool) -> Tool:
            self.schemas[tool.name] = tool.parameters
            if find_tool_workflow(tool) is not None:
                return replace_workflow_of_tool(tool, lambda nested: self._simulate_workflow(nested, model, real_tools))
            return tool if real_tools else _simulate_tool(tool)

        agents = {
            name: replace(
                agent,
                model=model,
                tools={each.name: simulate_tool(each) for each in agent.tools.values()},
                guardrails=tuple(replace(each, function=_make_unreliable(each.function)) for each in agent.guardrails),
            )
            for name, agent in definition.agents.items()
        }
        simulated: WorkflowDefinition = replace(
            definition, agents=agents, termination_condition=_log_inputs(definition.termination_condition)
        )
        return Workflow(simulated, MemoryStore(), workflow.description, ())


current_schedule: ContextVar[Schedule] = ContextVar("schedule")
"""The schedule that is running."""


class SimulatedModel:
    """A model whose replies the current schedule chooses."""

    name = "seeded"

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return a random reply, fail, or end the process."""
        return await current_schedule.get().reply(request, emit)


class SimulatedTool(Tool[..., Any], frozen=True, eq=False):
    """A tool whose result the current schedule chooses."""

    async def run(self, context: ToolContext[Any], values: dict[str, object]) -> object:
        return await current_schedule.get().run_tool(self, context)


def _simulate_tool(tool: Tool) -> Tool:
    policy = tool.needs_approval
    return SimulatedTool(**{**asdict(tool), "needs_approval": policy if isinstance(policy, bool) else _log_verdicts(policy)})


def _log_verdicts(policy: Callable[..., Any]) -> Callable[..., Any]:
    """Return an approval policy that also logs, outside the ledger, which calls need approval."""

    async def logged_policy(context: ToolContext[Any], arguments: Any, call: Any) -> Any:
        verdict = await call_user_code(policy, context, arguments, call)
        if verdict:
            current_schedule.get().effect_log.keys_needing_approval.add(context.idempotency_key)
        return verdict

    return logged_policy


def _make_unreliable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a guardrail that sometimes raises an error."""

    @wraps(function)
    async def unreliable(context: Any, value: Any) -> Any:
        current_schedule.get().maybe_fail()
        return await call_user_code(function, context, value)

    return unreliable


def _log_inputs(condition: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a termination condition that also logs the user messages it received."""
    if condition is None:
        return None

    async def logged_condition(messages: list[Any]) -> Any:
        current_schedule.get().termination_inputs.append(
            [get_message_text(message.parts) for message in messages if message.role == "user"]
        )
        return await call_user_code(condition, messages)

    return logged_condition


def get_message_text(content: Content) -> str:
    """Return the text of a message's first part, without images and files that follow."""
    return render_content(to_parts(content)[:1])
