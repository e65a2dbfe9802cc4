"""Messages as people and user code see them, and the content that callers pass in.

A `Message` is a rendering of the ledger, made on request. It is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.facts import (
    AnyFact,
    CallReturned,
    Content,
    Decided,
    File,
    Image,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Part,
    RunOptions,
    Text,
)
from legato.errors import BadInput


def to_parts(content: Content) -> tuple[Part, ...]:
    """Return content as a tuple of parts."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return content


def render_content(content: Content) -> str:
    """Return content as text, with attachments named in brackets."""
    if isinstance(content, str):
        return content
    return "\n".join(_render_part(part) for part in content)


def _render_part(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Image():
            return f"[image {part.url or part.digest}]"
        case File():
            return f"[file {part.name or part.url or part.digest}]"


class MessageCall(Struct, frozen=True):
    """A tool call in a message. `id` is Legato's: the reply's position and the call's index."""

    id: str
    tool: str
    arguments: str
    call_id: str = ""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation, with its author.

    `calls` and `call` appear only in model input (`session.seen()`), not in `session.messages`: an assistant message may carry calls,
    and a message of role "tool" has the output of the call named by `call`. `synthetic` marks text that no person wrote.

    >>> Message(role="user", parts=(Text("Hello"),)).text
    'Hello'
    """

    role: str = "user"
    parts: tuple[Part, ...] = ()
    author_name: str = ""
    position: int = -1
    calls: tuple[MessageCall, ...] = ()
    call: str = ""
    synthetic: bool = False

    @property
    def text(self) -> str:
        """The text, with attachments named in brackets."""
        return render_content(self.parts)

    def __repr__(self) -> str:
        return f"<Message {self}>"

    def __str__(self) -> str:
        author = self.author_name or self.role
        calls = [f"[{call.tool}({call.arguments})]" for call in self.calls]
        return f"{author}: {' '.join(filter(None, [self.text, *calls]))}"


class Attachment(Struct, frozen=True):
    """An image or a file together with its bytes, which are stored in the store's contents. Created by `image` and `file`."""

    part: Image | File
    data: bytes = b""

    def __repr__(self) -> str:
        return f"<Attachment {self.part}, {len(self.data)} bytes>"


def image(source: bytes | str, media_type: str = "image/png") -> Attachment:
    """Return an image for a message, from its bytes or its URL.

    >>> image("https://example.com/cat.png").part.url
    'https://example.com/cat.png'
    """
    if isinstance(source, str):
        return Attachment(Image(media_type, url=_validate_address("an image", source)))
    _check_bytes("an image", source)
    return Attachment(Image(media_type, digest=digest_bytes(source)), source)


def file(source: bytes | str, name: str = "", media_type: str = "application/octet-stream") -> Attachment:
    """Return a file for a message, from its bytes or its URL."""
    if isinstance(source, str):
        return Attachment(File(name, media_type, url=_validate_address("a file", source)))
    _check_bytes("a file", source)
    return Attachment(File(name, media_type, digest=digest_bytes(source)), source)


def _validate_address(name: str, source: str) -> str:
    if not source.startswith(("https://", "http://", "data:", "gs://", "s3://", "file-")):
        do = "read the file yourself: Path(...).read_bytes()"
        raise BadInput(f"{name} must be bytes or a URL", expected="https://...", found=repr(source)[:80], do=do)
    return source


def _check_bytes(name: str, source: object) -> None:
    if not isinstance(source, bytes) or not source:
        found = "no bytes" if source == b"" else type(source).__name__
        raise BadInput(f"{name} must be bytes or a URL", found=found)


MessageInput: TypeAlias = str | Message | Part | Attachment
"""One piece of a message that a caller may pass."""


def parse_message(message: MessageInput | Iterable[MessageInput]) -> tuple[Content, dict[str, bytes]]:
    """Return the message that a caller passed, as content and the bytes of its attachments by digest; `BadInput` if it is none."""
    if isinstance(message, str):
        return validate_text(message, "message"), {}
    parts: list[Part] = []
    contents: dict[str, bytes] = {}
    for piece in _split_message(message):
        parts.append(_to_part(piece))
        if isinstance(piece, Attachment) and piece.part.digest:
            contents[piece.part.digest] = piece.data
    if not parts:
        raise BadInput("the message is empty", do="send text, or call session.resume() to continue without a message")
    plain = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else tuple(parts)
    return plain, contents


def _split_message(message: Any) -> Iterable[Any]:
    if isinstance(message, Message):
        if message.role != "user" or message.calls or message.call:
            raise BadInput(
                "only a user's message can be sent to a session",
                found=f"a message of role {message.role!r}",
                do='send text, parts, or Message(role="user", parts=...)',
            )
        message = message.parts
    if isinstance(message, (Text, Image, File, Attachment)):
        return (message,)
    if not isinstance(message, Iterable) or isinstance(message, (bytes, dict)):
        raise _make_not_a_message_error(message)
    return message


def _to_part(piece: Any) -> Part:
    if isinstance(piece, str):
        return Text(validate_text(piece, "message"))
    if isinstance(piece, Attachment):
        return _validate_part(piece.part)
    if isinstance(piece, (Text, Image, File)):
        return _validate_part(piece)
    raise _make_not_a_message_error(piece)


def _validate_part(part: Part) -> Part:
    """Return the part, if all its fields are valid text."""
    for name in part.__struct_fields__:
        validate_text(getattr(part, name), f"{name} of a part of the message" if name != "text" else "message", allow_empty=name != "text")
    return part


def find_attachment_digests(content: Content) -> set[str]:
    """Return the digests of the images and files in some content."""
    return {part.digest for part in to_parts(content) if isinstance(part, (Image, File)) and part.digest}


def find_content_digests(fact: AnyFact) -> set[str]:
    """Return the digests of all stored contents that a fact names: attachments, a long output, a turn context, a client's definitions."""
    match fact:
        case ModelReplied(context_digest=digest) | ModelRequestFailed(context_digest=digest):
            return {digest} if digest else set()
        case CallReturned(output=output, full_output_digest=digest):
            return find_attachment_digests(output) | ({digest} if digest else set())
        case Decided(output=output, options=options):
            return find_attachment_digests(output) | _find_definitions_digest(options)
        case MessageReceived(content=content, options=options):
            return find_attachment_digests(content) | _find_definitions_digest(options)
        case _:
            return set()


def _find_definitions_digest(options: RunOptions | None) -> set[str]:
    return {options.digest} if options is not None and options.digest else set()


def _make_not_a_message_error(value: object) -> BadInput:
    return BadInput(
        "this is not a message",
        expected="text, a Message, or a list of text, image(...) and file(...)",
        found=type(value).__name__,
        do="pass a string, or a list of parts",
    )


def validate_text(text: str, name: str, allow_empty: bool = False) -> str:
    """Return the text, if it can be encoded and is not empty; `BadInput` otherwise."""
    if not isinstance(text, str):
        raise BadInput(f"the {name} is not text", found=type(text).__name__, do="pass a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"the {name} is not valid Unicode: {error.reason} at {error.start}", do="remove lone surrogates") from None
    if not text and not allow_empty:
        raise BadInput(f"the {name} is empty", do="send text, or call session.resume() to continue without a message")
    return text
