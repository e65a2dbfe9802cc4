"""The static check of a workflow. May know: definitions, law books. Decides: how a graph is drawn, and what is said to be wrong with it."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Any

import msgspec

from legato.cli.telling import Colours, symbol, tell, write_json
from legato.core.facts import MessageReceived, Opened
from legato.core.view import request_for
from legato.errors import BadInput
from legato.inspection.plain import counted
from legato.runtime.definition import AgentDefinition
from legato.runtime.ledger import Ledger
from legato.runtime.turn_contexts import Frames
from legato.stores import MemoryStore
from legato.tools import Tool
from legato.workflow.workflow import Workflow


def check_workflow(workflow: Workflow, *, picture: bool, as_json: bool) -> bool:
    """Say what there is to say about a workflow. Whether it can work."""
    problems = [*workflow.check(), *not_installed(workflow), *asyncio.run(_refusals(workflow))]
    if as_json:
        write_json({**_plain(workflow), "problems": problems})
    elif picture:
        print(workflow.graph())
    else:
        _draw(workflow)
        for problem in problems:
            tell((f"{symbol('failed')} ", "red"), problem)
        if not problems:
            tell((f"{symbol('done')} ", "green"), "no problem found")
    return not problems


async def _refusals(workflow: Workflow) -> list[str]:
    """What the providers would refuse about the agents' tools, types and options: each agent's first request, judged and not sent.

    Agents whose instructions or context come from functions are judged without them: a check calls nothing of the user's.
    """
    from legato.core.state import fold
    from legato.inspection.wired import compiled_for

    problems = []
    said = fold([Opened(at=0, ledger="check", workflow=workflow.name), MessageReceived(at=0, content="Hello")], "check")
    for agent in workflow.definition.agents.values():
        model = model_of(agent)
        if model is None:
            continue
        constant = msgspec.structs.replace(
            agent, instructions=agent.instructions if isinstance(agent.instructions, str) else "", providers=()
        )
        definition = msgspec.structs.replace(workflow.definition, agents={**workflow.definition.agents, agent.name: constant})
        digest, frame, _ = await Frames(definition, Ledger(MemoryStore(), "check", workflow.name), None).in_force(agent.name)
        wire, options = model
        request = request_for(said, frame, digest, [*said.groups, *said.tail], agent.name)
        for complaint in compiled_for(request, options, f"{wire} check {options.model}").complaints:
            problems.append(f"{agent.name}: {agent.model.name} would refuse its request: {complaint.message} ({complaint.clause.id})")
    return problems


def not_installed(workflow: Workflow) -> list[str]:
    """Which models cannot be asked here, since their provider's package is missing."""
    problems: dict[str, str] = {}
    for agent in workflow.definition.agents.values():
        for model in getattr(agent.model, "models", (agent.model,)):
            package = _PACKAGES.get(model.name.partition(":")[0])
            if package and _wire_of(model) and find_spec(package) is None:
                from legato.models.sdk import needs  # not above: whether it was imported tells whether a provider's model is there

                needed = needs(package)
                problems.setdefault(model.name, f"{agent.name}: {model.name} cannot be asked: {needed.summary}; {needed.do}")
    return list(problems.values())


_PACKAGES = {"openai": "openai", "azure": "openai", "openai-chat": "openai", "anthropic": "anthropic"}
_WIRES = {"openai": "responses", "azure": "responses", "openai-chat": "chat", "anthropic": "anthropic"}


def model_of(agent: AgentDefinition, origin: str = "") -> tuple[str, Any] | None:
    """The wire and the options of an agent's model; None: a model of the user's own.

    Of several that stand by for each other it is the one that an `origin` names, else the first.
    """
    models = [_wire_of(model) for model in getattr(agent.model, "models", (agent.model,))]
    named = [known for known in models if known and origin.startswith(f"{known[0]} ") and origin.endswith(f" {known[1].model}")]
    return (named or models)[0]


def _wire_of(model: Any) -> tuple[str, Any] | None:
    wire, options = _WIRES.get(model.name.partition(":")[0]), getattr(model, "options", None)
    return (wire, options) if wire is not None and options is not None else None


def _plain(workflow: Workflow) -> dict[str, Any]:
    graph = workflow.definition.graph
    return {
        "workflow": workflow.name,
        "start": graph.start,
        "agents": [
            {
                "name": agent.name,
                "model": agent.model.name,
                "tools": [{"name": tool.name, "rules": _rules(tool), "secrets": sorted(tool.secrets)} for tool in agent.tools.values()],
                "hands_to": [
                    {"agent": edge.target, "needs_approval": edge.needs_approval} for edge in graph.agents[agent.name].edges.values()
                ],
            }
            for agent in workflow.definition.agents.values()
        ],
        "limits": {name: value for name, value in msgspec.to_builtins(graph.limits).items() if value is not None},
        "mermaid": workflow.graph(),
    }


def _rules(tool: Tool) -> list[str]:
    rules = []
    if tool.needs_approval:
        rules.append("asks first" if tool.needs_approval is True else "may ask first")
    rules += [rule for rule in ("idempotent", "alone", "deferred") if getattr(tool, rule)]
    return rules + (["an agent"] if tool.works_in is not None else [])


def _draw(workflow: Workflow) -> None:
    """Agents with their tools, and arrows to whom they may hand over. Every agent stands once, so that loops are arrows, too."""
    graph = workflow.definition.graph
    colours = Colours(workflow.agents)
    tell((workflow.name, "bold"), f": {counted(len(graph.agents), 'agent')}, {counted(len(graph.edges), 'handoff')}")
    tell(("user ", "bold"), (f"{symbol('edge')} ", "dim"), (graph.start, colours.of(graph.start)))
    for agent in workflow.definition.agents.values():
        tell((agent.name, f"bold {colours.of(agent.name)}"), (f"  {agent.model.name}", "dim"))
        for tool in agent.tools.values():
            secrets = [f"secret: {', '.join(sorted(tool.secrets))}"] if tool.secrets else []
            told = ", ".join([*_rules(tool), *secrets])
            tell(
                (f"  {symbol('tool')} ", "dim"), f"{tool.name}({', '.join(tool.arguments.names)})", (f"  {told}" if told else "", "yellow")
            )
        edges = list(graph.agents[agent.name].edges.values())
        for edge in edges:
            arrow = symbol("last" if edge is edges[-1] else "branch")
            target = (edge.target, colours.of(edge.target))
            tell((f"  {arrow} ", "dim"), target, ("  asks first" if edge.needs_approval else "", "yellow"))


def build_error(error: BadInput) -> list[str]:
    """The sentences of a definition that could not be built."""
    return [line.removeprefix("  - ") for line in str(error).splitlines()[1:] if line.startswith("  - ")] or [str(error)]
