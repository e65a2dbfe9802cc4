"""The definition of a workflow as data. May know: names and policies. Decides: whether it can work.

`Graph` is what `owed` reads besides the state: who there is, which tools each agent has and how they are treated, who may hand over
to whom, when to stop. It holds no function: what needs user code is marked, asked for as an effect, and its verdict becomes a fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from legato.core import messages_to_model
from legato.core.digests import digest_bytes
from legato.core.facts import NO_OPTIONS, Call, ModelReplied, RunOptions
from legato.core.history_policies import HistorySpec
from legato.errors import BuildError

HANDOFF_PREFIX = "handoff_to_"
_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME_LIMIT = 64  # OpenAI's limit, the smallest among the providers


class ToolRules(Struct, frozen=True):
    """How a tool is treated. `admission`: user code must look at each call before it may run (a gate or a guardrail)."""

    name: str
    admission: bool = False
    idempotent: bool = False
    alone: bool = False
    deferred: bool = False
    secrets: tuple[str, ...] = ()
    gone: bool = False
    """The ledger knows it, the definition no longer does: a person may still decline its calls, and it never runs."""


class Edge(Struct, frozen=True):
    """A handoff that is allowed, and the tool by which a model asks for it."""

    source: str
    target: str
    tool: str
    description: str = ""
    needs_approval: bool = False
    history: HistorySpec | None = None


class AgentRules(Struct, frozen=True):
    """One agent: its tools and edges by tool name, and which of its doings user code judges."""

    name: str
    tools: Mapping[str, ToolRules] = {}
    edges: Mapping[str, Edge] = {}
    judges_input: bool = False
    judges_output: bool = False
    output_retries: int = 2
    autonomous: bool = False
    prompt: str = ""
    prompt_limit: int = 0
    summarise_above: int = 0
    """With a summarising policy: the number of tokens above which a summary is owed."""
    keep_turns: int = 0
    typed: bool = False
    """It has an output type of its own."""

    def in_run(self, options: RunOptions) -> AgentRules:
        """The rules with what the client of a run asks for. A tool or handoff of the agent's own goes before a client's of that name."""
        if not options.tools and not options.judged:
            return self
        theirs = {each.name: each for each in options.tools if each.name not in self.edges}
        rules = {name: ToolRules(name, admission=True, deferred=True, secrets=each.secrets) for name, each in theirs.items()}
        return replace(self, tools={**rules, **self.tools}, judges_output=self.judges_output or options.judged)

    def is_client_tool(self, tool: str, options: RunOptions) -> bool:
        """Tell whether a call of this name is for the client of the run."""
        return options.offers(tool) and tool not in self.tools and tool not in self.edges


class Limits(Struct, frozen=True, kw_only=True):
    """Where a run pauses and asks, and what one reply and one tool may send. Every limit is optional; None means no limit.

    `turns`, `handoffs`, `same_edge` (how often one agent hands to the same other), `tool_calls` and `seconds` (of work, not of waiting
    for people) count since the user last spoke. `seconds` stops a model request that is under way; tools are let finish. `tokens` and
    `cost` (dollars) count over the whole session. `tool_rounds` counts the replies with tool calls that one agent makes in a row: a
    model that calls tools without end pauses after 50. `cost` needs prices: where one turns out to be unknown, the run pauses too.

    The last three do not pause a run: what exceeds them is answered to the model with an error. `calls_per_reply` is the number of tool
    calls in one reply, handoffs included: the calls beyond it are not run, and no handoff of that reply is taken. `argument_bytes` is the
    size of a call's arguments: a call with more is not run. `output_bytes` is the size of what a tool returns, with pictures and files: the
    tool has run, and the model is told so in place of a larger output.

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
        """Whether a loop of handoffs or prompts must come to a pause some time."""
        bounds = (self.turns, self.handoffs, self.same_edge, self.tokens, self.cost, self.seconds)
        return any(bound is not None for bound in bounds)


class Graph(Struct, frozen=True):
    """The whole definition, as far as it decides what is owed."""

    name: str
    agents: Mapping[str, AgentRules]
    start: str
    limits: Limits = Limits()
    judges_termination: bool = False
    supersede: bool = False
    start_over: bool = False
    parallel_tools: int = 16

    def secrets(self, agent: str, tool: str, options: RunOptions = NO_OPTIONS) -> tuple[str, ...] | None:
        """The arguments of a tool that only the ledger and requests may show; None of a tool that is not there, so nobody can say.

        `options` are those of the run in which it was called.
        """
        rules = self.rules_in_run(agent, options)
        if tool not in rules.tools and tool not in rules.edges:
            return None
        return rules.tools[tool].secrets if tool in rules.tools else ()

    def rules_in_run(self, agent: str, options: RunOptions) -> AgentRules:
        """The rules of an agent, with what the client of a run asks for. Of an agent who is not there, nothing else is known."""
        rules = self.agents.get(agent) or AgentRules(agent)
        return rules if options is NO_OPTIONS else rules.in_run(options)

    @property
    def edges(self) -> list[Edge]:
        return [edge for agent in self.agents.values() for edge in agent.edges.values()]


