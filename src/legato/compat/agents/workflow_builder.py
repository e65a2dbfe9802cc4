"""Agents as a Legato workflow.

A workflow is built for each run from the agents that can be reached from its first. It holds no conversation, so nothing is lost with it.
The user's message goes to the agent that the program names for it ("start"), as in the SDK.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from msgspec import structs
from pydantic import TypeAdapter

from legato.compat.agents.agent import Agent, AgentOutputSchema, is_enabled_in_run
from legato.compat.agents.context import RunContextWrapper
from legato.compat.agents.default_models import default_settings_for
from legato.compat.agents.exceptions import UserError
from legato.compat.agents.function_tools import FunctionTool
from legato.compat.agents.guardrail import InputGuardrail, OutputGuardrail, make_native_guardrail
from legato.compat.agents.handoffs import Handoff, HandoffInputFilter, handoff, history_of
from legato.compat.agents.lifecycle import AgentHooks, HookMiddleware, RunHooks, arrival, arrivals, checked_hooks
from legato.compat.agents.settings import ModelSettings, model_for
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.compat.gaps import Absent
from legato.core.facts import HandedOff
from legato.core.limits import Limits
from legato.core.messages import Message, render_content
from legato.core.state import State
from legato.runtime.definition import Turn
from legato.tools import Tool
from legato.workflow.agent import Agent as NativeAgent
from legato.workflow.builder import HandoffBuilder
from legato.workflow.workflow import Workflow

NAME = "openai-agents"
"""The name of every workflow of this facade: a conversation goes on with whichever agents a program has for it."""

NO_LIMIT = 1_000_000
"""Turns, where a program sets no limit: a loop of handoffs still pauses some day."""


@mirrors("RunConfig")
@dataclass
class RunConfig:
    """The settings of a whole run. Settings for the SDK's tracing and history are accepted, and explained in a warning."""

    model: Any = None
    _: KW_ONLY
    model_settings: ModelSettings | dict[str, Any] | None = None
    handoff_input_filter: HandoffInputFilter | None = None
    input_guardrails: list[InputGuardrail[Any]] | None = None
    output_guardrails: list[OutputGuardrail[Any]] | None = None
    tracing_disabled: bool = False
    trace_include_sensitive_data: bool = True
    workflow_name: str = "Agent workflow"
    trace_id: str | None = None
    group_id: str | None = None
    trace_metadata: dict[str, Any] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse or explain an unsupported setting when it is assigned later, too."""
        if isinstance(inspect.getattr_static(type(self), name, None), Absent):
            check_arguments("RunConfig", {name: value})
        super().__setattr__(name, value)


@dataclass(frozen=True)
class Team:
    """The agents of a run, and the workflow that they are."""

    start: Agent[Any]
    agents: dict[str, Agent[Any]]
    workflow: Workflow = field(repr=False)
    hooks: RunHooks[Any] | None = None

    def find(self, name: str) -> Agent[Any]:
        """The agent of this name; one that is not here any more is told by its name alone."""
        return self.agents.get(name) or Agent(name=name)


async def team_of(
    start: Agent[Any],
    wrapper: RunContextWrapper[Any],
    config: RunConfig,
    max_turns: int | None,
    conversation: str | None = None,
    hooks: RunHooks[Any] | None = None,
) -> Team:
    """The team that can be reached from an agent. What may be switched on and off is asked about now, once for the run."""
    if not isinstance(start, Agent):
        raise UserError(f"a run starts with an Agent, not with {type(start).__name__}")
    handoffs = await _reachable(start, wrapper)
    agents = {agent.name: agent for agent, _ in handoffs.values()}
    if len(agents) != len(handoffs):
        raise UserError("two agents that can be reached have the same name: give each a name of its own")
    built: list[Workflow] = []

    def find(name: str) -> Agent[Any]:
        return agents[name]

    limits = Limits(turns=NO_LIMIT if max_turns is None else max_turns, tool_rounds=None)  # max_turns is the SDK's only limit
    builder = HandoffBuilder(NAME).with_next_turn("start").with_limits(limits)
    edges = {(agent.name, each.agent.name): each for agent, found in handoffs.values() for each in found}
    for agent, _ in handoffs.values():
        watching = _list_observers(agent, agents, edges, wrapper, hooks)
        builder.participants([await _native(agent, agent is start, wrapper, config, watching, conversation)])
    builder.with_start_agent(start.name)
    for (source, target), each in edges.items():
        chosen = each.input_filter or config.handoff_input_filter
        policy = history_of(chosen, target, lambda: built[0].definition.graph, find, wrapper)
        builder.add_handoff(source, target, each.tool_description or None, each.needs_approval, policy, each.input_type)
    if any(agent.tool_use_behavior != "run_llm_again" for agent in agents.values()):
        builder.with_termination_condition(lambda messages: _is_final(messages, wrapper, agents))
    built.append(_renamed(builder.build(), edges, lambda state: _output_of_final_call(state, agents)))
    return Team(start, agents, built[0], hooks)


async def _reachable(start: Agent[Any], wrapper: RunContextWrapper[Any]) -> dict[int, tuple[Agent[Any], list[Handoff[Any]]]]:
    found: dict[int, tuple[Agent[Any], list[Handoff[Any]]]] = {}
    frontier = [start]
    while frontier:
        agent = frontier.pop(0)
        if id(agent) in found:
            continue
        edges = [each if isinstance(each, Handoff) else handoff(each) for each in agent.handoffs]
        edges = [each for each in edges if await is_enabled_in_run(each.is_enabled, wrapper, agent)]
        targets = [each.agent.name for each in edges]
        for name in targets:
            if targets.count(name) > 1:
                raise UserError(f"{agent.name!r} has two handoffs to {name!r}: keep one, or use clone(name=...)")
        found[id(agent)] = agent, edges
        frontier += [each.agent for each in edges]
    return found


async def _native(
    agent: Agent[Any],
    starts: bool,
    wrapper: RunContextWrapper[Any],
    config: RunConfig,
    watching: dict[str, Any],
    conversation: str | None,
) -> NativeAgent:
    """An agent as Legato knows it."""
    check_arguments("Agent", {"mcp_servers": agent.mcp_servers, "prompt": agent.prompt})
    guards: list[Any] = [*agent.input_guardrails, *(config.input_guardrails or [] if starts else [])]
    withholds = [*agent.output_guardrails, *(config.output_guardrails or [])]
    unsaid = agent.model_settings == default_settings_for(agent.model)
    own = default_settings_for(config.model) if unsaid and config.model is not None else agent.model_settings
    settings = ModelSettings().resolve(own).resolve(config.model_settings)
    kind = agent.output_type.output_type if isinstance(agent.output_type, AgentOutputSchema) else agent.output_type
    return NativeAgent(
        agent.name,
        _instructions(agent),
        model_for(config.model if config.model is not None else agent.model, settings, agent.reset_tool_choice, conversation),
        [await _tool(each, agent) for each in agent.tools if await is_enabled_in_run(getattr(each, "is_enabled", True), wrapper, agent)],
        agent.handoff_description or "",
        str if kind is None else kind,
        **watching,
        guardrails=[make_native_guardrail(each, agent) for each in [*guards, *withholds]],
        # A tripwire ends the run at once; a reply that is not of its type is asked for again.
        output_retries=0 if withholds else 2,
    )


def _instructions(agent: Agent[Any]) -> Any:
    given = agent.instructions
    if given is None or isinstance(given, str):
        return given or ""
    return lambda wrapper: given(wrapper, agent)


async def _tool(given: Any, agent: Agent[Any]) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, FunctionTool):
        return given.native(agent)
    raise UserError(
        f"agent {agent.name!r}: {given!r} is no tool here. Functions become tools by @function_tool; for what the provider runs itself, "
        "give the agent a model of Legato's: model=OpenAIResponses(name, hosted=[{'type': 'web_search'}])"
    )


def _list_observers(
    agent: Agent[Any],
    agents: dict[str, Agent[Any]],
    edges: dict[tuple[str, str], Handoff[Any]],
    wrapper: RunContextWrapper[Any],
    hooks: RunHooks[Any] | None,
) -> dict[str, Any]:
    """Return the middleware and context providers that call the hooks of an agent's turns."""
    checked_hooks(agent.hooks, AgentHooks, f"agent {agent.name!r}")
    providers = [_arriving(edges)] if any(each.on_handoff for each in edges.values()) else []
    if hooks is not None or any(each.hooks is not None for each in agents.values()):
        providers.append(arrivals(agent, agents, hooks))
    telling = [HookMiddleware(agent, wrapper, hooks)] if hooks is not None or agent.hooks is not None else []
    return {"context_providers": providers, "middleware": telling}


