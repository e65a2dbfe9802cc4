"""Encoding of requests to the Messages API.

The body is joined from encoded groups: each group is encoded once and cached, so a request costs its new groups plus a join. All history
is sent by value. Tool results come first in the user message after the reply that called the tools, because a reply and its outputs are
one group; the user's next text follows in the same message. `thinking_replay.py` decides which thinking is replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from legato.core.digests import digest_bytes
from legato.core.facts import ModelReplied, ReplyItem
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.texts_for_model import conversation_summary
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.providers.formats.anthropic.content_blocks import (
    Block,
    encode_content,
    encode_reply,
    encode_tool_result,
    find_open_uses,
    find_result_ids,
    is_waiting_in_container,
)
from legato.providers.formats.anthropic.output_schemas import make_enforceable_schema
from legato.providers.formats.anthropic.thinking_replay import (
    PREFIX_CHANGED,
    MessageJoiner,
    MessageSection,
    ThinkingReplayPolicy,
    binds_thinking,
    mark_history_digest,
)
from legato.providers.formats.encoded_request import MISSING_USER_MESSAGE, EncodedRequest, RequestHead
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.formats.incremental_encoder import IncrementalEncoder, get_cached_encoder
from legato.providers.formats.lenient_json import as_object, as_objects, as_text, parse_object, to_json
from legato.providers.formats.loss_reasons import REFUSED_BY_PROVIDER
from legato.providers.formats.request_options import RequestOptions, decode_options
from legato.providers.rules.anthropic.betas import ALL_BETAS
from legato.providers.rules.anthropic.request_shape import NO_SAMPLING_VERSION, SAMPLING_FIELDS
from legato.providers.rules.anthropic.rules import check_messages, check_request
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES
from legato.providers.rules.identifiers import map_sanitized_names, sanitize_tool_name
from legato.providers.rules.json_schemas import render_schema_instructions
from legato.providers.rules.rule_set import RuleViolation
from legato.providers.rules.shape_cache import cache_by_shape

DEFAULT_MAX_TOKENS = 8192
"""The limit of a reply's tokens if the options set none: the API requires a limit. A budget for thinking is added to it."""

SAMPLING_HEADERS = {"anthropic-version": "2023-06-01"}
"""The API version of requests with sampling options: the next version, which the SDK asks for, refuses them."""
_CHECK_HEADERS = {"anthropic-version": NO_SAMPLING_VERSION, "anthropic-beta": ALL_BETAS}
"""The headers that requests are checked with before they are sent. All betas are on: the check leaves betas to the caller."""

CODE_TOOL_PREFIXES = ("code_execution_", "web_search_2026", "web_fetch_2026")
"""Prefixes of the types of server tools that use a container."""

TEXT_MEMBERS = frozenset(("text", "thinking", "signature", "data", "content", "input"))
"""The members whose texts do not matter to the rules: messages that differ in nothing else are checked once."""
CALL_ID_MEMBERS = frozenset(("id", "tool_use_id"))

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.decode


def encode_request(
    request: ModelRequest,
    options: RequestOptions,
    origin: str,
    *,
    stream: bool,
    with_reasoning: bool = True,
    enforce_output: bool = True,
    reuse_container: bool = True,
) -> EncodedRequest:
    """Encode a request. `with_reasoning=False`: replay no thinking; `enforce_output=False`: put the schema of a typed output into the
    instructions; `reuse_container=False`: run the provider's code in a new container."""
    first_texts = (*request.turn_context.messages, *([conversation_summary(request.summary)] if request.summary else ()))
    context_digest = _digest_turn_context(request.turn_context, options.to_json(), enforce_output)
    policy = ThinkingReplayPolicy(origin, options.model, options.replay_reasoning, with_reasoning, reuse_container)
    dependencies = (context_digest, first_texts, policy)
    encoder = get_cached_encoder(request, "anthropic", dependencies, lambda: _MessagesEncoder(*dependencies))
    messages = encoder.messages
    head = _encode_head(request.turn_context, options.to_json(), stream, enforce_output, messages.tool_loop_start)
    container = _choose_container(options, encoder)
    losses = [*encoder.losses, *head.losses, *((f"container of {request.agent}: {REFUSED_BY_PROVIDER}",) if not reuse_container else ())]
    container_member = b'"container":%b,' % container.encode() if container else b""
    return EncodedRequest(
        messages.join_body(b"{" + container_member + head.body[1:-1] + b',"messages":['),
        head.tool_names,
        history_digest=mark_history_digest(messages.digest_before_reply(), reasoning_refused=not with_reasoning),
        has_reasoning=encoder.has_reasoning,
        losses=encoder.select_new_losses(losses),
        violations=(*head.violations, *encoder.violations),
        container=container,
    )


