"""What clients of OpenAI's APIs send. May know: the fields of both APIs. Decides: which are used, which are ignored, and which are refused.

One rule for every field. What says how a model should answer belongs to the workflow: it is ignored, and the answer names it in
`legato.ignored`. What asks for something that would not be done (tools of a provider, several answers) is refused, and so is a field that
nobody knows. What a client asks of the run is kept: its own tools, and the format of the answer (`client_options.py`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field
from starlette.requests import Request

from legato.server.api.table import read_body
from legato.server.openai.client_options import NOTHING_ASKED, ClientOptions, read_client_options
from legato.server.openai.content import Item, chat_item_of, item_of, last_place, message_of
from legato.server.openai.errors import Wrong
from legato.server.openai.item_ids import ItemId

T = TypeVar("T")

HEADER_SESSION, HEADER_KEY, HEADER_RETRIES = "legato-session", "idempotency-key", "x-stainless-retry-count"
LONGEST_KEY = 200
ALREADY_RECORDED = "input before what is recorded"
"""In `legato.ignored`: messages that the ledger has, since they stand before an item that it has."""
TUNING: Any = msgspec.UNSET
"""The value of a field that tunes models, where it was not sent."""


class Conversation(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation by its id."""

    id: str


class StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How a stream is to be."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both APIs have. Fields that tune models come last, and are ignored."""

    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None

    parallel_tool_calls: Any = TUNING
    prompt_cache_key: Any = TUNING
    prompt_cache_options: Any = TUNING
    prompt_cache_retention: Any = TUNING
    safety_identifier: Any = TUNING
    service_tier: Any = TUNING
    temperature: Any = TUNING
    top_logprobs: Any = TUNING
    top_p: Any = TUNING
    user: Any = TUNING


class ResponsesBody(Asked, frozen=True, kw_only=True):
    """`POST /v1/responses`."""

    input: str | list[dict[str, Any]] = ""
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None
    background: bool | None = False
    text: dict[str, Any] | None = None

    context_management: Any = TUNING
    image: Any = TUNING
    include: Any = TUNING
    instructions: Any = TUNING
    max_output_tokens: Any = TUNING
    max_tool_calls: Any = TUNING
    reasoning: Any = TUNING
    truncation: Any = TUNING

    @property
    def items(self) -> list[Item]:
        """The input, read."""
        given = [{"role": "user", "content": self.input}] if isinstance(self.input, str) else self.input
        return [item_of(each, f"input[{number}]") for number, each in enumerate(given)]

    @property
    def conversation_id(self) -> str:
        """The conversation that it names; empty if it names none."""
        return (self.conversation.id if isinstance(self.conversation, Conversation) else self.conversation) or ""


