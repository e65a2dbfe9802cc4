"""The builder of workflows, which checks a definition completely before it makes a workflow of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from legato.core.argument_checks import require_function, require_list, require_mapping, require_text, require_whole_number
from legato.core.codec import get_decoder
from legato.core.digests import digest_bytes
from legato.core.facts import LEDGER_FORMAT
from legato.core.history_policies import Summarised
from legato.core.limits import Limits
from legato.core.workflow_graph import HandoffEdge, WorkflowGraph, find_problems, make_handoff_tool_name
from legato.errors import BuildError
from legato.runtime.definition import HandoffDefinition, History, WorkflowDefinition
from legato.stores.contract import Store, is_store
from legato.workflow.agent import Agent, make_output_type
from legato.workflow.agent_as_tool import find_tool_workflow, iter_workflow_tree
from legato.workflow.workflow import Workflow

DEFAULT_LIMITS = Limits(turns=1000)
"""The limits of a workflow that sets none: a run that never ends by itself pauses here. No intended conversation is that long."""

DEFAULT_PROMPT = "Go on with your task. When your part is done, hand over or say so."
"""The prompt of autonomous agents that have none of their own. Models read it."""

DEFAULT_PROMPT_LIMIT = 50
"""The number of prompts that an autonomous agent gets until control or a message of the user comes to it again."""


class HandoffBuilder:
    """A builder of workflows: its methods collect a definition, and `build()` checks it and makes the workflow.

    Agents are passed as objects or by name. Without any `add_handoff`, every agent may hand over to every other agent.

    >>> from legato.testing import ScriptedModel
    >>> model = ScriptedModel(by_agent={})
    >>> desk = (
    ...     HandoffBuilder(name="desk", participants=[Agent("triage", model=model), Agent("refunds", model=model)])
    ...     .add_handoff("triage", ["refunds"])
    ...     .add_handoff("refunds", ["triage"])
    ...     .build()
    ... )
    >>> desk
    <Workflow desk: triage, refunds>
    """

    def __init__(
        self,
        name: str = "workflow",
        participants: Iterable[Agent] = (),
        termination_condition: Callable[..., Any] | None = None,
        description: str = "",
    ) -> None:
        self._name = require_text("the name of a workflow", name, BuildError)
        self._description = require_text("the description of a workflow", description, BuildError)
        self._participants: list[Agent] = []
        self._start: str | None = None
        self._edges: list[tuple[str, str, str, bool, History | None, Any]] = []
        self._allowed_dead_ends: list[str] = []
        self._has_edges = False
        self._autonomous_agents: set[str] | None = None
        self._all_autonomous = False
        self._prompts: dict[str, str] = {}
        self._turn_limits: dict[str, int] = {}
        self._termination_condition: Callable[..., Any] | None = None
        self._store: Store | None = None
        self._limits = DEFAULT_LIMITS
        self._message_mode = "queue"
        self._next_turn_mode = "sticky"
        self._max_parallel_tools = 16
        self._max_model_attempts = 4
        if termination_condition is not None:
            self.with_termination_condition(termination_condition)
        self.participants(participants)

    def __repr__(self) -> str:
        return f"<HandoffBuilder {self._name}: {', '.join(agent.name for agent in self._participants)}; call .build()>"

    def participants(self, agents: Iterable[Agent]) -> HandoffBuilder:
        """Add agents. The first one is the start agent, unless `with_start_agent` names another."""
        for agent in require_list("participants", agents, BuildError):
            if not isinstance(agent, Agent):
                raise BuildError("a participant is an Agent", found=repr(agent)[:80], do='write Agent(name="...", model=...)')
            self._participants.append(agent)
        return self

    def with_start_agent(self, agent: Agent | str) -> HandoffBuilder:
        """Set the agent that receives the first message."""
        self._start = _name_of(agent)
        return self

    def add_handoff(
        self,
        source: Agent | str,
        targets: Sequence[Agent | str] | Agent | str,
        description: str | None = None,
        needs_approval: bool = False,
        history: History | None = None,
        input_type: Any = None,
    ) -> HandoffBuilder:
        """Let `source` hand over to `targets`. An empty list of targets says that `source` keeps the conversation on purpose.

        `description` tells the model when to hand over. `history` is what the target sees when control comes by this handoff. `input_type`
        is the type of an input that the handoff must have; the input is recorded and given to the target with the reason.
        """
        target_list = [targets] if isinstance(targets, (Agent, str)) else require_list("the targets of a handoff", targets, BuildError)
        self._has_edges = True
        if isinstance(history, History) and isinstance(history.policy, Summarised):
            raise BuildError("a summarising policy belongs to an agent, not to a handoff", do="write Agent(..., history=summarised(...))")
        if history is not None and not isinstance(history, History):
            raise BuildError("history= takes a policy", found=type(history).__name__, do="write history=legato.history.dialogue()")
        about = require_text("the description of a handoff", description or "", BuildError)
        if not target_list:
            self._allowed_dead_ends.append(_name_of(source))
        for target in target_list:
            self._edges.append((_name_of(source), _name_of(target), about, needs_approval, history, input_type))
        return self

    def with_autonomous_mode(
        self,
        agents: Sequence[Agent | str] | Agent | str | None = None,
        prompts: Mapping[Any, str] | None = None,
        turn_limits: Mapping[Any, int] | None = None,
    ) -> HandoffBuilder:
        """Prompt agents (by default all) to continue when they reply without a handoff, at most `turn_limits` times (50).

        The count begins when control or a message of the user comes to the agent. 0: never. After the last prompt the agent waits for the
        user.
        """
        if agents is None:
            self._all_autonomous = True
        else:
            agent_list = [agents] if isinstance(agents, (Agent, str)) else require_list("autonomous agents", agents, BuildError)
            self._autonomous_agents = (self._autonomous_agents or set()) | {_name_of(agent) for agent in agent_list}
        for agent, prompt in require_mapping("the prompts of autonomous agents", prompts or {}, BuildError).items():
            self._prompts[_name_of(agent)] = require_text(f"the prompt of {_name_of(agent)!r}", prompt, BuildError)
            if not prompt.strip():
                raise BuildError(f"the prompt of {_name_of(agent)!r} is empty", do="leave it out for the usual one, or say what to do")
        for agent, limit in require_mapping("the turn limits of autonomous agents", turn_limits or {}, BuildError).items():
            self._turn_limits[_name_of(agent)] = require_whole_number(f"the turn limit of {_name_of(agent)!r}", limit, 0, BuildError)
        return self

    def with_termination_condition(self, condition: Callable[..., Any]) -> HandoffBuilder:
        """Set a function (sync or async) of the conversation's messages that returns True when the conversation is over."""
        self._termination_condition = require_function("a termination condition", condition, BuildError)
        return self

    def with_checkpointing(self, store: Store) -> HandoffBuilder:
        """Set the store of sessions that are not opened with `session(store=...)`."""
        if not is_store(store):
            raise BuildError(
                "with_checkpointing takes a store", found=type(store).__name__, do='write .with_checkpointing(SQLiteStore("desk.db"))'
            )
        self._store = store
        return self

    def with_limits(self, limits: Limits) -> HandoffBuilder:
        """Set the limits at which a run pauses for a decision. They replace the default of 1000 turns."""
        if not isinstance(limits, Limits):
            raise BuildError("with_limits takes Limits", found=type(limits).__name__, do="write .with_limits(Limits(turns=50))")
        self._limits = limits
        return self

    def with_messages(self, mode: str) -> HandoffBuilder:
        """Set what a message does to pending calls: it waits for them ("queue"), or they are answered as superseded ("supersede")."""
        self._message_mode = _require_one_of("with_messages", mode, ("queue", "supersede"))
        return self

    def with_next_turn(self, mode: str) -> HandoffBuilder:
        """Set the agent that gets the user's next message: the one that last had control ("sticky"), or the start agent ("start")."""
        self._next_turn_mode = _require_one_of("with_next_turn", mode, ("sticky", "start"))
        return self

    def with_parallel_tools(self, number: int) -> HandoffBuilder:
        """Set the number of tools of one reply that run at the same time."""
        self._max_parallel_tools = require_whole_number("the number of with_parallel_tools", number, 1, BuildError)
        return self

    def with_model_attempts(self, number: int) -> HandoffBuilder:
        """Set the number of attempts at a model request before the session pauses as failed."""
        self._max_model_attempts = require_whole_number("the number of with_model_attempts", number, 1, BuildError)
        return self

    def build(self) -> Workflow:
        """Return the workflow, or raise a `BuildError` that lists all problems and what to write instead."""
        agents = {agent.name: agent for agent in self._participants}
        problems = self._find_problems(agents)
        if problems:
            raise _make_build_error(self._name, problems)
        start = self._start or self._participants[0].name
        edges = self._make_edges(agents)
        graph = WorkflowGraph(
            name=self._name,
            agents={
                name: agent.make_rules(
                    {edge.tool: edge for edge, _ in edges if edge.source == name},
                    self._all_autonomous or name in (self._autonomous_agents or ()),
                    self._prompts.get(name, DEFAULT_PROMPT),
                    self._turn_limits.get(name, DEFAULT_PROMPT_LIMIT),
                )
                for name, agent in agents.items()
            },
            start=start,
            limits=self._limits,
            has_termination_condition=self._termination_condition is not None,
            supersedes_pending=self._message_mode == "supersede",
            restarts_each_run=self._next_turn_mode == "start",
            max_parallel_tools=self._max_parallel_tools,
        )
        problems = find_problems(graph, self._allowed_dead_ends) + _find_name_clashes(agents, edges)
        if self._limits.cost is not None:
            problems += _find_unknown_prices(agents.values())
        if problems:
            raise _make_build_error(self._name, problems)
        definition = WorkflowDefinition(
            graph=graph,
            agents={name: agent.make_definition() for name, agent in agents.items()},
            edges={(edge.source, edge.target): parts for edge, parts in edges},
            termination_condition=self._termination_condition,
            max_model_attempts=self._max_model_attempts,
        )
        _preload_runtime()
        return Workflow(definition, self._store, self._description, tuple(self._allowed_dead_ends))

    def _find_problems(self, agents: Mapping[str, Agent]) -> list[str]:
        if not self._participants:
            return ["there are no participants: write HandoffBuilder(participants=[...])"]
        names = Counter(agent.name for agent in self._participants)
        duplicates = [f"{count} participants are named {name!r}: give each a name of its own" for name, count in names.items() if count > 1]
        return [*duplicates, *self._find_unknown_names(agents), *self._find_wrong_edges()]

    def _find_unknown_names(self, agents: Mapping[str, Agent]) -> list[str]:
        named = {
            "with_start_agent": [self._start] if self._start else [],
            "add_handoff": [name for edge in self._edges for name in edge[:2]] + self._allowed_dead_ends,
            "with_autonomous_mode": [*(self._autonomous_agents or ()), *self._prompts, *self._turn_limits],
        }
        return [
            f"{method} names {name!r}, which is no participant: the participants are {', '.join(map(repr, agents))}"
            for method, names in named.items()
            for name in dict.fromkeys(names)
            if name not in agents
        ]

    def _find_wrong_edges(self) -> Iterator[str]:
        for source, target, *_ in self._edges:
            if source == target:
                yield f"{source!r} cannot hand over to itself: remove it from its own targets"
        for (source, target), count in Counter(edge[:2] for edge in self._edges).items():
            if count > 1:
                yield f"the handoff from {source!r} to {target!r} is given twice: keep one"

    def _make_edges(self, agents: Mapping[str, Agent]) -> list[tuple[HandoffEdge, HandoffDefinition]]:
        edges = self._edges
        if not self._has_edges:
            edges = [(a, b, "", False, None, None) for a in agents for b in agents if a != b]
        return [_make_edge(agents[target], *edge) for edge in edges if (target := edge[1])]


