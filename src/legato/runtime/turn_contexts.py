"""Turn contexts: the instructions, tools and policy of an agent's turn, made from its definition and from user code.

A turn context is made when control or a user's message comes to the agent. Until then the context of the last reply stays in force.
"""

from __future__ import annotations

from typing import Any

from legato.core.facts import RunOptions
from legato.core.handoff_arguments import IncomingHandoff
from legato.core.history_policies import Custom, Everything
from legato.core.run_definitions import NO_DEFINITIONS, RunDefinitions, decode_definitions
from legato.core.state import State
from legato.core.texts_for_model import handoff_received
from legato.core.turn_context import ToolSpec, TurnContext, decode_turn_context, encode_turn_context
from legato.core.view import select_groups
from legato.errors import BadInput
from legato.runtime.definition import EncodedTurnContext, History, Provided, Turn, WorkflowDefinition, call_user_code
from legato.runtime.ledger import Ledger
from legato.runtime.transcript import list_accepted_messages


class TurnContexts:
    """The turn contexts of one session, as far as this driver has used them."""

    def __init__(
        self, definition: WorkflowDefinition, ledger: Ledger, context: Any, run_definitions: RunDefinitionsCache | None = None
    ) -> None:
        self._definition = definition
        self._run_definitions = run_definitions or RunDefinitionsCache(ledger)
        self._ledger = ledger
        self._context = context
        self._cache: dict[str, EncodedTurnContext] = {}

    async def get_current(self, agent: str) -> EncodedTurnContext:
        """Return the turn context of the agent's next model request."""
        state = self._ledger.state
        if state.context_digest:
            encoded = self._cache.get(state.context_digest) or await self._read_recorded(state.context_digest)
            if encoded[1].agent == agent and encoded[1].options == self._describe_model_options(agent):
                return encoded  # else the workflow was changed since, or the options of its model
        encoded = await self._make_context(agent, state)
        self._cache[encoded[0]] = encoded
        return encoded

    def _describe_model_options(self, agent: str) -> str:
        """Return the options of the agent's model, as they are recorded."""
        text: str = getattr(self._definition.agents[agent].model, "options_text", "")
        return text

    async def _read_recorded(self, digest: str) -> EncodedTurnContext:
        data = await self._ledger.read_content(digest)
        self._cache[digest] = (digest, decode_turn_context(data), data)
        return self._cache[digest]

    async def _make_context(self, name: str, state: State) -> EncodedTurnContext:
        definition = self._definition
        agent = definition.agents[name]
        handoff = state.incoming_handoff
        if handoff is not None and (handoff.target != name or state.active_agent != name):
            handoff = None
        history = find_history_policy(definition, name, handoff)
        messages = []
        if handoff is not None and _hides_handoff(history, handoff, state):
            messages.append(handoff_received(handoff.source, handoff.reason, handoff.input))
        run_definitions = await self._run_definitions.read(state.run_options)
        if messages or run_definitions is not NO_DEFINITIONS or agent.context_providers or not isinstance(agent.instructions, str):
            return await self._make_individual_context(name, history, handoff, messages, state, run_definitions)
        key = (name, history.policy, self._describe_model_options(name))
        constant = definition.constant_contexts.get(key)
        if constant is None:
            constant = definition.constant_contexts[key] = self._encode(name, agent.instructions, (), history)
        return constant

    async def _make_individual_context(
        self,
        name: str,
        history: History,
        handoff: IncomingHandoff | None,
        messages: list[str],
        state: State,
        run_definitions: RunDefinitions,
    ) -> EncodedTurnContext:
        """Make a turn context to which user code, a handoff or a client contributes."""
        agent = self._definition.agents[name]
        instructions = agent.instructions
        if not isinstance(instructions, str):
            instructions = await call_user_code(instructions, self._context)
            if not isinstance(instructions, str):
                raise BadInput(
                    f"the instructions of agent {name!r} are not text",
                    found=type(instructions).__name__,
                    do="return a string from the function given as instructions=",
                )
        if agent.context_providers:
            turn = Turn(self._context, self._ledger.session_id, name, list_accepted_messages(state), handoff)
            for provider in agent.context_providers:
                provided = _check_contribution(name, await call_user_code(provider, turn))
                instructions = "\n\n".join(filter(None, (instructions, provided.instructions)))
                messages.extend(provided.messages)
        return self._encode(name, instructions, tuple(messages), history, run_definitions)

    def _encode(
        self, name: str, instructions: str, messages: tuple[str, ...], history: History, run_definitions: RunDefinitions = NO_DEFINITIONS
    ) -> EncodedTurnContext:
        definition = self._definition
        agent, rules = definition.agents[name], definition.graph.agents[name]
        tools = [ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.tools.values()]
        tools += [ToolSpec(edge.tool, edge.description, definition.edges[edge.source, edge.target].schema) for edge in rules.edges.values()]
        tools += [tool for tool in run_definitions.tools if tool.name not in agent.tools and tool.name not in rules.edges]
        turn_context = TurnContext(
            agent=name,
            instructions=instructions,
            messages=messages,
            tools=tuple(tools),
            history=history.policy,
            output=agent.output_type.schema if agent.output_type else run_definitions.output,
            options=self._describe_model_options(name),
        )
        digest, data = encode_turn_context(turn_context)
        return digest, turn_context, data


def _check_contribution(agent: str, value: object) -> Provided:
    """Return what a context provider contributes; `BadInput` if it returned something else."""
    value = Provided(instructions=value) if isinstance(value, str) else Provided() if value is None else value
    parts = [value.instructions, *value.messages] if isinstance(value, Provided) and type(value.messages) in (tuple, list) else [None]
    if not isinstance(value, Provided) or not all(isinstance(part, str) for part in parts):
        raise BadInput(
            f"a context provider of agent {agent!r} returned something that cannot be part of a turn context",
            expected="text for the instructions, Provided(instructions=..., messages=(...)), or None",
            found=repr(value)[:80],
        )
    return value


def find_history_policy(definition: WorkflowDefinition, agent: str, handoff: IncomingHandoff | None) -> History:
    """Return the history policy of the handoff by which control came to the agent, else the agent's own policy."""
    edge = definition.edges.get((handoff.source, agent)) if handoff else None
    return edge.history if edge and edge.history else definition.agents[agent].history


def _hides_handoff(history: History, handoff: IncomingHandoff, state: State) -> bool:
    """Return True if the policy hides from the agent the handoff call that gave it control."""
    if isinstance(history.policy, Everything) or not (handoff.reason or handoff.input):
        return False
    if isinstance(history.policy, Custom):
        return True  # its choice is not known yet
    handoff_group = next((group for group in reversed(state.groups) if group.handed_to == handoff.target), None)
    return handoff_group not in select_groups(state, history.policy, handoff.target)


class RunDefinitionsCache:
    """A cache of run definitions: the tools and schemas of clients, which the options of runs name by digest."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cache: dict[str, RunDefinitions] = {}

    async def read(self, options: RunOptions) -> RunDefinitions:
        """Return the definitions that these options name."""
        if not options.digest:
            return NO_DEFINITIONS
        if options.digest not in self._cache:
            self._cache[options.digest] = decode_definitions(await self._ledger.read_content(options.digest))
        return self._cache[options.digest]
