"""Workflows rebuilt from a ledger, for sessions whose program is not available.

With such a workflow a session can be read, forked and exported. It cannot be driven: there are no models and no tools. For everything that
only the program knows, the safe assumption holds: every argument of every tool may be a secret. A call of a deferred tool looks as if it
were running.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.core.facts import AgentPrompted, AnyFact, Call, Decided, HandedOff, MessageReceived, ModelReplied, Opened
from legato.core.secret_arguments import SecretNames
from legato.core.workflow_graph import AgentRules, HandoffEdge, ToolRules, WorkflowGraph, make_handoff_tool_name
from legato.runtime.definition import WorkflowDefinition
from legato.workflow.workflow import Workflow

ALL_ARGUMENTS_SECRET = SecretNames(("every argument",), visible_names=())
"""Secret names that contain every name."""


def rebuild_workflow(facts: Sequence[AnyFact]) -> Workflow:
    """Return the workflow of a ledger: its agents, the tools they called, and the handoffs between them."""
    builder = _WorkflowBuilder()
    for fact in facts:
        builder.add(fact)
    return Workflow(WorkflowDefinition(graph=builder.build(), agents={}, edges={}), None, "", ())


class _WorkflowBuilder:
    """Collects from facts what they say about the workflow."""

    def __init__(self) -> None:
        self._name = self._start = ""
        self._client_tools: set[str] = set()  # no agent's own
        self._tools: dict[str, dict[str, ToolRules]] = {}  # by agent
        self._edges: dict[str, dict[str, HandoffEdge]] = {}

    def add(self, fact: AnyFact) -> None:
        match fact:
            case Opened(workflow=workflow):
                self._name = workflow
            case MessageReceived(options=options) | Decided(options=options) if options is not None:
                self._client_tools.update(each.name for each in options.tools)
            case ModelReplied(agent=agent, items=items):
                self._start = self._start or agent
                names = [item.tool for item in items if isinstance(item, Call) and item.tool not in self._client_tools]
                self._tools_of(agent).update({name: ToolRules(name, secrets=ALL_ARGUMENTS_SECRET) for name in names})
            case HandedOff(source=source, target=target):
                self._tools_of(target)
                self._edges.setdefault(source, {})[make_handoff_tool_name(target)] = HandoffEdge(
                    source, target, make_handoff_tool_name(target)
                )
            case AgentPrompted(agent=agent):
                self._tools_of(agent)

    def _tools_of(self, agent: str) -> dict[str, ToolRules]:
        return self._tools.setdefault(agent, {})

    def build(self) -> WorkflowGraph:
        return WorkflowGraph(self._name, {agent: self._rules(agent) for agent in self._tools}, self._start)

    def _rules(self, agent: str) -> AgentRules:
        edges = self._edges.get(agent, {})
        return AgentRules(agent, {tool: rules for tool, rules in self._tools[agent].items() if tool not in edges}, edges)
