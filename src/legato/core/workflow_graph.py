"""The definition of a workflow as data, and the check that it can work.

The planner reads the `WorkflowGraph` besides the state: the agents, their tools and how each tool is treated, the handoffs, the limits.
It holds no functions: a step that needs user code is marked here, planned as an effect, and its verdict is recorded as a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from legato.core import texts_for_model
from legato.core.digests import digest_bytes
from legato.core.facts import NO_OPTIONS, Call, ModelReplied, RunOptions
from legato.core.history_policies import HistoryPolicy
from legato.errors import BuildError

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


class Limits(Struct, frozen=True, kw_only=True):
    """Limits at which a run pauses and asks, and limits on one reply and one tool output. Each is optional; None means no limit.

    `turns`, `handoffs`, `same_edge` (handoffs from one agent to the same other), `tool_calls` and `seconds` (of work, not of waiting for
    people) count since the user's last message. `seconds` also stops a model request in progress; tools are allowed to finish. `tokens`
    and `cost` (dollars) count over the whole session. `tool_rounds` counts the replies with tool calls that one agent makes in a row: a
    model that calls tools endlessly pauses after 50. `cost` needs prices: if one turns out to be unknown, the run pauses too.

    The last three limits do not pause a run; the model receives an error instead. `calls_per_reply` is the number of tool calls in one
    reply, handoffs included: calls beyond it are not run, and no handoff of that reply is taken. `argument_bytes` is the size of a call's
    arguments: a larger call is not run. `output_bytes` is the size of a tool's output, with images and files: the tool has run, and the
    model is informed of that in place of a larger output.

    >>> Limits(turns=20, same_edge=3).turns
    20
    """

    turns: int | None = None
    handoffs: int | None = None
    same_edge: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    tool_rounds: int | None = 50
    calls_per_reply: int | None = 128
    argument_bytes: int | None = 1_048_576
    output_bytes: int | None = 10_485_760

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
                raise BuildError(f"the limit {name} must be a number from 0 on", found=repr(value), do="leave it out for no limit")

    @property
    def ends_loops(self) -> bool:
        """True if a limit pauses an endless loop of handoffs or prompts."""
        bounds = (self.turns, self.handoffs, self.same_edge, self.tokens, self.cost, self.seconds)
        return any(bound is not None for bound in bounds)


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


# -- limits on the calls of one reply ----------------------------------------------------------------------------------
# They are checked once, when the reply arrives. `ModelReplied` records the limits that it exceeds, so the same calls are refused whenever
# the ledger is folded, also if the workflow has other limits by then.


def measure_utf8_bytes(text: str) -> int:
    """Return the size of a text in UTF-8, in bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def record_exceeded_limits(reply: ModelReplied, limits: Limits) -> ModelReplied:
    """Return the reply with the limits that its calls exceed; the same object if they exceed none."""
    calls = [item for item in reply.items if type(item) is Call]
    max_calls, max_bytes = limits.calls_per_reply, limits.argument_bytes
    if max_calls is not None and len(calls) > max_calls:
        reply = replace(reply, calls_allowed=int(max_calls))
    if max_bytes is not None and any(measure_utf8_bytes(call.arguments) > max_bytes for call in calls):
        reply = replace(reply, argument_bytes_allowed=int(max_bytes))
    return reply


def explain_exceeded_limits(reply: ModelReplied, calls: Sequence[Call]) -> list[str]:
    """Return, for each call of a reply, the text that says why it does not run; empty for a call within the limits."""
    max_calls, max_bytes = reply.calls_allowed, reply.argument_bytes_allowed
    errors = []
    for number, call in enumerate(calls):
        if 0 <= max_calls <= number:
            errors.append(texts_for_model.too_many_calls(len(calls), max_calls))
        elif 0 <= max_bytes < (size := measure_utf8_bytes(call.arguments)):
            errors.append(texts_for_model.arguments_too_large(size, max_bytes))
        else:
            errors.append("")
    return errors