class ChatBody(Asked, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    n: int | None = 1
    modalities: list[str] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = False

    frequency_penalty: Any = TUNING
    logit_bias: Any = TUNING
    max_completion_tokens: Any = TUNING
    max_tokens: Any = TUNING
    prediction: Any = TUNING
    presence_penalty: Any = TUNING
    reasoning_effort: Any = TUNING
    seed: Any = TUNING
    stop: Any = TUNING
    verbosity: Any = TUNING


class Answer(Struct, frozen=True):
    """An answer to a pending request. `request` is the name that it was asked with, `id` what its item names."""

    request: str
    verdict: Literal["approve", "reject", "answer"]
    words: str = ""
    id: ItemId | None = None
    number: int = 0
    value: Any = ""
    """The output of a call, as `session.answer` takes it."""


class Ask(Struct, frozen=True, kw_only=True):
    """What is to be done: say something, or decide something, in which conversation. `message` is what `session.say` takes.

    `recorded` are the items of the request that a ledger has already. Unless something else names the session, they do. `account` is what
    is said where no session of the workflow has them (any more): all that was sent, as the client has it; empty, if that is refused.
    """

    model: str
    message: list[Any]
    answers: tuple[Answer, ...] = ()
    recorded: tuple[Item, ...] = ()
    account: list[Any] = field(default_factory=list)
    previous: str = ""
    session: str = ""
    key: str = ""
    retried: bool = False
    options: ClientOptions = NOTHING_ASKED
    ignored: list[str] = field(default_factory=list)


async def responses_asked(request: Request) -> tuple[ResponsesBody, Ask]:
    """A request for a response."""
    body = await _read(request, ResponsesBody)
    ignored = _ignored(body)
    text = body.text or {}
    format = _format(text.get("format"), "text.format")
    options = await _client_options(body, format, "text.format", ignored)
    if text.keys() - {"format"}:
        ignored.append("text")
    items = body.items
    session = _session(request, body, ignored, body.conversation_id)
    previous = body.previous_response_id or ""
    if previous and session:
        raise Wrong("previous_response_id", "a response goes on after another one, or in a conversation: name one of them")
    recorded = tuple(item for item in items if item.id)
    answers, said = _split_input(items, ignored)
    named = bool(previous or session)
    if answers and not named and not recorded:
        raise Wrong("input", "an answer needs the conversation that asked", do="name previous_response_id, or conversation")
    # Where an answer alone names the conversation, what stands behind it may be told as the client's account.
    known = named or (bool(recorded) and not recorded[-1].verdict)
    message = message_of(said, "input", known, ignored, empty=bool(answers))
    key, retried = read_delivery(request)
    asked = Ask(
        model=body.model,
        message=message,
        answers=answers,
        recorded=recorded,
        previous=previous,
        session=session,
        key=key,
        retried=retried,
        options=options,
        ignored=ignored,
    )
    return body, asked


async def _client_options(body: Asked, format: dict[str, Any] | None, param: str, ignored: list[str]) -> ClientOptions:
    """Read the client's options of the run. Large schemas are read beside the event loop."""
    read = partial(read_client_options, body.tools, body.tool_choice, format, param, ignored)
    return await asyncio.to_thread(read) if body.tools or format else read()


def _format(given: Any, param: str) -> dict[str, Any] | None:
    if given is not None and not isinstance(given, dict):
        raise Wrong(param, "a format is an object", code="invalid_type")
    return given


def _split_input(items: list[Item], ignored: list[str]) -> tuple[tuple[Answer, ...], list[Item]]:
    """Split off the answers that may be new, and the messages that are.

    Clients send the conversation again, in its order. So what stands before an item that is recorded was recorded before it: answers
    before an output, and messages before any such item, also before an answer to a request, which nobody could give before it was asked.
    What an assistant says right behind an answer is what followed that answer; the ledger has it, whatever the client says that it was.
    """
    output = last_place(item.id is not None and item.id.is_output for item in items)
    last = _last_recorded(items)
    answers = [item for item in items[output + 1 :] if item.verdict]
    said = [item for at, item in enumerate(items) if not item.verdict and not item.id and (at > last or item.is_instruction)]
    if any(item.role == "user" for item in items[: last + 1]):
        ignored.append(ALREADY_RECORDED)
    return _numbered(answers), said


def _last_recorded(items: list[Item]) -> int:
    """The place of the last item that the ledger has: one with an id, or what an assistant says behind such an answer; -1 without one."""
    last = last_place(item.id is not None for item in items)
    if last >= 0 and items[last].verdict:
        while last + 1 < len(items) and items[last + 1].role == "assistant":
            last += 1
    return last


def _numbered(items: list[Item]) -> tuple[Answer, ...]:
    """The answers that these items are; refused if two are to the same call or request."""
    answers: dict[str, Answer] = {}
    for number, item in enumerate(items):
        if item.answers in answers:
            raise Wrong(item.param, "this was answered before, in the same request", do="answer each call and each request once")
        if item.verdict:
            answers[item.answers] = Answer(item.answers, item.verdict, item.words, item.id, number, item.value)
    return tuple(answers.values())


async def chat_asked(request: Request) -> tuple[ChatBody, Ask]:
    """A request for a chat completion."""
    body = await _read(request, ChatBody)
    refused = {
        "n": body.n not in (None, 1),
        "modalities": body.modalities not in (None, ["text"]),
        "logprobs": bool(body.logprobs),
    }
    for param in (name for name, is_asked in refused.items() if is_asked):
        raise Wrong(param, f"{param!r} asks for what a workflow does not give", code="unsupported_value", do="leave it out")
    ignored = _ignored(body)
    options = await _client_options(body, body.response_format, "response_format", ignored)
    items = [chat_item_of(each, f"messages[{number}]") for number, each in enumerate(body.messages)]
    session = _session(request, body, ignored)
    newest = _newest_outputs(items)
    recorded = tuple(newest if session else [item for item in items if item.id])
    answers, said = _split_input(items, ignored) if recorded else ((), items)
    message = message_of(said, "messages", False, ignored, drop=bool(session), empty=bool(newest))
    account = message_of(items, "messages", False, []) if recorded and not newest else []
    key, retried = read_delivery(request)
    asked = Ask(
        model=body.model,
        message=message,
        answers=_numbered(newest) if session else answers,
        recorded=recorded,
        account=account,
        session=session,
        key=key,
        retried=retried,
        options=options,
        ignored=ignored,
    )
    return body, asked


def _newest_outputs(items: list[Item]) -> list[Item]:
    """The outputs of calls that a client gives now; refused if one is of a call that nobody made.

    A client of this API sends all of the conversation as it has it. So what it gives now stands behind the last message of an assistant.
    """
    last = last_place(item.role == "assistant" for item in items)
    answered = [item for item in items[last + 1 :] if item.verdict]
    if unknown := next((item for item in items[last + 1 :] if item.role == "tool" and not item.verdict), None):
        do = "send back the id of a call in tool_calls of a completion of this server"
        raise Wrong(f"{unknown.param}.tool_call_id", "no call of this server has that id", code="item_not_found", do=do)
    return answered


async def read_openai_body(request: Request, kind: type[T]) -> T:
    """Read the body of a request as this shape; refused with the parameter that does not fit."""
    try:
        return await read_body(request, kind)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `")
        raise _invalid(words, path.rstrip("`").removeprefix("$").lstrip(".")) from None


def path_part(request: Request, name: str) -> str:
    """Read a part of the path, by its name in the route."""
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise Wrong(name, "the path is not UTF-8") from None


async def _read(request: Request, kind: Any) -> Any:
    body = await read_openai_body(request, kind)
    if body.store is False:
        raise Wrong("store", "every conversation is kept, in its ledger", code="unsupported_value", do="leave it out")
    return body


def _invalid(words: str, path: str) -> Wrong:
    named = words.split("`")[1] if "`" in words else ""
    if "unknown field" in words:
        return Wrong(f"{path}.{named}".lstrip("."), f"unknown parameter: {named!r}", code="unknown_parameter")
    if "missing required field" in words:
        return Wrong(f"{path}.{named}".lstrip("."), f"missing required parameter: {named!r}", code="missing_required_parameter")
    return Wrong(path, f"{words} in {path!r}" if path else words, code="invalid_type")


def _ignored(body: Asked) -> list[str]:
    tuning = [name for name, default in zip(body.__struct_fields__, _defaults(type(body)), strict=True) if default is TUNING]
    return [name for name in sorted(tuning) if getattr(body, name) not in (TUNING, None)]


def _defaults(kind: type[Asked]) -> list[Any]:
    return [each.default for each in msgspec.structs.fields(kind)]


def _session(request: Request, body: Asked, ignored: list[str], named: str = "") -> str:
    """The session that a request names: by a conversation, a header, or metadata. Those that do must agree."""
    metadata = body.metadata or {}
    ignored.extend(f"metadata.{name}" for name in sorted(metadata) if name != "session")
    names = {name for name in (named, request.headers.get(HEADER_SESSION, ""), metadata.get("session", "")) if name}
    if len(names) > 1:
        raise Wrong("metadata", "this names two sessions", do=f"leave out one of {', '.join(map(repr, sorted(names)))}"[:300])
    return names.pop() if names else ""


def read_delivery(request: Request) -> tuple[str, bool]:
    """The key of a request, and whether the client sends it again by itself."""
    key = request.headers.get(HEADER_KEY, "")
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise Wrong("Idempotency-Key", f"a key is at most {LONGEST_KEY} printable characters")
    return key, request.headers.get(HEADER_RETRIES, "0") not in ("", "0")
