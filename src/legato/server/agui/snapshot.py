"""The conversation as AG-UI's messages. May know: the state. Decides: what a client has that has everything.

In conversational order: what users said, what agents said with the calls that they made, and what came of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import AssistantMessage, FunctionCall, Message, ToolCall, ToolMessage, UserMessage

from legato.core.facts import Call, GuardrailJudged, MessageReceived
from legato.core.groups import Group
from legato.core.messages import text_of
from legato.core.secret_arguments import masked
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.inspection.hiding import shown_output
from legato.server.agui.names import Control, call_id, output_id, said_id, spoken_id


def messages_before(state: State, graph: Graph, length: int) -> list[Message]:
    """All messages among the first `length` facts."""
    answers = {
        fact.position: (at, fact)
        for at, fact in enumerate(state.facts[:length])
        if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }
    control, messages, replies = Control(graph), list[Message](), _numbers(state)
    for group in (*state.groups, *state.tail, *state.waiting):
        if group.position >= length:
            continue
        if group.kind == "said":
            fact = state.facts[group.position]
            assert isinstance(fact, MessageReceived)
            id = said_id(state, group.position, fact.key)
            messages.append(UserMessage(id=id, content=text_of(fact.content)))
            if group.position in answers:  # a guardrail withheld it, and answered in its own words
                at, judged = answers[group.position]
                messages.append(AssistantMessage(id=spoken_id(state, -1, at), content=judged.words, name=judged.by or None))
        elif group.fact is not None and not group.rejected:
            agent = control.upto(state, group.position).of(group.agent)
            messages.extend(_reply(state, graph, group, replies[group.position], agent, length))
    return messages


def _numbers(state: State) -> dict[int, int]:
    """The number of each reply, by its position."""
    positions = sorted(group.position for group in state.groups if group.kind == "reply")
    return {position: number for number, position in enumerate(positions)}


def _reply(state: State, graph: Graph, group: Group, number: int, subagent: str | None, length: int) -> Iterator[Message]:
    assert group.fact is not None
    calls = [
        ToolCall(id=call_id(state, call.ref), function=FunctionCall(name=call.call.tool, arguments=_shown(call.call, group, graph)))
        for call in group.calls
    ]
    words = group.public_words
    if words or calls:
        yield AssistantMessage(
            id=spoken_id(state, number, group.position),
            content=words or None,
            tool_calls=calls or None,
            name=group.agent,
            subagent_run_id=subagent,
        )
    for call in group.calls:
        if call.output is not None and call.output.position < length:
            content = text_of(shown_output(call, graph.secrets(group.agent, call.call.tool, group.options)))
            id = output_id(state, call.ref)
            yield ToolMessage(id=id, content=content, tool_call_id=call_id(state, call.ref), subagent_run_id=subagent)


def _shown(call: Call, group: Group, graph: Graph) -> str:
    return masked(call.arguments, graph.secrets(group.agent, call.tool, group.options))
