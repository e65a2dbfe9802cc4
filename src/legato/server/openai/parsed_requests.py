"""Requests to OpenAI's APIs, decoded and validated.

Fields that tune a model belong to the workflow: they are ignored, and `legato.ignored` in the response lists them. Unknown fields are
refused, and so is what a workflow cannot do (a provider's tools, several choices). Options of the run are used: the client's tools, and the
format of the answer (`client_options.py`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field
from starlette.requests import Request

from legato.server.api.endpoints import read_json_body
from legato.server.openai.client_options import NO_CLIENT_OPTIONS, ClientOptions, read_client_options
from legato.server.openai.errors import InvalidRequest
from legato.server.openai.input_items import ClientItem, build_message, find_last_index, read_chat_item, read_item
from legato.server.openai.item_ids import ItemId

T = TypeVar("T")

HEADER_SESSION, HEADER_KEY, HEADER_RETRIES = "legato-session", "idempotency-key", "x-stainless-retry-count"
MAX_KEY_CHARS = 200
ALREADY_RECORDED = "input before what is recorded"
"""The entry of `legato.ignored` for messages before an item of the ledger: the ledger has them already."""
UNSET_TUNING: Any = msgspec.UNSET
"""The value of a field that tunes a model if it was not sent. Only such fields have this default."""


class ConversationReference(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation, named by its id."""

    id: str


class StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CommonBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that both APIs share. Fields that tune a model come last, and are ignored."""

    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None

    parallel_tool_calls: Any = UNSET_TUNING
    prompt_cache_key: Any = UNSET_TUNING
    prompt_cache_options: Any = UNSET_TUNING
    prompt_cache_retention: Any = UNSET_TUNING
    safety_identifier: Any = UNSET_TUNING
    service_tier: Any = UNSET_TUNING
    temperature: Any = UNSET_TUNING
    top_logprobs: Any = UNSET_TUNING
    top_p: Any = UNSET_TUNING
    user: Any = UNSET_TUNING


class ResponsesBody(CommonBody, frozen=True, kw_only=True):
    """`POST /v1/responses`."""

    input: str | list[dict[str, Any]] = ""
    previous_response_id: str | None = None
    conversation: str | ConversationReference | None = None
    background: bool | None = False
    text: dict[str, Any] | None = None

    context_management: Any = UNSET_TUNING
    image: Any = UNSET_TUNING
    include: Any = UNSET_TUNING
    instructions: Any = UNSET_TUNING
    max_output_tokens: Any = UNSET_TUNING
    max_tool_calls: Any = UNSET_TUNING
    reasoning: Any = UNSET_TUNING
    truncation: Any = UNSET_TUNING

    @property
    def items(self) -> list[ClientItem]:
        """The decoded input."""
        items = [{"role": "user", "content": self.input}] if isinstance(self.input, str) else self.input
        return [read_item(each, f"input[{number}]") for number, each in enumerate(items)]

    @property
    def conversation_id(self) -> str:
        """The id of the conversation; empty if the request names none."""
        return (self.conversation.id if isinstance(self.conversation, ConversationReference) else self.conversation) or ""


class ChatBody(CommonBody, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    n: int | None = 1
    modalities: list[str] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = False

    frequency_penalty: Any = UNSET_TUNING
    logit_bias: Any = UNSET_TUNING
    max_completion_tokens: Any = UNSET_TUNING
    max_tokens: Any = UNSET_TUNING
    prediction: Any = UNSET_TUNING
    presence_penalty: Any = UNSET_TUNING
    reasoning_effort: Any = UNSET_TUNING
    seed: Any = UNSET_TUNING
    stop: Any = UNSET_TUNING
    verbosity: Any = UNSET_TUNING


class RequestAnswer(Struct, frozen=True):
    """An answer to a pending request. `request` is the request's name, `number` its place among the answers."""

    request: str
    verdict: Literal["approve", "reject", "answer"]
    words: str = ""
    item_id: ItemId | None = None
    number: int = 0
    value: Any = ""
    """The output of a call, as `session.answer` takes it."""


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """The input of a request, and the conversation it is for. `message` is what `session.say` takes.

    `recorded_items` are items that a ledger already has; they identify the session if nothing else does. If no session of the workflow has
    them (any more), `client_transcript` is the message to send: everything the client sent. It is empty if that must be refused.
    """

    model: str
    message: list[Any]
    answers: tuple[RequestAnswer, ...] = ()
    recorded_items: tuple[ClientItem, ...] = ()
    client_transcript: list[Any] = field(default_factory=list)
    previous_response_id: str = ""
    session_id: str = ""
    key: str = ""
    is_retry: bool = False
    options: ClientOptions = NO_CLIENT_OPTIONS
    ignored_fields: list[str] = field(default_factory=list)


