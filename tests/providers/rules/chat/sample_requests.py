"""Models, requests, messages and parts for the test cases of the Chat Completions rules."""

from __future__ import annotations

from typing import Any

from legato.providers.rules.chat.model_info import ChatModelInfo

MODELS = {
    "gpt-4o": ChatModelInfo("gpt-4o", False, 128_000),
    "gpt-5": ChatModelInfo("gpt-5", True, 400_000, default_effort="medium"),
    "gpt-5.6-sol": ChatModelInfo("gpt-5.6-sol", True, 400_000, accepts_tools_with_effort=False),
    "o1-mini": ChatModelInfo(
        "o1-mini",
        True,
        128_000,
        accepts_developer_role=False,
        accepts_system_role=False,
        accepts_stop=False,
        accepts_images=False,
        accepts_json_schema=False,
    ),
    "o3": ChatModelInfo("o3", True, 200_000, accepts_stop=False, accepts_parallel_tool_calls=False, efforts=("low", "medium", "high")),
    "gpt-5.2": ChatModelInfo("gpt-5.2", True, 400_000, default_effort="none", fixed_sampling=("top_p",)),
    "gpt-3.5-turbo": ChatModelInfo(
        "gpt-3.5-turbo",
        False,
        accepts_audio=False,
        accepts_images=False,
        accepts_json_schema=False,
        has_web_search=False,
        max_output_tokens=4_096,
    ),
    "gpt-3.5-turbo-instruct": ChatModelInfo("gpt-3.5-turbo-instruct", False, other_endpoint="v1/completions"),
    "gpt-5-pro": ChatModelInfo("gpt-5-pro", True, other_endpoint="v1/responses"),
    "gpt-audio": ChatModelInfo("gpt-audio", False, requires_audio=True),
    "gpt-4o-search-preview": ChatModelInfo("gpt-4o-search-preview", False, has_web_search=True),
    "gpt-4-vision-preview": ChatModelInfo("gpt-4-vision-preview", False),
}

HELLO = {"role": "user", "content": "Where is my order?"}


def find_model(name: str) -> ChatModelInfo | None:
    """Return a model of the test cases. None: it does not exist."""
    return MODELS.get(name)


def make_user_message(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a user message with a text and these parts."""
    return {"role": "user", "content": [{"type": "text", "text": "See:"}, *parts]}


PNG_URL = "data:image/png;base64,iVBORw0KGgo="
AUDIO_PART = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


def make_image_part(url: str = PNG_URL) -> dict[str, Any]:
    """Return an image as a content part."""
    return {"type": "image_url", "image_url": {"url": url}}


def make_file_part(media_type: str) -> dict[str, Any]:
    """Return a file as a content part."""
    return {"type": "file", "file": {"filename": "bill", "file_data": f"data:{media_type};base64,SGVsbG8="}}


def make_request(*messages: Any, model: str = "gpt-4o", **parameters: Any) -> dict[str, Any]:
    """Return a request; without arguments a legal one."""
    return {"model": model, "messages": list(messages) or [HELLO], **parameters}


def make_tool(name: str = "find_order", **members: Any) -> dict[str, Any]:
    """Return a function tool."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **members}}


def make_call(id: str = "call_1", name: str = "find_order") -> dict[str, Any]:
    """Return a function call."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def make_call_message(*ids: str, **members: Any) -> dict[str, Any]:
    """Return an assistant message with calls."""
    return {"role": "assistant", "content": None, "tool_calls": [make_call(id) for id in ids], **members}


def make_tool_message(id: str = "call_1", **members: Any) -> dict[str, Any]:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": id, "content": "shipped", **members}
