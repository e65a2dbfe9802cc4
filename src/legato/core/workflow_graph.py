"""The definition of a workflow as data, and the check that it can work.

The planner reads the `WorkflowGraph` besides the state: the agents, their tools and how each tool is treated, the handoffs, the limits.
It holds no functions: a step that needs user code is marked here, planned as an effect, and its verdict is recorded as a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from legato.core.digests import digest_bytes
from legato.core.facts import NO_OPTIONS, RunOptions
from legato.core.history_policies import HistoryPolicy
from legato.core.limits import Limits

HANDOFF_PREFIX = "handoff_to_"
_LEGAL_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_MAX_TOOL_NAME_CHARS = 64  # OpenAI's limit, the smallest among the providers


class ToolRules(Struct, frozen=True):
    """The planner's rules for one tool.

    `needs_check`: user code (an approval policy or a guardrail) must check each call before it runs.
    """

    name: str
    needs_check: bool = False
    idempotent: bool = False
    alone: bool = False
    deferred: bool = False
    secrets: tuple[str, ...] = ()
    is_removed: bool = False
    """True if the definition no longer has the tool, but the ledger has calls of it: it never runs, and people may decline its calls."""


class HandoffEdge(Struct, frozen=True):
    """An allowed handoff, and the tool that a model calls for it."""

    source: str
    target: str
    tool: str
    description: str = ""
    needs_approval: bool = False
    history: HistoryPolicy | None = None


class AgentRules(Struct, frozen=True):
    """The planner's rules for one agent. Tools and handoff edges are keyed by tool name."""

    name: str
    tools: Mapping[str, ToolRules] = {}
    edges: Mapping[str, HandoffEdge] = {}
    has_input_guardrails: bool = False
    checks_output: bool = False
    output_retries: int = 2
    autonomous: bool = False
    prompt: str = ""
    prompt_limit: int = 0
    summarise_above: int = 0
    """With a summarising policy: the number of tokens above which a summary is made."""
    keep_turns: int = 0
    has_output_type: bool = False
    """True if the agent has its own output type."""

    def with_run_options(self, options: RunOptions) -> AgentRules:
        """Return the rules with a client's run options applied. The agent's own tool or handoff wins over a client's tool of that name."""
        if not options.tools and not options.needs_reply_check:
            return self
        client_tools = {each.name: each for each in options.tools if each.name not in self.edges}
        rules = {name: ToolRules(name, needs_check=True, deferred=True, secrets=each.secrets) for name, each in client_tools.items()}
        return replace(self, tools={**rules, **self.tools}, checks_output=self.checks_output or options.needs_reply_check)

    def is_client_tool(self, tool: str, options: RunOptions) -> bool:
        """Return True if a call of this tool is for the client of the run."""
        return options.offers(tool) and tool not in self.tools and tool not in self.edges


class WorkflowGraph(Struct, frozen=True):
    """The whole definition, as far as the planner needs it."""

    name: str
    agents: Mapping[str, AgentRules]
    start: str
    limits: Limits = Limits()
    has_termination_condition: bool = False
    supersedes_pending: bool = False
    restarts_each_run: bool = False
    max_parallel_tools: int = 16

    def find_secret_arguments(self, agent: str, tool: str, options: RunOptions = NO_OPTIONS) -> tuple[str, ...] | None:
        """Return the names of a tool's secret arguments, to be shown only in the ledger and in requests; None for an unknown tool.

        `options` are the options of the run in which the tool was called.
        """
        rules = self.resolve_rules(agent, options)
        if tool not in rules.tools and tool not in rules.edges:
            return None
        return rules.tools[tool].secrets if tool in rules.tools else ()

    def resolve_rules(self, agent: str, options: RunOptions) -> AgentRules:
        """Return the rules of an agent with a client's run options applied. An unknown agent has no rules but these."""
        rules = self.agents.get(agent) or AgentRules(agent)
        return rules if options is NO_OPTIONS else rules.with_run_options(options)

    @property
    def edges(self) -> list[HandoffEdge]:
        return [edge for agent in self.agents.values() for edge in agent.edges.values()]