async def parse_responses_request(request: Request) -> tuple[ResponsesBody, ParsedRequest]:
    """Decode and validate a request for a response."""
    body = await _read_body(request, ResponsesBody)
    ignored = _list_ignored_fields(body)
    text = body.text or {}
    format = _check_format(text.get("format"), "text.format")
    options = await _read_options(body, format, "text.format", ignored)
    if text.keys() - {"format"}:
        ignored.append("text")
    items = body.items
    session = _read_session_id(request, body, ignored, body.conversation_id)
    previous = body.previous_response_id or ""
    if previous and session:
        raise InvalidRequest(
            "previous_response_id", "a response continues another one, or a conversation, not both", do="leave one of them out"
        )
    recorded = tuple(item for item in items if item.item_id)
    answers, messages = _split_input(items, ignored)
    is_named = bool(previous or session)
    if answers and not is_named and not recorded:
        raise InvalidRequest("input", "an answer needs the conversation of the request", do="send previous_response_id, or conversation")
    # If only an answer identifies the conversation, messages after it may be passed on as the client's transcript.
    is_known = is_named or (bool(recorded) and not recorded[-1].verdict)
    message = build_message(messages, "input", is_known, ignored, may_be_empty=bool(answers))
    key, retried = read_delivery(request)
    parsed = ParsedRequest(
        model=body.model,
        message=message,
        answers=answers,
        recorded_items=recorded,
        previous_response_id=previous,
        session_id=session,
        key=key,
        is_retry=retried,
        options=options,
        ignored_fields=ignored,
    )
    return body, parsed


async def _read_options(body: CommonBody, format: dict[str, Any] | None, param: str, ignored: list[str]) -> ClientOptions:
    """Read the client's options of the run. Schemas are compiled in a thread, so that they do not block the event loop."""
    read = partial(read_client_options, body.tools, body.tool_choice, format, param, ignored)
    return await asyncio.to_thread(read) if body.tools or format else read()


def _check_format(format: Any, param: str) -> dict[str, Any] | None:
    if format is not None and not isinstance(format, dict):
        raise InvalidRequest(param, "a format must be an object", code="invalid_type")
    return format


def _split_input(items: list[ClientItem], ignored: list[str]) -> tuple[tuple[RequestAnswer, ...], list[ClientItem]]:
    """Return the answers that may be new, and the new messages.

    Clients send the conversation again, in order. So everything before a recorded item was recorded before it: answers before an output,
    and messages before any recorded item, including an answer, since its request was made before. An assistant's messages directly after
    an answer followed that answer, so the ledger has them too, whatever their text is.
    """
    output = find_last_index(item.item_id is not None and item.item_id.names_recorded_item for item in items)
    last = _find_last_recorded(items)
    answers = [item for item in items[output + 1 :] if item.verdict]
    messages = [item for at, item in enumerate(items) if not item.verdict and not item.item_id and (at > last or item.is_instruction)]
    if any(item.role == "user" for item in items[: last + 1]):
        ignored.append(ALREADY_RECORDED)
    return _number_answers(answers), messages


def _find_last_recorded(items: list[ClientItem]) -> int:
    """Return the index of the last recorded item: one with an id, or an assistant's message after such an answer; -1 if there is none."""
    last = find_last_index(item.item_id is not None for item in items)
    if last >= 0 and items[last].verdict:
        while last + 1 < len(items) and items[last + 1].role == "assistant":
            last += 1
    return last


def _number_answers(items: list[ClientItem]) -> tuple[RequestAnswer, ...]:
    """Return these items as answers. Raises `InvalidRequest` if two answer the same call or request."""
    answers: dict[str, RequestAnswer] = {}
    for number, item in enumerate(items):
        if item.answered_request in answers:
            raise InvalidRequest(item.param, "this request contains two answers to the same call or request", do="answer each once")
        if item.verdict:
            answers[item.answered_request] = RequestAnswer(
                item.answered_request, item.verdict, item.words, item.item_id, number, item.value
            )
    return tuple(answers.values())


