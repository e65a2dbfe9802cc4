"""Messages as people and user code see them. May know: facts' parts. Decides: how content reads as text.

A `Message` is a rendering, made from the ledger when asked for; it is never stored and never the owner of anything.
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


def parts_of(content: Content) -> tuple[Part, ...]:
    """Content as parts, whatever it was recorded as."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return content


def text_of(content: Content) -> str:
    """The words of some content; attachments are named in brackets."""
    if isinstance(content, str):
        return content
    return "\n".join(_part_text(part) for part in content)


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Image():
            return f"[image {part.url or part.digest}]"
        case File():
            return f"[file {part.name or part.url or part.digest}]"


class SeenCall(Struct, frozen=True):
    """A tool call as a message shows it. `id` is ours: position and index."""

    id: str
    tool: str
    arguments: str
    call_id: str = ""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message: who said what.

    `calls` and `call` appear in what agents see (`session.seen()`), not in `session.messages`: an assistant message may carry
    calls, and a message of role "tool" answers the call named by `call`. `synthetic` marks words that no person said.

    >>> Message(role="user", parts=(Text("Hello"),)).text
    'Hello'
    """

    role: str = "user"
    parts: tuple[Part, ...] = ()
    author_name: str = ""
    position: int = -1
    calls: tuple[SeenCall, ...] = ()
    call: str = ""
    synthetic: bool = False

    @property
    def text(self) -> str:
        """The words, with attachments named in brackets."""
        return text_of(self.parts)

    def __repr__(self) -> str:
        return f"<Message {self}>"

    def __str__(self) -> str:
        who = self.author_name or self.role
        calls = [f"[{call.tool}({call.arguments})]" for call in self.calls]
        return f"{who}: {' '.join(filter(None, [self.text, *calls]))}"


class Attachment(Struct, frozen=True):
    """A picture or a document with its bytes, which go into the store's contents. Made by `image` and `file`."""

    part: Image | File
    data: bytes = b""

    def __repr__(self) -> str:
        return f"<Attachment {self.part}, {len(self.data)} bytes>"


def image(source: bytes | str, media_type: str = "image/png") -> Attachment:
    """A picture for a message: its bytes, or the address of one.

    >>> image("https://example.com/cat.png").part.url
    'https://example.com/cat.png'
    """
    if isinstance(source, str):
        return Attachment(Image(media_type, url=_address("a picture", source)))
    _check_bytes("a picture", source)
    return Attachment(Image(media_type, digest=digest_bytes(source)), source)


def file(source: bytes | str, name: str = "", media_type: str = "application/octet-stream") -> Attachment:
    """A document for a message: its bytes, or the address of one."""
    if isinstance(source, str):
        return Attachment(File(name, media_type, url=_address("a document", source)))
    _check_bytes("a document", source)
    return Attachment(File(name, media_type, digest=digest_bytes(source)), source)


def _address(what: str, source: str) -> str:
    if not source.startswith(("https://", "http://", "data:", "gs://", "s3://", "file-")):
        do = "read the file yourself: Path(...).read_bytes()"
        raise BadInput(f"{what} is given as bytes, or as the address of one", expected="https://...", found=repr(source)[:80], do=do)
    return source


def _check_bytes(what: str, source: object) -> None:
    if not isinstance(source, bytes) or not source:
        found = "no bytes" if source == b"" else type(source).__name__
        raise BadInput(f"{what} is given as bytes, or as the address of one", found=found)


Sendable: TypeAlias = str | Message | Part | Attachment
"""What one piece of a message may be."""


def content_from(message: Sendable | Iterable[Sendable]) -> tuple[Content, dict[str, bytes]]:
    """What a caller handed to `run`, as content and the bytes that go with it; `BadInput` if it is not a message."""
    if isinstance(message, str):
        return checked_text(message, "message"), {}
    parts: list[Part] = []
    contents: dict[str, bytes] = {}
    for piece in _pieces(message):
        parts.append(_part_from(piece))
        if isinstance(piece, Attachment) and piece.part.digest:
            contents[piece.part.digest] = piece.data
    if not parts:
        raise BadInput("the message is empty", do="say something, or call session.resume() to go on without a message")
    plain = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else tuple(parts)
    return plain, contents


def _pieces(message: Any) -> Iterable[Any]:
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
        raise _not_a_message(message)
    return message


def _part_from(piece: Any) -> Part:
    if isinstance(piece, str):
        return Text(checked_text(piece, "message"))
    if isinstance(piece, Attachment):
        return _checked(piece.part)
    if isinstance(piece, (Text, Image, File)):
        return _checked(piece)
    raise _not_a_message(piece)


def _checked(part: Part) -> Part:
    """The part itself, if all that it says of itself is text."""
    for name in part.__struct_fields__:
        checked_text(getattr(part, name), f"{name} of a part of the message" if name != "text" else "message", empty=name != "text")
    return part


def contents_named(content: Content) -> set[str]:
    """The digests of the bytes that some content names."""
    return {part.digest for part in parts_of(content) if isinstance(part, (Image, File)) and part.digest}


def contents_of(fact: AnyFact) -> set[str]:
    """The digests of all contents that a fact names: pictures and files, the whole of a long output, a frame, tools of a client."""
    match fact:
        case ModelReplied(frame=frame) | ModelRequestFailed(frame=frame):
            return {frame} if frame else set()
        case CallReturned(output=output, full=full):
            return contents_named(output) | ({full} if full else set())
        case Decided(output=output, options=options):
            return contents_named(output) | _definitions_named(options)
        case MessageReceived(content=content, options=options):
            return contents_named(content) | _definitions_named(options)
        case _:
            return set()


def _definitions_named(options: RunOptions | None) -> set[str]:
    return {options.digest} if options is not None and options.digest else set()


def _not_a_message(found: object) -> BadInput:
    return BadInput(
        "this is not a message",
        expected="text, a Message, or a list of text, image(...) and file(...)",
        found=type(found).__name__,
        do="pass a string, or a list of parts",
    )


def checked_text(text: str, what: str, empty: bool = False) -> str:
    """The text itself, if it can be written down; `BadInput` otherwise."""
    if not isinstance(text, str):
        raise BadInput(f"the {what} is not text", found=type(text).__name__, do="give a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"the {what} is not valid Unicode: {error.reason} at {error.start}", do="remove lone surrogates") from None
    if not text and not empty:
        raise BadInput(f"the {what} is empty", do="say something, or call session.resume() to go on without a message")
    return text