def _choose_container(options: RequestOptions, encoder: _MessagesEncoder) -> str:
    """Return the container for the provider's code, as JSON: the caller's, else the one in which code ran last; empty for none."""
    requested = options.extra.get("container")
    last = encoder.container if encoder.open_uses or _has_code_tool(options) else ""
    if last and isinstance(requested, dict) and not requested.get("id"):
        return to_json({**requested, "id": last})
    return to_json(requested or last) if requested or last else ""


def _has_code_tool(options: RequestOptions) -> bool:
    """Return True if a server tool runs code: searches and fetches do since 2026, to filter their results."""
    tools = [*options.hosted, *as_objects(options.extra.get("tools"))]
    return any(as_text(tool.get("type")).startswith(CODE_TOOL_PREFIXES) for tool in tools)


def find_option_violations(options: RequestOptions) -> tuple[RuleViolation, ...]:
    """Return the violations of the provider's rules that options cause in every request."""
    body = {"system": "?", **_write_plain_settings(options, False), **_write_thinking(options, "", []), **options.extra}
    return _find_head_violations(_encode({name: value for name, value in body.items() if value is not None}))


# -- everything but the messages ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _digest_turn_context(context: TurnContext, options_text: str, enforce_output: bool) -> bytes:
    """Return the digest of what thinking is bound to besides the messages."""
    return digest_bytes(_encode(_write_system_and_tools(context, decode_options(options_text), enforce_output))).encode()


def _write_system_and_tools(context: TurnContext, options: RequestOptions, enforce_output: bool) -> dict[str, Any]:
    """Return the members that thinking is bound to besides the messages: `system` and `tools`."""
    output = context.output
    output_instructions = render_schema_instructions(output) if output and not (enforce_output and make_enforceable_schema(output)) else ""
    system = "\n\n".join(filter(None, (context.instructions, output_instructions)))
    tools: list[Any] = [
        {"name": sanitize_tool_name(tool.name), "description": tool.description, "input_schema": _write_tool_schema(tool.parameters)}
        for tool in context.tools
    ]
    body: dict[str, Any] = {}
    if system.strip():
        cache = options.extra.get("cache_control")
        body["system"] = [{"type": "text", "text": system, "cache_control": cache}] if cache else system
    if tools or options.hosted:
        body["tools"] = [*tools, *options.hosted]
    return body | {name: options.extra[name] for name in ("system", "tools") if name in options.extra}


@lru_cache(maxsize=1024)
def _write_tool_schema(parameters: str) -> msgspec.Raw:
    """Return a tool's schema. Properties keep their order, in which a model writes its arguments."""
    schema = _decode(parameters)
    return msgspec.Raw(parameters.encode() if schema.get("type") == "object" else msgspec.json.encode({**schema, "type": "object"}))


