"""Explanations of what a model saw when it replied, and why.

An explanation has three parts:

- the conversation so far, each group with its visibility and the rule that decided it;
- the body that was sent to the provider, encoded again from the ledger;
- the differences from the previous request, and from the last request of another agent, which show what a handoff changes.

Secrets are masked everywhere. The bytes of pictures and files in a body are replaced by their digests.

All requests of an explanation are rebuilt in one pass over the facts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from legato.core.facts import ModelReplied
from legato.core.groups import Group, extract_reply_text
from legato.core.messages import render_content
from legato.core.turn_context import TurnContext
from legato.core.visibility_explanation import GroupExplanation, Visibility, describe_policy
from legato.inspection.model_inputs import ModelInput, list_replies, rebuild_model_inputs, render_body
from legato.inspection.sent_bodies import DigestCheck
from legato.inspection.unified_diff import render_unified_diff
from legato.inspection.usage_report import HandoffPoint, TokenRange, TokenUsage, estimate_resent_tokens, find_first_replies, to_token_usage
from legato.runtime.past_requests import resolve_reply_index
from legato.runtime.session import Session

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReplySummary(Struct, frozen=True, kw_only=True):
    """One reply of a model, the `n`-th of its session, from 0. `upto` is the last position that its request saw.

    `after_handoff`: the handoff whose first reply it is; then `resent` are the tokens that were resent because of it (see `usage_report`).
    """

    n: int
    position: int
    agent: str
    model: str
    at: int
    took: int
    upto: int
    frame: str
    finish: str
    usage: TokenUsage
    after_handoff: HandoffPoint | None
    resent: TokenRange | None
    losses: tuple[str, ...]


class ModelInputCall(Struct, frozen=True):
    """A tool call of a reply, and its output. `arguments` is the model's text, or a person's if they were edited."""

    id: str
    tool: str
    arguments: str
    output: str
    status: str


class ModelInputItem(Struct, frozen=True, kw_only=True, rename={"visibility": "shown"}):
    """One group of the conversation, with its visibility to the agent and the rule that decided it."""

    position: int
    kind: str
    author: str
    text: str
    calls: tuple[ModelInputCall, ...]
    handed_to: str
    visibility: Visibility
    rule: str


class ModelInputTool(Struct, frozen=True):
    """A tool as it was offered to the model."""

    name: str
    description: str
    parameters: Any


class HistoryPolicySummary(Struct, frozen=True, rename={"description": "told"}):
    """The history policy of a request, as data and in words."""

    policy: dict[str, Any]
    description: str


class NameChanges(Struct, frozen=True):
    """Names that were added, removed, or whose values changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class PositionChanges(Struct, frozen=True):
    """Positions of groups that became visible or invisible; of the `changed`, more or less is visible now."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


class ValueChange(Struct, frozen=True):
    """A value that changed."""

    before: Any
    after: Any


class ModelInputDiff(Struct, frozen=True, kw_only=True, rename={"context_messages": "added"}):
    """Differences from another request, of reply number `with`. Fields without a difference are empty or None."""

    with_: int = field(name="with")
    agent: str
    instructions: str
    context_messages: ValueChange | None
    tools: NameChanges
    history: ValueChange | None
    options: ValueChange | None
    items: PositionChanges
    body: str


class ModelInputChanges(Struct, frozen=True):
    """Differences from the previous request (`call`), and from the last request of another agent (`agent`)."""

    call: ModelInputDiff | None
    agent: ModelInputDiff | None


class ModelInputExplanation(ReplySummary, frozen=True, kw_only=True, rename={"context_messages": "added"}):
    """A reply with the input that the model received.

    `context_messages`: messages of context providers, before the conversation. `summary`: the text in place of its beginning. `wire` is the
    provider format, `body` the request in it, `proof` the result of the check with the digest that was recorded with the reply; see
    `SentBody`.
    """

    instructions: str
    context_messages: tuple[str, ...]
    tools: tuple[ModelInputTool, ...]
    history: HistoryPolicySummary
    output: Any
    options: Any
    items: tuple[ModelInputItem, ...]
    summary: str
    wire: str
    body: str
    proof: DigestCheck
    changes: ModelInputChanges


async def summarize_replies(session: Session) -> list[ReplySummary]:
    """Return a summary of each reply of a session, in order."""
    first, resent = find_first_replies(session.state.facts), await estimate_resent_tokens(session)
    return [ReplySummary(**_describe_reply(n, *reply, first, resent)) for n, reply in enumerate(list_replies(session))]


async def explain_model_input(session: Session, n: int = -1) -> ModelInputExplanation:
    """Explain the model input of a reply, and compare it with earlier ones. `n` counts replies from 0, or from the end."""
    number, replies = resolve_reply_index(session, n), list_replies(session)
    agent = replies[number][1].agent
    other = next((each for each in range(number - 1, -1, -1) if replies[each][1].agent != agent), -1)
    inputs = await rebuild_model_inputs(session, {number, number - 1, other} - {-1})
    summary = _describe_reply(number, *replies[number], find_first_replies(session.state.facts), await estimate_resent_tokens(session))
    return await asyncio.to_thread(_explain, inputs, number, other, summary)  # no other thread has the inputs


def _explain(inputs: dict[int, ModelInput], number: int, other: int, summary: dict[str, Any]) -> ModelInputExplanation:
    model_input, turn_context = inputs[number], inputs[number].masked_request.turn_context
    bodies = {each: _RenderedBody(inputs[each]) for each in inputs}
    diffs = {
        each: _diff_inputs(inputs[each], model_input, bodies[each].indented_text, bodies[number].indented_text)
        for each in inputs
        if each != number
    }
    return ModelInputExplanation(
        **summary,
        instructions=turn_context.instructions,
        context_messages=turn_context.messages,
        tools=tuple(ModelInputTool(tool.name, tool.description, _decode_json_text(tool.parameters)) for tool in turn_context.tools),
        history=HistoryPolicySummary(msgspec.to_builtins(turn_context.history), describe_policy(turn_context.history)),
        output=_decode_json_text(turn_context.output),
        options=_decode_json_text(turn_context.options),
        items=tuple(map(describe_group, model_input.groups)),
        summary=model_input.masked_request.summary,
        wire=bodies[number].provider_format,
        body=bodies[number].text,
        proof=bodies[number].digest_check,
        changes=ModelInputChanges(diffs.get(number - 1), diffs.get(other)),
    )


def describe_group(explained: GroupExplanation) -> ModelInputItem:
    """Return a group of the conversation as an item of an explanation. Its secrets are masked already."""
    group = explained.group
    return ModelInputItem(
        position=group.position,
        kind=group.kind,
        author=group.agent or (group.author or "user" if group.kind == "said" else ""),
        text=extract_reply_text(group.fact) if group.fact is not None else render_content(group.content),
        calls=_describe_calls(group),
        handed_to=group.handed_to,
        visibility=explained.visibility,
        rule=explained.rule,
    )


def _describe_calls(group: Group) -> tuple[ModelInputCall, ...]:
    return tuple(
        ModelInputCall(
            str(call.ref),
            call.call.tool,
            call.arguments,
            render_content(call.output.content) if call.output is not None else "",
            call.output.status if call.output is not None else "",
        )
        for call in group.calls
    )


def _describe_reply(
    n: int, position: int, fact: ModelReplied, first: Mapping[int, HandoffPoint], resent: Mapping[int, TokenRange]
) -> dict[str, Any]:
    return {
        "n": n,
        "position": position,
        "agent": fact.agent,
        "model": fact.model,
        "at": fact.at,
        "took": fact.duration_ms,
        "upto": fact.upto,
        "frame": fact.context_digest,
        "finish": fact.finish,
        "usage": to_token_usage(fact.usage),
        "after_handoff": first.get(position),
        "resent": resent.get(position),
        "losses": fact.losses,
    }


# -- differences ---------------------------------------------------------------------------------------------------------


class _RenderedBody:
    """A body as text, and indented for a diff by lines."""

    def __init__(self, model_input: ModelInput) -> None:
        sent = model_input.encode_body()
        self.provider_format, self.digest_check = sent.provider_format, sent.digest_check
        self.text = render_body(sent.body, model_input.masked_request.contents)
        self.indented_text = msgspec.json.format(self.text, indent=2)


def _diff_inputs(earlier: ModelInput, later: ModelInput, earlier_body: str, later_body: str) -> ModelInputDiff:
    before, after = earlier.masked_request.turn_context, later.masked_request.turn_context
    return ModelInputDiff(
        with_=earlier.n,
        agent=earlier.fact.agent,
        instructions=render_unified_diff(before.instructions, after.instructions, before.agent, after.agent),
        context_messages=_compare_values(before.messages, after.messages),
        tools=NameChanges(*_compare_mappings(_tools_by_name(before), _tools_by_name(after))),
        history=_compare_values(describe_policy(before.history), describe_policy(after.history)),
        options=_compare_values(_decode_json_text(before.options), _decode_json_text(after.options)),
        items=PositionChanges(*_compare_mappings(earlier.visible_groups, later.visible_groups)),
        body=render_unified_diff(earlier_body, later_body, f"request {earlier.n} of {before.agent}", f"request {later.n} of {after.agent}"),
    )


def _tools_by_name(turn_context: TurnContext) -> dict[str, object]:
    return {tool.name: tool for tool in turn_context.tools}


def _compare_mappings(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[tuple[K, ...], tuple[K, ...], tuple[K, ...]]:
    """Return the keys that were added, removed and changed, each in their order."""
    return (
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        tuple(name for name in after if name in before and after[name] != before[name]),
    )


def _compare_values(before: Any, after: Any) -> ValueChange | None:
    return ValueChange(before, after) if before != after else None


def _decode_json_text(text: str) -> Any:
    """Return recorded JSON text as data; None if it is empty, the text itself if it does not decode."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
