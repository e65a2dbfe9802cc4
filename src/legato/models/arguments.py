"""What a model is made with. May know: options and what each API lacks. Decides: what is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

import msgspec

from legato.errors import BadInput
from legato.models.check import CERTAIN, Check
from legato.models.prices import Price
from legato.providers.formats.options import Effort, Memory, Options
from legato.providers.rules.rule_set import Complaint

CHOICES = ("auto", "none", "required")
PREFIXES = ("openai:", "openai-chat:", "azure:", "anthropic:")
OTHER_NAMES = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_calls",
    "reasoning_effort": "effort",
    "reasoning": "effort",
    "stop_sequences": "stop",
    "tools": "hosted",
}
"""What providers call options that have another name here."""


def options_of(
    api: str,
    given: Mapping[str, Any],
    *,
    lacks: Mapping[str, str],
    owned: Mapping[str, str],
    judged: Callable[[Options], Sequence[Complaint]],
    how: Check,
) -> Options:
    """The options that a caller wrote; `BadInput` names what is wrong and what to write.

    `lacks`: options that this API does not have, with what to do instead; `owned`: members of a request that are not the caller's;
    `judged`: what the law book says of the options alone.
    """
    _check_name(given.get("model"))
    _check_names(api, given, lacks, owned)
    options = _converted({name: value for name, value in given.items() if value is not None})
    _check_choice(options.tool_choice)
    for complaint in judged(options) if how == "strict" else ():
        if complaint.clause.grade in CERTAIN:
            raise BadInput(f"{api} does not take these options: {complaint.message}", expected=complaint.clause.rule)
    return options


def _check_names(api: str, given: Mapping[str, Any], lacks: Mapping[str, str], owned: Mapping[str, str]) -> None:
    for name, do in lacks.items():
        if given.get(name):
            raise BadInput(f"{api} has no option {name!r}", do=do)
    known = [name for name in Options.__struct_fields__ if name not in ("model", *lacks)]
    for name in given:
        if name not in Options.__struct_fields__:
            raise BadInput(f"there is no option {name!r}", expected=", ".join(known), do=_meant(name, known))
    for name in given.get("extra") or ():
        if name in owned:
            raise BadInput(f"extra={{{name!r}: ...}} cannot be given: {owned[name]}", do="leave it out")


def _check_choice(choice: str | None) -> None:
    """Refuse what is nearly one of the choices; anything else is the name of a tool."""
    if choice and choice not in CHOICES and (meant := get_close_matches(choice, CHOICES, 1, 0.85)):
        raise BadInput(f"tool_choice={choice!r} names no tool", expected=f"{', '.join(CHOICES)} or the name of a tool", do=f"{meant[0]!r}?")


def _check_name(model: object) -> None:
    if not isinstance(model, str) or not model:
        raise BadInput("a model has a name", found=repr(model)[:80], do='write OpenAIResponses("gpt-5.1")')
    if model.startswith(PREFIXES):
        prefix, _, name = model.partition(":")
        raise BadInput(f"{model!r} is a string for Agent(model=...)", do=f"leave out {prefix + ':'!r} here, and write {name!r}")


def _meant(name: str, known: Sequence[str]) -> str:
    close = [OTHER_NAMES[name]] if OTHER_NAMES.get(name) in known else get_close_matches(name, known, 1)
    return f"write {close[0]}=..." if close else "put what only this provider knows into extra={...}"


def _converted(given: dict[str, Any]) -> Options:
    for name, kind in (("memory", Memory), ("effort", Effort)):
        if name in given and given[name] not in get_args(kind):
            raise BadInput(f"{name}={given[name]!r} cannot be used", expected=" or ".join(map(repr, get_args(kind))))
    try:
        return msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise BadInput(f"this option cannot be used: {error}") from None


def check_arguments(*, stream: object, check: object, prices: object, timeout: object) -> None:
    """What every model is made with besides options."""
    if not isinstance(stream, bool):
        raise BadInput("stream is True or False", found=repr(stream)[:80])
    if check not in ("strict", "warn"):
        raise BadInput('check is "strict" or "warn"', found=repr(check)[:80])
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise BadInput("timeout is a number of seconds above 0", found=repr(timeout)[:80])
    if prices is not None and not (isinstance(prices, Mapping) and all(isinstance(each, Price) for each in prices.values())):
        raise BadInput("prices are Price objects by the names of models", do='write prices={"gpt-5.1": Price(1.25, 10.0)}')
