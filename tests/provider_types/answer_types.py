"""Names the type of each answer that the emulator and the server send: by path, method and status, in the SDK and in OpenAI's description.

Imported when a test has sent something: the SDKs take seconds to import.
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

from tests.provider_types.sdk_types import Difference, compare


class OpenAIError(TypedDict):
    """The body of a refusal."""

    error: ErrorObject


class OpenAIModels(TypedDict):
    """The list of models."""

    object: Literal["list"]
    data: list[Model]


class DeletedResponse(TypedDict):
    """The answer to the deletion of a response, of which the SDK has no type."""

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
    """What one kind of answer is: in the SDK, and under which name in OpenAI's description (empty: not there)."""

    annotation: Any
    schema: str = ""


class SentAnswer(NamedTuple):
    """One answer as it left a server."""

    sender: Literal["emulator", "server"]
    method: str
    path: str
    headers: dict[str, str]  # of the request
    status: int
    answered: dict[str, str]  # the headers of the answer
    body: bytes
    whole: bool


OPENAI_ERROR = AnswerType(OpenAIError, "ErrorResponse")
OPENAI: list[tuple[str, str, AnswerType]] = [
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
ANTHROPIC: list[tuple[str, str, AnswerType]] = [
    ("POST", r"/v1/messages", AnswerType(claude.Message)),
    ("POST", r"/v1/messages/count_tokens", AnswerType(claude.MessageTokensCount)),
    ("GET", r"/v1/models", AnswerType(AnthropicModels)),
    ("GET", r"/v1/models/.+", AnswerType(claude.ModelInfo)),
]
EVENTS = {
    "Response": AnswerType(ResponseStreamEvent, "ResponseStreamEvent"),
    "ChatCompletion": AnswerType(ChatCompletionChunk, "CreateChatCompletionStreamResponse"),
    "Message": AnswerType(claude.RawMessageStreamEvent),
}


class Finding(NamedTuple):
    """A difference in an answer, and what it was compared with."""

    source: Literal["sdk", "description"]
    answer: str  # "POST /v1/responses 200 response.completed"
    difference: Difference

    def __str__(self) -> str:
        return f"{self.answer}: {self.difference} (by the {self.source})"


def findings_in(sent: SentAnswer, description: Any = None) -> list[Finding]:
    """Everything in an answer that its types do not have; `description`: OpenAI's, if there is one to compare with."""
    found = answer_type(sent)
    if found is None:
        return []
    title = f"{sent.method} {sent.path} {sent.status}"
    if sent.answered.get("content-type", "").startswith("text/event-stream"):
        events = EVENTS[found.annotation.__name__.removeprefix("Beta")]
        if found.annotation is claude_beta.BetaMessage:
            events = AnswerType(claude_beta.BetaRawMessageStreamEvent)
        values = [(f"{title} {value.get('type', 'chunk')}", value, _type_in_stream(value, events)) for value in _stream(sent.body)]
    elif sent.whole and sent.answered.get("content-type", "").startswith("application/json"):
        values = [(title, json.loads(sent.body), found)]
    else:  # the connection was broken on purpose; or it is text that no provider sends: two lengths, a foreign host
        return []
    findings = [Finding("sdk", name, each) for name, value, kind in values for each in compare(value, kind.annotation)]
    if description is not None:
        described = [(name, value, kind.schema) for name, value, kind in values if kind.schema]
        findings += [Finding("description", name, each) for name, value, schema in described for each in description.compare(value, schema)]
    return findings


def answer_type(sent: SentAnswer) -> AnswerType | None:
    """The type of an answer; None for what no provider sends."""
    path = sent.path
    if path.startswith("/_emulator") or "x-legato-error" in sent.answered or not path.startswith(("/v1/", "/openai/")):
        return None
    named = "anthropic-version" in sent.headers and not re.match(r"(/openai)?/v1/(responses|chat|conversations)\b", path)
    anthropic = path.startswith("/v1/messages") or named
    if sent.status >= 400:
        return AnswerType(claude.ErrorResponse) if anthropic else OPENAI_ERROR
    if anthropic:
        found = _found(ANTHROPIC, sent.method, path)
        uses_beta = found is not None and found.annotation is claude.Message and "anthropic-beta" in sent.headers
        return AnswerType(claude_beta.BetaMessage) if uses_beta else found
    return _found(OPENAI, sent.method, re.sub(r"^(/openai)?(/v1|/deployments/[^/]+)?", "", path))


def _found(table: list[tuple[str, str, AnswerType]], method: str, path: str) -> AnswerType | None:
    return next((kind for known, pattern, kind in table if known == method and re.fullmatch(pattern, path)), None)


def _type_in_stream(value: dict[str, Any], events: AnswerType) -> AnswerType:
    """The type of an event: a stream may end with an error that is no event of the API."""
    if events.schema == "ResponseStreamEvent" or "error" not in value:
        return events
    return AnswerType(claude.ErrorResponse) if value.get("type") == "error" else OPENAI_ERROR


def _stream(body: bytes) -> Iterator[dict[str, Any]]:
    """The data of the events that arrived whole."""
    *whole, _ = body.decode(errors="replace").split("\n\n")
    for event in whole:
        data = "\n".join(line.removeprefix("data:").lstrip() for line in event.split("\n") if line.startswith("data:"))
        if data and data != "[DONE]":
            yield json.loads(data)