async def parse_chat_request(request: Request) -> tuple[ChatBody, ParsedRequest]:
    """Decode and validate a request for a chat completion."""
    body = await _read_body(request, ChatBody)
    unsupported = {
        "n": body.n not in (None, 1),
        "modalities": body.modalities not in (None, ["text"]),
        "logprobs": bool(body.logprobs),
    }
    for param in (name for name, is_set in unsupported.items() if is_set):
        raise InvalidRequest(param, f"workflows do not support this value of {param!r}", code="unsupported_value", do="leave it out")
    ignored = _list_ignored_fields(body)
    options = await _read_options(body, body.response_format, "response_format", ignored)
    items = [read_chat_item(each, f"messages[{number}]") for number, each in enumerate(body.messages)]
    session = _read_session_id(request, body, ignored)
    newest = _find_new_outputs(items)
    recorded = tuple(newest if session else [item for item in items if item.item_id])
    answers, messages = _split_input(items, ignored) if recorded else ((), items)
    message = build_message(messages, "messages", False, ignored, drop_earlier=bool(session), may_be_empty=bool(newest))
    transcript = build_message(items, "messages", False, []) if recorded and not newest else []
    key, retried = read_delivery(request)
    parsed = ParsedRequest(
        model=body.model,
        message=message,
        answers=_number_answers(newest) if session else answers,
        recorded_items=recorded,
        client_transcript=transcript,
        session_id=session,
        key=key,
        is_retry=retried,
        options=options,
        ignored_fields=ignored,
    )
    return body, parsed


def _find_new_outputs(items: list[ClientItem]) -> list[ClientItem]:
    """Return the new outputs of calls. Raises `InvalidRequest` if one belongs to no call of this server.

    Clients of this API send the whole conversation each time, so new outputs come after the last message of an assistant.
    """
    last = find_last_index(item.role == "assistant" for item in items)
    outputs = [item for item in items[last + 1 :] if item.verdict]
    if unknown := next((item for item in items[last + 1 :] if item.role == "tool" and not item.verdict), None):
        do = "send the id of a call in `tool_calls` of a completion of this server"
        raise InvalidRequest(f"{unknown.param}.tool_call_id", "no call of this server has this id", code="item_not_found", do=do)
    return outputs


async def read_openai_body(request: Request, kind: type[T]) -> T:
    """Decode the body of a request as this type. Raises `InvalidRequest` with the parameter that does not fit."""
    try:
        return await read_json_body(request, kind)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `")
        raise _translate_validation_error(words, path.rstrip("`").removeprefix("$").lstrip(".")) from None


def read_path_part(request: Request, name: str) -> str:
    """Return a decoded path parameter."""
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise InvalidRequest(name, "the path is not UTF-8") from None


async def _read_body(request: Request, kind: Any) -> Any:
    body = await read_openai_body(request, kind)
    if body.store is False:
        raise InvalidRequest("store", "every conversation is stored, in its ledger", code="unsupported_value", do="leave it out")
    return body


def _translate_validation_error(words: str, path: str) -> InvalidRequest:
    field_name = words.split("`")[1] if "`" in words else ""
    if "unknown field" in words:
        return InvalidRequest(f"{path}.{field_name}".lstrip("."), f"unknown parameter: {field_name!r}", code="unknown_parameter")
    if "missing required field" in words:
        return InvalidRequest(
            f"{path}.{field_name}".lstrip("."), f"missing required parameter: {field_name!r}", code="missing_required_parameter"
        )
    return InvalidRequest(path, f"{words} in {path!r}" if path else words, code="invalid_type")


def _list_ignored_fields(body: CommonBody) -> list[str]:
    tuning = [name for name, default in zip(body.__struct_fields__, _field_defaults(type(body)), strict=True) if default is UNSET_TUNING]
    return [name for name in sorted(tuning) if getattr(body, name) not in (UNSET_TUNING, None)]


def _field_defaults(kind: type[CommonBody]) -> list[Any]:
    return [each.default for each in msgspec.structs.fields(kind)]


def _read_session_id(request: Request, body: CommonBody, ignored: list[str], conversation_id: str = "") -> str:
    """Return the session id of a request: from its conversation, a header or metadata, which must agree."""
    metadata = body.metadata or {}
    ignored.extend(f"metadata.{name}" for name in sorted(metadata) if name != "session")
    names = {name for name in (conversation_id, request.headers.get(HEADER_SESSION, ""), metadata.get("session", "")) if name}
    if len(names) > 1:
        raise InvalidRequest(
            "metadata", "the request names two sessions", do=f"leave out one of {', '.join(map(repr, sorted(names)))}"[:300]
        )
    return names.pop() if names else ""


def read_delivery(request: Request) -> tuple[str, bool]:
    """Return the request's idempotency key, and True if the client retries by itself."""
    key = request.headers.get(HEADER_KEY, "")
    if len(key) > MAX_KEY_CHARS or not key.isprintable():
        raise InvalidRequest("Idempotency-Key", f"a key must have at most {MAX_KEY_CHARS} printable characters")
    return key, request.headers.get(HEADER_RETRIES, "0") not in ("", "0")
