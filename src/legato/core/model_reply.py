"""A model's whole reply, before it is a fact. May know: items. Decides: nothing."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from legato.core.facts import NO_USAGE, Item, Usage


class Reply(Struct, frozen=True, kw_only=True):
    """A model's whole reply, as it will be recorded; `ModelReplied` says what each field means."""

    items: tuple[Item, ...]
    finish: Literal["stop", "length", "filter"] = "stop"
    usage: Usage = NO_USAGE
    model: str = ""
    response_id: str = ""
    stored: bool = False
    base: str = ""
    origin: str = ""
    held: str = ""
    request_id: str = ""
    losses: tuple[str, ...] = ()
    extra: str = ""
