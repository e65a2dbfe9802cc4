"""What OpenAI's models take on Chat Completions. May know: their names. Decides: which of the law book's rules apply to which model.

A row stands for all models whose name begins with its pattern; later rows add to earlier ones. What no row says is not refused.
"""

from __future__ import annotations

import re
from typing import Any

_END = r"(?=-\d|-latest|$)"
"""What follows a model's name: nothing, or the day it was made. `gpt-5` is not `gpt-5-chat`."""

_SAMPLING = ("top_p", "presence_penalty", "frequency_penalty")
_TEXT_ONLY: dict[str, Any] = {"sees": False, "schemas": False}

_ROWS: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = tuple(
    (re.compile(pattern), members)
    for pattern, members in (
        (r"gpt-3\.5-", {**_TEXT_ONLY, "output": 4_096}),
        (r"gpt-3\.5-turbo-16k|gpt-3\.5-turbo-0[36]", {"output": 0}),
        (rf"gpt-4(-32k)?{_END}", _TEXT_ONLY),
        (r"gpt-4-(turbo|\d{4}-(vision-)?preview|vision)", {"schemas": False, "output": 4_096}),
        (r"gpt-4-(turbo|1106-vision|vision)", {"sees": True}),
        (r"gpt-4o", {"output": 16_384}),
        (r"gpt-4o-2024-05-13", {"schemas": False, "output": 4_096}),
        (r"chatgpt-4o", {"schemas": False, "output": 16_384}),
        (r"gpt-4\.1", {"output": 32_768}),
        (r"o1-(mini|preview)", {**_TEXT_ONLY, "developer": False, "system": False, "stop": False, "parallel": False}),
        (rf"o1{_END}", {"parallel": False}),
        (rf"o3-mini{_END}", {"sees": False, "parallel": False, "fixed_sampling": ("temperature", *_SAMPLING)}),
        (rf"(o3|o4-mini){_END}", {"stop": False, "parallel": False}),
        (rf"gpt-5(-mini|-nano)?{_END}", {"stop": False}),
        (r"gpt-5", {"fixed_sampling": _SAMPLING}),
        (r"gpt-5\.6|gpt-6", {"tools_with_effort": False}),
        (r"gpt-3\.5-turbo-instruct", {"endpoint": "v1/completions"}),
        (r"(o\d|gpt-[\d.]+)(-mini)?-(pro|codex|deep-research)|codex-|computer-use", {"endpoint": "v1/responses"}),
    )
)


def abilities_of(name: str) -> dict[str, Any]:
    """Members of the law book's `ModelInfo` that follow from a model's name.

    >>> abilities_of("gpt-5-mini-2025-08-07")["stop"], abilities_of("gpt-4o-audio-preview")["hears"]
    (False, True)
    """
    # A fine-tuned model is called ft:<what it was made from>:<whose>::<id>, and Azure writes 35 for 3.5.
    name = name.lower().removeprefix("ft:").partition(":")[0].removeprefix("openai/").replace("gpt-35", "gpt-3.5")
    sounds = "audio" in name
    members: dict[str, Any] = {"hears": sounds or "realtime" in name, "must_hear": sounds, "searches": "search" in name}
    for pattern, more in _ROWS:
        if pattern.match(name):
            members |= more
    return members
