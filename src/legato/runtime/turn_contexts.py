"""Making frames. May know: user code that contributes to a frame. Decides: what surrounds an agent's turn.

A frame is evaluated when control or a user's message arrives; until then the one that the last reply named is in force.
"""

from __future__ import annotations

from typing import Any

from legato.core.facts import RunOptions
from legato.core.handoff_arguments import Arrival
from legato.core.history_policies import Custom, Everything
from legato.core.messages_to_model import handoff_note
from legato.core.run_options import NO_DEFINITIONS, RunDefinitions, decode_definitions
from legato.core.state import State
from legato.core.turn_context import Frame, ToolSpec, decode_frame, encode_frame
from legato.core.view import visible
from legato.errors import BadInput
from legato.runtime.definition import Definition, EncodedFrame, History, Provided, Turn, called
from legato.runtime.ledger import Ledger
from legato.runtime.transcript import accepted_messages


class Frames:
    """The frames of one session, as far as this driver has met them."""

    def __init__(self, definition: Definition, ledger: Ledger, context: Any, clients: ClientDefinitions | None = None) -> None:
        self._definition = definition
        self._clients = clients or ClientDefinitions(ledger)
        self._ledger = ledger
        self._context = context
        self._known: dict[str, EncodedFrame] = {}

    async def in_force(self, agent: str) -> EncodedFrame:
        """The frame of the call that is owed now."""
        state = self._ledger.state
        if state.frame:
            encoded = self._known.get(state.frame) or await self._fetch(state.frame)
            if encoded[1].agent == agent and encoded[1].options == self._options(agent):
                return encoded  # else the workflow is another one by now, and asks its model in another way
        encoded = await self._evaluate(agent, state)
        self._known[encoded[0]] = encoded
        return encoded

    def _options(self, agent: str) -> str:
        """How the agent's model is asked, for the record."""
        text: str = getattr(self._definition.agents[agent].model, "options_text", "")
        return text

    async def _fetch(self, digest: str) -> EncodedFrame:
        data = await self._ledger.content(digest)
        self._known[digest] = (digest, decode_frame(data), data)
        return self._known[digest]

    async def _evaluate(self, name: str, state: State) -> EncodedFrame:
        definition = self._definition
        agent = definition.agents[name]
        arrived = state.arrived if state.arrived and state.arrived.target == name and state.active == name else None
        history = history_in_force(definition, name, arrived)
        added = [handoff_note(arrived.source, arrived.reason, arrived.input)] if arrived and _hides(history, arrived, state) else []
        asked = await self._clients.definitions(state.run_options)
        if added or asked is not NO_DEFINITIONS or agent.providers or not isinstance(agent.instructions, str):
            return await self._surrounded(name, history, arrived, added, state, asked)
        key = (name, history.spec, self._options(name))
        constant = definition.constant_frames.get(key)
        if constant is None:
            constant = definition.constant_frames[key] = self._framed(name, agent.instructions, (), history)
        return constant

    async def _surrounded(
        self, name: str, history: History, arrived: Arrival | None, added: list[str], state: State, asked: RunDefinitions
    ) -> EncodedFrame:
        """The frame that user code, or what a handoff brought, contributes to."""
        agent = self._definition.agents[name]
        instructions = agent.instructions
        if not isinstance(instructions, str):
            instructions = await called(instructions, self._context)
            if not isinstance(instructions, str):
                raise BadInput(
                    f"the instructions of agent {name!r} are not text",
                    found=type(instructions).__name__,
                    do="return a string from the function given as instructions=",
                )
        if agent.providers:
            turn = Turn(self._context, self._ledger.session, name, accepted_messages(state), arrived)
            for provider in agent.providers:
                given = _provided(name, await called(provider, turn))
                instructions = "\n\n".join(filter(None, (instructions, given.instructions)))
                added.extend(given.messages)
        return self._framed(name, instructions, tuple(added), history, asked)

    def _framed(
        self, name: str, instructions: str, messages: tuple[str, ...], history: History, asked: RunDefinitions = NO_DEFINITIONS
    ) -> EncodedFrame:
        definition = self._definition
        agent, rules = definition.agents[name], definition.graph.agents[name]
        tools = [ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.tools.values()]
        tools += [ToolSpec(edge.tool, edge.description, definition.edges[edge.source, edge.target].schema) for edge in rules.edges.values()]
        tools += [tool for tool in asked.tools if tool.name not in agent.tools and tool.name not in rules.edges]
        frame = Frame(
            agent=name,
            instructions=instructions,
            messages=messages,
            tools=tuple(tools),
            history=history.spec,
            output=agent.output.schema if agent.output else asked.output,
            options=self._options(name),
        )
        digest, data = encode_frame(frame)
        return digest, frame, data


def _provided(agent: str, given: object) -> Provided:
    given = Provided(instructions=given) if isinstance(given, str) else Provided() if given is None else given
    parts = [given.instructions, *given.messages] if isinstance(given, Provided) and type(given.messages) in (tuple, list) else [None]
    if not isinstance(given, Provided) or not all(isinstance(part, str) for part in parts):
        raise BadInput(
            f"a context provider of agent {agent!r} gave something that is no part of a frame",
            expected="text for the instructions, Provided(instructions=..., messages=(...)), or None",
            found=repr(given)[:80],
        )
    return given


def history_in_force(definition: Definition, agent: str, arrived: Arrival | None) -> History:
    """The policy of the edge by which control came, else the agent's own."""
    edge = definition.edges.get((arrived.source, agent)) if arrived else None
    return edge.history if edge and edge.history else definition.agents[agent].history


def _hides(history: History, arrived: Arrival, state: State) -> bool:
    """Whether the agent would not see, by this policy, the call that brought it control."""
    if isinstance(history.spec, Everything) or not (arrived.reason or arrived.input):
        return False
    if isinstance(history.spec, Custom):
        return True  # what it will choose is not known yet
    handed = next((group for group in reversed(state.groups) if group.handed_to == arrived.target), None)
    return handed not in visible(state, history.spec, arrived.target)


class ClientDefinitions:
    """Reads what the options of runs name, each once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, RunDefinitions] = {}

    async def definitions(self, options: RunOptions) -> RunDefinitions:
        """Read the definitions that these options name."""
        if not options.digest:
            return NO_DEFINITIONS
        if options.digest not in self._known:
            self._known[options.digest] = decode_definitions(await self._ledger.content(options.digest))
        return self._known[options.digest]
