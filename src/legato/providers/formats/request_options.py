"""Options of a model request.

Options are recorded as text in the turn context, so every request that was ever sent can be rebuilt from the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes

MemoryMode: TypeAlias = Literal["inline", "chained", "conversation"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

Verbosity: TypeAlias = Literal["low", "medium", "high"]


class CommonOptions(TypedDict, total=False):
    """Keyword arguments that every provider's model takes."""

    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    effort: Effort | None
    tool_choice: str | None
    parallel_calls: bool | None
    service_tier: str | None
    replay_reasoning: bool
    extra: Mapping[str, Any]


class ResponsesOptions(CommonOptions, total=False):
    """Keyword arguments of a model of the Responses API."""

    reasoning_summary: str | None
    verbosity: Verbosity | None
    hosted: Sequence[Mapping[str, Any]]


class ChatOptions(CommonOptions, total=False):
    """Keyword arguments of a model of Chat Completions."""

    verbosity: Verbosity | None
    stop: Sequence[str]
    seed: int | None


class AnthropicOptions(CommonOptions, total=False):
    """Keyword arguments of a model of the Messages API."""

    reasoning_summary: str | None
    thinking_tokens: int | None
    stop: Sequence[str]
    hosted: Sequence[Mapping[str, Any]]


_encoder = msgspec.json.Encoder(order="deterministic")


class RequestOptions(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All options of all APIs, each under one name. A model refuses an option that its API lacks when the model is made.

    - `memory`: the place of the conversation's history. "inline": the ledger alone, and every request sends all of it; "chained": the
      provider stores each reply, and a request sends what is new; "conversation": the provider stores one conversation per session.
    - `replay_reasoning`: send encrypted reasoning back to the model that made it.
    - `hosted`: tools that the provider runs, in the provider's own format.
    - `compatible`: the server only resembles OpenAI's (Chat Completions): requests use what most such servers understand.
    - `extra`: further members of the request, sent unchanged.
    """

    model: str
    memory: MemoryMode = "inline"
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    effort: Effort | None = None
    reasoning_summary: str | None = None
    thinking_tokens: int | None = None
    verbosity: str | None = None
    tool_choice: str | None = None
    parallel_calls: bool | None = None
    service_tier: str | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    replay_reasoning: bool = True
    hosted: tuple[dict[str, Any], ...] = ()
    compatible: bool = False
    extra: dict[str, Any] = {}

    def to_json(self) -> str:
        """Return all options, secrets included. Only the encoder of a request may use them."""
        return _encoder.encode(self).decode()

    def to_masked_json(self) -> str:
        """Return the options as the turn context records them, with digests in place of secrets."""
        return _encoder.encode(_mask_secrets(msgspec.to_builtins(self))).decode()


_SECRET_NAME = re.compile(r"authori[sz]ation|api.?key|token$|secret|password|credential|^headers$", re.IGNORECASE)


def _mask_secrets(value: Any, is_secret: bool = False) -> Any:
    """Return the value with digests in place of secrets, which are recognised by the names of their members."""
    if isinstance(value, dict):
        return {name: _mask_secrets(each, is_secret or bool(_SECRET_NAME.search(name))) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mask_secrets(each, is_secret) for each in value]
    return digest_bytes(value.encode()) if is_secret and isinstance(value, str) else value


_decoder = msgspec.json.Decoder(RequestOptions)


@lru_cache(maxsize=256)
def decode_options(text: str) -> RequestOptions:
    """Return the options in the text that `RequestOptions.to_json` wrote."""
    return _decoder.decode(text)
