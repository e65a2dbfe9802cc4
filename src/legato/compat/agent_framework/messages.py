"""Messages, contents and responses under the framework's names. May know: Legato's messages. Decides: how one reads as the other.

All of these are renderings: made from the ledger when something is shown, read once when something is said, and kept by nobody.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

from legato.core.facts import File, Image, Part, Text
from legato.core.messages import Attachment, Sendable, file, image
from legato.core.messages import Message as NativeMessage
from legato.errors import BadInput


@dataclass
class Content:
    """One piece of a message, told apart by `type`: text, data, uri, function_call, function_result, function_approval_request, ..."""

    type: str
    _: KW_ONLY
    text: str | None = None
    uri: str | None = None
    media_type: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | Mapping[str, Any] | None = None
    result: Any = None
    exception: str | None = None
    message: str | None = None
    id: str | None = None
    function_call: Content | None = None
    approved: bool | None = None
    user_input_request: bool = False
    additional_properties: dict[str, Any] = field(default_factory=dict)
    raw_representation: Any = field(default=None, repr=False)

    @classmethod
    def from_text(cls, text: str, **more: Any) -> Content:
        return cls("text", text=text, **more)

    @classmethod
    def from_text_reasoning(cls, *, text: str | None = None, **more: Any) -> Content:
        return cls("text_reasoning", text=text, **more)

    @classmethod
    def from_data(cls, data: bytes, media_type: str, **more: Any) -> Content:
        return cls("data", uri=f"data:{media_type};base64,{b64encode(data).decode()}", media_type=media_type, **more)

    @classmethod
    def from_uri(cls, uri: str, *, media_type: str | None = None, **more: Any) -> Content:
        return cls("data" if uri.startswith("data:") else "uri", uri=uri, media_type=media_type, **more)

    @classmethod
    def from_error(cls, *, message: str | None = None, **more: Any) -> Content:
        return cls("error", message=message, **more)

    @classmethod
    def from_function_call(cls, call_id: str, name: str, *, arguments: str | Mapping[str, Any] | None = None, **more: Any) -> Content:
        return cls("function_call", call_id=call_id, name=name, arguments=arguments, **more)

    @classmethod
    def from_function_result(cls, call_id: str, *, result: Any = None, **more: Any) -> Content:
        return cls("function_result", call_id=call_id, result=result, **more)

    @classmethod
    def from_function_approval_request(cls, id: str, function_call: Content, **more: Any) -> Content:
        return cls("function_approval_request", id=id, function_call=function_call, user_input_request=True, **more)

    @classmethod
    def from_function_approval_response(cls, approved: bool, id: str, function_call: Content | None = None, **more: Any) -> Content:
        return cls("function_approval_response", approved=approved, id=id, function_call=function_call, **more)

    def to_function_approval_response(self, approved: bool) -> Content:
        """The answer to this request. It names the recorded call by id; which arguments run is the ledger's to say."""
        if self.type != "function_approval_request" or self.id is None:
            raise BadInput("only a function_approval_request is answered so", found=f"a content of type {self.type!r}")
        return Content.from_function_approval_response(approved, self.id, self.function_call)

    create_response = to_function_approval_response  # what it was called before

    def parse_arguments(self) -> dict[str, Any] | None:
        """The arguments of a call; text that is no JSON object comes as {"raw": text}."""
        if self.arguments is None or isinstance(self.arguments, Mapping):
            return None if self.arguments is None else dict(self.arguments)
        try:
            value = json.loads(self.arguments or "{}")
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"raw": self.arguments}

    def to_dict(self, **_: Any) -> dict[str, Any]:
        """What it says, without what it does not say."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("raw_representation", "function_call")}
        called = {"function_call": self.function_call.to_dict()} if self.function_call else {}
        empty: tuple[Any, ...] = (None, False, {})
        return {name: value for name, value in said.items() if value not in empty or (name, value) == ("approved", False)} | called


class Message:
    """Who said what: `role`, `contents`, `author_name`, `text`.

    >>> Message("user", ["Hello"]).text
    'Hello'
    """

    def __init__(
        self,
        role: str = "user",
        contents: Sequence[Content | str | Mapping[str, Any]] | str | None = None,
        *,
        text: str | None = None,
        author_name: str | None = None,
        message_id: str | None = None,
        additional_properties: Mapping[str, Any] | None = None,
        raw_representation: Any = None,
    ) -> None:
        given: list[Content | str | Mapping[str, Any]] = [contents] if isinstance(contents, str) else list(contents or ())
        if text is not None:  # how it was written before `contents`
            given.insert(0, text)
        self.role = str(getattr(role, "value", role))
        self.contents = [_content(each) for each in given]
        self.author_name = author_name
        self.message_id = message_id
        self.additional_properties = dict(additional_properties or {})
        self.raw_representation = raw_representation

    @property
    def text(self) -> str:
        return " ".join(content.text or "" for content in self.contents if content.type == "text")

    def to_dict(self, **_: Any) -> dict[str, Any]:
        author = {"author_name": self.author_name} if self.author_name else {}
        return {"type": "message", "role": self.role, **author, "contents": [content.to_dict() for content in self.contents]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it can be changed, as theirs can

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Message {self.author_name or self.role}: {self.text!r}>"


@dataclass(kw_only=True)
class AgentResponse:
    """What an agent answered. `user_input_requests` are the approvals that it waits for; `value` its output, where it has a type."""

    messages: list[Message] = field(default_factory=list)
    response_id: str | None = None
    agent_id: str | None = None
    usage_details: dict[str, int] | None = None
    value: Any = None

    @property
    def text(self) -> str:
        return "".join(message.text for message in self.messages)

    @property
    def user_input_requests(self) -> list[Content]:
        return [content for message in self.messages for content in message.contents if content.user_input_request]

    def __str__(self) -> str:
        return self.text


@dataclass(kw_only=True)
class AgentResponseUpdate:
    """A piece of an answer, while it is being made."""

    contents: list[Content] = field(default_factory=list)
    role: str = "assistant"
    author_name: str | None = None
    agent_id: str | None = None
    response_id: str | None = None
    message_id: str | None = None

    @property
    def text(self) -> str:
        return "".join(content.text or "" for content in self.contents if content.type == "text")

    @property
    def user_input_requests(self) -> list[Content]:
        return [content for content in self.contents if content.user_input_request]

    def __str__(self) -> str:
        return self.text


def _content(given: Content | str | Mapping[str, Any]) -> Content:
    if isinstance(given, str):
        return Content.from_text(given)
    if isinstance(given, Mapping):
        return Content(**given)
    if not isinstance(given, Content):
        raise BadInput("a message is made of text and Content", found=type(given).__name__)
    return given


# -- to Legato and back ------------------------------------------------------------------------------------------------


def shown(message: NativeMessage) -> Message:
    """A message of the ledger, as the framework's programs read it."""
    contents = [_shown_part(part) for part in message.parts]
    return Message(message.role, contents, author_name=message.author_name or None, raw_representation=message)


