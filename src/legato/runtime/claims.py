"""What is decided about calls at once, without waiting for anybody: that a tool starts, that a handoff happens, that a call is gated.

A claim is decided from the state in which it is recorded, before anything has happened. If another writer was first, it is decided anew.
"""

from __future__ import annotations

from typing import Any

from legato.core.digests import digest_arguments
from legato.core.facts import AnyFact, ApprovalChecked, CallRef, CallReturned, CallStarted, HandedOff, ModelReplied
from legato.core.groups import CallState
from legato.core.handoff_arguments import handoff_arguments
from legato.core.planner import Admit, RunTool
from legato.core.state import State
from legato.core.workflow_graph import Edge
from legato.runtime.clock import now_ms
from legato.runtime.definition import AgentDefinition, Definition
from legato.runtime.ledger import Ledger
from legato.tools import BadArguments, Tool, ToolCall, ToolContext, tool_output


class Claims:
    """Decides what needs nobody's help. A call whose arguments are wrong is answered instead."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._validated: dict[CallRef, tuple[str, dict[str, object]]] = {}  # arguments that are about to run, and their values

    def start(self, state: State, effect: RunTool, epoch: int) -> AnyFact | None:
        """The start of an attempt; None if it runs."""
        call, agent = call_and_agent(self._definition, state, effect.call)
        if call.running:
            return None
        try:
            self._validated[effect.call] = (call.arguments, agent.tools[call.call.tool].validate(call.arguments))
        except BadArguments as error:
            return wrong_arguments(call, error)
        digest = digest_arguments(call.arguments) if call.gate else ""
        return CallStarted(at=now_ms(), call=effect.call, attempt=effect.attempt, epoch=epoch, digest=digest)

    def values(self, call: CallState, tool: Tool) -> dict[str, object]:
        """The values that a started tool runs with. They were made when it was claimed, unless another driver claimed it.

        What was erased since then is still what it was started with: a tool that runs comes to its end.
        """
        arguments, values = self._validated.pop(call.ref, ("", {}))
        claimed = arguments and (arguments == call.arguments or call.stopped == "erased")
        return values if claimed else tool.validate(call.arguments)

    def gate(self, state: State, effect: Admit) -> AnyFact | None:
        """The gate of a call that always needs approval; None if user code, or the schema of a client's tool, decides."""
        call, agent = call_and_agent(self._definition, state, effect.call)
        if edge := self._edge(agent, call):
            wrong = self._wrong_handoff(edge, call)
        elif is_client_call(self._definition, state, call):
            return None
        else:
            wrong = _wrong(agent.tools[call.call.tool], call)
            if wrong is None and (agent.guards("tool") or agent.tools[call.call.tool].needs_approval is not True):
                return None
        return wrong or ApprovalChecked(at=now_ms(), call=call.ref, needed=True, digest=digest_arguments(call.arguments))

    def hand_over(self, state: State, ref: CallRef) -> AnyFact:
        """The handoff."""
        call, agent = call_and_agent(self._definition, state, ref)
        edge = self._edge(agent, call)
        assert edge is not None
        return self._wrong_handoff(edge, call) or HandedOff(at=now_ms(), call=ref, source=edge.source, target=edge.target)

    def _edge(self, agent: AgentDefinition, call: CallState) -> Edge | None:
        return self._definition.graph.agents[agent.name].edges.get(call.call.tool)

    def _wrong_handoff(self, edge: Edge, call: CallState) -> CallReturned | None:
        parse = self._definition.edges[edge.source, edge.target].parse_input
        try:
            _, input = handoff_arguments(call.arguments)
            if parse is not None:
                parse(input)
        except Exception as error:  # a validator of the user's may raise anything
            words = tool_output(f"Not handed over: the arguments of {call.call.tool!r} are wrong. {error}")
            return CallReturned(at=now_ms(), call=call.ref, status="error", output=words)
        return None


def call_and_agent(definition: Definition, state: State, ref: CallRef) -> tuple[CallState, AgentDefinition]:
    """A call, and the agent who made it."""
    call, reply = state.call(ref), state.facts[ref.position]
    assert call is not None and isinstance(reply, ModelReplied)
    return call, definition.agents[reply.agent]


def is_client_call(definition: Definition, state: State, call: CallState) -> bool:
    """Whether the client of the run has the tool of a call, and runs it."""
    reply = state.facts[call.ref.position]
    assert isinstance(reply, ModelReplied)
    return definition.graph.agents[reply.agent].is_client_tool(call.call.tool, state.options_of(call.ref.position))


def wrong_arguments(call: CallState, error: BadArguments) -> CallReturned:
    """The answer to a call whose arguments are wrong."""
    return CallReturned(at=now_ms(), call=call.ref, status="error", output=str(error))


def tool_context(ledger: Ledger, context: Any, agent: str, call: CallState, attempt: int, values: dict[str, object]) -> ToolContext[Any]:
    """The context of a call, for its tool and its approval function."""
    return ToolContext(
        context=context,
        session_id=ledger.session,
        agent=agent,
        call=ToolCall(str(call.ref), call.call.tool, values),
        idempotency_key=ledger.state.idempotency_key(call.ref),
        attempt=attempt,
    )


def _wrong(tool: Tool, call: CallState) -> CallReturned | None:
    try:
        tool.validate(call.arguments)
    except BadArguments as error:
        return wrong_arguments(call, error)
    return None
