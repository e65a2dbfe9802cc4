"""The keys of a request, and what a misspelt one may have meant. May know: nothing. Decides: which keys are known."""

from __future__ import annotations

from collections.abc import Container

from legato.providers.rules.responses.texts import listed

KEYS = dict.fromkeys((
    "model", "input", "previous_response_id", "prompt", "moderation", "include", "tools", "tool_choice", "metadata", "text",
    "temperature", "top_p", "presence_penalty", "frequency_penalty", "parallel_tool_calls", "stream", "stream_options",
    "background", "max_output_tokens", "max_tool_calls", "reasoning", "user", "safety_identifier", "prompt_cache_options",
    "prompt_cache_key", "prompt_cache_retention", "truncation", "instructions", "store", "service_tier", "top_logprobs",
    "context_management", "conversation", "access_programs", "image", "client_metadata",
))  # fmt: skip

FARTHEST = 2


def distance(one: str, other: str) -> int:
    """How many letters must be added, taken away or changed to make one word the other.

    >>> distance("stop", "store"), distance("strem", "stream")
    (2, 1)
    """
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        corner, row[0] = row[0], index
        for column, wanted in enumerate(other, 1):
            corner, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, corner + (letter != wanted))
    return row[-1]


def suggestion(key: str, sent: Container[str]) -> str:
    """What to add to the refusal of an unknown key: the nearest known ones that were not sent anyway, if any is near.

    >>> suggestion("strem", {})
    " Did you mean 'stream' or 'store'?"
    >>> suggestion("modell", {"model": "gpt-5.5"})
    ''
    """
    near = []
    for known in KEYS:
        if abs(len(known) - len(key)) <= FARTHEST and known not in sent and (far := distance(key, known)) <= FARTHEST:
            near.append((far, known))
    near.sort(key=lambda pair: pair[0])
    return f" Did you mean {listed([known for _, known in near], 'or')}?" if near else ""
