"""Reads recorded answers with the package's readers and compares what is recorded with what the provider sent."""

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
from legato.providers.formats.anthropic.decode import decode_reply as read_anthropic
from legato.providers.formats.anthropic.encode import CODE_TOOL_PREFIXES
from legato.providers.formats.anthropic.encode import encode_request as compile_anthropic
from legato.providers.formats.anthropic.stream import AnthropicStreamDecoder as AnthropicStream
from legato.providers.formats.chat.decode import decode_reply as read_chat
from legato.providers.formats.chat.encode import encode_request as compile_chat
from legato.providers.formats.chat.stream import ChatStreamDecoder as ChatStream
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_object, as_objects, as_text
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.decode import decode_reply as read_responses
from legato.providers.formats.responses.encode import encode_request as compile_responses
from legato.providers.formats.responses.stream import ResponsesStreamDecoder as ResponsesStream
from legato.providers.formats.sse_decoder import SSEDecoder
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.anthropic.request_shape import SERVER_RESULT_TYPES, SERVER_TOOL_USE_TYPES
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses
from legato.providers.rules.rule_set import RuleViolation
from tests.traffic.bodies import Recorded
from tests.traffic.corpus import Api, Exchange
from tests.traffic.members import Member, Values, members_of

ORIGIN = "the recorded provider"
RETURNED = "The tool returned this."
MARKS = ("call_id", "signature", "encrypted_content", "tool_use_id", "text", "content", "data", "id")
"""Members that tell items apart, the best first, to compare the order in which they came and are sent."""

READ: dict[Api, Callable[..., ModelReply]] = {"responses": read_responses, "chat": read_chat, "anthropic": read_anthropic}
COMPILE: dict[Api, Callable[..., EncodedRequest]] = {"responses": compile_responses, "chat": compile_chat, "anthropic": compile_anthropic}
RULES: dict[Api, Callable[[Any], Sequence[RuleViolation]]] = {
    "responses": responses.check_request,
    "chat": partial(chat.check_request, switches=chat.LENIENT),
    "anthropic": partial(anthropic.check_request, headers={"anthropic-version": "2023-06-01"}),
}
STREAM: dict[Api, Callable[..., Any]] = {"responses": ResponsesStream, "chat": ChatStream, "anthropic": AnthropicStream}


class Finding(Struct, frozen=True):
    """Something about one exchange that a row of the table counts. `name` is what the row is called."""

    kind: str
    name: str
    note: str = ""


class Talk:
    """A conversation of one agent in which the recorded answer is the model's first reply."""

    def __init__(self, api: Api, model: str, *, compatible: bool = False, hosted: tuple[dict[str, Any], ...] = ()) -> None:
        self._api = api
        self._options = RequestOptions(model=model, compatible=compatible, hosted=hosted)
        self._how = {"with_reasoning": True} if compatible else {}  # as `OpenAIChat` asks other servers
        self._frame = TurnContext("agent")
        self._groups = [_said(0, "Go on.")]
        self.first = self.compile()

    def compile(self) -> EncodedRequest:
        """The next request, as our own encoder writes it for the origin of the reply."""
        request = ModelRequest("s", self._frame, encode_turn_context(self._frame)[0], tuple(self._groups), 0, 0, 0)
        return COMPILE[self._api](request, self._options, origin=ORIGIN, stream=False, **self._how)

    def follow_up(self, reply: ModelReply) -> EncodedRequest:
        """The request after a reply whose calls were all answered."""
        self._groups += [_replied(1, reply), _said(99, "And then?")]
        return self.compile()


def _said(position: int, content: Content) -> Group:
    group = Group("said", position)
    group.content = content
    return group


def _replied(position: int, reply: ModelReply) -> Group:
    group = Group("reply", position, "agent")
    shared = {name: getattr(reply, name) for name in ModelReplied.__struct_fields__ if name in ModelReply.__struct_fields__}
    group.fact = ModelReplied(at=0, agent="agent", context_digest="", upto=0, **shared)
    for index, item in enumerate(reply.items):
        if isinstance(item, Call):
            state = CallState(CallRef(position, index), item, item.arguments)
            state.output = CallOutput(RETURNED, "ok", position + 1)
            group.calls.append(state)
    return group


def read_recorded(exchange: Exchange, compiled: EncodedRequest) -> ModelReply:
    """What our reader makes of an answer, in one piece or as a stream of events."""
    response = exchange.response
    if not isinstance(response, str):
        return READ[exchange.api](response, compiled, ORIGIN)
    if response.lstrip().startswith("{"):
        return READ[exchange.api](msgspec.json.decode(response), compiled, ORIGIN)
    reader = STREAM[exchange.api](lambda _: None)
    for event in SSEDecoder().feed(response.encode() + b"\n\n"):
        reader.feed(event.data)
    reply: ModelReply = reader.build_reply(compiled, ORIGIN)
    return reply


