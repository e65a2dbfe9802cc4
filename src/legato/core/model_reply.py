"""The reply that a model returns to the driver."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from legato.core.facts import NO_USAGE, ReplyItem, Usage


class ModelReply(Struct, frozen=True, kw_only=True):
    """A model's whole reply. `ModelReplied`, the fact that records it, documents the fields."""

    items: tuple[ReplyItem, ...]
    finish: Literal["stop", "length", "filter"] = "stop"
    usage: Usage = NO_USAGE
    model: str = ""
    response_id: str = ""
    stored: bool = False
    base: str = ""
    origin: str = ""
    stored_digest: str = ""
    request_id: str = ""
    losses: tuple[str, ...] = ()
    extra: str = ""
