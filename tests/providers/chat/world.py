"""The models that the cases speak of, and requests to start from."""

from __future__ import annotations

from typing import Any

from legato.providers.rules.chat.held import ModelInfo

MODELS = {
    "gpt-4o": ModelInfo("gpt-4o", False, 128_000),
    "gpt-5": ModelInfo("gpt-5", True, 400_000, effort="medium"),
    "gpt-5.6-sol": ModelInfo("gpt-5.6-sol", True, 400_000, tools_with_effort=False),
    "o1-mini": ModelInfo("o1-mini", True, 128_000, developer=False, system=False, stop=False, sees=False, schemas=False),
    "o3": ModelInfo("o3", True, 200_000, stop=False, parallel=False, efforts=("low", "medium", "high")),
    "gpt-5.2": ModelInfo("gpt-5.2", True, 400_000, effort="none", fixed_sampling=("top_p",)),
    "gpt-3.5-turbo": ModelInfo("gpt-3.5-turbo", False, hears=False, sees=False, schemas=False, searches=False, output=4_096),
    "gpt-3.5-turbo-instruct": ModelInfo("gpt-3.5-turbo-instruct", False, endpoint="v1/completions"),
    "gpt-5-pro": ModelInfo("gpt-5-pro", True, endpoint="v1/responses"),
    "gpt-audio": ModelInfo("gpt-audio", False, must_hear=True),
    "gpt-4o-search-preview": ModelInfo("gpt-4o-search-preview", False, searches=True),
    "gpt-4-vision-preview": ModelInfo("gpt-4-vision-preview", False),
}

HELLO = {"role": "user", "content": "Where is my order?"}


def models(name: str) -> ModelInfo | None:
    return MODELS.get(name)


def parts(*parts: dict[str, Any]) -> dict[str, Any]:
    """A user's message that is made of parts."""
    return {"role": "user", "content": [{"type": "text", "text": "See:"}, *parts]}


PNG = "data:image/png;base64,iVBORw0KGgo="
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


def picture(url: str = PNG) -> dict[str, Any]:
    """A picture as a part."""
    return {"type": "image_url", "image_url": {"url": url}}


def document(media_type: str) -> dict[str, Any]:
    """A file as a part."""
    return {"type": "file", "file": {"filename": "bill", "file_data": f"data:{media_type};base64,SGVsbG8="}}


def ask(*messages: Any, model: str = "gpt-4o", **parameters: Any) -> dict[str, Any]:
    """A request."""
    return {"model": model, "messages": list(messages) or [HELLO], **parameters}


def tool(name: str = "find_order", **members: Any) -> dict[str, Any]:
    """A function tool."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **members}}


def call(id: str = "call_1", name: str = "find_order") -> dict[str, Any]:
    """A call of a function."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def calls(*ids: str, **members: Any) -> dict[str, Any]:
    """An assistant's message with calls."""
    return {"role": "assistant", "content": None, "tool_calls": [call(id) for id in ids], **members}


def result(id: str = "call_1", **members: Any) -> dict[str, Any]:
    """A tool's message."""
    return {"role": "tool", "tool_call_id": id, "content": "shipped", **members}