def _make_edge(
    target: Agent, source: str, name: str, description: str, needs_approval: bool, history: History | None, input_type: Any
) -> tuple[HandoffEdge, HandoffDefinition]:
    about = description or f"Hand the conversation over to {name}. {target.description}".strip()
    edge = HandoffEdge(source, name, make_handoff_tool_name(name), about, needs_approval, history.policy if history else None)
    properties: dict[str, Any] = {"reason": {"type": "string", "description": "Why control passes, for the one who takes over."}}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    parse = None
    if input_type is not None:
        kind = make_output_type(input_type)
        inner = msgspec.json.decode(kind.schema)
        definitions = inner.pop("$defs", None)
        properties["input"] = inner
        schema["required"] = ["input"]
        if definitions:
            schema["$defs"] = definitions
        parse = kind.parse
    return edge, HandoffDefinition(msgspec.json.encode(schema).decode(), parse, history)


def _find_name_clashes(agents: Mapping[str, Agent], edges: Sequence[tuple[HandoffEdge, HandoffDefinition]]) -> list[str]:
    """Return the handoffs whose tools would have the name of another tool of the same agent."""
    problems = []
    for name, agent in agents.items():
        owners = {tool.name: f"its tool {tool.name!r}" for tool in agent.tools}
        for edge, _ in edges:
            if edge.source != name:
                continue
            if edge.tool in owners:
                problems.append(
                    f"{name!r}: the handoff to {edge.target!r} would be called {edge.tool!r}, like {owners[edge.tool]}: rename one of them"
                )
            owners[edge.tool] = f"the handoff to {edge.target!r}"
    return problems


