"""Workflows: an immutable definition, and the builder that makes it. May know: agents. Decides: what is a workflow that can work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from legato.core.argument_checks import function, listed, mapped, text, whole_number
from legato.core.codec import decoder
from legato.core.digests import digest_bytes
from legato.core.facts import FORMAT
from legato.core.history_policies import Summarised
from legato.core.workflow_graph import Edge, Graph, Limits, check, handoff_tool_name, mermaid
from legato.errors import BadInput, BuildError
from legato.runtime.clock import fresh_name
from legato.runtime.definition import AgentDefinition, Definition, EdgeDefinition, History, Middleware
from legato.runtime.run import Result, Run
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.stores.contract import Store, is_store
from legato.workflow.agent import Agent, typed
from legato.workflow.agent_as_tool import with_child_workflows, with_workflow, workflow_of

if TYPE_CHECKING:
    from legato.runtime.instrumentation import Observer

DEFAULT_LIMITS = Limits(turns=1000)
"""A run that nobody limited still pauses some day. High enough for any conversation that is meant."""

DEFAULT_PROMPT = "Go on with your task. When your part is done, hand over or say so."
DEFAULT_PROMPT_LIMIT = 50


class Workflow:
    """A definition: who there is, who may hand over to whom, when to stop. Holds no conversation; serves thousands of sessions."""

    def __init__(self, definition: Definition, store: Store | None, description: str, dead_ends_meant: tuple[str, ...]) -> None:
        self.definition = definition
        self.description = description
        self._given_store = store
        self._store: Store = store if store is not None else MemoryStore()
        self._dead_ends_meant = dead_ends_meant

    @property
    def name(self) -> str:
        return self.definition.graph.name

    @property
    def agents(self) -> list[str]:
        return list(self.definition.graph.agents)

    @property
    def store(self) -> Store | None:
        """The store that it was built with; None if sessions that name none live in memory."""
        return self._given_store

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {', '.join(self.agents)}>"

    def session(self, id: str | None = None, store: Store | None = None, context: Any = None) -> Session:
        """A handle on one conversation; it need not exist yet. Without an id it gets a new one.

        Without any store it lives in memory: as long as this workflow object if you named it, else as long as its handle.
        """
        if id is None:
            # Nobody can name it again: without a store it lives as long as its handle.
            return Session(self, fresh_name(), store or self._given_store or MemoryStore(), context)
        return Session(self, id, store or self._store, context)

    def run(self, message: Any, session_id: str | None = None, stream: bool = False) -> Run:
        """Say something in a session, new by default: await the result, or iterate over events."""
        return self.session(session_id).run(message, stream=stream)

    def run_sync(self, message: Any, session_id: str | None = None) -> Result:
        """The same for scripts without an event loop."""

        async def run() -> Result:
            return await self.run(message, session_id)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run())
        raise BadInput("run_sync cannot be used where an event loop runs", do="write `await workflow.run(...)`")

    def load(
        self,
        text: str,
        context: Any = None,
        *,
        id: str | None = None,
        store: Store | None = None,
        deserialize_context: Callable[[Any], Any] | None = None,
        verify_with: bytes | None = None,
        move: bool = False,
    ) -> Session:
        """The session that `session.to_string()` wrote, as a copy in this workflow's store (or the one given).

        A copy asks again for whatever was approved or allowed in the original and has not happened yet: the original may go on too.
        With `move=True` you say that it will not: approvals and allowances hold here. Never move one string to two places.
        """
        from legato.runtime.transfer import unpack  # with hmac and base64, which nothing else needs

        arriving = {**unpack(text, self.name, verify_with), "move": bool(move)}
        if context is None and arriving["has_context"]:
            if deserialize_context is None:
                raise BadInput("the string carries a context", do="pass deserialize_context=..., or context=... in its place")
            context = function("deserialize_context", deserialize_context)(arriving["context"])
        return Session(self, id or arriving["session"], store or self._store, context, arriving)

    def observed_by(self, *middleware: Middleware) -> Workflow:
        """The same workflow with this middleware innermost around every agent's model and tools: for logs, measurements and tests.

        Agents that work as tools are observed too.
        """
        agents = self._agents_with(lambda nested: nested.observed_by(*middleware))
        wrapped = {name: replace(agent, middleware=(*agent.middleware, *middleware)) for name, agent in agents.items()}
        return self.with_agents(wrapped)

    def watched_by(self, observer: Observer) -> Workflow:
        """The same workflow with somebody who is told what its drivers do, also those of agents that work as tools: `legato.telemetry`."""
        agents = self._agents_with(lambda nested: nested.watched_by(observer))
        watched = replace(self.definition, agents=agents, observer=observer)
        return Workflow(watched, self._given_store, self.description, self._dead_ends_meant)

    def _agents_with(self, make: Callable[[Workflow], Workflow]) -> dict[str, AgentDefinition]:
        """The agents, with what is made of the workflows that work as their tools."""
        return {
            name: replace(agent, tools={each.name: with_workflow(each, make) for each in agent.tools.values()})
            for name, agent in self.definition.agents.items()
        }

    def with_agents(self, agents: Mapping[str, AgentDefinition]) -> Workflow:
        """The same workflow with its agents wrapped otherwise: for those who add to models and tools, not for another graph."""
        return Workflow(replace(self.definition, agents=agents), self._given_store, self.description, self._dead_ends_meant)

    def graph(self) -> str:
        """The handoff graph as Mermaid."""
        return mermaid(self.definition.graph)

    def check(self) -> list[str]:
        """What cannot work in this definition; empty for every workflow that was built."""
        return check(self.definition.graph, self._dead_ends_meant)


class HandoffBuilder:
    """Collects a definition; `build()` checks it and makes the workflow.

    Agents are given as objects or names. Without any `add_handoff`, everybody may hand over to everybody.

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
        self._name = text("the name of a workflow", name, BuildError)
        self._description = text("the description of a workflow", description, BuildError)
        self._participants: list[Agent] = []
        self._start: str | None = None
        self._edges: list[tuple[str, str, str, bool, History | None, Any]] = []
        self._dead_ends_meant: list[str] = []
        self._any_edge = False
        self._autonomous: set[str] | None = None
        self._autonomous_all = False
        self._prompts: dict[str, str] = {}
        self._turn_limits: dict[str, int] = {}
        self._termination: Callable[..., Any] | None = None
        self._store: Store | None = None
        self._limits = DEFAULT_LIMITS
        self._messages = "queue"
        self._next_turn = "sticky"
        self._parallel = 16
        self._attempts = 4
        if termination_condition is not None:
            self.with_termination_condition(termination_condition)
        self.participants(participants)

    def __repr__(self) -> str:
        return f"<HandoffBuilder {self._name}: {', '.join(agent.name for agent in self._participants)}; call .build()>"

    def participants(self, agents: Iterable[Agent]) -> HandoffBuilder:
        """Who takes part. The first is the start agent unless `with_start_agent` says otherwise."""
        for agent in listed("participants", agents, BuildError):
            if not isinstance(agent, Agent):
                raise BuildError("a participant is an Agent", found=repr(agent)[:80], do='write Agent(name="...", model=...)')
            self._participants.append(agent)
        return self

    def with_start_agent(self, agent: Agent | str) -> HandoffBuilder:
        """Who speaks first."""
        self._start = _name(agent)
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
        """Let `source` hand over to `targets`. No targets says that `source` is meant to keep the conversation.

        `description` tells the model when to hand over; `history` is what the target sees when control comes this way; `input_type` is the
        type of an input that the handoff must carry, recorded and given to the target with the reason.
        """
        given = [targets] if isinstance(targets, (Agent, str)) else listed("the targets of a handoff", targets, BuildError)
        self._any_edge = True
        if isinstance(history, History) and isinstance(history.spec, Summarised):
            raise BuildError("a summarising policy belongs to an agent, not to a handoff", do="write Agent(..., history=summarised(...))")
        if history is not None and not isinstance(history, History):
            raise BuildError("history= takes a policy", found=type(history).__name__, do="write history=legato.history.dialogue()")
        about = text("the description of a handoff", description or "", BuildError)
        if not given:
            self._dead_ends_meant.append(_name(source))
        for target in given:
            self._edges.append((_name(source), _name(target), about, needs_approval, history, input_type))
        return self

    def with_autonomous_mode(
        self,
        agents: Sequence[Agent | str] | Agent | str | None = None,
        prompts: Mapping[Any, str] | None = None,
        turn_limits: Mapping[Any, int] | None = None,
    ) -> HandoffBuilder:
        """Agents (all, by default) that are told to go on when they answer without handing over, `turn_limits` times at most (50).

        A limit counts since control or the user's message came to the agent; 0 means never. At the limit the user is asked.
        """
        if agents is None:
            self._autonomous_all = True
        else:
            given = [agents] if isinstance(agents, (Agent, str)) else listed("autonomous agents", agents, BuildError)
            self._autonomous = (self._autonomous or set()) | {_name(agent) for agent in given}
        for agent, prompt in mapped("the prompts of autonomous agents", prompts or {}, BuildError).items():
            self._prompts[_name(agent)] = text(f"the prompt of {_name(agent)!r}", prompt, BuildError)
            if not prompt.strip():
                raise BuildError(f"the prompt of {_name(agent)!r} is empty", do="leave it out for the usual one, or say what to do")
        for agent, limit in mapped("the turn limits of autonomous agents", turn_limits or {}, BuildError).items():
            self._turn_limits[_name(agent)] = whole_number(f"the turn limit of {_name(agent)!r}", limit, 0, BuildError)
        return self

    def with_termination_condition(self, condition: Callable[..., Any]) -> HandoffBuilder:
        """A function (sync or async) of the conversation's messages that says when it is over."""
        self._termination = function("a termination condition", condition, BuildError)
        return self

    def with_checkpointing(self, store: Store) -> HandoffBuilder:
        """Where sessions live, unless `session(store=...)` says otherwise."""
        if not is_store(store):
            raise BuildError(
                "with_checkpointing takes a store", found=type(store).__name__, do='write .with_checkpointing(SQLiteStore("desk.db"))'
            )
        self._store = store
        return self

    def with_limits(self, limits: Limits) -> HandoffBuilder:
        """Where a run pauses and asks, and how much one reply may call. Replaces the default of 1000 turns."""
        if not isinstance(limits, Limits):
            raise BuildError("with_limits takes Limits", found=type(limits).__name__, do="write .with_limits(Limits(turns=50))")
        self._limits = limits
        return self

    def with_messages(self, mode: str) -> HandoffBuilder:
        """What a message does that arrives while calls are pending: "queue" (wait for them) or "supersede" (answer them as such)."""
        self._messages = _one_of("with_messages", mode, ("queue", "supersede"))
        return self

    def with_next_turn(self, mode: str) -> HandoffBuilder:
        """Who gets the user's next message: the agent that last had control ("sticky"), or the start agent ("start")."""
        self._next_turn = _one_of("with_next_turn", mode, ("sticky", "start"))
        return self

    def with_parallel_tools(self, most: int) -> HandoffBuilder:
        """How many tools of one reply run at the same time."""
        self._parallel = whole_number("the most of with_parallel_tools", most, 1, BuildError)
        return self

    def with_model_attempts(self, most: int) -> HandoffBuilder:
        """How often a model is called, where its failure may pass, before the session pauses as failed."""
        self._attempts = whole_number("the most of with_model_attempts", most, 1, BuildError)
        return self

    def build(self) -> Workflow:
        """The workflow; or a `BuildError` that lists everything that cannot work, with what to write instead."""
        agents = {agent.name: agent for agent in self._participants}
        problems = self._problems(agents)
        if problems:
            raise _refused(self._name, problems)
        start = self._start or self._participants[0].name
        edges = self._all_edges(agents)
        graph = Graph(
            name=self._name,
            agents={
                name: agent.rules(
                    {edge.tool: edge for edge, _ in edges if edge.source == name},
                    self._autonomous_all or name in (self._autonomous or ()),
                    self._prompts.get(name, DEFAULT_PROMPT),
                    self._turn_limits.get(name, DEFAULT_PROMPT_LIMIT),
                )
                for name, agent in agents.items()
            },
            start=start,
            limits=self._limits,
            judges_termination=self._termination is not None,
            supersede=self._messages == "supersede",
            start_over=self._next_turn == "start",
            parallel_tools=self._parallel,
        )
        problems = check(graph, self._dead_ends_meant) + _clashes(agents, edges)
        if self._limits.cost is not None:
            problems += _unknown_prices(agents.values())
        if problems:
            raise _refused(self._name, problems)
        definition = Definition(
            graph=graph,
            agents={name: agent.definition() for name, agent in agents.items()},
            edges={(edge.source, edge.target): parts for edge, parts in edges},
            termination=self._termination,
            attempts=self._attempts,
        )
        _make_ready()
        return Workflow(definition, self._store, self._description, tuple(self._dead_ends_meant))

    def _problems(self, agents: Mapping[str, Agent]) -> list[str]:
        if not self._participants:
            return ["there are no participants: write HandoffBuilder(participants=[...])"]
        names = Counter(agent.name for agent in self._participants)
        twice = [f"{count} participants are named {name!r}: give each a name of its own" for name, count in names.items() if count > 1]
        return [*twice, *self._unknown_names(agents), *self._wrong_edges()]

    def _unknown_names(self, agents: Mapping[str, Agent]) -> list[str]:
        named = {
            "with_start_agent": [self._start] if self._start else [],
            "add_handoff": [name for edge in self._edges for name in edge[:2]] + self._dead_ends_meant,
            "with_autonomous_mode": [*(self._autonomous or ()), *self._prompts, *self._turn_limits],
        }
        return [
            f"{verb} names {name!r}, who is no participant: the participants are {', '.join(map(repr, agents))}"
            for verb, given in named.items()
            for name in dict.fromkeys(given)
            if name not in agents
        ]

    def _wrong_edges(self) -> Iterator[str]:
        for source, target, *_ in self._edges:
            if source == target:
                yield f"{source!r} cannot hand over to itself: remove it from its own targets"
        for (source, target), count in Counter(edge[:2] for edge in self._edges).items():
            if count > 1:
                yield f"the handoff from {source!r} to {target!r} is given twice: keep one"

    def _all_edges(self, agents: Mapping[str, Agent]) -> list[tuple[Edge, EdgeDefinition]]:
        given = self._edges
        if not self._any_edge:
            given = [(a, b, "", False, None, None) for a in agents for b in agents if a != b]
        return [_edge(agents[target], *edge) for edge in given if (target := edge[1])]