def findings_of(exchange: Exchange, recorded: Recorded) -> Iterator[Finding]:
    """What is wrong with how we read an answer, and with what we would send back of it."""
    api, body = exchange.api, recorded.body
    assert body is not None
    talk = Talk(
        api,
        as_text(body.get("model")) or "any",
        compatible=api == "chat" and not exchange.of_provider,
        hosted=_code_tools(as_object(exchange.request)) if api == "anthropic" else (),
    )
    try:
        reply = read_recorded(exchange, talk.first)
    except ModelFailed as failure:
        if not _tells_of_a_failure(api, body) and (failure.retryable or not get_pending_id(body)):  # the client fetches what is pending
            yield Finding("reader refused", f"{failure.summary.splitlines()[0][:80]}", "retryable" if failure.retryable else "for good")
        return
    except Exception as error:  # whatever it is, the row says so
        yield Finding("reader crashed", type(error).__name__, str(error))
        return
    if not reply.items and reply.finish == "stop" and _says_something(api, body):
        yield Finding("reader refused", "nothing of the reply is recorded")
    found = Values([reply])
    for member in members_of(_telling(api, body)):
        if member not in found:
            yield Finding("lost in reading", member.path, str(member.value))
    yield from _misread_usage(api, body.get("usage"), reply.usage)
    yield from _of_follow_up(api, body, talk, reply)


