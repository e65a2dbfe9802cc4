"""Encoding of requests to the Responses API.

The body is joined from encoded groups: each group is encoded once and cached, so a request costs its new groups plus a join. No item is
sent with an item id; calls and outputs are paired by call id. With `memory` other than "inline", a request continues the history that the
provider is confirmed to store, and sends the rest by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.facts import Call, Content, File, HostedToolUse, Image, OutputText, Reasoning, Refusal, ReplyItem, Text
from legato.core.groups import AssistantEntry, Group, OutputEntry
from legato.core.texts_for_model import conversation_summary
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.providers.formats.attachments import make_attachment_url
from legato.providers.formats.call_ids import choose_call_id
from legato.providers.formats.encoded_request import MISSING_USER_MESSAGE, EncodedGroup, EncodedRequest, RequestHead, join_body
from legato.providers.formats.group_cache import get_group_cache
from legato.providers.formats.incremental_encoder import IncrementalEncoder, get_cached_encoder
from legato.providers.formats.lenient_json import as_objects, as_text
from legato.providers.formats.loss_reasons import (
    KEPT_BY_PROVIDER,
    NOTHING_FOLLOWS,
    OTHER_MODEL_ONLY,
    PROVIDER_SPECIFIC,
    REFUSED_BY_PROVIDER,
    REPLAY_DISABLED,
)
from legato.providers.formats.request_options import RequestOptions, decode_options
from legato.providers.formats.responses.item_replay import (
    REPLAYED_ITEM_ID_PREFIXES,
    UNREPLAYABLE_ITEMS,
    drop_unknown_program,
    encode_call,
    encode_hosted_item,
    encode_message,
    encode_output,
    find_program_ids,
    find_referenced_program_ids,
    has_known_program,
    is_waiting_for_caller,
)
from legato.providers.formats.responses.stored_history import ContinuationPoint, StoredHistory, find_continuation_point, read_stored_history
from legato.providers.rules.identifiers import map_sanitized_names, sanitize_tool_name
from legato.providers.rules.json_schemas import is_enforced_by_openai, render_output_format, render_schema_instructions
from legato.providers.rules.responses.rules import AUDIO_OR_VIDEO_URL, check_each_item, check_items, check_request
from legato.providers.rules.rule_set import RuleViolation
from legato.providers.rules.shape_cache import cache_by_shape

TEXT_MEMBERS = frozenset(("content", "text", "arguments", "output", "encrypted_content"))
"""The members whose texts do not matter to the rules: items that differ in nothing else are checked once."""
AUDIO_AND_VIDEO_TYPES = ("audio/", "video/")
AUDIO_AND_VIDEO_LOSS = "this API takes no audio or video; the model gets its name as text"
FOREIGN_CITATIONS = "only the provider that wrote them accepts them back"
CALL_ID_MEMBERS = frozenset(("call_id",))

_encode = msgspec.json.Encoder().encode
_find_violations = cache_by_shape(check_items, TEXT_MEMBERS, CALL_ID_MEMBERS)
_find_violations_of_each = cache_by_shape(check_each_item, TEXT_MEMBERS, CALL_ID_MEMBERS)


def encode_request(
    request: ModelRequest, options: RequestOptions, origin: str, *, stream: bool, by_value: bool = False, with_reasoning: bool = True
) -> EncodedRequest:
    """Encode a request. `by_value`: send all history, even if the provider stores it; `with_reasoning=False`: replay no reasoning."""
    options_text = options.to_json()
    head = _encode_head(request.turn_context, options_text, stream)
    namespaces = tuple((name, namespace) for name, (_, namespace) in _find_declared_tools(options_text).items() if namespace)
    dependencies = (origin, options.replay_reasoning, with_reasoning, namespaces)
    continuation, history_digest = ContinuationPoint(), ""
    view: IncrementalEncoder
    if options.memory == "inline":
        view = input_items = get_cached_encoder(request, "responses", dependencies, lambda: _InputEncoder(*dependencies))
    else:
        view = history = read_stored_history(request, origin)
        continuation = ContinuationPoint() if by_value else find_continuation_point(request, options, history)
        history_digest = history.digest
        input_items = _InputEncoder(*dependencies, refused_before=history.refused_before)
        input_items.add_unstored_groups(continuation, history, request)
    base_member_name = b"previous_response_id" if continuation.response_id else b"conversation"
    base_member = b',"%b":%b' % (base_member_name, _encode(continuation.base_id)) if continuation.base_id else b""
    first_items = _encode_first_items(request, options, continuation, input_items)
    return EncodedRequest(
        join_body(head.body[:-1] + base_member + b',"input":[', first_items, input_items.pieces, b"]}"),
        head.tool_names,
        history_digest,
        continuation.base_id,
        input_items.has_reasoning,
        view.select_new_losses([*_find_missing_tool_losses(request.turn_context, options), *input_items.losses]),
        (*head.violations, *input_items.violations),
        reasoning_refused=not with_reasoning,
        has_hosted_items=input_items.has_hosted_items,
    )


def _encode_first_items(
    request: ModelRequest, options: RequestOptions, continuation: ContinuationPoint, input_items: _InputEncoder
) -> list[bytes]:
    """Return the items before the groups that are sent by value. There is at least one item if there are no groups."""
    texts = [*request.turn_context.messages] if options.memory == "inline" else []
    if request.summary and not continuation.group_count:
        texts.append(conversation_summary(request.summary))
    if not texts and not input_items.open_reply_outputs and not input_items.pieces:
        texts.append(MISSING_USER_MESSAGE)
    return [*input_items.open_reply_outputs, *(_encode({"role": "user", "content": text}) for text in texts)]


def find_option_violations(options: RequestOptions) -> tuple[RuleViolation, ...]:
    """Return the violations of the provider's rules that options cause in every request."""
    return _encode_head(TurnContext(""), options.to_json(), False).violations