def _edge(
    target: Agent, source: str, name: str, description: str, needs_approval: bool, history: History | None, input_type: Any
) -> tuple[Edge, EdgeDefinition]:
    about = description or f"Hand the conversation over to {name}. {target.description}".strip()
    edge = Edge(source, name, handoff_tool_name(name), about, needs_approval, history.spec if history else None)
    properties: dict[str, Any] = {"reason": {"type": "string", "description": "Why control passes, for the one who takes over."}}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    parse = None
    if input_type is not None:
        kind = typed(input_type)
        inner = msgspec.json.decode(kind.schema)
        definitions = inner.pop("$defs", None)
        properties["input"] = inner
        schema["required"] = ["input"]
        if definitions:
            schema["$defs"] = definitions
        parse = kind.parse
    return edge, EdgeDefinition(msgspec.json.encode(schema).decode(), parse, history)


def _clashes(agents: Mapping[str, Agent], edges: Sequence[tuple[Edge, EdgeDefinition]]) -> list[str]:
    """Handoffs whose tools would have the same name as another tool of the same agent."""
    problems = []
    for name, agent in agents.items():
        taken = {tool.name: f"its tool {tool.name!r}" for tool in agent.tools}
        for edge, _ in edges:
            if edge.source != name:
                continue
            if edge.tool in taken:
                problems.append(
                    f"{name!r}: the handoff to {edge.target!r} would be called {edge.tool!r}, like {taken[edge.tool]}: rename one of them"
                )
            taken[edge.tool] = f"the handoff to {edge.target!r}"
    return problems


