"""What came back from a server. May know: MCP's content. Decides: what of it a model is given."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from mcp.types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent

from legato.core.messages import Attachment, file, image


def output_of(result: CallToolResult) -> object:
    """The parts of a result: words, pictures and files; data as JSON where the server did not write it as words itself."""
    parts = [_part(block) for block in result.content]
    if result.structured_content is not None and not any(isinstance(part, str) for part in parts):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return parts


def words_of(result: CallToolResult) -> str:
    """What a failed call says."""
    told = [block.text for block in result.content if isinstance(block, TextContent)]
    return "\n".join(told) or "the tool failed and did not say why"


def _part(block: Any) -> str | Attachment:
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _bytes(block.data, lambda data: image(data, block.mime_type))
        case AudioContent():
            return _bytes(block.data, lambda data: file(data, "audio", block.mime_type))
        case ResourceLink():
            return f"[{block.title or block.name}: {block.uri}]"
        case EmbeddedResource():
            held = block.resource
            if isinstance(held, BlobResourceContents):
                kind = held.mime_type or "application/octet-stream"
                return _bytes(held.blob, lambda data: file(data, str(held.uri), kind))
            return held.text
        case _:
            return f"[content of a kind that is not known: {getattr(block, 'type', type(block).__name__)}]"


def _bytes(text: str, make: Callable[[bytes], Attachment]) -> str | Attachment:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    return make(data) if data else "[an attachment that could not be read]"
