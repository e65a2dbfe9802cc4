"""The ledger as the SDK's items, and as a list of input items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from legato.compat.agents.context import usage_of
from legato.compat.agents.items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    TResponseInputItem,
)
from legato.core.facts import Call, HostedToolUse, ModelReplied, OutputText, Reasoning, Refusal, ReplyItem
from legato.core.groups import CallOutput, CallState, Group
from legato.core.messages import find_attachment_digests, render_content
from legato.core.model_reply import ModelReply
from legato.core.pending_requests import Pending
from legato.core.state import State
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.core.workflow_graph import WorkflowGraph
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.encode import encode_request

if TYPE_CHECKING:
    from legato.compat.agents.agent import Agent
    from legato.runtime.session import Session

Find: TypeAlias = Callable[[str], "Agent[Any]"]
"""The agent of a name."""

NOT_YET = "Not run yet: it waited for a person's approval when this list was made."


# -- from groups to items ------------------------------------------------------------------------------------------------


def accepted_groups(state: State) -> list[Group]:
    """Return the conversation without withheld messages, rejected replies, and replies that wait for checks."""
    return [
        group
        for group in (*state.groups, *state.new_messages)
        if not (group.withheld or group.rejected or group.kind in ("feedback", "prompt") or (group.awaits_checks and not group.calls))
    ]


def groups_of_run(state: State) -> list[Group]:
    """Return the replies since the user's last message."""
    groups = accepted_groups(state)
    last = max((index for index, group in enumerate(groups) if group.kind == "said"), default=-1)
    return groups[last + 1 :]


def run_items(groups: Iterable[Group], graph: WorkflowGraph, find: Find) -> Iterator[RunItem]:
    """Yield the items of these groups: each reply's items, then the outputs of its calls, in call order."""
    for group in groups:
        if group.fact is not None:
            yield from reply_items(group, graph, find)
            for call in group.calls:
                if call.output is not None:
                    yield output_item(group, call, graph, find)


def reply_items(group: Group, graph: WorkflowGraph, find: Find) -> Iterator[RunItem]:
    """A reply's own items."""
    assert group.fact is not None
    agent, rules = find(group.agent), graph.agents.get(group.agent)
    for item, raw in raw_items(group.fact):
        if isinstance(item, Reasoning):
            yield ReasoningItem(agent, raw)
        elif isinstance(item, (OutputText, Refusal)):
            yield MessageOutputItem(agent, raw)
        elif isinstance(item, Call) and rules is not None and item.tool in rules.edges:
            yield HandoffCallItem(agent, raw)
        else:
            yield ToolCallItem(agent, raw)


def output_item(group: Group, call: CallState, graph: WorkflowGraph, find: Find) -> RunItem:
    """A call's output."""
    assert call.output is not None
    text = render_content(call.output.content)
    raw = {"type": "function_call_output", "call_id": call.call.call_id, "output": text}
    rules = graph.agents.get(group.agent)
    edge = rules.edges.get(call.call.tool) if rules is not None else None
    if edge is not None and group.handed_to == edge.target and call.output.status == "ok":
        return HandoffOutputItem(find(group.agent), raw, source_agent=find(group.agent), target_agent=find(edge.target))
    return ToolCallOutputItem(find(group.agent), raw, output=text)


def raw_items(fact: ModelReplied | ModelReply) -> Iterator[tuple[ReplyItem, Any]]:
    """A reply's items with OpenAI's types for them."""
    for item in fact.items:
        match item:
            case OutputText(text=text, item_id=id):
                words = ResponseOutputText(text=text, annotations=[], type="output_text")
                yield item, _message(id, words)
            case Refusal(text=text, item_id=id):
                yield item, _message(id, ResponseOutputRefusal(refusal=text, type="refusal"))
            case Call():
                yield item, raw_call(item, item.arguments)
            case Reasoning(text=text, item_id=id):
                summary = [Summary(text=text, type="summary_text")] if text else []
                encrypted = item.encrypted or None
                yield item, ResponseReasoningItem(id=id or "rs", summary=summary, type="reasoning", encrypted_content=encrypted)
            case HostedToolUse(body=body):
                yield item, msgspec.json.decode(body)


def _message(id: str, part: ResponseOutputText | ResponseOutputRefusal) -> ResponseOutputMessage:
    return ResponseOutputMessage(id=id or "msg", content=[part], role="assistant", status="completed", type="message")


def raw_call(call: Call, arguments: str) -> ResponseFunctionToolCall:
    """A call in OpenAI's type."""
    return ResponseFunctionToolCall(
        arguments=arguments, call_id=call.call_id, name=call.tool, type="function_call", id=call.item_id or None, status="completed"
    )


def approval_items(session: Session, find: Find) -> list[ToolApprovalItem]:
    """The calls that wait for a person, of agents that work as tools too. A limit is none: it is told as an exception."""
    return [ToolApprovalItem(find(each.agent), _asked_about(session, each), pending=each) for each in session.pending if each.call]


def _asked_about(session: Session, request: Pending) -> ResponseFunctionToolCall:
    call = session.find_session_of(request).state.find_call(request.call) if request.call else None
    assert call is not None
    return raw_call(call.call, request.raw_arguments)


def response_of(said: ModelReplied | ModelReply) -> ModelResponse:
    """A reply as the SDK has it."""
    raw = [raw for _, raw in raw_items(said)]
    return ModelResponse(raw, usage_of(said.usage, 1), said.response_id or None, said.request_id or None)


def responses_of(groups: Iterable[Group]) -> list[ModelResponse]:
    """The replies in these groups."""
    return [response_of(group.fact) for group in groups if group.fact is not None]


# -- from groups to a list that can be sent --------------------------------------------------------------------------------


def list_attachment_digests(groups: Iterable[Group]) -> set[str]:
    """The digests of pictures and files in these groups."""
    named: set[str] = set()
    for group in groups:
        named |= find_attachment_digests(group.content)
        for call in group.calls:
            named |= find_attachment_digests(call.output.content) if call.output is not None else set()
    return named


def input_list(groups: list[Group], contents: Mapping[str, bytes]) -> list[TResponseInputItem]:
    """The conversation as input items, by value and without item ids: compiled as a request is, so it is always legal to send.

    A call that still waits is told as such: a call without an output could not be sent.
    """
    if not groups:
        return []
    last = next((group.fact.origin for group in reversed(groups) if group.fact is not None), "")
    request = ModelRequest(
        session_id="",
        turn_context=TurnContext(agent=""),
        context_digest="",
        groups=tuple(group if group.is_complete else _answered(group) for group in groups),
        upto=0,
        reply_count=0,
        agent_reply_count=0,
        contents=contents,
    )
    compiled = encode_request(request, RequestOptions(model="any"), last, stream=False)
    items: list[TResponseInputItem] = msgspec.json.decode(compiled.body)["input"]
    return items


def _answered(group: Group) -> Group:
    twin = copy(group)
    twin._entries, twin.calls, twin.unanswered_count = None, [copy(call) for call in group.calls], 0
    for call in twin.calls:
        call.output = call.output or CallOutput(NOT_YET, "pending", -1)
    return twin