def make_handoff_tool_name(agent: str) -> str:
    """Return the name of the tool that hands over to an agent: legal for every provider, and different for different agents.

    >>> make_handoff_tool_name("refunds")
    'handoff_to_refunds'
    >>> make_handoff_tool_name("Refund Desk")
    'handoff_to_Refund_Desk'
    """
    plain = HANDOFF_PREFIX + agent.replace(" ", "_")
    if _LEGAL_TOOL_NAME.fullmatch(plain) and len(plain) <= _MAX_TOOL_NAME_CHARS:
        return plain
    # A name with cut or replaced characters may equal another agent's: the digest tells them apart.
    legal = "".join(re.findall(r"[a-zA-Z0-9_-]", plain))[: _MAX_TOOL_NAME_CHARS - 9]
    return f"{legal}_{digest_bytes(agent.encode())[:8]}"


def find_problems(graph: WorkflowGraph, allowed_dead_ends: Iterable[str] = ()) -> list[str]:
    """Return the problems of a definition, as sentences that say what to write instead."""
    problems = []
    for edge in graph.edges:
        if edge.target not in graph.agents:
            problems.append(f"{edge.source!r} hands over to {edge.target!r}, which is no participant: add the agent to participants=[...]")
    reachable = _find_reachable(graph, graph.start)
    for name in graph.agents:
        if name not in reachable:
            problems.append(
                f"no agent can hand over to {name!r}: write .add_handoff({graph.start!r}, [{name!r}]) or remove it from the participants"
            )
    if len(graph.agents) > 1 and not graph.restarts_each_run:
        for name in sorted(reachable - set(allowed_dead_ends)):
            agent = graph.agents.get(name)
            if agent is not None and not agent.edges:
                problems.append(
                    f"{name!r} is a dead end: it cannot hand over to any agent. Write .add_handoff({name!r}, [{graph.start!r}]), or "
                    f'.with_next_turn("start"), or, if it is meant to keep the conversation, .add_handoff({name!r}, [])'
                )
    loop = _find_loop(graph)
    if loop and not graph.limits.ends_loops:
        problems.append(f"{' -> '.join(loop)} can loop forever: write .with_limits(Limits(turns=50)), or limit handoffs or same_edge")
    return problems


def _find_reachable(graph: WorkflowGraph, start: str) -> set[str]:
    found, frontier = {start}, [start]
    while frontier:
        agent = graph.agents.get(frontier.pop())
        for edge in agent.edges.values() if agent else ():
            if edge.target not in found:
                found.add(edge.target)
                frontier.append(edge.target)
    return found


def _find_loop(graph: WorkflowGraph) -> list[str]:
    """Return the agent names along one cycle of handoffs; empty if there is none."""
    for start in graph.agents:
        came_from: dict[str, str] = {}
        frontier = [start]
        while frontier:
            name = frontier.pop(0)
            for edge in graph.agents[name].edges.values() if name in graph.agents else ():
                if edge.target == start:
                    path = [name]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return [*reversed(path), start]
                if edge.target not in came_from:
                    came_from[edge.target] = name
                    frontier.append(edge.target)
    return []


def render_mermaid(graph: WorkflowGraph) -> str:
    """Return the handoff graph as a Mermaid flowchart."""
    ids = {name: f"a{index}" for index, name in enumerate(graph.agents)}
    lines = ["flowchart LR", '  user(["user"])', f"  user --> {ids[graph.start]}"]
    lines += [f'  {ids[name]}["{_escape_label(name)}"]' for name in graph.agents]
    for edge in graph.edges:
        label = "approval" if edge.needs_approval else ""
        arrow = f'-- "{label}" -->' if label else "-->"
        lines.append(f"  {ids[edge.source]} {arrow} {ids[edge.target]}")
    return "\n".join(lines)


def _escape_label(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
