"""The capabilities of OpenAI's models on Chat Completions, by model name.

A row stands for all models whose name begins with its pattern; later rows add to earlier ones. A capability without a row is not refused.
"""

from __future__ import annotations

import re
from typing import Any

_NAME_END = r"(?=-\d|-latest|$)"
"""The end of a model's name: nothing, or its date. `gpt-5` is not `gpt-5-chat`."""

_SAMPLING_PARAMETERS = ("top_p", "presence_penalty", "frequency_penalty")
_TEXT_ONLY: dict[str, Any] = {"accepts_images": False, "accepts_json_schema": False}

_CAPABILITY_ROWS: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = tuple(
    (re.compile(pattern), capabilities)
    for pattern, capabilities in (
        (r"gpt-3\.5-", {**_TEXT_ONLY, "max_output_tokens": 4_096}),
        (r"gpt-3\.5-turbo-16k|gpt-3\.5-turbo-0[36]", {"max_output_tokens": 0}),
        (rf"gpt-4(-32k)?{_NAME_END}", _TEXT_ONLY),
        (r"gpt-4-(turbo|\d{4}-(vision-)?preview|vision)", {"accepts_json_schema": False, "max_output_tokens": 4_096}),
        (r"gpt-4-(turbo|1106-vision|vision)", {"accepts_images": True}),
        (r"gpt-4o", {"max_output_tokens": 16_384}),
        (r"gpt-4o-2024-05-13", {"accepts_json_schema": False, "max_output_tokens": 4_096}),
        (r"chatgpt-4o", {"accepts_json_schema": False, "max_output_tokens": 16_384}),
        (r"gpt-4\.1", {"max_output_tokens": 32_768}),
        (
            r"o1-(mini|preview)",
            {
                **_TEXT_ONLY,
                "accepts_developer_role": False,
                "accepts_system_role": False,
                "accepts_stop": False,
                "accepts_parallel_tool_calls": False,
            },
        ),
        (rf"o1{_NAME_END}", {"accepts_parallel_tool_calls": False}),
        (
            rf"o3-mini{_NAME_END}",
            {"accepts_images": False, "accepts_parallel_tool_calls": False, "fixed_sampling": ("temperature", *_SAMPLING_PARAMETERS)},
        ),
        (rf"(o3|o4-mini){_NAME_END}", {"accepts_stop": False, "accepts_parallel_tool_calls": False}),
        (rf"gpt-5(-mini|-nano)?{_NAME_END}", {"accepts_stop": False}),
        (r"gpt-5", {"fixed_sampling": _SAMPLING_PARAMETERS}),
        (r"gpt-5\.6|gpt-6", {"accepts_tools_with_effort": False}),
        (r"gpt-3\.5-turbo-instruct", {"other_endpoint": "v1/completions"}),
        (r"(o\d|gpt-[\d.]+)(-mini)?-(pro|codex|deep-research)|codex-|computer-use", {"other_endpoint": "v1/responses"}),
    )
)


def find_chat_capabilities(name: str) -> dict[str, Any]:
    """Return the members of `ChatModelInfo` that follow from a model's name.

    >>> find_chat_capabilities("gpt-5-mini-2025-08-07")["accepts_stop"], find_chat_capabilities("gpt-4o-audio-preview")["accepts_audio"]
    (False, True)
    """
    # A fine-tuned model is called ft:<base model>:<organisation>::<id>, and Azure writes 35 for 3.5.
    name = name.lower().removeprefix("ft:").partition(":")[0].removeprefix("openai/").replace("gpt-35", "gpt-3.5")
    is_audio = "audio" in name
    capabilities: dict[str, Any] = {
        "accepts_audio": is_audio or "realtime" in name,
        "requires_audio": is_audio,
        "has_web_search": "search" in name,
    }
    for pattern, row_capabilities in _CAPABILITY_ROWS:
        if pattern.match(name):
            capabilities |= row_capabilities
    return capabilities
