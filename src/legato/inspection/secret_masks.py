"""Masks for secret arguments: their digests, in everything that people and files see.

An argument annotated `Secret` is in the ledger and in model requests, and nowhere else: commands, pages and exports have its digest (S4).
The workflow knows which arguments are secret. If only the ledger is available, every value may be a secret, and all are masked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from math import isfinite
from operator import is_
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import NO_OPTIONS, AnyFact, Call, CallRef, Content, Decided, ModelReplied, RunOptions, Text
from legato.core.groups import CallOutput, CallState, Group
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import is_mask, mask_arguments
from legato.core.state import State
from legato.core.view import ModelRequest
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import BadInput
from legato.runtime.session import Session

MAX_ARGUMENTS_DEPTH = 100
"""Nesting levels of arguments that are shown as data. JSON encoders and decoders may run out of stack with deeper ones."""


def mask_request_arguments(session: Session, request: Pending) -> str:
    """Return the arguments of a pending call as JSON text, with digests in place of secrets."""
    if not request.tool:
        return ""
    return mask_arguments(request.raw_arguments, find_secret_names(session, request))


def find_secret_names(session: Session, request: Pending) -> tuple[str, ...] | None:
    """Return the names of the secret arguments of a pending call; None if they are unknown."""
    asking = session.find_session_of(request)
    options = asking.state.options_of_reply(request.call.position) if request.call is not None else NO_OPTIONS
    return asking.workflow.definition.graph.find_secret_arguments(request.agent, request.tool, options)


def decode_masked_arguments(session: Session, request: Pending) -> Any:
    """Return the masked arguments of a pending call as data; as text if they are not JSON, are masked whole, or are nested too deep.

    JSON can spell values that cannot be encoded again, so they are replaced: half of a surrogate pair by U+FFFD, an infinite number or NaN
    by its text. `restore_secrets` restores them, too.
    """
    arguments = mask_request_arguments(session, request)
    try:
        value = json.loads(arguments, parse_constant=str, parse_float=_parse_float) if arguments else {}
        if not _is_encodable(value):
            repaired = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            value = json.loads(repaired)
    except (ValueError, RecursionError):
        return arguments
    return arguments if _is_deep(value) else value


def _is_encodable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _parse_float(text: str) -> float | str:
    value = float(text)
    return value if isfinite(value) else text


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_ARGUMENTS_DEPTH):
        level = [part for each in level if isinstance(each, dict | list) for part in (each.values() if isinstance(each, dict) else each)]
    return bool(level)


def restore_secrets(session: Session, request: Pending, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return edited arguments with the exact values in place of digests that were not edited.

    Any other digest raises `BadInput`: it is the mask of other arguments and cannot be a value.
    """
    decoded, exact = decode_masked_arguments(session, request), request.arguments
    masks = decoded if isinstance(decoded, dict) else {}
    unchanged = {name for name, value in arguments.items() if name in exact and name in masks and value == masks[name]}
    may_have_secrets = find_secret_names(session, request) != ()
    for name, value in arguments.items():
        if may_have_secrets and name not in unchanged and is_mask(value):
            raise BadInput(
                f"{name!r} is {value!r}, the digest of a secret in other arguments",
                expected="the secret itself, or its digest from this request",
                do="read the pending request again, and edit its arguments",
            )
    return {name: exact[name] if name in unchanged else value for name, value in arguments.items()}


def mask_facts(state: State, graph: WorkflowGraph, start: int = 0, end: int | None = None) -> list[AnyFact]:
    """Return facts of a ledger with digests in place of secrets. They are for reading: no session can continue from them."""
    return [_mask_fact(fact, state, graph) for fact in state.facts[start:end]]


def _mask_fact(fact: AnyFact, state: State, graph: WorkflowGraph) -> AnyFact:
    match fact:
        case ModelReplied():
            return _mask_reply(fact, graph, state.options_at(fact.upto))
        case Decided(call=CallRef() as ref, arguments=arguments) if arguments:
            reply = state.facts[ref.position]
            assert isinstance(reply, ModelReplied)
            item = reply.items[ref.index]
            tool = item.tool if isinstance(item, Call) else ""
            return replace(
                fact, arguments=mask_arguments(arguments, graph.find_secret_arguments(reply.agent, tool, state.options_at(reply.upto)))
            )
        case _:
            return fact


def _mask_reply(fact: ModelReplied, graph: WorkflowGraph, options: RunOptions) -> ModelReplied:
    items = tuple(
        replace(item, arguments=mask_arguments(item.arguments, graph.find_secret_arguments(fact.agent, item.tool, options)))
        if isinstance(item, Call)
        else item
        for item in fact.items
    )
    return fact if items == fact.items else replace(fact, items=items)


def mask_request(request: ModelRequest, graph: WorkflowGraph, masked_groups: dict[int, Group] | None = None) -> ModelRequest:
    """Return a request with digests in place of secrets; the same object if it has none.

    `masked_groups` is a cache of the groups of one state, by position.
    """
    masked_groups = {} if masked_groups is None else masked_groups
    groups = tuple(mask_group(group, graph, masked_groups) if group.calls else group for group in request.groups)
    return request if all(map(is_, groups, request.groups)) else replace(request, groups=groups)


def mask_group(group: Group, graph: WorkflowGraph, masked_groups: dict[int, Group]) -> Group:
    """Return a group with digests in place of secrets; the same object if it has none. `masked_groups` is a cache, by position."""
    if not group.calls:
        return group
    if group.position not in masked_groups:
        has_secrets = any(graph.find_secret_arguments(group.agent, call.call.tool, group.options) != () for call in group.calls)
        masked_groups[group.position] = _mask_calls(group, graph) if has_secrets else group
    return masked_groups[group.position]


def _mask_calls(group: Group, graph: WorkflowGraph) -> Group:
    """Return a masked copy; the group itself is part of the state."""
    assert group.fact is not None
    twin = copy(group)
    twin.fact = _mask_reply(group.fact, graph, group.options)
    twin.calls = [_mask_call(call, graph.find_secret_arguments(group.agent, call.call.tool, group.options)) for call in group.calls]
    twin._entries = twin._without_tool_traffic = None
    return twin


def _mask_call(call: CallState, secrets: tuple[str, ...] | None) -> CallState:
    twin = copy(call)
    twin.call = replace(call.call, arguments=mask_arguments(call.call.arguments, secrets))
    twin.arguments = mask_arguments(call.arguments, secrets)
    if call.edited and call.output is not None:
        twin.output = CallOutput(mask_output(call, secrets), call.output.status, call.output.position)
    return twin


def mask_output(call: CallState, secrets: tuple[str, ...] | None) -> Content:
    """Return the output of a call. That of an edited call repeats its arguments for the model, so they are masked there, too."""
    content = call.output.content if call.output is not None else ""
    return _replace_text(content, call.arguments, mask_arguments(call.arguments, secrets)) if call.edited else content


def _replace_text(content: Content, old: str, new: str) -> Content:
    if isinstance(content, str):
        return content.replace(old, new)
    return tuple(Text(part.text.replace(old, new)) if isinstance(part, Text) else part for part in content)
