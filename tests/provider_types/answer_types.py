"""The types of the answers of the emulator and the server, by path, method and status: in the SDKs and in OpenAI's description.

Imported after a test has sent an answer, because the SDKs take seconds to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import anthropic.types as claude
import anthropic.types.beta as claude_beta
from openai.types import ErrorObject, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItem, ConversationItemList
from openai.types.responses import Response, ResponseItemList, ResponseStreamEvent
from typing_extensions import TypedDict

from tests.provider_types.sdk_types import Difference, find_differences


class OpenAIError(TypedDict):
    """The body of a refusal."""

    error: ErrorObject


class OpenAIModels(TypedDict):
    """The list of models."""

    object: Literal["list"]
    data: list[Model]


class DeletedResponse(TypedDict):
    """The answer to the deletion of a response, for which the SDK has no type."""

    id: str
    object: Literal["response"]
    deleted: bool


class AnthropicModels(TypedDict):
    """A page of models."""

    data: list[claude.ModelInfo]
    has_more: bool
    first_id: str | None
    last_id: str | None


class AnswerType(NamedTuple):
    """The type of one kind of answer in the SDK, and its name in OpenAI's description (empty: not described)."""

    annotation: Any
    schema_name: str = ""


class SentAnswer(NamedTuple):
    """One answer as a server sent it."""

    sender: Literal["emulator", "server"]
    method: str
    path: str
    request_headers: dict[str, str]
    status: int
    response_headers: dict[str, str]
    body: bytes
    is_complete: bool


OPENAI_ERROR = AnswerType(OpenAIError, "ErrorResponse")
OPENAI_ANSWERS: list[tuple[str, str, AnswerType]] = [
    ("POST", r"/responses", AnswerType(Response, "Response")),
    ("GET", r"/responses/[^/]+", AnswerType(Response, "Response")),
    ("DELETE", r"/responses/[^/]+", AnswerType(DeletedResponse)),
    ("POST", r"/responses/[^/]+/cancel", AnswerType(Response, "Response")),
    ("GET", r"/responses/[^/]+/input_items", AnswerType(ResponseItemList, "ResponseItemList")),
    ("POST", r"/conversations", AnswerType(Conversation, "ConversationResource")),
    ("GET", r"/conversations/[^/]+", AnswerType(Conversation, "ConversationResource")),
    ("POST", r"/conversations/[^/]+", AnswerType(Conversation, "ConversationResource")),
    ("DELETE", r"/conversations/[^/]+", AnswerType(ConversationDeletedResource, "DeletedConversationResource")),
    ("GET", r"/conversations/[^/]+/items", AnswerType(ConversationItemList, "ConversationItemList")),
    ("POST", r"/conversations/[^/]+/items", AnswerType(ConversationItemList, "ConversationItemList")),
    ("GET", r"/conversations/[^/]+/items/[^/]+", AnswerType(ConversationItem, "ConversationItem")),
    ("DELETE", r"/conversations/[^/]+/items/[^/]+", AnswerType(Conversation, "ConversationResource")),
    ("POST", r"/chat/completions", AnswerType(ChatCompletion, "CreateChatCompletionResponse")),
    ("GET", r"/chat/completions/[^/]+", AnswerType(ChatCompletion, "CreateChatCompletionResponse")),
    ("GET", r"/models", AnswerType(OpenAIModels, "ListModelsResponse")),
    ("GET", r"/models/.+", AnswerType(Model, "Model")),
]
ANTHROPIC_ANSWERS: list[tuple[str, str, AnswerType]] = [
    ("POST", r"/v1/messages", AnswerType(claude.Message)),
    ("POST", r"/v1/messages/count_tokens", AnswerType(claude.MessageTokensCount)),
    ("GET", r"/v1/models", AnswerType(AnthropicModels)),
    ("GET", r"/v1/models/.+", AnswerType(claude.ModelInfo)),
]
EVENT_TYPES = {
    "Response": AnswerType(ResponseStreamEvent, "ResponseStreamEvent"),
    "ChatCompletion": AnswerType(ChatCompletionChunk, "CreateChatCompletionStreamResponse"),
    "Message": AnswerType(claude.RawMessageStreamEvent),
}