def _make_build_error(name: str, problems: list[str]) -> BuildError:
    lines = "\n".join(f"  - {problem}" for problem in problems)
    return BuildError(f"workflow {name!r} cannot be built:\n{lines}")


def _name_of(agent: Agent | str) -> str:
    if isinstance(agent, Agent):
        return agent.name
    if isinstance(agent, str):
        return agent
    raise BuildError("agents are given as objects or names", found=repr(agent)[:80])


def _require_one_of(method: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BuildError(f"{method} takes {' or '.join(map(repr, allowed))}", found=repr(value))
    return value


def _find_unknown_prices(agents: Iterable[Agent]) -> list[str]:
    """Return the models without a known price, also those of agents that work as tools: they make a cost limit impossible."""
    from legato.models.prices import find_models_without_price, make_missing_price_hint

    owners = [(agent.name, agent.model) for agent in agents]
    tool_workflows = (find_tool_workflow(each) for agent in agents for each in agent.tools)
    for workflow in iter_workflow_tree(each for each in tool_workflows if each is not None):
        owners += [(name, agent.model) for name, agent in workflow.definition.agents.items()]
    hint = make_missing_price_hint()
    return [
        f"the price of {each.options.model!r}, which {name!r} uses, is not known, so Limits(cost=...) cannot be kept: {hint}"
        for name, model in owners
        for each in find_models_without_price(model)
    ]


def _preload_runtime() -> None:
    """Import what the first run needs. It takes 8 ms, which neither `import legato` nor the first conversation should take longer."""
    import legato.runtime.driver  # noqa: F401 - loads the module

    get_decoder(LEDGER_FORMAT)
    digest_bytes(b"")
