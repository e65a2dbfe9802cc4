"""The whole conversation as AG-UI's messages: messages of users and agents, calls, and their outputs, in conversational order."""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import AssistantMessage, FunctionCall, Message, ToolCall, ToolMessage, UserMessage

from legato.core.facts import Call, GuardrailJudged, MessageReceived
from legato.core.groups import Group
from legato.core.messages import render_content
from legato.core.secret_arguments import mask_arguments
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.inspection.secret_masks import mask_output
from legato.server.agui.ids import SubagentTracker, make_agent_message_id, make_call_id, make_output_id, make_user_message_id


def build_messages(state: State, graph: WorkflowGraph, length: int) -> list[Message]:
    """Return all messages in the first `length` facts."""
    answers = {
        fact.position: (at, fact)
        for at, fact in enumerate(state.facts[:length])
        if isinstance(fact, GuardrailJudged) and fact.kind == "input" and fact.stop
    }
    subagents, messages, replies = SubagentTracker(graph), list[Message](), _reply_numbers(state)
    for group in (*state.groups, *state.new_messages, *state.unchecked_messages):
        if group.position >= length:
            continue
        if group.kind == "said":
            fact = state.facts[group.position]
            assert isinstance(fact, MessageReceived)
            id = make_user_message_id(state, group.position, fact.key)
            messages.append(UserMessage(id=id, content=render_content(fact.content)))
            if group.position in answers:  # a guardrail blocked it, and answered
                at, judged = answers[group.position]
                messages.append(
                    AssistantMessage(id=make_agent_message_id(state, -1, at), content=judged.reason, name=judged.guardrail or None)
                )
        elif group.fact is not None and not group.rejected:
            subagent = subagents.advance_to(state, group.position).find_subagent(group.agent)
            messages.extend(_build_reply(state, graph, group, replies[group.position], subagent, length))
    return messages


def _reply_numbers(state: State) -> dict[int, int]:
    """Return the number of each reply, by its position."""
    positions = sorted(group.position for group in state.groups if group.kind == "reply")
    return {position: number for number, position in enumerate(positions)}


def _build_reply(state: State, graph: WorkflowGraph, group: Group, number: int, subagent: str | None, length: int) -> Iterator[Message]:
    assert group.fact is not None
    calls = [
        ToolCall(
            id=make_call_id(state, call.ref), function=FunctionCall(name=call.call.tool, arguments=_mask_arguments(call.call, group, graph))
        )
        for call in group.calls
    ]
    text = group.public_text
    if text or calls:
        yield AssistantMessage(
            id=make_agent_message_id(state, number, group.position),
            content=text or None,
            tool_calls=calls or None,
            name=group.agent,
            subagent_run_id=subagent,
        )
    for call in group.calls:
        if call.output is not None and call.output.position < length:
            content = render_content(mask_output(call, graph.find_secret_arguments(group.agent, call.call.tool, group.options)))
            id = make_output_id(state, call.ref)
            yield ToolMessage(id=id, content=content, tool_call_id=make_call_id(state, call.ref), subagent_run_id=subagent)


def _mask_arguments(call: Call, group: Group, graph: WorkflowGraph) -> str:
    return mask_arguments(call.arguments, graph.find_secret_arguments(group.agent, call.tool, group.options))
