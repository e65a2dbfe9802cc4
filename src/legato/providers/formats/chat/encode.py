"""Encoding of requests to Chat Completions.

The body is joined from encoded groups: each group is encoded once and cached, so a request costs its new groups plus a join. The API
stores nothing, so every request sends all history by value. A reply is one message with its text and calls; one message per output
follows at once, as the API requires. For servers that only resemble OpenAI's (`compatible`), requests use what most of them understand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from legato.core.facts import Call, Content, File, HostedToolUse, Image, OutputText, Part, Reasoning, Refusal, Text
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.texts_for_model import conversation_summary
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.providers.formats.attachments import make_attachment_url
from legato.providers.formats.call_ids import choose_call_id
from legato.providers.formats.encoded_request import MISSING_USER_MESSAGE, EncodedGroup, EncodedRequest, RequestHead, join_body
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.formats.incremental_encoder import IncrementalEncoder, get_cached_encoder
from legato.providers.formats.lenient_json import parse_object
from legato.providers.formats.loss_reasons import OTHER_MODEL_ONLY, PROVIDER_SPECIFIC
from legato.providers.formats.request_options import RequestOptions, decode_options
from legato.providers.rules.chat.rules import LENIENT, OPENAI, check_messages, check_request
from legato.providers.rules.identifiers import map_sanitized_names, sanitize_tool_name
from legato.providers.rules.json_schemas import is_enforced_by_openai, render_output_format, render_schema_instructions
from legato.providers.rules.rule_set import RuleViolation
from legato.providers.rules.shape_cache import cache_by_shape

REASONING_MEMBER = "reasoning_content"
"""The member that holds the reasoning of compatible servers. Some of them want it back."""

# Members are encoded in the order in which they are built, which is always the same: a schema keeps the order of its properties.
_encode = msgspec.json.Encoder().encode

TEXT_MEMBERS = frozenset(("content", "text", "arguments", REASONING_MEMBER))
"""The members whose texts do not matter to the rules: messages that differ in nothing else are checked once."""
CALL_ID_MEMBERS = frozenset(("id", "tool_call_id"))

_find_violations = cache_by_shape(check_messages, TEXT_MEMBERS, CALL_ID_MEMBERS)
_find_lenient_violations = cache_by_shape(partial(check_messages, switches=LENIENT), TEXT_MEMBERS, CALL_ID_MEMBERS)


def encode_request(
    request: ModelRequest, options: RequestOptions, origin: str = "", *, stream: bool, with_reasoning: bool = False
) -> EncodedRequest:
    """Encode a request. `with_reasoning`: replies that came from `origin` are sent with their reasoning."""
    context = request.turn_context
    head = _encode_head(context, options.to_json(), stream)
    dependencies = (options.compatible, origin, with_reasoning)
    encoder = get_cached_encoder(request, "chat", dependencies, lambda: _MessagesEncoder(*dependencies))
    is_enforced = not context.output or _is_output_enforced(context.output, options.compatible)
    output_instructions = "" if is_enforced else render_schema_instructions(context.output)
    instructions = "\n\n".join(filter(None, (context.instructions, output_instructions)))
    first_messages = [_encode({"role": "system", "content": instructions})] if instructions else []
    first_messages += [_encode({"role": "user", "content": text}) for text in context.messages]
    if request.summary:
        first_messages.append(_encode({"role": "user", "content": conversation_summary(request.summary)}))
    if not first_messages and not encoder.pieces:
        first_messages.append(_encode({"role": "user", "content": MISSING_USER_MESSAGE}))
    return EncodedRequest(
        join_body(head.body[:-1] + b',"messages":[', first_messages, encoder.pieces, b"]}"),
        head.tool_names,
        has_reasoning=encoder.has_reasoning,
        losses=encoder.select_new_losses([*_find_missing_tool_losses(request, options, head.tool_names), *encoder.losses]),
        violations=(*head.violations, *encoder.violations),
    )


def find_option_violations(options: RequestOptions) -> tuple[RuleViolation, ...]:
    """Return the violations of the provider's rules that options cause in every request."""
    return _encode_head(TurnContext(""), options.to_json(), False).violations


