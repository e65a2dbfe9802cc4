"""A workflow as far as a ledger tells. May know: facts. Decides: what can be said of a conversation whose program is not at hand.

With it, a session can be looked at, forked and written down without its program. It cannot be driven: it has no models and no tools.
What only the program knows is taken for what is safe: every argument of every tool may be a secret; a tool that waits for its
result from elsewhere looks as if it were running.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.core.facts import Answered, AnyFact, Call, Decided, HandedOff, Opened, Prompted, Said
from legato.core.graph import AgentRules, Edge, Graph, ToolRules, handoff_tool_name
from legato.core.secrets import Secrets
from legato.drive.definition import Definition
from legato.workflow import Workflow

ALL_SECRET = Secrets(("every argument",), may_show=())
"""The names of all arguments there could be."""


def as_recorded(facts: Sequence[AnyFact]) -> Workflow:
    """The workflow of a ledger: who spoke, which tools were called, who handed over to whom."""
    name, start = "", ""
    offered: set[str] = set()  # tools of clients, which are no agent's own
    tools: dict[str, dict[str, ToolRules]] = {}
    edges: dict[str, dict[str, Edge]] = {}
    for fact in facts:
        match fact:
            case Opened(workflow=workflow):
                name = workflow
            case (Said(options=options) | Decided(options=options)) if options is not None:
                offered.update(each.name for each in options.tools)
            case Answered(agent=agent, items=items):
                start = start or agent
                called = tools.setdefault(agent, {})
                names = [item.tool for item in items if isinstance(item, Call) and item.tool not in offered]
                called.update({name: ToolRules(name, secrets=ALL_SECRET) for name in names})
            case HandedOff(source=source, target=target):
                tools.setdefault(target, {})
                edges.setdefault(source, {})[handoff_tool_name(target)] = Edge(source, target, handoff_tool_name(target))
            case Prompted(agent=agent):
                tools.setdefault(agent, {})
    agents = {
        agent: AgentRules(agent, {tool: rules for tool, rules in called.items() if tool not in edges.get(agent, {})}, edges.get(agent, {}))
        for agent, called in tools.items()
    }
    return Workflow(Definition(graph=Graph(name, agents, start), agents={}, edges={}), None, "", ())