# -- everything but the input ------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _encode_head(context: TurnContext, options_text: str, stream: bool) -> RequestHead:
    """Encode and check all members except `input` and the base that it continues, once per turn context and options."""
    options = decode_options(options_text)
    sends_history = options.memory == "inline"
    reasoning = {"effort": options.effort, "summary": options.reasoning_summary}
    body = {
        "model": options.model,
        "instructions": _write_instructions(context, options),
        "tools": [*_write_tools(context, options_text), *options.hosted],
        "text": _write_text_settings(context, options),
        "store": not sends_history,
        "include": ["reasoning.encrypted_content"] if sends_history and options.replay_reasoning else None,
        "reasoning": {name: value for name, value in reasoning.items() if value} or None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_output_tokens": options.max_tokens,
        "tool_choice": _write_tool_choice(context, options),
        "parallel_tool_calls": options.parallel_calls,
        "service_tier": options.service_tier,
        "stream": stream or None,
        **options.extra,
    }
    encoded = _encode({name: value for name, value in body.items() if value is not None and value != "" and value != []})
    checked = {**msgspec.json.decode(encoded), "input": "?"}
    provider_members = ("previous_response_id", "conversation")  # only the provider knows what it stores
    violations = check_request({name: value for name, value in checked.items() if name not in provider_members})
    return RequestHead(encoded, map_sanitized_names(tool.name for tool in context.tools), tuple(violations))


def _write_instructions(context: TurnContext, options: RequestOptions) -> str:
    """Return the instructions. If the provider stores the conversation, they repeat the turn context's added messages in each request."""
    messages = context.messages if options.memory != "inline" else ()
    output_instructions = render_schema_instructions(context.output) if context.output and not is_enforced_by_openai(context.output) else ""
    return "\n\n".join(filter(None, (context.instructions, output_instructions, *messages)))


def _write_tools(context: TurnContext, options_text: str) -> list[dict[str, Any]]:
    """Return the agent's tools, except those that the options declare."""
    declared = _find_declared_tools(options_text)
    return [
        {
            "type": "function",
            "name": sanitize_tool_name(tool.name),
            "description": tool.description,
            "parameters": msgspec.Raw(tool.parameters.encode()),
            "strict": False,
        }
        for tool in context.tools
        if sanitize_tool_name(tool.name) not in declared
    ]


def _write_text_settings(context: TurnContext, options: RequestOptions) -> dict[str, Any] | None:
    """Return the format and the verbosity of the reply's text."""
    enforced = context.output and is_enforced_by_openai(context.output)
    format = {"format": {"type": "json_schema", **render_output_format(context.output)}} if enforced else {}
    return {**format, **({"verbosity": options.verbosity} if options.verbosity else {})} or None


