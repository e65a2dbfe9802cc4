"""Results of MCP calls, converted to tool outputs."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from mcp.types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent

from legato.core.messages import Attachment, file, image


def convert_result(result: CallToolResult) -> object:
    """Return a result as text, or as a list of texts, pictures and files. Structured content is added as JSON if there is no text."""
    parts = [_convert_block(block) for block in result.content]
    if result.structured_content is not None and not any(isinstance(part, str) for part in parts):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    if all(isinstance(part, str) for part in parts):
        return "\n".join(str(part) for part in parts)
    return parts


def join_error_texts(result: CallToolResult) -> str:
    """Return the texts of a failed call's result."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    return "\n".join(texts) or "the tool failed and did not say why"


def _convert_block(block: Any) -> str | Attachment:
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _decode_attachment(block.data, lambda data: image(data, block.mime_type))
        case AudioContent():
            return _decode_attachment(block.data, lambda data: file(data, "audio", block.mime_type))
        case ResourceLink():
            return f"[{block.title or block.name}: {block.uri}]"
        case EmbeddedResource():
            resource = block.resource
            if isinstance(resource, BlobResourceContents):
                kind = resource.mime_type or "application/octet-stream"
                return _decode_attachment(resource.blob, lambda data: file(data, str(resource.uri), kind))
            return resource.text
        case _:
            return f"[content of a kind that is not known: {getattr(block, 'type', type(block).__name__)}]"


def _decode_attachment(text: str, make: Callable[[bytes], Attachment]) -> str | Attachment:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    return make(data) if data else "[an attachment that could not be read]"