def handoff_tool_name(agent: str) -> str:
    """The tool that hands over to this agent: legal on every wire, and different for different agents.

    >>> handoff_tool_name("refunds")
    'handoff_to_refunds'
    >>> handoff_tool_name("Refund Desk")
    'handoff_to_Refund_Desk'
    """
    plain = HANDOFF_PREFIX + agent.replace(" ", "_")
    if _LEGAL.fullmatch(plain) and len(plain) <= _TOOL_NAME_LIMIT:
        return plain
    # What had to be cut or replaced would no longer tell two agents apart: the digest does.
    legal = "".join(re.findall(r"[a-zA-Z0-9_-]", plain))[: _TOOL_NAME_LIMIT - 9]
    return f"{legal}_{digest_bytes(agent.encode())[:8]}"


def check(graph: Graph, dead_ends_meant: Iterable[str] = ()) -> list[str]:
    """Everything that cannot work in this definition, each as a sentence that says what to write instead."""
    problems = []
    for edge in graph.edges:
        if edge.target not in graph.agents:
            problems.append(f"{edge.source!r} hands over to {edge.target!r}, who is no participant: add the agent to participants=[...]")
    reachable = _reachable(graph, graph.start)
    for name in graph.agents:
        if name not in reachable:
            problems.append(
                f"nobody can hand over to {name!r}: write .add_handoff({graph.start!r}, [{name!r}]) or remove it from the participants"
            )
    if len(graph.agents) > 1 and not graph.start_over:
        for name in sorted(reachable - set(dead_ends_meant)):
            agent = graph.agents.get(name)
            if agent is not None and not agent.edges:
                problems.append(
                    f"{name!r} is a dead end: it can never give control away. Write .add_handoff({name!r}, [{graph.start!r}]), or "
                    f'.with_next_turn("start"), or, if it is meant to keep the conversation, .add_handoff({name!r}, [])'
                )
    loop = _loop(graph)
    if loop and not graph.limits.ends_loops:
        problems.append(f"{' -> '.join(loop)} can go round for ever: write .with_limits(Limits(turns=50)), or limit handoffs or same_edge")
    return problems


def _reachable(graph: Graph, start: str) -> set[str]:
    found, frontier = {start}, [start]
    while frontier:
        agent = graph.agents.get(frontier.pop())
        for edge in agent.edges.values() if agent else ():
            if edge.target not in found:
                found.add(edge.target)
                frontier.append(edge.target)
    return found


def _loop(graph: Graph) -> list[str]:
    """One cycle of handoffs, as the names along it, or nothing."""
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


def mermaid(graph: Graph) -> str:
    """The handoff graph as a Mermaid flowchart."""
    ids = {name: f"a{index}" for index, name in enumerate(graph.agents)}
    lines = ["flowchart LR", '  user(["user"])', f"  user --> {ids[graph.start]}"]
    lines += [f'  {ids[name]}["{_quoted(name)}"]' for name in graph.agents]
    for edge in graph.edges:
        label = "approval" if edge.needs_approval else ""
        arrow = f'-- "{label}" -->' if label else "-->"
        lines.append(f"  {ids[edge.source]} {arrow} {ids[edge.target]}")
    return "\n".join(lines)


def _quoted(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


# -- limits on the calls of one reply ---------------------------------------------------------------------------------
# They are checked once, when the reply comes. `ModelReplied` records those that it exceeds, so the same calls are refused whenever and
# wherever its ledger is read, also where the workflow has other limits by then.


def byte_length(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def with_exceeded_limits(answered: ModelReplied, limits: Limits) -> ModelReplied:
    """The reply with the limits that its calls exceed; the same object if they exceed none."""
    calls = [item for item in answered.items if type(item) is Call]
    most_calls, most_bytes = limits.calls_per_reply, limits.argument_bytes
    if most_calls is not None and len(calls) > most_calls:
        answered = replace(answered, calls_allowed=int(most_calls))
    if most_bytes is not None and any(byte_length(call.arguments) > most_bytes for call in calls):
        answered = replace(answered, argument_bytes_allowed=int(most_bytes))
    return answered


def refusals(answered: ModelReplied, calls: Sequence[Call]) -> list[str]:
    """For each call of a reply, why it does not run; empty for one that is within the limits."""
    most_calls, most_bytes = answered.calls_allowed, answered.argument_bytes_allowed
    words = []
    for number, call in enumerate(calls):
        if 0 <= most_calls <= number:
            words.append(messages_to_model.too_many_calls(len(calls), most_calls))
        elif 0 <= most_bytes < (size := byte_length(call.arguments)):
            words.append(messages_to_model.arguments_too_large(size, most_bytes))
        else:
            words.append("")
    return words