# -- everything but the messages ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _encode_head(context: TurnContext, options_text: str, stream: bool) -> RequestHead:
    """Encode and check all members except the messages, once per turn context and options."""
    options, names = decode_options(options_text), map_sanitized_names(tool.name for tool in context.tools)
    limit = "max_tokens" if options.compatible else "max_completion_tokens"
    body = {
        "model": options.model,
        "tools": [_write_tool(tool.name, tool.description, tool.parameters) for tool in context.tools] or None,
        "tool_choice": _write_tool_choice(options.tool_choice, names),
        "parallel_tool_calls": options.parallel_calls if context.tools else None,
        "response_format": _write_response_format(context.output, options.compatible),
        "reasoning_effort": options.effort,
        "verbosity": options.verbosity,
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit: options.max_tokens,
        "stop": options.stop or None,
        "seed": options.seed,
        "service_tier": options.service_tier,
        "stream": stream or None,
        "stream_options": {"include_usage": True} if stream else None,
        **options.extra,
    }
    encoded = _encode({name: value for name, value in body.items() if value is not None})
    checked = {**msgspec.json.decode(encoded), "messages": [{"role": "user", "content": "json"}]}
    return RequestHead(encoded, names, tuple(check_request(checked, switches=LENIENT if options.compatible else OPENAI)))


def _write_tool(name: str, description: str, parameters: str) -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {"type": "function", "function": {"name": sanitize_tool_name(name), **described, "parameters": msgspec.Raw(parameters.encode())}}


def _write_tool_choice(choice: str | None, names: Mapping[str, str]) -> object:
    if choice is None or not names:
        return None
    if choice in ("auto", "none", "required"):
        return choice
    name = sanitize_tool_name(choice)
    return {"type": "function", "function": {"name": name}} if name in names else None


def _find_missing_tool_losses(request: ModelRequest, options: RequestOptions, names: Mapping[str, str]) -> list[str]:
    """Report a tool choice that this agent cannot follow: several agents can share one model and its options."""
    choice = options.tool_choice
    if choice in (None, "auto", "none", "required") or sanitize_tool_name(str(choice)) in names:
        return []
    return [f"tool_choice {choice!r} of {request.agent}: it has no such tool"]


def _write_response_format(output: str, compatible: bool) -> dict[str, Any] | None:
    if not output or not _is_output_enforced(output, compatible):
        return None
    return {"type": "json_schema", "json_schema": render_output_format(output)}


def _is_output_enforced(output: str, compatible: bool) -> bool:
    """Return True if the server enforces a schema. Compatible servers do so with grammars, which take any schema."""
    return compatible or is_enforced_by_openai(output)


# -- the messages ------------------------------------------------------------------------------------------------------


class _MessagesEncoder(IncrementalEncoder):
    """Encodes all groups as messages, and collects losses and violations."""

    def __init__(self, compatible: bool, origin: str, with_reasoning: bool) -> None:
        self._compatible = compatible
        self._with_reasoning = with_reasoning
        super().__init__(origin)

    def reset(self) -> None:
        self.pieces: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.violations: list[RuleViolation] = []
        self.has_reasoning = False

    def add_group(self, group: Group, use_own_ids: bool, request: ModelRequest) -> None:
        is_same_model = group.fact is not None and bool(self.origin) and group.fact.origin == self.origin
        replay_reasoning = self._with_reasoning and is_same_model
        key = f"chat {use_own_ids:d}{self._compatible:d}{replay_reasoning:d}{is_same_model:d}"
        cache = get_group_cache(group)
        encoded: EncodedGroup | None = cache.get(key)
        if encoded is None:
            encoder = _GroupEncoder(use_own_ids, self._compatible, replay_reasoning, is_same_model, request.contents)
            encoded = cache[key] = encoder.encode_group(group)
        if encoded.body:
            self.pieces.append(encoded.body)
        self.losses.update(dict.fromkeys(encoded.losses))
        self.violations += encoded.violations
        self.has_reasoning = self.has_reasoning or encoded.has_reasoning


