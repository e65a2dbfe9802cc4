"""A workflow as far as a ledger tells. May know: facts. Decides: what can be said of a conversation whose program is not at hand.

With it, a session can be looked at, forked and written down without its program. It cannot be driven: it has no models and no tools.
What only the program knows is taken for what is safe: every argument of every tool may be a secret; a tool that waits for its
result from elsewhere looks as if it were running.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.core.facts import AgentPrompted, AnyFact, Call, Decided, HandedOff, MessageReceived, ModelReplied, Opened
from legato.core.secret_arguments import Secrets
from legato.core.workflow_graph import AgentRules, Edge, Graph, ToolRules, handoff_tool_name
from legato.runtime.definition import Definition
from legato.workflow.workflow import Workflow

ALL_SECRET = Secrets(("every argument",), may_show=())
"""The names of all arguments there could be."""


def as_recorded(facts: Sequence[AnyFact]) -> Workflow:
    """The workflow of a ledger: who spoke, which tools were called, who handed over to whom."""
    recorded = _Recorded()
    for fact in facts:
        recorded.add(fact)
    return Workflow(Definition(graph=recorded.graph(), agents={}, edges={}), None, "", ())


class _Recorded:
    """What the facts so far say of a workflow."""

    def __init__(self) -> None:
        self._name = self._start = ""
        self._offered: set[str] = set()  # tools of clients, which are no agent's own
        self._called: dict[str, dict[str, ToolRules]] = {}  # by agent: its tools
        self._edges: dict[str, dict[str, Edge]] = {}

    def add(self, fact: AnyFact) -> None:
        match fact:
            case Opened(workflow=workflow):
                self._name = workflow
            case MessageReceived(options=options) | Decided(options=options) if options is not None:
                self._offered.update(each.name for each in options.tools)
            case ModelReplied(agent=agent, items=items):
                self._start = self._start or agent
                names = [item.tool for item in items if isinstance(item, Call) and item.tool not in self._offered]
                self._tools_of(agent).update({name: ToolRules(name, secrets=ALL_SECRET) for name in names})
            case HandedOff(source=source, target=target):
                self._tools_of(target)
                self._edges.setdefault(source, {})[handoff_tool_name(target)] = Edge(source, target, handoff_tool_name(target))
            case AgentPrompted(agent=agent):
                self._tools_of(agent)

    def _tools_of(self, agent: str) -> dict[str, ToolRules]:
        return self._called.setdefault(agent, {})

    def graph(self) -> Graph:
        return Graph(self._name, {agent: self._rules(agent) for agent in self._called}, self._start)

    def _rules(self, agent: str) -> AgentRules:
        edges = self._edges.get(agent, {})
        return AgentRules(agent, {tool: rules for tool, rules in self._called[agent].items() if tool not in edges}, edges)