def _code_tools(request: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The tools of a request that run code of the provider's, in a container that goes on with the conversation."""
    return tuple(tool for tool in as_objects(request.get("tools")) if as_text(tool.get("type")).startswith(CODE_TOOL_PREFIXES))


def _tells_of_a_failure(api: Api, body: dict[str, Any]) -> bool:
    """Whether the answer itself says that the request failed."""
    return bool(body.get("error")) or body.get("type") == "error" or (api == "responses" and body.get("status") in ("failed", "cancelled"))


def _says_something(api: Api, body: dict[str, Any]) -> bool:
    """Whether there is anything in an answer that could be recorded. A message without words is nothing."""
    names = ("text", "content", "refusal", "arguments", "input", "name", "encrypted_content", "data", "result")
    return any(member.name in names for member in members_of(_items_of(api, body)))


# -- what a body says --------------------------------------------------------------------------------------------------


def _telling(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    """The body without its usage, which is counted instead of found. Of Chat, the choices after the first have a name of their own, and
    of Responses the messages without words."""
    told = {name: value for name, value in body.items() if name != "usage"}
    if api == "responses" and "output" in told:
        wordless = [item for item in as_objects(told["output"]) if _is_wordless(item)]
        told |= {"output": [item for item in as_objects(told["output"]) if item not in wordless], "wordless message": wordless}
    choices = told.get("choices")
    if api == "chat" and isinstance(choices, list):
        first = [choice for choice in choices if isinstance(choice, dict) and choice.get("index") in (0, None)][:1] or choices[:1]
        told |= {"choices": first, "choices after the first": [choice for choice in choices if choice not in first]}
    return told


def _misread_usage(api: Api, usage: Any, read: Usage) -> Iterator[Finding]:
    if not isinstance(usage, dict):
        return
    expected = {"responses": _responses_usage, "chat": _chat_usage, "anthropic": _anthropic_usage}[api](usage)
    for name, tokens in expected.items():
        if tokens != getattr(read, name):
            yield Finding("usage misread", f"usage.{name}", f"{tokens} were sent, {getattr(read, name)} are recorded")


def _count(usage: Any, *path: str) -> int:
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) else 0


def _responses_usage(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input": _count(usage, "input_tokens"),
        "output": _count(usage, "output_tokens"),
        "cached": _count(usage, "input_tokens_details", "cached_tokens"),
        "reasoning": _count(usage, "output_tokens_details", "reasoning_tokens"),
    }


_CHAT_CACHED = (("prompt_tokens_details", "cached_tokens"), ("prompt_cache_hit_tokens",), ("cached_tokens",), ("num_cached_tokens",))
"""Where OpenAI, DeepSeek, Together and Mistral say how much was read from a cache."""


def _chat_usage(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input": _count(usage, "prompt_tokens"),
        "output": _count(usage, "completion_tokens"),
        "cached": next((count for path in _CHAT_CACHED if (count := _count(usage, *path))), 0),
        "reasoning": _count(usage, "completion_tokens_details", "reasoning_tokens"),
    }


def _anthropic_usage(usage: dict[str, Any]) -> dict[str, int]:
    """All iterations of a reply: where there are several, the outer counts are those of some of them."""
    iterations = [each for each in usage.get("iterations") or () if isinstance(each, dict)]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    inner = {name: sum(_count(each, name) for each in iterations) for name in names}
    fresh, written, cached, output = (max(_count(usage, name), inner[name]) for name in names)
    return {"input": fresh + written + cached, "output": output, "cached": cached, "written": written}


# -- what goes back ----------------------------------------------------------------------------------------------------


def _of_follow_up(api: Api, body: dict[str, Any], talk: Talk, reply: ModelReply) -> Iterator[Finding]:
    try:
        compiled = talk.follow_up(reply)
    except Exception as error:
        yield Finding("encoder crashed", type(error).__name__, str(error))
        return
    request = msgspec.json.decode(compiled.body)
    for complaint in compiled.violations or RULES[api](request):
        yield Finding("follow-up we would refuse", complaint.rule.id, str(complaint))
    sent = _sent_of_reply(api, request)
    there = Values([sent])
    came = _items_of(api, body)
    whole = {name: [item for item in items if not _is_left_out(item, there)] for name, items in came.items()}
    for name, items in came.items():
        for item in items:
            if item not in whole[name]:
                yield Finding("not sent back", f"{name}[{item['type']}]", "the whole item")
    for member in members_of(whole):
        if member not in there:
            yield Finding("not sent back", member.path, str(member.value))
    known = Values([came])
    for member in members_of(sent):
        if not _is_known(member, known):
            yield Finding("sent back, but never came", member.path, str(member.value))
    yield from _out_of_order(whole, sent)


def _is_left_out(item: dict[str, Any], there: Values) -> bool:
    """Whether nothing of an item was sent: its type was not, and messages alone go without one."""
    kind = item.get("type")
    return isinstance(kind, str) and kind != "message" and Member("", "type", kind) not in there


def _out_of_order(came: dict[str, Any], sent: dict[str, Any]) -> Iterator[Finding]:
    """Items that stand in another order than they came in."""
    orders = [[mark for item in _single_items(whole) if (mark := _mark(item)) is not None] for whole in (came, sent)]
    orders = [[mark for mark in order if order.count(mark) == 1] for order in orders]
    first, second = ([mark for mark in order if mark in other] for order, other in (orders, reversed(orders)))
    for before, after in zip(first, second, strict=True):
        if before != after:
            yield Finding("out of order in the follow-up", "items", f"{after[:40]!r} where {before[:40]!r} was")
            return


def _single_items(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The items of an answer or of a request; of a message of Chat Completions its calls."""
    for items in whole.values():
        for item in as_objects(items):
            yield from as_objects(item.get("tool_calls")) or [item]


def _mark(item: dict[str, Any]) -> str | None:
    members = [member for member in members_of(item) if isinstance(member.value, str)]
    return next((str(member.value) for name in MARKS for member in members if member.name == name), None)


def _is_known(member: Member, known: Values) -> bool:
    """Whether a member came from the provider. Words of several parts are joined by line breaks."""
    if member in known:
        return True
    return isinstance(member.value, str) and all(Member("", "text", line) in known for line in member.value.split("\n") if line)


def _items_of(api: Api, body: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What of an answer belongs to the conversation, and may be wanted back."""
    match api:
        case "responses":
            return _responses_items(body.get("output"))
        case "chat":
            choice = next(iter(_telling(api, body).get("choices") or ()), None) or {}
            return {"message": as_objects([choice.get("message")])}
        case "anthropic":
            return {**_anthropic_blocks(as_objects(body.get("content"))), "container": as_objects([body.get("container")])}


def _anthropic_blocks(content: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The blocks of a message. What cannot stand in a conversation has a name of its own: halves, which are uses and results of the
    provider's tools whose other half is in the answer before or after; and thinking without a signature, or that nothing follows."""
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


def _responses_items(output: Any) -> dict[str, list[dict[str, Any]]]:
    """The items of a response. Some have names of their own: messages without a word that could carry their members, and reasoning that
    cannot go back by value, because it has no seal or stands last."""
    wordless = [item for item in as_objects(output) if _is_wordless(item)]
    items = [item for item in as_objects(output) if item not in wordless]
    thoughts = [item for item in items if item.get("type") == "reasoning"]
    unsealed = [item for item in thoughts if not item.get("encrypted_content")]
    last = [item for item in items[-1:] if item in thoughts]
    there = [item for item in items if item not in unsealed and item not in last]
    apart = {"unsealed reasoning": unsealed, "reasoning at the end": [item for item in last if item not in unsealed]}
    return {"output": there, "wordless message": wordless, **apart}


def _is_wordless(item: dict[str, Any]) -> bool:
    """Whether an item is a message that says nothing, or nothing but a refusal."""
    return item.get("type") == "message" and not any(as_text(part.get("text")) for part in as_objects(item.get("content")))


def _sent_of_reply(api: Api, request: dict[str, Any]) -> dict[str, Any]:
    """What of the next request is the model's reply."""
    match api:
        case "responses":
            return {"input": [item for item in request["input"] if item.get("role") != "user" and item.get("output") != RETURNED]}
        case "chat":
            return {"messages": [message for message in request["messages"] if message["role"] == "assistant"]}
        case "anthropic":
            said = [message["content"] for message in request["messages"] if message["role"] == "assistant"]
            return {"content": [block for content in said for block in content], "container": {"id": request.get("container")}}