class _GroupEncoder(msgspec.Struct):
    """Encodes one group, and collects its losses.

    `use_own_ids`: its calls get ids made by Legato. `replay_reasoning`: its reply is sent with its reasoning. `is_same_model`: the model
    that receives the request made its reply.
    """

    use_own_ids: bool
    compatible: bool
    replay_reasoning: bool
    is_same_model: bool
    contents: Mapping[str, bytes]
    losses: list[str] = []
    has_reasoning: bool = False

    def encode_group(self, group: Group) -> EncodedGroup:
        """Encode a group as messages."""
        messages: list[dict[str, Any]] = []
        attachments: list[dict[str, Any]] = []
        for entry in group.entries:
            if isinstance(entry, AssistantEntry):
                messages += self._encode_reply(entry)
            elif isinstance(entry, OutputEntry):
                messages.append(self._encode_output(entry, attachments))
            else:
                messages.append({"role": "user", "content": self._encode_content(entry.content)})
        if attachments:
            # A tool message holds text only, and the tool messages of a reply are consecutive. Pictures and files follow them.
            messages.append({"role": "user", "content": attachments})
        violations = (_find_lenient_violations if self.compatible else _find_violations)(messages) if messages else ()
        return EncodedGroup(b",".join(map(_encode, messages)), tuple(self.losses), violations, self.has_reasoning)

    def _encode_reply(self, entry: AssistantEntry) -> list[dict[str, Any]]:
        """Encode a reply as one message; none if it has no text and no calls."""
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        reasoning_items: list[Reasoning] = []
        for index, item in enumerate(entry.items):
            match item:
                case OutputText():
                    texts.append(item.text)
                    self.losses += [f"citations of {entry.agent}: this API takes text only"] if item.citations else []
                case Refusal():
                    texts.append(item.text)
                case Call():
                    calls.append({"id": choose_call_id(item, entry.position, index, self.use_own_ids), **self._encode_call(item)})
                case Reasoning() if self.replay_reasoning:
                    reasoning_items.append(item)
                case Reasoning():
                    self.losses += [f"reasoning of {entry.agent}: {OTHER_MODEL_ONLY}"] if item.text or item.encrypted else []
                case HostedToolUse():
                    self.losses.append(f"{item.kind} of {entry.agent}: {PROVIDER_SPECIFIC}")
        content = "\n".join(filter(None, texts))
        if not content and not calls:
            return []
        reasoning = _write_reasoning(reasoning_items)
        message = {"role": "assistant", "content": content or None, **reasoning}
        self.has_reasoning = bool(reasoning)
        if calls:
            message["tool_calls"] = calls
        return [message]

    def _encode_call(self, call: Call) -> dict[str, Any]:
        """Encode a call without its id: as it came if the same model made it, else as a call of a function."""
        extra = parse_object(call.extra) if self.is_same_model else {}
        if extra.pop("type", "") == "custom":
            return {"type": "custom", "custom": {"name": sanitize_tool_name(call.tool), "input": call.arguments}, **extra}
        return {
            "type": "function",
            "function": {"name": sanitize_tool_name(call.tool), "arguments": self._encode_arguments(call.arguments)},
            **extra,
        }

    def _encode_arguments(self, arguments: str) -> str:
        """Return a call's arguments as the model wrote them. Compatible servers parse them, and fail if they are no object."""
        if not self.compatible:
            return arguments
        try:
            if isinstance(msgspec.json.decode(arguments.strip() or "{}"), dict):
                return arguments.strip() or "{}"
        except (msgspec.DecodeError, RecursionError):
            pass
        return _encode({"arguments": arguments}).decode()

    def _encode_output(self, entry: OutputEntry, attachments: list[dict[str, Any]]) -> dict[str, Any]:
        """Encode the output of a call. Its pictures and files are added to `attachments`."""
        content: object = entry.content
        if not isinstance(entry.content, str):
            text_parts: list[Part] = []
            other_parts: list[dict[str, Any]] = []
            for part in entry.content:
                if isinstance(part, Text) or (isinstance(part, File) and part.url):
                    text_parts.append(part)
                else:
                    text_parts.append(Text(f"[{_describe_part(part)}: see the message after the tools' outputs]"))
                    other_parts.append(self._encode_part(part))
            if other_parts:
                attachments += [{"type": "text", "text": f"Returned by {entry.call.tool}:"}, *other_parts]
            content = self._encode_content(tuple(text_parts)) or ""
        id = choose_call_id(entry.call, entry.ref.position, entry.ref.index, self.use_own_ids)
        return {"role": "tool", "tool_call_id": id, "content": content}

    def _encode_content(self, content: Content) -> object:
        if isinstance(content, str):
            return content
        parts = [self._encode_part(part) for part in content]
        if self.compatible and all(part["type"] == "text" for part in parts):
            return "\n".join(part["text"] for part in parts)  # the templates of many servers take nothing else
        return parts

    def _encode_part(self, part: Part) -> dict[str, Any]:
        match part:
            case Text(text=text):
                return {"type": "text", "text": text}
            case Image():
                return {"type": "image_url", "image_url": {"url": make_attachment_url(part, self.contents)}}
            case File(url=url) if url:
                self.losses.append(f"file {part.name or url}: this API takes no file URLs; the model gets the URL as text")
                return {"type": "text", "text": f"[file {part.name}: {url}]" if part.name else f"[file: {url}]"}
            case File():
                return {"type": "file", "file": {"filename": part.name or "file", "file_data": make_attachment_url(part, self.contents)}}


def _write_reasoning(items: Sequence[Reasoning]) -> dict[str, Any]:
    """Return the members of a message that hold the reasoning: sealed if the server sealed it, else as text."""
    if not items:
        return {}
    sealed = {name: value for item in items for name, value in parse_object(item.encrypted).items()}
    text = "" if "reasoning_details" in sealed else "\n\n".join(item.text for item in items if item.text)  # they include the text
    return {REASONING_MEMBER: text, **sealed} if text else sealed


def _describe_part(part: Part) -> str:
    return "picture" if isinstance(part, Image) else f"file {part.name}".strip() if isinstance(part, File) else "text"