class _HeadWithLosses(RequestHead, frozen=True):
    losses: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def _encode_head(context: TurnContext, options_text: str, stream: bool, enforce_output: bool, tool_loop_start: str) -> _HeadWithLosses:
    """Encode and check all members except the messages, once per turn context and options.

    `tool_loop_start`: see `MessageJoiner.tool_loop_start`.
    """
    options, losses = decode_options(options_text), list[str]()
    settings = _write_settings(context, options, stream, enforce_output, tool_loop_start, losses)
    encoded = _encode(_write_system_and_tools(context, options, enforce_output) | settings)
    container = options.extra.get("container")
    violations = _find_head_violations(encoded[:-1] + b',"container":%b}' % _encode(container) if container is not None else encoded)
    return _HeadWithLosses(encoded, map_sanitized_names(tool.name for tool in context.tools), violations, tuple(losses))


def _write_settings(
    context: TurnContext, options: RequestOptions, stream: bool, enforce_output: bool, tool_loop_start: str, losses: list[str]
) -> dict[str, Any]:
    format = make_enforceable_schema(context.output) if context.output and enforce_output else None
    config = {
        "effort": _write_effort(options),
        "format": {"type": "json_schema", "schema": format} if format else None,
        **(options.extra.get("output_config") or {}),
    }
    choice = _write_tool_choice(context, options, losses)
    thinking = _write_thinking(options, _find_reason_against_thinking(tool_loop_start, choice), losses, context.agent)
    body = {
        **_write_plain_settings(options, stream),
        **thinking,
        "tool_choice": choice,
        **options.extra,
        "container": None,  # it changes with the conversation
        "output_config": {name: value for name, value in config.items() if value is not None} or None,
    }
    return {name: value for name, value in body.items() if value is not None}


def _write_plain_settings(options: RequestOptions, stream: bool) -> dict[str, Any]:
    return {
        "model": options.model,
        "max_tokens": options.max_tokens or DEFAULT_MAX_TOKENS + (options.thinking_tokens or 0),
        "temperature": options.temperature,
        "top_p": options.top_p,
        "stop_sequences": list(options.stop) or None,
        "service_tier": options.service_tier,
        "stream": stream or None,
    }


def _write_effort(options: RequestOptions) -> str | None:
    return {"none": None, "minimal": "low"}.get(options.effort, options.effort) if options.effort else None


def _find_reason_against_thinking(tool_loop_start: str, choice: dict[str, Any] | None) -> str:
    """Return the reason why a request with a thinking budget must turn thinking off, or be refused; empty if there is none."""
    if choice and choice["type"] in ("any", "tool"):
        return "off for this request, because a tool is forced"
    if tool_loop_start and tool_loop_start not in THINKING_TYPES:
        return "off until this loop of tools ends, because it began without thinking"
    return ""


def _write_thinking(options: RequestOptions, reason_against: str, losses: list[str], agent: str = "") -> dict[str, Any]:
    display = {"display": options.reasoning_summary} if options.reasoning_summary else {}
    if options.thinking_tokens and reason_against:
        losses.append(f"thinking of {agent}: {reason_against}")
        return {"thinking": {"type": "disabled"}}
    if options.thinking_tokens:
        return {"thinking": {"type": "enabled", "budget_tokens": options.thinking_tokens, **display}}
    if options.thinking_tokens == 0 or options.effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "adaptive", **display}} if options.effort or display else {}


def _write_tool_choice(context: TurnContext, options: RequestOptions, losses: list[str]) -> dict[str, Any] | None:
    names = [sanitize_tool_name(tool.name) for tool in context.tools]
    if not names and not options.hosted:
        return None
    parallel = {"disable_parallel_tool_use": True} if options.parallel_calls is False else {}
    match options.tool_choice:
        case None:
            return {"type": "auto", **parallel} if parallel else None
        case "auto":
            return {"type": "auto", **parallel}
        case "required":
            return {"type": "any", **parallel}
        case "none":
            return {"type": "none"}
        case name:
            if sanitize_tool_name(name) in names or any(tool.get("name") == name for tool in options.hosted):
                return {"type": "tool", "name": sanitize_tool_name(name), **parallel}
            losses.append(f"tool_choice of {context.agent}: it has no tool {name!r}")
            return None


