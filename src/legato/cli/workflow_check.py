"""The static check of a workflow: its graph, and what cannot work."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

import msgspec

from legato.cli.terminal import AgentColours, get_symbol, print_line, write_json
from legato.core.facts import MessageReceived, Opened
from legato.core.view import build_request
from legato.errors import BadInput
from legato.inspection.terminal_safe_text import format_count
from legato.providers.formats.request_options import RequestOptions
from legato.runtime.definition import AgentDefinition
from legato.runtime.ledger import Ledger
from legato.runtime.turn_contexts import TurnContexts
from legato.stores import MemoryStore
from legato.tools import Tool
from legato.workflow.workflow import Workflow


def check_workflow(workflow: Workflow, *, mermaid: bool, as_json: bool) -> bool:
    """Print a workflow and its problems. Return True if there are none."""
    problems = [*workflow.check(), *find_missing_packages(workflow), *asyncio.run(_find_refusals(workflow))]
    if as_json:
        write_json({**_workflow_to_json(workflow), "problems": problems})
    elif mermaid:
        print(workflow.graph())
    else:
        _print_graph(workflow)
        for problem in problems:
            print_line((f"{get_symbol('failed')} ", "red"), problem)
        if not problems:
            print_line((f"{get_symbol('done')} ", "green"), "no problem found")
    return not problems


async def _find_refusals(workflow: Workflow) -> list[str]:
    """Check each agent's first request by the provider's rules: tools, output types and options. Nothing is sent.

    Instructions and context from functions are left out: a check calls none of the user's functions.
    """
    from legato.core.state import fold
    from legato.inspection.sent_bodies import encode_for_origin

    problems = []
    state = fold([Opened(at=0, ledger_id="check", workflow=workflow.name), MessageReceived(at=0, content="Hello")], "check")
    for agent in workflow.definition.agents.values():
        model = find_model_options(agent)
        if model is None:
            continue
        constant = msgspec.structs.replace(
            agent, instructions=agent.instructions if isinstance(agent.instructions, str) else "", context_providers=()
        )
        definition = msgspec.structs.replace(workflow.definition, agents={**workflow.definition.agents, agent.name: constant})
        digest, turn_context, _ = await TurnContexts(definition, Ledger(MemoryStore(), "check", workflow.name), None).get_current(
            agent.name
        )
        provider_format, options = model
        request = build_request(state, turn_context, digest, [*state.groups, *state.new_messages], agent.name)
        for violation in encode_for_origin(request, options, f"{provider_format} check {options.model}").violations:
            problems.append(f"{agent.name}: {agent.model.name} would refuse its request: {violation.message} ({violation.rule.id})")
    return problems


def find_missing_packages(workflow: Workflow) -> list[str]:
    """Return a problem for each model whose provider's package is not installed."""
    problems: dict[str, str] = {}
    for agent in workflow.definition.agents.values():
        for model in getattr(agent.model, "models", (agent.model,)):
            package = _PACKAGES.get(model.name.partition(":")[0])
            if package and _find_format_and_options(model) and find_spec(package) is None:
                # Not at the top: `emulate_missing_providers` takes this import as the sign that a program has a provider's model.
                from legato.models.sdk_client import make_missing_sdk_error

                error = make_missing_sdk_error(package)
                problems.setdefault(model.name, f"{agent.name}: {model.name} cannot be requested: {error.summary}; {error.do}")
    return list(problems.values())


_PACKAGES = {"openai": "openai", "azure": "openai", "openai-chat": "openai", "anthropic": "anthropic"}
_FORMATS = {"openai": "responses", "azure": "responses", "openai-chat": "chat", "anthropic": "anthropic"}


def find_model_options(agent: AgentDefinition, origin: str = "") -> tuple[str, RequestOptions] | None:
    """Return the provider format and the options of an agent's model; None for a model of the user's own.

    Of a fallback model, it is the model that `origin` names, else the first.
    """
    models = [_find_format_and_options(model) for model in getattr(agent.model, "models", (agent.model,))]
    of_origin = [each for each in models if each and origin.startswith(f"{each[0]} ") and origin.endswith(f" {each[1].model}")]
    return (of_origin or models)[0]


def _find_format_and_options(model: Any) -> tuple[str, RequestOptions] | None:
    provider_format, options = _FORMATS.get(model.name.partition(":")[0]), getattr(model, "options", None)
    return (provider_format, options) if provider_format is not None and options is not None else None


def _workflow_to_json(workflow: Workflow) -> dict[str, Any]:
    graph = workflow.definition.graph
    return {
        "workflow": workflow.name,
        "start": graph.start,
        "agents": [
            {
                "name": agent.name,
                "model": agent.model.name,
                "tools": [
                    {"name": tool.name, "rules": _list_rules(tool), "secrets": sorted(tool.secrets)} for tool in agent.tools.values()
                ],
                "hands_to": [
                    {"agent": edge.target, "needs_approval": edge.needs_approval} for edge in graph.agents[agent.name].edges.values()
                ],
            }
            for agent in workflow.definition.agents.values()
        ],
        "limits": {name: value for name, value in msgspec.to_builtins(graph.limits).items() if value is not None},
        "mermaid": workflow.graph(),
    }


def _list_rules(tool: Tool) -> list[str]:
    rules = []
    if tool.needs_approval:
        rules.append("needs approval" if tool.needs_approval is True else "may need approval")
    rules += [rule for rule in ("idempotent", "alone", "deferred") if getattr(tool, rule)]
    return rules + (["an agent"] if tool.open_child_session is not None else [])


def _print_graph(workflow: Workflow) -> None:
    """Print each agent once, with its tools, and an arrow for each of its handoffs."""
    graph = workflow.definition.graph
    colours = AgentColours(workflow.agents)
    print_line((workflow.name, "bold"), f": {format_count(len(graph.agents), 'agent')}, {format_count(len(graph.edges), 'handoff')}")
    print_line(("user ", "bold"), (f"{get_symbol('edge')} ", "dim"), (graph.start, colours.of(graph.start)))
    for agent in workflow.definition.agents.values():
        print_line((agent.name, f"bold {colours.of(agent.name)}"), (f"  {agent.model.name}", "dim"))
        for tool in agent.tools.values():
            secrets = [f"secret: {', '.join(sorted(tool.secrets))}"] if tool.secrets else []
            rules = ", ".join([*_list_rules(tool), *secrets])
            print_line(
                (f"  {get_symbol('tool')} ", "dim"),
                f"{tool.name}({', '.join(tool.arguments.names)})",
                (f"  {rules}" if rules else "", "yellow"),
            )
        edges = list(graph.agents[agent.name].edges.values())
        for edge in edges:
            arrow = get_symbol("last" if edge is edges[-1] else "branch")
            target = (edge.target, colours.of(edge.target))
            print_line((f"  {arrow} ", "dim"), target, ("  needs approval" if edge.needs_approval else "", "yellow"))


def list_build_problems(error: BadInput) -> list[str]:
    """Return the problems that a `BuildError` lists."""
    return [line.removeprefix("  - ") for line in str(error).splitlines()[1:] if line.startswith("  - ")] or [str(error)]
