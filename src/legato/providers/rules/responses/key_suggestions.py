"""The keys of a request, and suggestions for misspelt ones."""

from __future__ import annotations

from collections.abc import Container

from legato.providers.rules.responses.error_messages import join_quoted

REQUEST_KEYS = dict.fromkeys((
    "model", "input", "previous_response_id", "prompt", "moderation", "include", "tools", "tool_choice", "metadata", "text",
    "temperature", "top_p", "presence_penalty", "frequency_penalty", "parallel_tool_calls", "stream", "stream_options",
    "background", "max_output_tokens", "max_tool_calls", "reasoning", "user", "safety_identifier", "prompt_cache_options",
    "prompt_cache_key", "prompt_cache_retention", "truncation", "instructions", "store", "service_tier", "top_logprobs",
    "context_management", "conversation", "access_programs", "image", "client_metadata",
))  # fmt: skip

MAX_EDIT_DISTANCE = 2
"""The distance up to which a known key is suggested."""


def compute_edit_distance(one: str, other: str) -> int:
    """Return how many characters must be added, removed or replaced to turn one word into the other.

    >>> compute_edit_distance("stop", "store"), compute_edit_distance("strem", "stream")
    (2, 1)
    """
    row = list(range(len(other) + 1))
    for index, character in enumerate(one, 1):
        corner, row[0] = row[0], index
        for column, other_character in enumerate(other, 1):
            corner, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, corner + (character != other_character))
    return row[-1]


def suggest_keys(key: str, present_keys: Container[str]) -> str:
    """Return the suggestion that OpenAI adds to its refusal of an unknown key: the nearest known keys that the request lacks.

    >>> suggest_keys("strem", {})
    " Did you mean 'stream' or 'store'?"
    >>> suggest_keys("modell", {"model": "gpt-5.5"})
    ''
    """
    candidates = []
    for known in REQUEST_KEYS:
        if abs(len(known) - len(key)) <= MAX_EDIT_DISTANCE and known not in present_keys:
            distance = compute_edit_distance(key, known)
            if distance <= MAX_EDIT_DISTANCE:
                candidates.append((distance, known))
    candidates.sort(key=lambda pair: pair[0])
    return f" Did you mean {join_quoted([known for _, known in candidates], 'or')}?" if candidates else ""