def _refused(name: str, problems: list[str]) -> BuildError:
    listed = "\n".join(f"  - {problem}" for problem in problems)
    return BuildError(f"workflow {name!r} cannot be built:\n{listed}")


def _name(agent: Agent | str) -> str:
    if isinstance(agent, Agent):
        return agent.name
    if isinstance(agent, str):
        return agent
    raise BuildError("agents are given as objects or names", found=repr(agent)[:80])


def _one_of(verb: str, given: str, allowed: tuple[str, ...]) -> str:
    if given not in allowed:
        raise BuildError(f"{verb} takes {' or '.join(map(repr, allowed))}", found=repr(given))
    return given


def _unknown_prices(agents: Iterable[Agent]) -> list[str]:
    """Why a cost limit cannot be kept: models without a known price. Those of agents that work as tools count in it too."""
    from legato.models.prices import models_without_price, price_hint

    owners = [(agent.name, agent.model) for agent in agents]
    nested = (workflow_of(each) for agent in agents for each in agent.tools)
    for workflow in with_child_workflows(each for each in nested if each is not None):
        owners += [(name, agent.model) for name, agent in workflow.definition.agents.items()]
    return [
        f"the price of {lacking.options.model!r}, which {name!r} uses, is not known, so Limits(cost=...) cannot be kept: {price_hint()}"
        for name, model in owners
        for lacking in models_without_price(model)
    ]


def _make_ready() -> None:
    """Bring what the first run needs: 8 ms once, while a program starts. Importing Legato should not cost that, and nobody should wait
    for it in the middle of a conversation."""
    import legato.runtime.driver  # noqa: F401 - for its own sake

    decoder(FORMAT)
    digest_bytes(b"")