def _find_head_violations(head: bytes) -> tuple[RuleViolation, ...]:
    """Return the violations of the provider's rules in all members except the messages."""
    body = _decode(head)
    headers = {**_CHECK_HEADERS, **(SAMPLING_HEADERS if any(name in body for name in SAMPLING_FIELDS) else {})}
    return tuple(check_request({**body, "messages": [{"role": "user", "content": "?"}]}, headers))


# -- the messages ------------------------------------------------------------------------------------------------------


class EncodedSections(msgspec.Struct, frozen=True):
    """One group, encoded. `is_verbatim`: its reply is sent as it came."""

    sections: tuple[MessageSection, ...]
    losses: tuple[str, ...]
    violations: tuple[RuleViolation, ...]
    has_reasoning: bool
    is_verbatim: bool


class _MessagesEncoder(IncrementalEncoder):
    """Encodes all groups as messages, and collects losses and violations."""

    def __init__(self, context_digest: bytes, first_texts: Sequence[str], replay_policy: ThinkingReplayPolicy) -> None:
        self._first_parts = (context_digest, first_texts)
        self._replay_policy = replay_policy
        self._abandoned_uses: frozenset[str] = frozenset()
        super().__init__(replay_policy.origin)

    def reset(self) -> None:
        context_digest, first_texts = self._first_parts
        self.messages = MessageJoiner(context_digest, _make_placeholder_section())
        self.losses: dict[str, None] = {}
        self.violations: list[RuleViolation] = []
        self.has_reasoning = False
        self.container = ""
        self.open_uses: set[str] = set()
        self._sent_open_uses: set[str] = set()
        for text in first_texts:
            if text.strip():
                self.messages.add_section(_make_section("user", [{"type": "text", "text": text}]))

    def advance(self, request: ModelRequest) -> None:
        """Encode the remaining groups. If no later reply resumes an open tool use that was sent, encode again without that use."""
        super().advance(request)
        while self._sent_open_uses & self._abandoned_uses:
            self._restart()
            super().advance(request)

    def add_group(self, group: Group, use_own_ids: bool, request: ModelRequest) -> None:
        reasoning_loss, verbatim = self._decide_replay(group, group.fact, use_own_ids) if group.fact else ("", False)
        resumed_uses, open_uses = self._update_open_uses(group, verbatim)
        key = f"anthropic {verbatim:d}{use_own_ids:d} {reasoning_loss} {' '.join((*sorted(resumed_uses), '|', *sorted(open_uses)))}"
        cache = get_group_cache(group)
        encoded: EncodedSections | None = cache.get(key)
        if encoded is None:
            encoded = _encode_group(group, reasoning_loss, verbatim, use_own_ids, request.contents, resumed_uses)
            if verbatim and encoded.violations:  # a block has a form that Legato does not know: send text and calls only
                encoded = _encode_group(group, reasoning_loss or PREFIX_CHANGED, False, use_own_ids, request.contents)
            cache[key] = encoded
        if verbatim and not encoded.is_verbatim:
            self._abandoned_uses |= resumed_uses
            self.open_uses = set()
        for section in encoded.sections:
            self.messages.add_section(section)
        self.losses.update(dict.fromkeys(encoded.losses))
        self.violations += encoded.violations
        self.has_reasoning = self.has_reasoning or encoded.has_reasoning

    def _decide_replay(self, group: Group, reply: ModelReplied, use_own_ids: bool) -> tuple[str, bool]:
        """Return the reason why the thinking of a reply is not replayed (empty if it is), and True if the rest is replayed verbatim."""
        self.container = self._find_container(reply) or self.container
        digest = self.messages.digest_before_reply()
        reasoning_loss, verbatim = self._replay_policy.decide_replay(group, digest, use_own_ids, self.refused_before)
        if verbatim and self._has_blocked_tools(reply.items):
            return reasoning_loss or (PREFIX_CHANGED if binds_thinking(self._replay_policy.model) else ""), False
        return reasoning_loss, verbatim

    def _find_container(self, reply: ModelReplied) -> str:
        """Return the container in which the provider's code ran for a reply; empty if there is none to be used again."""
        if not reply.extra or reply.origin != self.origin or not self._replay_policy.reuse_container:
            return ""
        return as_text(as_object(parse_object(reply.extra).get("container")).get("id"))

    def _has_blocked_tools(self, items: Sequence[ReplyItem]) -> bool:
        """Return True if server tools of a reply cannot resume: no later reply resumed them, or their container is unknown."""
        return bool(find_open_uses(items) & self._abandoned_uses) or (is_waiting_in_container(items) and not self.container)

    def _update_open_uses(self, group: Group, verbatim: bool) -> tuple[set[str], set[str]]:
        """Return the ids of open server tool uses that a group has the results of, and of those that it leaves open."""
        if group.fact is None:
            return set(), set()
        items = group.fact.items
        resumed_uses = self.open_uses & find_result_ids(items) if verbatim else set()
        if abandoned := self.open_uses - resumed_uses:
            self._abandoned_uses |= abandoned
        new_open_uses = find_open_uses(items) if verbatim else set()
        self.open_uses = new_open_uses
        self._sent_open_uses |= new_open_uses
        return resumed_uses, new_open_uses


