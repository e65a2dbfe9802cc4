"""How an emulator is set up. May know: profiles and minds. Decides: the defaults."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from legato.emulator.minds import mind_from
from legato.emulator.minds.base import Mind
from legato.errors import BadInput
from legato.wire.anthropic import laws as anthropic
from legato.wire.chat import laws as chat
from legato.wire.responses import laws as responses

ProfileT = TypeVar("ProfileT", bound=Struct)


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
    clock: Callable[[], float] = time.time
    responses: responses.Profile = responses.OPENAI
    chat: chat.Profile = chat.OPENAI
    anthropic: anthropic.Profile = anthropic.Profile()


PROFILES: dict[str, tuple[responses.Profile, chat.Profile]] = {
    "openai": (responses.OPENAI, chat.OPENAI),
    "azure": (responses.AZURE, chat.AZURE),
}


def options_of(
    *,
    mind: object = None,
    profile: str = "openai",
    switches: Mapping[str, Any] | None = None,
    faults: Sequence[str] = (),
    keys: Sequence[str] = (),
    state: str | Path | None = None,
    log: str | Path | None = None,
    **rest: Any,
) -> Options:
    """Options from what people write. A switch is named as in the clause table, with its API: `{"responses.zero_data_retention": True}`."""
    if profile not in PROFILES:
        raise BadInput(f"there is no profile {profile!r}", expected=" or ".join(PROFILES))
    of_responses, of_chat = PROFILES[profile]
    profiles: dict[str, Struct] = {"responses": of_responses, "chat": of_chat, "anthropic": anthropic.Profile()}
    for name, value in (switches or {}).items():
        api, _, field = name.partition(".")
        known = profiles.get(api)
        if known is None or field not in known.__struct_fields__:
            every = [f"{api}.{field}" for api, one in profiles.items() for field in one.__struct_fields__]
            raise BadInput(f"there is no switch {name!r}", expected=", ".join(every))
        profiles[api] = _switched(known, field, name, value)
    return Options(
        mind=mind_from(mind),
        faults=(faults,) if isinstance(faults, str) else tuple(faults),
        keys=frozenset((keys,) if isinstance(keys, str) else keys),  # else a key's letters would be keys
        state=str(state) if state is not None else None,
        log=str(log) if log is not None else None,
        responses=profiles["responses"],  # type: ignore[arg-type]
        chat=profiles["chat"],  # type: ignore[arg-type]
        anthropic=profiles["anthropic"],  # type: ignore[arg-type]
        **rest,
    )


def _switched(profile: ProfileT, field: str, name: str, value: Any) -> ProfileT:
    kind = next(info.type for info in msgspec.structs.fields(type(profile)) if info.name == field)
    try:
        return msgspec.structs.replace(profile, **{field: msgspec.convert(value, kind, strict=not isinstance(value, str))})
    except msgspec.ValidationError as error:
        raise BadInput(f"the switch {name} cannot be {value!r}", found=str(error)) from None
