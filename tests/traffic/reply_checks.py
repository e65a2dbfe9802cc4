"""Decodes recorded answers, encodes them again for the next request, and compares both with the provider's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct

from legato.core.facts import Call, CallRef, Content, ModelReplied, Usage
from legato.core.groups import CallOutput, CallState, Group
from legato.core.model_reply import ModelReply
from legato.core.turn_context import TurnContext, encode_turn_context
from legato.core.view import ModelRequest
from legato.errors import ModelFailed
from legato.models.background_responses import get_pending_id
from legato.providers.formats.anthropic.decode import decode_reply as decode_anthropic
from legato.providers.formats.anthropic.encode import CODE_TOOL_PREFIXES
from legato.providers.formats.anthropic.encode import encode_request as encode_anthropic
from legato.providers.formats.anthropic.stream import AnthropicStreamDecoder as AnthropicStream
from legato.providers.formats.chat.decode import decode_reply as decode_chat
from legato.providers.formats.chat.encode import encode_request as encode_chat
from legato.providers.formats.chat.stream import ChatStreamDecoder as ChatStream
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_objects, as_text
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.decode import decode_reply as decode_responses
from legato.providers.formats.responses.encode import encode_request as encode_responses
from legato.providers.formats.responses.stream import ResponsesStreamDecoder as ResponsesStream
from legato.providers.formats.sse_decoder import SSEDecoder
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.anthropic.request_shape import SERVER_RESULT_TYPES, SERVER_TOOL_USE_TYPES
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses
from legato.providers.rules.rule_set import RuleViolation
from tests.traffic.corpus import Api, Exchange
from tests.traffic.members import Member, MemberIndex, list_members
from tests.traffic.recorded_bodies import RecordedBody

ORIGIN = "the recorded provider"
TOOL_OUTPUT = "The tool returned this."
IDENTIFYING_MEMBERS = ("call_id", "signature", "encrypted_content", "tool_use_id", "text", "content", "data", "id")
"""Members that identify items, the best first, to compare the order of items in an answer and in the next request."""

REPLY_DECODERS: dict[Api, Callable[..., ModelReply]] = {"responses": decode_responses, "chat": decode_chat, "anthropic": decode_anthropic}
REQUEST_ENCODERS: dict[Api, Callable[..., EncodedRequest]] = {
    "responses": encode_responses,
    "chat": encode_chat,
    "anthropic": encode_anthropic,
}
REQUEST_CHECKS: dict[Api, Callable[[Any], Sequence[RuleViolation]]] = {
    "responses": responses.check_request,
    "chat": partial(chat.check_request, switches=chat.LENIENT),
    "anthropic": partial(anthropic.check_request, headers={"anthropic-version": "2023-06-01"}),
}
STREAM_DECODERS: dict[Api, Callable[..., Any]] = {"responses": ResponsesStream, "chat": ChatStream, "anthropic": AnthropicStream}


class ReplyFinding(Struct, frozen=True):
    """A problem with one exchange. `name` is the name of its row in the table."""

    kind: str
    name: str
    note: str = ""


class ReplayedConversation:
    """A conversation of one agent that has the recorded answer as the model's first reply."""

    def __init__(self, api: Api, model: str, *, compatible: bool = False, hosted: tuple[dict[str, Any], ...] = ()) -> None:
        self._api = api
        self._options = RequestOptions(model=model, compatible=compatible, hosted=hosted)
        self._encoder_options = {"with_reasoning": True} if compatible else {}  # as `OpenAIChat` does for other servers
        self._turn_context = TurnContext("agent")
        self._groups = [_make_message_group(0, "Go on.")]
        self.first_request = self.encode_next_request()

    def encode_next_request(self) -> EncodedRequest:
        """Encode the next request with our own encoder, for the origin of the reply."""
        request = ModelRequest("s", self._turn_context, encode_turn_context(self._turn_context)[0], tuple(self._groups), 0, 0, 0)
        return REQUEST_ENCODERS[self._api](request, self._options, origin=ORIGIN, stream=False, **self._encoder_options)

    def encode_follow_up(self, reply: ModelReply) -> EncodedRequest:
        """Encode the request after a reply and the outputs of all its calls."""
        self._groups += [_make_reply_group(1, reply), _make_message_group(99, "And then?")]
        return self.encode_next_request()


