"""How a model is to be asked. May know: nothing. Decides: which options have names of their own.

Options are part of the frame, as text, so that the exact request of every call ever made follows from the ledger.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from legato.errors import BadInput

Memory: TypeAlias = Literal["inline", "chained", "conversation"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

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
        """The options as they stand in a frame."""
        return _encoder.encode(self).decode()


_decoder = msgspec.json.Decoder(Options)


@lru_cache(maxsize=256)
def options_from(text: str) -> Options:
    """The options that a frame names."""
    return _decoder.decode(text)


def checked(**given: Any) -> Options:
    """Options from what a caller wrote; `BadInput` names what is wrong."""
    unknown = [name for name in given if name not in Options.__struct_fields__]
    if unknown:
        known = ", ".join(name for name in Options.__struct_fields__ if name not in ("model", "memory"))
        raise BadInput(f"there is no option {unknown[0]!r}", expected=known, do="put what only this provider knows into extra={...}")
    try:
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, Options)
    except msgspec.ValidationError as error:
        raise BadInput(f"this option cannot be used: {error}") from None