@lru_cache(maxsize=256)
def _find_declared_tools(options_text: str) -> dict[str, tuple[str, str]]:
    """Return the types and namespaces of the tools that the options declare, by name. They replace the agent's declarations.

    A tool with deferred loading is in a namespace of its own; the default namespace is empty.
    """
    declared: dict[str, tuple[str, str]] = {}
    for tool in decode_options(options_text).hosted:
        is_namespace = tool.get("type") == "namespace"
        for each in as_objects(tool.get("tools")) if is_namespace else (tool,):
            if each.get("type") in ("function", "custom"):
                name = as_text(each.get("name"))
                namespace = as_text(tool.get("name")) if is_namespace else name if each.get("defer_loading") else ""
                if not namespace or name not in declared:
                    declared[name] = each["type"], namespace
    return declared


def _write_tool_choice(context: TurnContext, options: RequestOptions) -> object:
    """Return the tool choice; None if the agent does not have the tool, or has no tools: the API would refuse the request."""
    choice = options.tool_choice
    if choice is None or not (context.tools or options.hosted):
        return None
    if choice in ("auto", "none", "required"):
        return choice
    if any(tool.name == choice for tool in context.tools):
        kind, _ = _find_declared_tools(options.to_json()).get(sanitize_tool_name(choice), ("function", ""))
        return {"type": kind, "name": sanitize_tool_name(choice)}
    return {"type": choice} if any(tool.get("type") == choice for tool in options.hosted) else None


def _find_missing_tool_losses(context: TurnContext, options: RequestOptions) -> list[str]:
    """Report a tool choice that this agent cannot follow: several agents can share one model and its options."""
    choice = options.tool_choice
    if choice in (None, "auto", "none", "required") or _write_tool_choice(context, options) is not None:
        return []
    return [f"tool_choice {choice!r} of {context.agent}: it has no such tool"]


# -- the input ---------------------------------------------------------------------------------------------------------


class _InputEncoder(IncrementalEncoder):
    """Encodes the groups that are sent by value, and collects losses and violations."""

    def __init__(
        self,
        origin: str,
        replay_reasoning: bool,
        with_reasoning: bool,
        namespaces: tuple[tuple[str, str], ...] = (),
        refused_before: float = -1,
    ) -> None:
        self._replay_reasoning = replay_reasoning
        self._with_reasoning = with_reasoning
        self._namespaces = dict(namespaces)
        self._key = f"{namespaces}" if namespaces else ""
        super().__init__(origin)
        self.refused_before = refused_before

    def reset(self) -> None:
        self.pieces: list[bytes] = []
        self.losses: dict[str, None] = {}
        self.violations: list[RuleViolation] = []
        self.has_reasoning = self.has_hosted_items = False
        self.known_programs: frozenset[str] = frozenset()  # ids of the programs in the groups so far
        self.open_reply_outputs: list[bytes] = []  # outputs for the calls of a stored reply

    def add_unstored_groups(self, continuation: ContinuationPoint, history: StoredHistory, request: ModelRequest) -> None:
        """Encode what the provider does not store yet: outputs for the calls of the stored reply, and all groups after it."""
        new_groups = request.groups[continuation.group_count :]
        if any(find_referenced_program_ids(group.fact.items) for group in new_groups if group.fact is not None):
            stored_groups = request.groups[: continuation.group_count]
            stored_items = (group.fact.items for group in stored_groups if group.fact is not None)
            self.known_programs = frozenset().union(*map(find_program_ids, stored_items))
        for group in new_groups:
            self.add_group(group, group.position in history.positions_with_own_ids, request)
        if continuation.open_reply is not None:
            encoder = _GroupEncoder("", False, request.contents, {}, None)
            items = [encoder.encode_output(entry) for entry in continuation.open_reply.entries if isinstance(entry, OutputEntry)]
            self.open_reply_outputs += map(_encode, items)
            self.losses.update(dict.fromkeys(encoder.losses))
            self.violations += _find_violations_of_each(items)

    def add_group(self, group: Group, use_own_ids: bool, request: ModelRequest) -> None:
        reasoning_loss = self._find_reasoning_loss(group)
        items = group.fact.items if group.fact is not None else ()
        new_programs = find_program_ids(items) if reasoning_loss not in (OTHER_MODEL_ONLY, REFUSED_BY_PROVIDER) else frozenset()
        old_programs = find_referenced_program_ids(items) & self.known_programs if self.known_programs else frozenset()
        key = f"responses {use_own_ids:d} {reasoning_loss}{self._key}{sorted(old_programs) if old_programs else ''}"
        cache = get_group_cache(group)
        encoded: EncodedGroup | None = cache.get(key)
        if encoded is None:
            terms = (reasoning_loss, use_own_ids, request.contents, self._namespaces)
            encoded = _GroupEncoder(*terms, self.known_programs | new_programs).encode_group(group)
            if encoded.has_hosted_items and encoded.violations:  # a hosted item has a form that Legato does not know: leave them out
                encoded = _GroupEncoder(*terms, self.known_programs, allow_hosted_items=False).encode_group(group)
            cache[key] = encoded
        if new_programs and encoded.has_hosted_items:
            self.known_programs |= new_programs
        if encoded.body:
            self.pieces.append(encoded.body)
        self.losses.update(dict.fromkeys(encoded.losses))
        self.violations += encoded.violations
        self.has_reasoning = self.has_reasoning or encoded.has_reasoning
        self.has_hosted_items = self.has_hosted_items or encoded.has_hosted_items

    def _find_reasoning_loss(self, group: Group) -> str:
        """Return the reason why the reasoning of a reply is not replayed; empty if it is replayed."""
        if group.fact is None or group.fact.origin != self.origin:
            return OTHER_MODEL_ONLY
        if not self._replay_reasoning:
            return REPLAY_DISABLED
        return "" if self._with_reasoning and group.position >= self.refused_before else REFUSED_BY_PROVIDER


