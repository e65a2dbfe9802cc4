"""An agent as a tool of another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from legato.compat.agents.agent import Agent
from legato.compat.agents.context import RunContextWrapper, ToolContext
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.function_tools import Approval, Enabled, FunctionTool, function_tool
from legato.compat.agents.run_result import RunResult, problem_of
from legato.compat.agents.workflow_builder import RunConfig, team_of
from legato.runtime.child_sessions import choose_child_session_id, find_parent_store, raise_if_unfinished, run_child_session
from legato.runtime.session import Session
from legato.stores.contract import Store


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

    async def open_session(id: str, store: Store | None, context: Any) -> RunResult:
        wrapper = RunContextWrapper(context)
        team = await team_of(agent, wrapper, config, max_turns)
        wrapper.session = team.workflow.session(id, store=store, context=wrapper)
        return RunResult(team, wrapper.session, wrapper)

    async def works_in(id: str, store: Store, context: RunContextWrapper[Any]) -> Session:
        return (await open_session(id, store, context.context)).legato_session

    async def ask(ctx: ToolContext[Any], input: str) -> Any:
        assert ctx.session is not None
        result = await open_session(choose_child_session_id(ctx.session.id, ctx.idempotency_key), find_parent_store(), ctx.context)
        await run_child_session(result.legato_session, input, ctx.idempotency_key)
        if error := problem_of(result):
            raise error
        raise_if_unfinished(result.legato_session)
        if extract is None:
            return result.final_output
        made = extract(result)
        return await made if inspect.isawaitable(made) else made

    name = tool_name or "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in agent.name).lower()
    about = tool_description or agent.handoff_description or f"Give a task to {agent.name} and get its answer."
    made: FunctionTool = function_tool(
        ask, name_override=name, description_override=about, is_enabled=is_enabled, needs_approval=needs_approval, idempotent=True
    )
    return replace(made, works_in=works_in)