def _make_message_group(position: int, content: Content) -> Group:
    group = Group("said", position)
    group.content = content
    return group


def _make_reply_group(position: int, reply: ModelReply) -> Group:
    group = Group("reply", position, "agent")
    shared = {name: getattr(reply, name) for name in ModelReplied.__struct_fields__ if name in ModelReply.__struct_fields__}
    group.fact = ModelReplied(at=0, agent="agent", context_digest="", upto=0, **shared)
    for index, item in enumerate(reply.items):
        if isinstance(item, Call):
            state = CallState(CallRef(position, index), item, item.arguments)
            state.output = CallOutput(TOOL_OUTPUT, "ok", position + 1)
            group.calls.append(state)
    return group


def decode_recorded_reply(exchange: Exchange, encoded: EncodedRequest) -> ModelReply:
    """Decode an answer with our own decoder, in one piece or as a stream of events."""
    response = exchange.response
    if not isinstance(response, str):
        return REPLY_DECODERS[exchange.api](response, encoded, ORIGIN)
    if response.lstrip().startswith("{"):
        return REPLY_DECODERS[exchange.api](msgspec.json.decode(response), encoded, ORIGIN)
    decoder = STREAM_DECODERS[exchange.api](lambda _: None)
    for event in SSEDecoder().feed(response.encode() + b"\n\n"):
        decoder.feed(event.data)
    reply: ModelReply = decoder.build_reply(encoded, ORIGIN)
    return reply


def find_reply_problems(exchange: Exchange, recorded: RecordedBody) -> Iterator[ReplyFinding]:
    """Yield the problems of decoding an answer, and of sending it back in the next request."""
    api, body = exchange.api, recorded.body
    assert body is not None
    conversation = ReplayedConversation(
        api,
        as_text(body.get("model")) or "any",
        compatible=api == "chat" and not exchange.is_from_provider,
        hosted=_list_code_tools(as_object(exchange.request)) if api == "anthropic" else (),
    )
    try:
        reply = decode_recorded_reply(exchange, conversation.first_request)
    except ModelFailed as failure:
        if not _reports_failure(api, body) and (failure.retryable or not get_pending_id(body)):  # the client fetches what is pending
            yield ReplyFinding(
                "reader refused", f"{failure.summary.splitlines()[0][:80]}", "retryable" if failure.retryable else "for good"
            )
        return
    except Exception as error:  # the row names it
        yield ReplyFinding("reader crashed", type(error).__name__, str(error))
        return
    if not reply.items and reply.finish == "stop" and _has_content(api, body):
        yield ReplyFinding("reader refused", "nothing of the reply is recorded")
    recorded_members = MemberIndex([reply])
    for member in list_members(_select_body_members(api, body)):
        if member not in recorded_members:
            yield ReplyFinding("lost in reading", member.path, str(member.value))
    yield from _find_misread_usage(api, body.get("usage"), reply.usage)
    yield from _find_follow_up_problems(api, body, conversation, reply)


def _list_code_tools(request: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the tools of a request that run code at the provider, in a container that belongs to the conversation."""
    return tuple(tool for tool in as_objects(request.get("tools")) if as_text(tool.get("type")).startswith(CODE_TOOL_PREFIXES))


def _reports_failure(api: Api, body: dict[str, Any]) -> bool:
    """Return True if the answer itself says that the request failed."""
    return bool(body.get("error")) or body.get("type") == "error" or (api == "responses" and body.get("status") in ("failed", "cancelled"))


def _has_content(api: Api, body: dict[str, Any]) -> bool:
    """Return True if an answer has content that could be recorded. A message without text has none."""
    names = ("text", "content", "refusal", "arguments", "input", "name", "encrypted_content", "data", "result")
    return any(member.name in names for member in list_members(_select_items(api, body)))


# -- answers -----------------------------------------------------------------------------------------------------------


def _select_body_members(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body without its usage, whose numbers are compared instead. In Chat the choices after the first have a name of their own,
    in Responses the messages without text."""
    members = {name: value for name, value in body.items() if name != "usage"}
    if api == "responses" and "output" in members:
        textless = [item for item in as_objects(members["output"]) if _is_textless_message(item)]
        members |= {"output": [item for item in as_objects(members["output"]) if item not in textless], "wordless message": textless}
    choices = members.get("choices")
    if api == "chat" and isinstance(choices, list):
        first = [choice for choice in choices if isinstance(choice, dict) and choice.get("index") in (0, None)][:1] or choices[:1]
        members |= {"choices": first, "choices after the first": [choice for choice in choices if choice not in first]}
    return members


def _find_misread_usage(api: Api, usage: Any, read: Usage) -> Iterator[ReplyFinding]:
    if not isinstance(usage, dict):
        return
    expected = {"responses": _read_responses_usage, "chat": _read_chat_usage, "anthropic": _read_anthropic_usage}[api](usage)
    for name, tokens in expected.items():
        if tokens != getattr(read, name):
            yield ReplyFinding("usage misread", f"usage.{name}", f"{tokens} were sent, {getattr(read, name)} are recorded")


def _count_tokens(usage: Any, *path: str) -> int:
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) else 0