class _GroupEncoder(msgspec.Struct):
    """Encodes one group, and collects its losses.

    `reasoning_loss`: the reason why its reasoning is not replayed; empty if it is replayed. `use_own_ids`: its calls get ids made by
    Legato. `namespaces`: the namespaces of tools that the options declare. `known_programs`: the programs that calls may refer to; None:
    any, since the provider stores the calls. `allow_hosted_items`: uses of hosted tools may be replayed.
    """

    reasoning_loss: str
    use_own_ids: bool
    contents: Mapping[str, bytes]
    namespaces: Mapping[str, str]
    known_programs: frozenset[str] | None
    allow_hosted_items: bool = True
    losses: list[str] = []

    @property
    def replays_hosted_items(self) -> bool:
        """True if uses of hosted tools are replayed."""
        return self.allow_hosted_items and self.reasoning_loss not in (OTHER_MODEL_ONLY, REFUSED_BY_PROVIDER)

    def encode_group(self, group: Group) -> EncodedGroup:
        """Encode a group as input items."""
        items: list[dict[str, Any]] = []
        for entry in group.entries:
            if isinstance(entry, AssistantEntry):
                items += self._encode_reply(entry)
            elif isinstance(entry, OutputEntry):
                items.append(self.encode_output(entry))
            else:
                items.append({"role": "user", "content": self._encode_content(entry.content)})
        kinds = {item.get("type") for item in items}
        has_citations = any(item.get("role") == "assistant" and not isinstance(item["content"], str) for item in items)
        return EncodedGroup(
            b",".join(map(_encode, items)),
            tuple(self.losses),
            _find_violations(items),
            "reasoning" in kinds,
            has_citations or not kinds.isdisjoint(REPLAYED_ITEM_ID_PREFIXES),
        )

    def encode_output(self, entry: OutputEntry) -> dict[str, Any]:
        """Encode the output of a call."""
        id = choose_call_id(entry.call, entry.ref.position, entry.ref.index, self.use_own_ids)
        return encode_output(self._drop_foreign_members(entry.call), id, self._encode_content(entry.content))

    def _encode_reply(self, entry: AssistantEntry) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for index, item in enumerate(entry.items):
            match item:
                case OutputText():
                    items.append(self._encode_text(item, entry.agent))
                case Refusal():
                    items.append({"role": "assistant", "content": item.text})
                case Call():
                    items.append(self._encode_call(item, choose_call_id(item, entry.position, index, self.use_own_ids)))
                case Reasoning():
                    items += self._encode_reasoning(item, entry.agent)
                case HostedToolUse():
                    items += self._encode_hosted_item(item, entry, index)
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # the reply was cut short
            self.losses.append(f"reasoning of {entry.agent}: {NOTHING_FOLLOWS}")
        return items

    def _encode_text(self, text: OutputText, agent: str) -> dict[str, Any]:
        if text.citations and not self.replays_hosted_items:
            loss = REFUSED_BY_PROVIDER if self.reasoning_loss == REFUSED_BY_PROVIDER else FOREIGN_CITATIONS
            self.losses.append(f"citations of {agent}: {loss}")
        extra = "" if self.reasoning_loss == OTHER_MODEL_ONLY else text.extra
        return encode_message(text.text, extra, text.citations if self.replays_hosted_items else "")

    def _encode_call(self, call: Call, id: str) -> dict[str, Any]:
        encoded = encode_call(self._drop_foreign_members(call), id, sanitize_tool_name(call.tool))
        if self.namespaces and (namespace := self.namespaces.get(encoded.get("name", ""))):
            encoded.setdefault("namespace", namespace)  # the call of another model, of a tool that is declared now
        return encoded

    def _drop_foreign_members(self, call: Call) -> Call:
        """Return a call with the members that this provider gave it; without them if another provider made it."""
        if not call.extra or self.known_programs is None:
            return call
        return replace(call, extra="") if self.reasoning_loss == OTHER_MODEL_ONLY else drop_unknown_program(call, self.known_programs)

    def _encode_reasoning(self, reasoning: Reasoning, agent: str) -> list[dict[str, Any]]:
        if reasoning.encrypted and not self.reasoning_loss:
            return [{"type": "reasoning", "summary": [], "encrypted_content": reasoning.encrypted}]
        if reasoning.encrypted or reasoning.text or reasoning.item_id:  # erased reasoning is no loss
            self.losses.append(f"reasoning of {agent}: {self.reasoning_loss or KEPT_BY_PROVIDER}")
        return []

    def _encode_hosted_item(self, hosted: HostedToolUse, entry: AssistantEntry, index: int) -> list[dict[str, Any]]:
        if loss := self._find_hosted_item_loss(hosted, entry.items):
            self.losses.append(f"{hosted.kind} of {entry.agent}: {loss}")
            return []
        return [encode_hosted_item(hosted.kind, hosted.body, f"{REPLAYED_ITEM_ID_PREFIXES[hosted.kind]}_{entry.position}_{index}")]

    def _find_hosted_item_loss(self, hosted: HostedToolUse, items: Sequence[ReplyItem]) -> str:
        """Return the reason why the use of a hosted tool is not replayed; empty if it is replayed."""
        if self.reasoning_loss in (OTHER_MODEL_ONLY, REFUSED_BY_PROVIDER):
            return REFUSED_BY_PROVIDER if self.reasoning_loss == REFUSED_BY_PROVIDER else PROVIDER_SPECIFIC
        if self.replays_hosted_items and not has_known_program(hosted, self.known_programs or ()):
            return "its program is not in this request"
        if self.replays_hosted_items and hosted.kind in REPLAYED_ITEM_ID_PREFIXES and not is_waiting_for_caller(hosted, items):
            return ""
        return UNREPLAYABLE_ITEMS.get(hosted.kind, PROVIDER_SPECIFIC)

    def _encode_content(self, content: Content) -> object:
        return content if isinstance(content, str) else [self._encode_part(part) for part in content]

    def _encode_part(self, part: Text | Image | File) -> dict[str, Any]:
        match part:
            case Text(text=text):
                return {"type": "input_text", "text": text}
            case Image():
                return {"type": "input_image", "image_url": make_attachment_url(part, self.contents), "detail": "auto"}
            case File(url=url, media_type=kind) if kind.startswith(AUDIO_AND_VIDEO_TYPES) or AUDIO_OR_VIDEO_URL.search(url):
                what = url or kind
                self.losses.append(f"file {part.name or what}: {AUDIO_AND_VIDEO_LOSS}")
                return {"type": "input_text", "text": f"[file {part.name}: {what}]" if part.name else f"[file: {what}]"}
            case File(url=url) if url:
                return {"type": "input_file", "file_url": url}
            case File():
                return {"type": "input_file", "filename": part.name or "file", "file_data": make_attachment_url(part, self.contents)}
