"""How a model is to be asked. May know: nothing. Decides: which options have names of their own.

Options are part of the frame, as text, so that the exact request of every call ever made follows from the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Struct

from legato.core.digests import digest_bytes

Memory: TypeAlias = Literal["inline", "chained", "conversation"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

Verbosity: TypeAlias = Literal["low", "medium", "high"]


class CommonOptions(TypedDict, total=False):
    """Options of every wire, as they are written when a model is made."""

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
    """Options of the Responses API."""

    reasoning_summary: str | None
    verbosity: Verbosity | None
    hosted: Sequence[Mapping[str, Any]]


class ChatOptions(CommonOptions, total=False):
    """Options of Chat Completions."""

    verbosity: Verbosity | None
    stop: Sequence[str]
    seed: int | None


class AnthropicOptions(CommonOptions, total=False):
    """Options of the Messages API."""

    reasoning_summary: str | None
    thinking_tokens: int | None
    stop: Sequence[str]
    hosted: Sequence[Mapping[str, Any]]


_encoder = msgspec.json.Encoder(order="deterministic")


class Options(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What every wire knows, under one name; a wire that has no such thing says so when the model is made.

    - `memory`: who keeps the conversation. "inline": we do, and send it; "chained": the provider keeps each reply, and we send what is
      new; "conversation": the provider keeps one conversation per session.
    - `replay_reasoning`: send encrypted reasoning back to whoever made it.
    - `hosted`: tools that the provider runs, as the provider writes them.
    - `compatible`: the server is another one that speaks this API (Chat Completions): it is written to as most of them understand.
    - `extra`: any further members of the request, as they are.
    """

    model: str
    memory: Memory = "inline"
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

    def text(self) -> str:
        """The options, whole: for whoever sends them, and for nobody else."""
        return _encoder.encode(self).decode()

    def recorded(self) -> str:
        """The options as they stand in a frame: of a secret only its digest."""
        return _encoder.encode(_masked(msgspec.to_builtins(self))).decode()


_SECRET = re.compile(r"authori[sz]ation|api.?key|token$|secret|password|credential|^headers$", re.IGNORECASE)


def _masked(value: Any, secret: bool = False) -> Any:
    """The same without secrets: what stands under a name that says so."""
    if isinstance(value, dict):
        return {name: _masked(each, secret or bool(_SECRET.search(name))) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(each, secret) for each in value]
    return digest_bytes(value.encode()) if secret and isinstance(value, str) else value


_decoder = msgspec.json.Decoder(Options)


@lru_cache(maxsize=256)
def options_from(text: str) -> Options:
    """The options that a frame names."""
    return _decoder.decode(text)
