"""The SDK's guardrails over Legato's.

Here a guardrail always runs before the agent sees the message (or before a user sees the reply), so one that trips has cost no model call
and let no tool run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from legato.compat.agents.context import RunContextWrapper, TContext
from legato.runtime.definition import Guardrail
from legato.tools import tool_output

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent


@dataclass
class GuardrailFunctionOutput:
    """A guardrail's verdict: any information, and whether to stop."""

    output_info: Any
    tripwire_triggered: bool


@dataclass
class InputGuardrail(Generic[TContext]):
    """A function of (context, agent, input) that may stop a run before it begins."""

    guardrail_function: Callable[..., Any]
    name: str | None = None
    run_in_parallel: bool = True

    def get_name(self) -> str:
        return self.name or str(getattr(self.guardrail_function, "__name__", "guardrail"))

    async def run(self, agent: Agent[Any], input: Any, context: RunContextWrapper[TContext]) -> InputGuardrailResult:
        """Ask it."""
        return InputGuardrailResult(self, await _call_guardrail(self.guardrail_function, context, agent, input))


@dataclass
class OutputGuardrail(Generic[TContext]):
    """A function of (context, agent, output) that may withhold a reply."""

    guardrail_function: Callable[..., Any]
    name: str | None = None

    def get_name(self) -> str:
        return self.name or str(getattr(self.guardrail_function, "__name__", "guardrail"))

    async def run(self, context: RunContextWrapper[TContext], agent: Agent[Any], agent_output: Any) -> OutputGuardrailResult:
        """Ask it."""
        return OutputGuardrailResult(
            self, agent_output, agent, await _call_guardrail(self.guardrail_function, context, agent, agent_output)
        )


@dataclass
class InputGuardrailResult:
    guardrail: InputGuardrail[Any]
    output: GuardrailFunctionOutput


@dataclass
class OutputGuardrailResult:
    guardrail: OutputGuardrail[Any]
    agent_output: Any
    agent: Agent[Any]
    output: GuardrailFunctionOutput


def input_guardrail(func: Callable[..., Any] | None = None, *, name: str | None = None, run_in_parallel: bool = True) -> Any:
    """Make a function an input guardrail."""
    if func is None:
        return lambda each: InputGuardrail(each, name, run_in_parallel)
    return InputGuardrail(func, name, run_in_parallel)


def output_guardrail(func: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Make a function an output guardrail."""
    if func is None:
        return lambda each: OutputGuardrail(each, name)
    return OutputGuardrail(func, name)


async def _call_guardrail(function: Callable[..., Any], *given: Any) -> GuardrailFunctionOutput:
    made = function(*given)
    output: GuardrailFunctionOutput = await made if inspect.isawaitable(made) else made
    return output


def make_native_guardrail(guard: InputGuardrail[Any] | OutputGuardrail[Any], agent: Agent[Any]) -> Guardrail:
    """Return the same as a guardrail of Legato's. The ledger keeps `output_info` as text."""

    async def judge(wrapper: RunContextWrapper[Any], what: Any) -> str | None:
        run = guard.run(agent, what, wrapper) if isinstance(guard, InputGuardrail) else guard.run(wrapper, agent, what)
        result: InputGuardrailResult | OutputGuardrailResult = await run
        wrapper.judged.append(result)
        output = result.output
        return tool_output(output.output_info) or "stopped" if output.tripwire_triggered else None

    judge.__name__ = guard.get_name()
    return Guardrail("input" if isinstance(guard, InputGuardrail) else "output", judge)
