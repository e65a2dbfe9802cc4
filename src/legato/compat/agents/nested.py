"""An agent as a tool of another. May know: teams and sessions. Decides: where its conversation lives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from legato.compat.agents.agent import Agent
from legato.compat.agents.building import RunConfig, team_of
from legato.compat.agents.context import RunContextWrapper, ToolContext
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.results import RunResult, problem_of
from legato.compat.agents.tools import Approval, Enabled, FunctionTool, function_tool
from legato.session import current_store


def agent_as_tool(
    agent: Agent[Any],
    tool_name: str | None,
    tool_description: str | None,
    extract: Callable[..., Any] | None,
    is_enabled: Enabled,
    run_config: RunConfig | None,
    max_turns: int | None,
    needs_approval: Approval,
    unknown: dict[str, Any],
) -> FunctionTool:
    """The tool. It may be started again after a crash: the task is delivered once, and its conversation goes on."""
    if unknown:
        raise UserError(f"as_tool({next(iter(unknown))}=...) cannot be had here: hand over to the agent, or call Runner.run within a tool")
    config = run_config or RunConfig()

    async def ask(ctx: ToolContext[Any], input: str) -> Any:
        wrapper = RunContextWrapper(ctx.context)
        team = await team_of(agent, wrapper, config, max_turns)
        for name, each in team.workflow.definition.agents.items():
            for tool in each.tools.values():
                if tool.needs_approval:
                    raise UserError(f"{tool.name!r} of {name!r} waits for people, and a tool cannot: hand over to {agent.name!r} instead")
        assert ctx.session is not None
        id = f"{ctx.session.id[:200]}/{ctx.idempotency_key}"
        session = team.workflow.session(id, store=current_store.get(), context=wrapper)
        wrapper.session = session
        await session.run(input, key=ctx.idempotency_key)
        result = RunResult(team, session, wrapper)
        if error := problem_of(result):
            raise error
        if extract is None:
            return result.final_output
        made = extract(result)
        return await made if inspect.isawaitable(made) else made

    name = tool_name or "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in agent.name).lower()
    about = tool_description or agent.handoff_description or f"Give a task to {agent.name} and get its answer."
    made: FunctionTool = function_tool(
        ask, name_override=name, description_override=about, is_enabled=is_enabled, needs_approval=needs_approval, idempotent=True
    )
    return made
