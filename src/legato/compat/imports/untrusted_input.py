"""Strict reading of untrusted files and strings.

Nothing here runs, imports or unpickles anything. Input of any other shape ends in `CannotImport`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from legato.compat.data_urls import read_data_url
from legato.core.digests import digest_bytes
from legato.core.facts import Content, File, Image, Part, Text
from legato.core.messages import validate_text
from legato.errors import BadInput, CannotImport

MAX_SOURCE_BYTES = 256 * 1024 * 1024
"""Bytes of a file or string; more is refused unread."""
BOM = b"\xef\xbb\xbf"
"""What some editors put before a text."""


def import_refusal(summary: str, *, expected: str = "", found: str = "", do: str = "") -> CannotImport:
    """Return the error for input that cannot be imported."""
    do = f"{do}; nothing was imported" if do else "nothing was imported"
    return CannotImport(escape_unprintable(summary), expected=expected, found=escape_unprintable(found[:200]), do=do)


def escape_unprintable(text: str) -> str:
    """Return untrusted text without characters that a terminal would obey."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def read_bytes(path: Path) -> bytes:
    """A file, if it is one and not too long."""
    try:
        if not path.is_file():
            raise import_refusal(f"{path.name} is no file", do="name the file itself")
        check_length(path)
        return path.read_bytes()
    except OSError as error:
        raise import_refusal(f"{path.name} cannot be read", found=str(error.strerror)) from None


def check_length(path: Path) -> None:
    """Refuse a file that is too long."""
    if (size := path.stat().st_size) > MAX_SOURCE_BYTES:
        raise import_refusal(f"{path.name} is too long", expected=f"at most {MAX_SOURCE_BYTES} bytes", found=f"{size} bytes")


def read_json(data: bytes | str, what: str) -> dict[str, Any]:
    """A JSON object."""
    if len(data) > MAX_SOURCE_BYTES:
        raise import_refusal(f"{what} is too long", expected=f"at most {MAX_SOURCE_BYTES} bytes", found=f"{len(data)} bytes")
    data = data.removeprefix(BOM) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise import_refusal(f"{what} is no JSON", found=str(error), do="check that it is whole") from None
    return check_dict(body, what)


def check_dict(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise import_refusal(f"{what} is not an object", found=type(value).__name__)
    return value


def check_list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise import_refusal(f"{what} is not a list", found=type(value).__name__)
    return value


def check_text(value: object, what: str, empty: bool = True) -> str:
    """Return the value if it is text that can be recorded."""
    if not isinstance(value, str) or not (value or empty):
        raise import_refusal(f"{what} is not text", found=repr(value)[:80])
    try:
        return validate_text(value, what, allow_empty=True)
    except BadInput as error:
        raise import_refusal(error.summary) from None


def text_or_json(value: object, what: str) -> str:
    """Return text unchanged, and any other value as the JSON that a model would have received."""
    try:
        return check_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), what)
    except RecursionError:
        raise import_refusal(f"{what} is nested too deep") from None


class MessageParts(msgspec.Struct):
    """The parts of one message, and the bytes of its images and files."""

    parts: list[Part]
    contents: dict[str, bytes]

    def text(self, text: str) -> None:
        """Add words."""
        if text:
            self.parts.append(Text(text))

    def attached(self, uri: str, media_type: str, name: str, what: str) -> None:
        """Add a picture or file: by its address, or its bytes if that is where they are."""
        try:
            kind, data = read_data_url(uri) or ("", b"")
        except ValueError:
            raise import_refusal(f"{what} is not base64") from None
        media_type = kind or media_type
        address, digest = ("", digest_bytes(data)) if data else (uri, "")
        if digest:
            self.contents[digest] = data
        if media_type.startswith("image/"):
            self.parts.append(Image(media_type, url=address, digest=digest))
        else:
            self.parts.append(File(name, media_type or "application/octet-stream", url=address, digest=digest))

    @property
    def content(self) -> Content:
        """Plain text stays plain."""
        if all(isinstance(part, Text) for part in self.parts):
            return "\n".join(part.text for part in self.parts if isinstance(part, Text))
        return tuple(self.parts)
