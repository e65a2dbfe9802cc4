"""Messages and responses under the framework's names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, ClassVar

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.errors import BadInput


@mirrors("Message")
class Message:
    """One message with its author: `role`, `contents`, `author_name`, `text`.

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
        self.contents = [content_of(each) for each in given]
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

    def to_json(self, **_: Any) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Read the output of `to_dict`. Only a user's message can be used as input: the ledger has the agents' messages."""
        return cls(data.get("role", "user"), data.get("contents"), text=data.get("text"), author_name=data.get("author_name"))

    @classmethod
    def from_json(cls, text: str) -> Message:
        return cls.from_dict(json.loads(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it can be changed, as theirs can

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Message {self.author_name or self.role}: {self.text!r}>"


@mirrors("AgentResponse")
@dataclass(kw_only=True)
class AgentResponse:
    """An agent's response. `user_input_requests` are the approvals that it waits for; `value` is its output, if it has a type."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # `AgentResponse[Weather]`, as programs annotate it

    messages: list[Message] = field(default_factory=list)
    response_id: str | None = None
    agent_id: str | None = None
    finish_reason: str | None = None
    usage_details: dict[str, int] | None = None
    value: Any = None
    additional_properties: dict[str, Any] = field(default_factory=dict)
    raw_representation: Any = field(default=None, repr=False)

    @classmethod
    def from_updates(cls, updates: Iterable[AgentResponseUpdate], *, agent_id: str | None = None) -> AgentResponse:
        """The whole that these pieces are: one message for each stretch of words by one author in one role."""
        messages: list[Message] = []
        for update in updates:
            last = messages[-1] if messages else None
            words = all(content.type == "text" for content in update.contents)
            goes_on = last is not None and words and last.contents and last.contents[-1].type == "text"
            if last is not None and goes_on and (last.author_name, last.role) == (update.author_name, update.role):
                last.contents[-1] = Content.from_text((last.contents[-1].text or "") + update.text)
            else:
                messages.append(Message(update.role, update.contents, author_name=update.author_name))
        return cls(messages=messages, agent_id=agent_id)

    @classmethod
    async def from_update_generator(cls, updates: AsyncIterable[AgentResponseUpdate]) -> AgentResponse:
        return cls.from_updates([update async for update in updates])

    @property
    def text(self) -> str:
        return "".join(message.text for message in self.messages)

    @property
    def user_input_requests(self) -> list[Content]:
        return [content for message in self.messages for content in message.contents if content.user_input_request]

    def to_dict(self, **_: Any) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("response_id", "agent_id", "finish_reason", "usage_details")}
        known = {name: value for name, value in said.items() if value is not None}
        return {"type": "agent_response", "messages": [message.to_dict() for message in self.messages], **known}

    def to_json(self, **_: Any) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def __str__(self) -> str:
        return self.text


@dataclass(kw_only=True)
class ChatResponse(AgentResponse):
    """A model's reply as chat middleware sees it: text, and the calls that it asks for."""

    model: str | None = None


@mirrors("AgentResponseUpdate")
@dataclass(kw_only=True)
class AgentResponseUpdate:
    """A piece of an answer, while it is being made."""

    contents: list[Content] = field(default_factory=list)
    role: str = "assistant"
    author_name: str | None = None
    agent_id: str | None = None
    response_id: str | None = None
    message_id: str | None = None
    finish_reason: str | None = None
    additional_properties: dict[str, Any] = field(default_factory=dict)
    raw_representation: Any = field(default=None, repr=False)

    @property
    def text(self) -> str:
        return "".join(content.text or "" for content in self.contents if content.type == "text")

    @property
    def user_input_requests(self) -> list[Content]:
        return [content for content in self.contents if content.user_input_request]

    def to_dict(self, **_: Any) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("author_name", "agent_id", "response_id", "message_id", "finish_reason")}
        known = {name: value for name, value in said.items() if value is not None}
        contents = [content.to_dict() for content in self.contents]
        return {"type": "agent_response_update", "role": self.role, "contents": contents, **known}

    def to_json(self, **_: Any) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def __str__(self) -> str:
        return self.text


def content_of(given: Content | str | Mapping[str, Any]) -> Content:
    """A piece of a message, however it was written."""
    if isinstance(given, str):
        return Content.from_text(given)
    if isinstance(given, Mapping):
        return Content.from_dict(given)
    if not isinstance(given, Content):
        raise BadInput("a message is made of text and Content", found=type(given).__name__)
    return given