def _read_responses_usage(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input": _count_tokens(usage, "input_tokens"),
        "output": _count_tokens(usage, "output_tokens"),
        "cached": _count_tokens(usage, "input_tokens_details", "cached_tokens"),
        "reasoning": _count_tokens(usage, "output_tokens_details", "reasoning_tokens"),
    }


_CHAT_CACHED = (("prompt_tokens_details", "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",), ("num_cached_tokens",))
"""The paths of the number of cached tokens at OpenAI, DeepSeek, Together and Mistral."""


def _read_chat_usage(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input": _count_tokens(usage, "prompt_tokens"),
        "output": _count_tokens(usage, "completion_tokens"),
        "cached": next((count for path in _CHAT_CACHED if (count := _count_tokens(usage, *path))), 0),
        "reasoning": _count_tokens(usage, "completion_tokens_details", "reasoning_tokens"),
    }


def _read_anthropic_usage(usage: dict[str, Any]) -> dict[str, int]:
    """Count the tokens of all iterations of a reply: if there are several, the outer counts are those of some of them."""
    iterations = [each for each in usage.get("iterations") or () if isinstance(each, dict)]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    inner = {name: sum(_count_tokens(each, name) for each in iterations) for name in names}
    fresh, written, cached, output = (max(_count_tokens(usage, name), inner[name]) for name in names)
    return {"input": fresh + written + cached, "output": output, "cached": cached, "written": written}


# -- follow-up requests ------------------------------------------------------------------------------------------------


def _find_follow_up_problems(
    api: Api, body: dict[str, Any], conversation: ReplayedConversation, reply: ModelReply
) -> Iterator[ReplyFinding]:
    try:
        encoded = conversation.encode_follow_up(reply)
    except Exception as error:
        yield ReplyFinding("encoder crashed", type(error).__name__, str(error))
        return
    request = msgspec.json.decode(encoded.body)
    for violation in encoded.violations or REQUEST_CHECKS[api](request):
        yield ReplyFinding("follow-up we would refuse", violation.rule.id, str(violation))
    sent = _select_encoded_reply(api, request)
    sent_members = MemberIndex([sent])
    received = _select_items(api, body)
    sent_items = {name: [item for item in items if not _is_omitted(item, sent_members)] for name, items in received.items()}
    for name, items in received.items():
        for item in items:
            if item not in sent_items[name]:
                yield ReplyFinding("not sent back", f"{name}[{item['type']}]", "the whole item")
    for member in list_members(sent_items):
        if member not in sent_members:
            yield ReplyFinding("not sent back", member.path, str(member.value))
    received_members = MemberIndex([received])
    for member in list_members(sent):
        if not _is_from_provider(member, received_members):
            yield ReplyFinding("sent back, but never came", member.path, str(member.value))
    yield from _find_reordered_items(sent_items, sent)


def _is_omitted(item: dict[str, Any], sent_members: MemberIndex) -> bool:
    """Return True if nothing of an item was sent: its type was not, and only messages are sent without one."""
    kind = item.get("type")
    return isinstance(kind, str) and kind != "message" and Member("", "type", kind) not in sent_members


def _find_reordered_items(received: dict[str, Any], sent: dict[str, Any]) -> Iterator[ReplyFinding]:
    """Yield the first item that is sent in another order than it was received in."""
    orders = [[key for item in _list_items(body) if (key := _identify_item(item)) is not None] for body in (received, sent)]
    orders = [[key for key in order if order.count(key) == 1] for order in orders]
    first, second = ([key for key in order if key in other] for order, other in (orders, reversed(orders)))
    for before, after in zip(first, second, strict=True):
        if before != after:
            yield ReplyFinding("out of order in the follow-up", "items", f"{after[:40]!r} where {before[:40]!r} was")
            return


