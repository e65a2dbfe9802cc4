"""Hooks that observe a run.

They observe and hold nothing. A hook that raises before an action stops it, as one would expect of a check; an error of a hook that runs
afterwards undoes nothing: it becomes a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic

from legato.compat.agents.context import RunContextWrapper, TContext, ToolContext
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.function_tools import tool_context
from legato.compat.agents.items import ModelResponse, TResponseInputItem
from legato.compat.agents.ledger_items import input_list, response_of
from legato.core.facts import HandedOff, MessageReceived, ModelReplied, ModelRequestFailed
from legato.core.model_reply import ModelReply
from legato.core.state import State
from legato.core.view import ModelRequest
from legato.runtime.definition import Middleware, Turn
from legato.tools import ToolCall

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent


class HookFailed(UserWarning):
    """Ours: a hook raised after what it was told of had been done."""


class _Hooks(Generic[TContext]):
    """Told of tools and models, in a run or of one agent."""

    async def on_tool_start(self, context: ToolContext[TContext], agent: Agent[Any], tool: Any) -> None:
        """A tool is about to run."""

    async def on_tool_end(self, context: ToolContext[TContext], agent: Agent[Any], tool: Any, result: object) -> None:
        """A tool has returned."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """A model is about to be asked: the items are all that it sees, whatever of them its provider holds already."""

    async def on_llm_end(self, context: RunContextWrapper[TContext], agent: Agent[Any], response: ModelResponse) -> None:
        """A model has replied."""


class RunHooks(_Hooks[TContext]):
    """Told of everything in a run. Override what you need."""

    async def on_agent_start(self, context: RunContextWrapper[TContext], agent: Agent[Any]) -> None:
        """A message, or control, has come to this agent; its model is asked next."""

    async def on_agent_end(self, context: RunContextWrapper[TContext], agent: Agent[Any], output: Any) -> None:
        """The run has come to its output."""

    async def on_handoff(self, context: RunContextWrapper[TContext], from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        """Control has passed."""


class AgentHooks(_Hooks[TContext]):
    """Told of one agent, `Agent(hooks=...)`. Override what you need."""

    async def on_start(self, context: RunContextWrapper[TContext], agent: Agent[Any]) -> None:
        """A message, or control, has come to the agent; its model is asked next."""

    async def on_end(self, context: RunContextWrapper[TContext], agent: Agent[Any], output: Any) -> None:
        """The run has come to its output, and the agent gave it."""

    async def on_handoff(self, context: RunContextWrapper[TContext], agent: Agent[Any], source: Agent[Any]) -> None:
        """Control has passed from this agent (`source`) to another (`agent`)."""


RunHooksBase, AgentHooksBase = RunHooks, AgentHooks


def checked_hooks(given: Any, kind: type, where: str) -> Any:
    """Hooks, if they are such."""
    if given is not None and not isinstance(given, kind):
        raise UserError(f"{where}: hooks= takes an object of a class derived from {kind.__name__}, not {given!r}")
    return given


class HookMiddleware(Middleware):
    """Tells of an agent's model and tools."""

    def __init__(self, agent: Agent[Any], wrapper: RunContextWrapper[Any], hooks: RunHooks[Any] | None) -> None:
        self._agent = agent
        self._wrapper = wrapper
        self._hooks = [each for each in (hooks, agent.hooks) if each is not None]

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        """The model, with what is told before and after."""
        for hooks in self._hooks:
            items = input_list(list(request.groups), request.contents)
            await hooks.on_llm_start(self._wrapper, self._agent, request.turn_context.instructions or None, items)
        reply = await proceed(request)
        for hooks in self._hooks:
            await _warn_if_hook_fails(hooks.on_llm_end(self._wrapper, self._agent, response_of(reply)))
        return reply

    async def around_tool(self, call: ToolCall, proceed: Callable[[], Awaitable[object]]) -> object:
        """The tool, likewise."""
        tool = next(each for each in self._agent.tools if each.name == call.tool)
        for hooks in self._hooks:
            await hooks.on_tool_start(tool_context(self._wrapper, call, self._agent), self._agent, tool)
        result = await proceed()
        for hooks in self._hooks:
            await _warn_if_hook_fails(hooks.on_tool_end(tool_context(self._wrapper, call, self._agent), self._agent, tool, result))
        return result


async def _warn_if_hook_fails(telling: Awaitable[None]) -> None:
    try:
        await telling
    except Exception as error:
        warnings.warn(f"a hook raised {type(error).__name__}: {error}. What it was told of is recorded", HookFailed, stacklevel=2)


def arrivals(agent: Agent[Any], agents: dict[str, Agent[Any]], hooks: RunHooks[Any] | None) -> Callable[[Turn], Awaitable[None]]:
    """A context provider that tells when a message, or control, has come to an agent."""

    async def arrived(turn: Turn) -> None:
        wrapper: RunContextWrapper[Any] = turn.context
        newest = arrival(wrapper.session.state) if wrapper.session is not None else None
        if isinstance(newest, HandedOff) and newest.target == agent.name:
            source = agents[newest.source]
            if hooks is not None:
                await hooks.on_handoff(wrapper, source, agent)
            if source.hooks is not None:
                await source.hooks.on_handoff(wrapper, agent, source)
        if newest is not None:
            if hooks is not None:
                await hooks.on_agent_start(wrapper, agent)
            if agent.hooks is not None:
                await agent.hooks.on_start(wrapper, agent)

    return arrived


def arrival(state: State) -> HandedOff | MessageReceived | None:
    """The handoff or message that has just come, before any model was asked about it."""
    said = None
    for fact in reversed(state.facts):
        if isinstance(fact, HandedOff):
            return fact
        if isinstance(fact, (ModelReplied, ModelRequestFailed)):
            break
        said = fact if isinstance(fact, MessageReceived) else said
    return said