def _arriving(edges: dict[tuple[str, str], Handoff[Any]]) -> Any:
    """Calls `on_handoff` when control has come and the agent has not replied yet: before its model is asked, once, unless a process dies
    in between."""

    async def arrived(turn: Turn) -> None:
        if turn.handoff is None:
            return
        taken = edges.get((turn.handoff.source, turn.handoff.target))
        wrapper: RunContextWrapper[Any] = turn.context
        if taken is None or taken.on_handoff is None or wrapper.session is None:
            return
        if not isinstance(arrival(wrapper.session.state), HandedOff):
            return
        given = [] if taken.input_type is None else [TypeAdapter(taken.input_type).validate_json(turn.handoff.input)]
        made = taken.on_handoff(wrapper, *given)
        if inspect.isawaitable(made):
            await made

    return arrived


def final_call(state: State, agents: dict[str, Agent[Any]]) -> Any:
    """The call whose output is the run's, by its agent's `tool_use_behavior`; None if the model is to speak."""
    reply = state.last_reply
    agent = agents.get(reply.agent) if reply is not None else None
    if reply is None or agent is None or not reply.calls or reply.handed_to:
        return None
    behavior = agent.tool_use_behavior
    if behavior == "stop_on_first_tool":
        return reply.calls[0]
    if isinstance(behavior, dict):
        return next((call for call in reply.calls if call.call.tool in behavior["stop_at_tool_names"]), None)
    if behavior != "run_llm_again":
        raise UserError(
            f'agent {agent.name!r}: tool_use_behavior takes "run_llm_again", "stop_on_first_tool" or StopAtTools here; a function '
            "that makes an output of its own would say what nobody said: return it from a tool, and stop at that"
        )
    return None


def _output_of_final_call(state: State, agents: dict[str, Agent[Any]]) -> str | None:
    call = final_call(state, agents)
    return render_content(call.output.content) if call is not None else None


def _is_final(messages: list[Message], wrapper: RunContextWrapper[Any], agents: dict[str, Agent[Any]]) -> bool:
    return wrapper.session is not None and final_call(wrapper.session.state, agents) is not None


def _renamed(workflow: Workflow, edges: dict[tuple[str, str], Handoff[Any]], answer_of: Callable[[State], Any]) -> Workflow:
    """The workflow with the SDK's names for the tools that hand over, and with the output of a run that stops at a tool."""
    graph = workflow.definition.graph
    agents = {}
    for name, rules in graph.agents.items():
        renamed = {}
        for edge in rules.edges.values():
            tool = edges[name, edge.target].tool_name
            if tool in rules.tools or tool in renamed:
                raise UserError(f"{name!r} has two tools named {tool!r}: give the handoff another with tool_name_override=")
            renamed[tool] = structs.replace(edge, tool=tool)
        agents[name] = structs.replace(rules, edges=renamed)
    graph = structs.replace(graph, agents=agents)
    return Workflow(structs.replace(workflow.definition, graph=graph, answer_from_state=answer_of), None, "", ())
