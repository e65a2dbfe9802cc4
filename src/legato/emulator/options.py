"""How an emulator is set up. May know: profiles and minds. Decides: the defaults."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from legato.emulator.masking import LONGEST
from legato.emulator.minds import mind_from
from legato.emulator.minds.base import Mind
from legato.emulator.spelling import did_you_mean
from legato.errors import BadInput
from legato.providers.rules.anthropic import laws as anthropic
from legato.providers.rules.chat import laws as chat
from legato.providers.rules.responses import laws as responses

ProfileT = TypeVar("ProfileT", bound=Struct)


class Profiles(Struct, frozen=True):
    """The switches of the three law books."""

    responses: responses.Profile = responses.OPENAI
    chat: chat.Profile = chat.OPENAI
    anthropic: anthropic.Profile = anthropic.Profile()

    @classmethod
    def of(cls, switches: Mapping[str, Any]) -> Profiles:
        """Some of them turned. A switch is named as in the table of switches, with its API: `{"responses.zero_data_retention": True}`.

        >>> Profiles.of({"chat.tool_limit": "7"}).chat.tool_limit
        7
        """
        profiles = {api: getattr(cls(), api) for api in cls.__struct_fields__}
        every = [f"{api}.{field}" for api, profile in profiles.items() for field in profile.__struct_fields__]
        for name, value in switches.items():
            if name not in every:
                do = did_you_mean(name, every) or "docs/law-books.md has a table of them"
                raise BadInput(f"there is no switch {name!r}", expected="responses.NAME, chat.NAME or anthropic.NAME", do=do)
            api, _, field = name.partition(".")
            profiles[api] = _switched(profiles[api], field, name, value)
        return cls(**profiles)


class Options(Struct, frozen=True, kw_only=True):
    """Everything about an emulator. `serve` says what each means."""

    mind: Mind
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    faults: tuple[str, ...] = ()
    state: str | None = None
    log: str | None = None
    keys: frozenset[str] = frozenset()
    latency: float = 0.0
    keep: int = 1000
    longest: int | None = LONGEST
    clock: Callable[[], float] = time.time
    profiles: Profiles = Profiles()


def options_of(
    *,
    mind: object = None,
    switches: Mapping[str, Any] | None = None,
    faults: Sequence[str] = (),
    keys: Sequence[str] = (),
    state: str | Path | None = None,
    log: str | Path | None = None,
    **rest: Any,
) -> Options:
    """Options from what people write."""
    if log is not None and str(log) == "-":
        raise BadInput("the log goes to a file", found="-", do='name one: log="exchanges.jsonl", --log exchanges.jsonl')
    profiles = Profiles.of(switches or {})
    return Options(
        mind=mind_from(mind),
        faults=(faults,) if isinstance(faults, str) else tuple(faults),
        keys=frozenset((keys,) if isinstance(keys, str) else keys),  # else a key's letters would be keys
        state=str(state) if state is not None else None,
        log=str(log) if log is not None else None,
        profiles=profiles,
        **rest,
    )


def _switched(profile: ProfileT, field: str, name: str, value: Any) -> ProfileT:
    kind = next(info.type for info in msgspec.structs.fields(type(profile)) if info.name == field)
    try:
        return msgspec.structs.replace(profile, **{field: msgspec.convert(value, kind, strict=not isinstance(value, str))})
    except msgspec.ValidationError as error:
        expected = "true or false" if kind is bool else ""
        raise BadInput(f"the switch {name} cannot be {value!r}", expected=expected, found="" if expected else str(error)) from None