def _shown_part(part: Part) -> Content:
    match part:
        case Text(text):
            return Content.from_text(text)
        case Image() | File():
            return Content("uri", uri=part.url or part.digest, media_type=part.media_type)


def flat(messages: Any) -> list[Message | str | Content]:
    """What was handed to `run`, as a list."""
    return [messages] if isinstance(messages, (str, Message, Content)) else list(messages or ())


def said(messages: Any) -> str | list[Sendable]:
    """What a user says, as `session.run` takes it. Several messages at once are one message of several parts."""
    if isinstance(messages, str):
        return messages
    pieces: list[Sendable] = []
    for each in flat(messages):
        if isinstance(each, Message):
            if each.role != "user":
                raise BadInput(
                    "only a user's message can be said: what agents said before is in the ledger",
                    found=f"a message of role {each.role!r}",
                    do='write Message("user", [...]); to go on with a conversation, use its checkpoint or session',
                )
            pieces += _pieces(each.contents)
        else:
            pieces += _pieces([_content(each)])
    return pieces


def _pieces(contents: Iterable[Content]) -> list[Sendable]:
    return [_piece(content) for content in contents]


def _piece(content: Content) -> Sendable:
    if content.type == "text" and content.text is not None:
        return content.text
    if content.type in ("uri", "data") and content.uri:
        return _attached(content.uri, content.media_type, content.name or "")
    raise BadInput("a user's message is made of text, pictures and files", found=f"a content of type {content.type!r}")


def _attached(uri: str, media_type: str | None, name: str) -> Attachment:
    source: bytes | str = uri
    if uri.startswith("data:"):
        head, _, data = uri.partition(",")
        kind = head.removeprefix("data:").partition(";")[0]
        media_type, source = media_type or kind, b64decode(data)
    media_type = media_type or "application/octet-stream"
    return image(source, media_type) if media_type.startswith("image/") else file(source, name, media_type)
