"""The options of an emulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from legato.emulator.fake_models import make_fake_model
from legato.emulator.fake_models.base import FakeModel
from legato.emulator.request_mask import MAX_TEXT_CHARS
from legato.emulator.suggestions import did_you_mean
from legato.errors import BadInput
from legato.providers.rules.anthropic import rules as anthropic
from legato.providers.rules.chat import rules as chat
from legato.providers.rules.responses import rules as responses

SwitchesT = TypeVar("SwitchesT", bound=Struct)


class RuleSwitches(Struct, frozen=True):
    """The switches of the provider rules, by API."""

    responses: responses.ResponsesRuleSwitches = responses.OPENAI
    chat: chat.ChatRuleSwitches = chat.OPENAI
    anthropic: anthropic.AnthropicRuleSwitches = anthropic.AnthropicRuleSwitches()

    @classmethod
    def from_switches(cls, switches: Mapping[str, Any]) -> RuleSwitches:
        """Return the default switches with these values. Names have their API: `{"responses.zero_data_retention": True}`.

        >>> RuleSwitches.from_switches({"chat.tool_limit": "7"}).chat.tool_limit
        7
        """
        switches_by_api = {api: getattr(cls(), api) for api in cls.__struct_fields__}
        known_names = [f"{api}.{field}" for api, api_switches in switches_by_api.items() for field in api_switches.__struct_fields__]
        for name, value in switches.items():
            if name not in known_names:
                do = did_you_mean(name, known_names) or "docs/law-books.md has a table of them"
                raise BadInput(f"there is no switch {name!r}", expected="responses.NAME, chat.NAME or anthropic.NAME", do=do)
            api, _, field = name.partition(".")
            switches_by_api[api] = _set_switch(switches_by_api[api], field, name, value)
        return cls(**switches_by_api)


class EmulatorOptions(Struct, frozen=True, kw_only=True):
    """The options of an emulator. `serve` describes them."""

    fake_model: FakeModel
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    faults: tuple[str, ...] = ()
    state: str | None = None
    log: str | None = None
    accepted_keys: frozenset[str] = frozenset()
    latency: float = 0.0
    max_exchanges: int = 1000
    max_text_chars: int | None = MAX_TEXT_CHARS
    clock: Callable[[], float] = time.time
    switches: RuleSwitches = RuleSwitches()


def make_options(
    *,
    fake_model: object = None,
    switches: Mapping[str, Any] | None = None,
    faults: Sequence[str] = (),
    keys: Sequence[str] = (),
    state: str | Path | None = None,
    log: str | Path | None = None,
    **rest: Any,
) -> EmulatorOptions:
    """Return options from the arguments of `serve`."""
    if log is not None and str(log) == "-":
        raise BadInput("the log goes to a file", found="-", do='name one: log="exchanges.jsonl", --log exchanges.jsonl')
    rule_switches = RuleSwitches.from_switches(switches or {})
    return EmulatorOptions(
        fake_model=make_fake_model(fake_model),
        faults=(faults,) if isinstance(faults, str) else tuple(faults),
        accepted_keys=frozenset((keys,) if isinstance(keys, str) else keys),  # one string is one key, not a key per character
        state=str(state) if state is not None else None,
        log=str(log) if log is not None else None,
        switches=rule_switches,
        **rest,
    )


def _set_switch(api_switches: SwitchesT, field: str, name: str, value: Any) -> SwitchesT:
    kind = next(info.type for info in msgspec.structs.fields(type(api_switches)) if info.name == field)
    try:
        return msgspec.structs.replace(api_switches, **{field: msgspec.convert(value, kind, strict=not isinstance(value, str))})
    except msgspec.ValidationError as error:
        expected = "true or false" if kind is bool else ""
        raise BadInput(f"the switch {name} cannot be {value!r}", expected=expected, found="" if expected else str(error)) from None
