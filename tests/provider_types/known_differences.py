"""The known and intended differences between our answers and the providers' types, each with its reason."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple


class KnownDifference(NamedTuple):
    """An intended difference: the source of the type, a pattern for the finding's text, and the reason."""

    source: Literal["sdk", "description", "both"]
    pattern: str
    reason: str


RECORDED_FROM_PROVIDER = "the provider sends it (recorded in 2026), and does not describe it"
OWN_MEMBER = "our own member, which docs/openai-endpoint.md describes; clients ignore unknown members"
CUSTOM_TOOL_CHUNKS = "a call of a custom tool is streamed in the format of whole answers; the types of chunks have functions only"

KNOWN_DIFFERENCES: tuple[KnownDifference, ...] = (
    # Members that OpenAI sends and does not describe.
    KnownDifference("both", r"(frequency_penalty|presence_penalty|store|billing): unknown to Response\b", RECORDED_FROM_PROVIDER),
    KnownDifference("description", r"tool_usage: unknown to Response\b", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"\.delta: obfuscation: unknown to Response\w+DeltaEvent", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"status: unknown to (Response)?CustomToolCall\b", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r" 401: status: unknown to (OpenAIError|ErrorResponse)", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"status: unknown to (Response)?CustomToolCallOutput\b", "the types of items in `input_items` have it"),
    KnownDifference("description", r"request_id: missing in MCPApprovalResponseResource", "elsewhere it is approval_request_id"),
    # Values that OpenAI sends and does not describe.
    KnownDifference("description", r"\b(user|text\.format\.description): None is no string", RECORDED_FROM_PROVIDER),
    KnownDifference("description", r"\busage: None is no object", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"(first_id|last_id): None is no str", "an empty list has no first and no last item"),
    KnownDifference(
        "both", r"error\.code: '(context_length_exceeded|insufficient_quota|server_is_overloaded)' is none of", RECORDED_FROM_PROVIDER
    ),
    KnownDifference("description", r"prompt_cache_options\.ttl: '12h' is none of '30m'", "newer than the description, and in the SDK"),
    # The error in a stream of the Responses API: described flat, sent with all of it under `error`. The SDK raises only the latter.
    KnownDifference("both", r" error: (error: unknown to|(code|message|param): missing in) ResponseErrorEvent", RECORDED_FROM_PROVIDER),
    # OpenAI's description and its SDK of November 2026 do not agree.
    KnownDifference(
        "sdk",
        r"function_call_arguments\.done: name: unknown to ResponseFunctionCallArgumentsDoneEvent",
        "the description requires it, and so do SDKs that were made from it",
    ),
    KnownDifference(
        "both", r" chunk: choices\[0\]\.delta\.tool_calls\[0\]\.(custom: unknown to|type: 'custom' is none)", CUSTOM_TOOL_CHUNKS
    ),
    KnownDifference("sdk", r" chunk: choices\[0\]\.delta\.tool_calls: .*'custom'.* is no NoneType", CUSTOM_TOOL_CHUNKS),
    KnownDifference("both", r"reasoning_content: unknown to", "compatible servers show reasoning so: the switch `chat.shows_reasoning`"),
    # Azure has members of its own, and another error for its gateway and its content filter.
    KnownDifference("both", r"^POST /openai/.*(content_filter_results|prompt_filter_results): unknown to", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"^POST /openai/.* chunk: object: '' is none of 'chat\.completion\.chunk'", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"^\w+ /openai/.* (400|401|404): error\.(innererror|status): unknown to", RECORDED_FROM_PROVIDER),
    KnownDifference("both", r"^\w+ /openai/.* (400|401|404): error\.(type|param)(: missing in|: None is no)", RECORDED_FROM_PROVIDER),
    # Anthropic.
    KnownDifference("sdk", r" ping: the value: no variant of the type is a 'ping'", "the SDK removes pings before it reads the stream"),
    KnownDifference("sdk", r" 413: error: no variant of the type is a 'request_too_large'", RECORDED_FROM_PROVIDER),
    # Our own members.
    KnownDifference("both", r"\blegato: unknown to", OWN_MEMBER),
)


ECHO_PATTERN = re.compile(r" 200[^:]*: (response\.)?(tools|tool_choice|text|reasoning|metadata|prompt\w*|stream_options)\b")
"""Findings about members that an answer repeats from its request."""


def is_echo(text: str) -> bool:
    """Return True if a finding is about a member that the answer repeats from its request."""
    return bool(ECHO_PATTERN.search(text))


def is_known(source: str, text: str) -> bool:
    """Return True if a finding is on the list."""
    return any(known.source in (source, "both") and re.search(known.pattern, text) for known in KNOWN_DIFFERENCES)