def _encode_group(
    group: Group,
    reasoning_loss: str,
    verbatim: bool,
    use_own_ids: bool,
    contents: Mapping[str, bytes],
    resumed_uses: Collection[str] = (),
) -> EncodedSections:
    assistant_blocks: list[Block] = []
    user_blocks: list[Block] = []
    losses: list[str] = []
    for entry in group.entries:
        if isinstance(entry, AssistantEntry):
            assistant_blocks += encode_reply(
                entry.items,
                entry.agent,
                entry.position,
                losses,
                reasoning_loss=reasoning_loss,
                verbatim=verbatim,
                use_own_ids=use_own_ids,
                resumed_uses=resumed_uses,
            )
        elif isinstance(entry, OutputEntry):
            user_blocks.append(encode_tool_result(entry, use_own_ids, contents, losses, verbatim))
        else:
            user_blocks += encode_content(entry.content, contents, losses)
    sections = [(role, blocks) for role, blocks in (("assistant", assistant_blocks), ("user", user_blocks)) if blocks]
    messages: list[dict[str, Any]] = [{"role": role, "content": blocks} for role, blocks in sections]
    if messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "?"})
    if resumed_uses:
        uses = [{"type": "server_tool_use", "id": id, "name": "any", "input": {}} for id in sorted(resumed_uses)]
        messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": uses}, {"role": "user", "content": "?"}, *messages]
    has_reasoning = any(_find_block_type(block) in THINKING_TYPES for block in assistant_blocks)
    violations = _find_violations(messages) if messages else ()
    return EncodedSections(tuple(_make_section(*each) for each in sections), tuple(losses), violations, has_reasoning, verbatim)


def _make_section(role: str, blocks: list[Block]) -> MessageSection:
    body = b",".join(map(_encode, blocks))
    return MessageSection(role, body, _find_block_type(blocks[0]), digest_bytes(role.encode() + b" " + body).encode())


def _find_block_type(block: Block | msgspec.Raw) -> str:
    """Return a block's type. Blocks that only the provider writes are raw JSON, and their type does not matter."""
    return str(block["type"]) if isinstance(block, dict) else "another"


def _check_messages(messages: list[dict[str, Any]]) -> list[RuleViolation]:
    """Return the violations of the provider's rules in one group."""
    return check_messages(_decode(_encode(messages)), _CHECK_HEADERS)


_find_violations = cache_by_shape(_check_messages, TEXT_MEMBERS, CALL_ID_MEMBERS)


@lru_cache(maxsize=1)
def _make_placeholder_section() -> MessageSection:
    return _make_section("user", [{"type": "text", "text": MISSING_USER_MESSAGE}])
