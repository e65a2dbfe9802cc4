"""The stage of the simulator: a workflow whose models and tools are played. May know: workflows. Decides: nothing; the schedule does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from legato.core.facts import Content
from legato.core.messages import Sendable, parts_of, text_of
from legato.core.view import Request
from legato.models.base import Emit, Model, Reply
from legato.runtime.definition import Definition, called
from legato.stores.memory import MemoryStore
from legato.testing.promises import Rules
from legato.tools import Tool, ToolContext
from legato.workflow.agent_as_tool import with_workflow, workflow_of
from legato.workflow.workflow import Workflow

if TYPE_CHECKING:
    from legato.testing.simulator import Schedule


class SimulatedError(Exception):
    """Code of the user's fails, as any code may."""


class Stage:
    """A workflow prepared for simulation. Made once, used for many schedules."""

    def __init__(
        self,
        workflow: Workflow,
        real_tools: bool = False,
        between: Callable[[Model], Model] | None = None,
        message: Callable[[str], Sendable | Iterable[Sendable]] | None = None,
    ) -> None:
        self.message = message or str
        model: Model = between(SeededModel()) if between else SeededModel()
        self.schemas: dict[str, str] = {}
        self.workflow = self._played(workflow, model, real_tools)
        self.rules = Rules.of(workflow)

    def _played(self, workflow: Workflow, model: Model, real_tools: bool) -> Workflow:
        """The workflow with its models and tools played, and those of agents that work as its tools."""
        definition = workflow.definition

        def played(tool: Tool) -> Tool:
            self.schemas[tool.name] = tool.parameters
            if workflow_of(tool) is not None:
                return with_workflow(tool, lambda nested: self._played(nested, model, real_tools))
            return tool if real_tools else _simulated(tool)

        agents = {
            name: replace(
                agent,
                model=model,
                tools={each.name: played(each) for each in agent.tools.values()},
                guardrails=tuple(replace(each, function=_unreliable(each.function)) for each in agent.guardrails),
            )
            for name, agent in definition.agents.items()
        }
        heard: Definition = replace(definition, agents=agents, termination=_heard(definition.termination))
        return Workflow(heard, MemoryStore(), workflow.description, ())


current_schedule: ContextVar[Schedule] = ContextVar("schedule")
"""What is being played."""


class SeededModel:
    """Replies whatever the schedule's dice say."""

    name = "seeded"

    async def reply(self, request: Request, emit: Emit) -> Reply:
        """A reply, a failure, or the end of the process."""
        return await current_schedule.get().reply(request, emit)


class SimulatedTool(Tool[..., Any], frozen=True, eq=False):
    """A tool whose body is played by the schedule."""

    async def run(self, context: ToolContext[Any], values: dict[str, object]) -> object:
        return await current_schedule.get().body(self, context)


def _simulated(tool: Tool) -> Tool:
    policy = tool.needs_approval
    return SimulatedTool(**{**asdict(tool), "needs_approval": policy if isinstance(policy, bool) else _noted(policy)})


def _noted(policy: Callable[..., Any]) -> Callable[..., Any]:
    """An approval policy whose verdicts are noted outside of the ledger."""

    async def noted(context: ToolContext[Any], arguments: Any, call: Any) -> Any:
        verdict = await called(policy, context, arguments, call)
        if verdict:
            current_schedule.get().effects.gated.add(context.idempotency_key)
        return verdict

    return noted


def _unreliable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A guardrail that now and then raises an error of its own."""

    @wraps(function)
    async def unreliable(context: Any, judged: Any) -> Any:
        current_schedule.get().fail_sometimes()
        return await called(function, context, judged)

    return unreliable


def _heard(condition: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A termination condition that also notes what it was shown."""
    if condition is None:
        return None

    async def heard(messages: list[Any]) -> Any:
        current_schedule.get().judged.append([words_of(message.parts) for message in messages if message.role == "user"])
        return await called(condition, messages)

    return heard


def words_of(content: Content) -> str:
    """The words that a message begins with; what else was sent with them is no part of them."""
    return text_of(parts_of(content)[:1])
