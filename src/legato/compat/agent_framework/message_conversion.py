"""Conversion between the framework's messages and Legato's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.compat.agent_framework.contents import Content
from legato.compat.agent_framework.messages import Message, content_of
from legato.compat.data_urls import read_data_url
from legato.core.facts import File, Image, Part, Text, Usage
from legato.core.messages import Attachment, MessageInput, file, image
from legato.core.messages import Message as NativeMessage
from legato.errors import BadInput


def convert_message(message: NativeMessage) -> Message:
    """Return a message of the ledger in the framework's type."""
    contents = [_convert_part(part) for part in message.parts]
    return Message(message.role, contents, author_name=message.author_name or None, raw_representation=message)


def _convert_part(part: Part) -> Content:
    match part:
        case Text(text):
            return Content.from_text(text)
        case Image() | File():
            return Content("uri", uri=part.url or part.digest, media_type=part.media_type)


def usage_details(usage: Usage) -> dict[str, int]:
    """Return usage under the framework's keys."""
    return {
        "input_token_count": usage.input,
        "output_token_count": usage.output,
        "total_token_count": usage.input + usage.output,
        "cache_read_input_token_count": usage.cached,
        "reasoning_output_token_count": usage.reasoning,
    }


def as_list(messages: Any) -> list[Message | str | Content]:
    """Return the `messages` argument of `run` as a list."""
    return [messages] if isinstance(messages, (str, Message, Content)) else list(messages or ())


def convert_input(messages: Any) -> str | list[MessageInput]:
    """Return a user's input as `session.run` takes it. Several messages at once become one message of several parts."""
    if isinstance(messages, str):
        return messages
    pieces: list[MessageInput] = []
    for each in as_list(messages):
        if isinstance(each, Message):
            if each.role in ("system", "developer"):
                raise BadInput(f"a message of role {each.role!r} cannot be said", do="put what it says into the agent's instructions")
            if each.role != "user":
                raise BadInput(
                    "only a user's message can be said: what agents said before is in the ledger",
                    found=f"a message of role {each.role!r}",
                    do='write Message("user", [...]); to go on with a conversation, use its checkpoint or session',
                )
            pieces += pieces_of(each.contents)
        else:
            pieces += pieces_of([content_of(each)])
    return pieces


def pieces_of(contents: Iterable[Content]) -> list[MessageInput]:
    """Return contents as Legato takes them: text, images and files."""
    return [_piece(content) for content in contents]


def _piece(content: Content) -> MessageInput:
    if content.type == "text" and content.text is not None:
        return content.text
    if content.type in ("uri", "data") and content.uri:
        return _attached(content.uri, content.media_type, content.name or "")
    raise BadInput("a user's message is made of text, pictures and files", found=f"a content of type {content.type!r}")


def _attached(uri: str, media_type: str | None, name: str) -> Attachment:
    try:
        kind, source = read_data_url(uri) or ("", uri)
    except ValueError:
        raise BadInput("the bytes of a picture or file are not base64", found=uri[:40]) from None
    media_type = media_type or kind or "application/octet-stream"
    return image(source, media_type) if media_type.startswith("image/") else file(source, name, media_type)