def _list_items(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of an answer or of a request; instead of a message of Chat Completions with calls its calls."""
    for items in body.values():
        for item in as_objects(items):
            yield from as_objects(item.get("tool_calls")) or [item]


def _identify_item(item: dict[str, Any]) -> str | None:
    members = [member for member in list_members(item) if isinstance(member.value, str)]
    return next((str(member.value) for name in IDENTIFYING_MEMBERS for member in members if member.name == name), None)


def _is_from_provider(member: Member, received_members: MemberIndex) -> bool:
    """Return True if a member came from the provider. Texts of several parts are joined by line breaks."""
    if member in received_members:
        return True
    return isinstance(member.value, str) and all(Member("", "text", line) in received_members for line in member.value.split("\n") if line)


def _select_items(api: Api, body: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of an answer that belong to the conversation, and may have to be sent back."""
    match api:
        case "responses":
            return _select_responses_items(body.get("output"))
        case "chat":
            choice = next(iter(_select_body_members(api, body).get("choices") or ()), None) or {}
            return {"message": as_objects([choice.get("message")])}
        case "anthropic":
            return {**_select_anthropic_blocks(as_objects(body.get("content"))), "container": as_objects([body.get("container")])}


def _select_anthropic_blocks(content: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the blocks of a message. Blocks that cannot be sent have names of their own: halves, which are uses and results of the
    provider's tools whose other half is in the answer before or after; and thinking without a signature or without a following block."""
    uses = {as_text(block.get("id")) for block in content if as_text(block.get("type")) in SERVER_TOOL_USE_TYPES}
    results = {as_text(block.get("tool_use_id")) for block in content if as_text(block.get("type")) in SERVER_RESULT_TYPES}
    waits = any(as_text(block.get("type")) == "tool_use" for block in content)
    halves = [
        block
        for block in content
        if (as_text(block.get("type")) in SERVER_TOOL_USE_TYPES and as_text(block.get("id")) not in results and not waits)
        or (as_text(block.get("type")) in SERVER_RESULT_TYPES and as_text(block.get("tool_use_id")) not in uses)
    ]
    unsigned = [block for block in content if as_text(block.get("type")) == "thinking" and not block.get("signature")]
    last = list(takewhile(lambda block: as_text(block.get("type")) in THINKING_TYPES, reversed(content)))
    bare = [block for block in last if block not in unsigned]
    apart = {"half of a turn": halves, "unsigned thinking": unsigned, "thinking at the end": bare}
    return {"content": [block for block in content if not any(block in blocks for blocks in apart.values())], **apart}


def _select_responses_items(output: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the items of a response. Some have names of their own: messages without text, and reasoning that cannot be sent by value,
    because it has no encrypted content or is the last item."""
    textless = [item for item in as_objects(output) if _is_textless_message(item)]
    items = [item for item in as_objects(output) if item not in textless]
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    unsealed = [item for item in thoughts if not item.get("encrypted_content")]
    last = [item for item in items[-1:] if item in thoughts]
    sendable = [item for item in items if item not in unsealed and item not in last]
    apart = {"unsealed reasoning": unsealed, "reasoning at the end": [item for item in last if item not in unsealed]}
    return {"output": sendable, "wordless message": textless, **apart}


def _is_textless_message(item: dict[str, Any]) -> bool:
    """Return True if an item is a message without text; a refusal is no text."""
    return item.get("type") == "message" and not any(as_text(part.get("text")) for part in as_objects(item.get("content")))


def _select_encoded_reply(api: Api, request: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the next request that is the model's reply."""
    match api:
        case "responses":
            return {"input": [item for item in request["input"] if item.get("role") != "user" and item.get("output") != TOOL_OUTPUT]}
        case "chat":
            return {"messages": [message for message in request["messages"] if message["role"] == "assistant"]}
        case "anthropic":
            contents = [message["content"] for message in request["messages"] if message["role"] == "assistant"]
            return {"content": [block for content in contents for block in content], "container": {"id": request.get("container")}}
