"""Secrets as people and files may see them. May know: facts, requests, graphs. Decides: what stands for a secret in what is shown.

An argument annotated `Secret` is in the ledger and in requests, where it has to be, and nowhere else: what verbs print and export has its
digest (S4). Which arguments those are, the workflow knows. Where only the ledger is there, every value may be one, and none is shown.
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
from legato.core.groups import CallState, Group, Output
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import is_mask, masked
from legato.core.state import State
from legato.core.view import Request
from legato.core.workflow_graph import Graph
from legato.errors import BadInput
from legato.runtime.session import Session

DEEPEST = 100
"""How deep arguments may be nested to be told as data. Whoever writes or reads deeper ones may run out of stack."""


def shown_arguments(session: Session, request: Pending) -> str:
    """The exact arguments of a call that somebody is asked about, but for what is secret in them."""
    if not request.tool:
        return ""
    return masked(request.raw_arguments, secrets_asked(session, request))


def secrets_asked(session: Session, request: Pending) -> tuple[str, ...] | None:
    """The names of the secret arguments of a call that somebody is asked about; None where nobody can say."""
    asking = session.asking(request)
    options = asking.state.options_of(request.call.position) if request.call is not None else NO_OPTIONS
    return asking.workflow.definition.graph.secrets(request.agent, request.tool, options)


def plain_arguments(session: Session, request: Pending) -> Any:
    """The same as data; as text where they are no JSON, or hidden whole, or nested too deep for those who are to write or read them.

    What JSON can spell and nobody can send stands in it as something that can be sent: half of a surrogate pair as U+FFFD, a number that
    is none, or is too large, as its text. Sent back so, it is what it was: see `unhidden`.
    """
    arguments = shown_arguments(session, request)
    try:
        value = json.loads(arguments, parse_constant=str, parse_float=_number) if arguments else {}
        if not _can_be_sent(value):
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            value = json.loads(whole)
    except (ValueError, RecursionError):
        return arguments
    return arguments if _is_deep(value) else value


def _can_be_sent(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _number(text: str) -> float | str:
    value = float(text)
    return value if isfinite(value) else text


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [part for each in level if isinstance(each, dict | list) for part in (each.values() if isinstance(each, dict) else each)]
    return bool(level)


def unhidden(session: Session, request: Pending, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as somebody sent them back who was shown digests: one that still is the digest stays the secret that it was.

    The digest of something else is refused: it was shown of other arguments, and is the value of none.
    """
    shown, before = plain_arguments(session, request), request.arguments
    masks = shown if isinstance(shown, dict) else {}
    kept = {name for name, value in arguments.items() if name in before and name in masks and value == masks[name]}
    hides = secrets_asked(session, request) != ()
    for name, value in arguments.items():
        if hides and name not in kept and is_mask(value):
            raise BadInput(
                f"{name!r} is {value!r}, which stands for a secret of other arguments",
                expected="the secret itself, or what stands for it in this request",
                do="read the pending request again, and edit what it shows",
            )
    return {name: before[name] if name in kept else value for name, value in arguments.items()}


def shown_facts(state: State, graph: Graph, start: int = 0, end: int | None = None) -> list[AnyFact]:
    """Facts of a ledger, with digests in place of secrets. They tell what happened; they are no ledger that could go on."""
    return [_shown_fact(fact, state, graph) for fact in state.facts[start:end]]


def _shown_fact(fact: AnyFact, state: State, graph: Graph) -> AnyFact:
    match fact:
        case ModelReplied():
            return _shown_reply(fact, graph, state.options_at(fact.upto))
        case Decided(call=CallRef() as ref, arguments=arguments) if arguments:
            reply = state.facts[ref.position]
            assert isinstance(reply, ModelReplied)
            called = reply.items[ref.index]
            tool = called.tool if isinstance(called, Call) else ""
            return replace(fact, arguments=masked(arguments, graph.secrets(reply.agent, tool, state.options_at(reply.upto))))
        case _:
            return fact


def _shown_reply(fact: ModelReplied, graph: Graph, options: RunOptions) -> ModelReplied:
    items = tuple(
        replace(item, arguments=masked(item.arguments, graph.secrets(fact.agent, item.tool, options))) if isinstance(item, Call) else item
        for item in fact.items
    )
    return fact if items == fact.items else replace(fact, items=items)


def shown_seen(request: Request, graph: Graph, known: dict[int, Group] | None = None) -> Request:
    """A request with digests in place of secrets; itself, where there are none. `known` remembers groups of one state, by position."""
    known = {} if known is None else known
    groups = tuple(hidden_group(group, graph, known) if group.calls else group for group in request.groups)
    return request if all(map(is_, groups, request.groups)) else replace(request, groups=groups)


def hidden_group(group: Group, graph: Graph, known: dict[int, Group]) -> Group:
    """A group with digests in place of secrets; itself, where there are none."""
    if not group.calls:
        return group
    if group.position not in known:
        secret = any(graph.secrets(group.agent, call.call.tool, group.options) != () for call in group.calls)
        known[group.position] = _hidden(group, graph) if secret else group
    return known[group.position]


def _hidden(group: Group, graph: Graph) -> Group:
    """A copy: the group itself is part of the state."""
    assert group.fact is not None
    twin = copy(group)
    twin.fact = _shown_reply(group.fact, graph, group.options)
    twin.calls = [_shown_call(call, graph.secrets(group.agent, call.call.tool, group.options)) for call in group.calls]
    twin._entries = twin._words = None
    return twin


def _shown_call(call: CallState, secrets: tuple[str, ...] | None) -> CallState:
    twin = copy(call)
    twin.call = replace(call.call, arguments=masked(call.call.arguments, secrets))
    twin.arguments = masked(call.arguments, secrets)
    if call.edited and call.output is not None:
        twin.output = Output(shown_output(call, secrets), call.output.status, call.output.position)
    return twin


def shown_output(call: CallState, secrets: tuple[str, ...] | None) -> Content:
    """The output of a call. Of an edited one the model is told which arguments ran: they stand in the output, and some may be secret."""
    content = call.output.content if call.output is not None else ""
    return _with(content, call.arguments, masked(call.arguments, secrets)) if call.edited else content


def _with(content: Content, old: str, new: str) -> Content:
    if isinstance(content, str):
        return content.replace(old, new)
    return tuple(Text(part.text.replace(old, new)) if isinstance(part, Text) else part for part in content)