class TypeFinding(NamedTuple):
    """A difference between an answer and its type, and the source of that type."""

    source: Literal["sdk", "description"]
    answer: str  # "POST /v1/responses 200 response.completed"
    difference: Difference

    def __str__(self) -> str:
        return f"{self.answer}: {self.difference} (by the {self.source})"


def find_type_errors(sent: SentAnswer, description: Any = None) -> list[TypeFinding]:
    """Return all differences of an answer from its types. `description`: OpenAI's, if there is a copy of it."""
    type = find_answer_type(sent)
    if type is None:
        return []
    title = f"{sent.method} {sent.path} {sent.status}"
    if sent.response_headers.get("content-type", "").startswith("text/event-stream"):
        events = EVENT_TYPES[type.annotation.__name__.removeprefix("Beta")]
        if type.annotation is claude_beta.BetaMessage:
            events = AnswerType(claude_beta.BetaRawMessageStreamEvent)
        values = [(f"{title} {value.get('type', 'chunk')}", value, _find_event_type(value, events)) for value in _decode_events(sent.body)]
    elif sent.is_complete and sent.response_headers.get("content-type", "").startswith("application/json"):
        values = [(title, json.loads(sent.body), type)]
    else:  # the connection was closed on purpose, or the text comes from the HTTP server: two lengths, a foreign host
        return []
    findings = [TypeFinding("sdk", name, each) for name, value, kind in values for each in find_differences(value, kind.annotation)]
    if description is not None:
        described = [(name, value, kind.schema_name) for name, value, kind in values if kind.schema_name]
        findings += [
            TypeFinding("description", name, each) for name, value, schema in described for each in description.compare(value, schema)
        ]
    return findings


def find_answer_type(sent: SentAnswer) -> AnswerType | None:
    """Return the type of an answer; None if no provider sends such an answer."""
    path = sent.path
    if path.startswith("/_emulator") or "x-legato-error" in sent.response_headers or not path.startswith(("/v1/", "/openai/")):
        return None
    has_version = "anthropic-version" in sent.request_headers and not re.match(r"(/openai)?/v1/(responses|chat|conversations)\b", path)
    anthropic = path.startswith("/v1/messages") or has_version
    if sent.status >= 400:
        return AnswerType(claude.ErrorResponse) if anthropic else OPENAI_ERROR
    if anthropic:
        found = _look_up_type(ANTHROPIC_ANSWERS, sent.method, path)
        uses_beta = found is not None and found.annotation is claude.Message and "anthropic-beta" in sent.request_headers
        return AnswerType(claude_beta.BetaMessage) if uses_beta else found
    return _look_up_type(OPENAI_ANSWERS, sent.method, re.sub(r"^(/openai)?(/v1|/deployments/[^/]+)?", "", path))


def _look_up_type(table: list[tuple[str, str, AnswerType]], method: str, path: str) -> AnswerType | None:
    return next((kind for known, pattern, kind in table if known == method and re.fullmatch(pattern, path)), None)


def _find_event_type(value: dict[str, Any], events: AnswerType) -> AnswerType:
    """Return the type of an event. A stream may end with an error that is no event of the API."""
    if events.schema_name == "ResponseStreamEvent" or "error" not in value:
        return events
    return AnswerType(claude.ErrorResponse) if value.get("type") == "error" else OPENAI_ERROR


def _decode_events(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the data of the events that arrived whole."""
    *whole, _ = body.decode(errors="replace").split("\n\n")
    for event in whole:
        data = "\n".join(line.removeprefix("data:").lstrip() for line in event.split("\n") if line.startswith("data:"))
        if data and data != "[DONE]":
            yield json.loads(data)
