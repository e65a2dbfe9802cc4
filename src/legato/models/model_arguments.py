"""Checks of the arguments that a provider's model is made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

import msgspec

from legato.errors import BadInput
from legato.models.prices import Price
from legato.models.request_check import CERTAIN_GRADES, CheckMode
from legato.providers.formats.request_options import Effort, MemoryMode, RequestOptions
from legato.providers.rules.rule_set import RuleViolation

TOOL_CHOICES = ("auto", "none", "required")
MODEL_NAME_PREFIXES = ("openai:", "openai-chat:", "azure:", "anthropic:")
PROVIDER_OPTION_NAMES = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_calls",
    "reasoning_effort": "effort",
    "reasoning": "effort",
    "stop_sequences": "stop",
    "tools": "hosted",
}
"""The names of Legato's options, by the names that providers give them."""


def make_options(
    api: str,
    arguments: Mapping[str, Any],
    *,
    missing_options: Mapping[str, str],
    reserved_members: Mapping[str, str],
    find_violations: Callable[[RequestOptions], Sequence[RuleViolation]],
    check: CheckMode,
) -> RequestOptions:
    """Make the options of a model from keyword arguments; `BadInput` says what is wrong and what to write.

    `missing_options`: options that this API does not have, with what to do instead. `reserved_members`: members of a request that
    `extra` may not set, with the reason. `find_violations`: the check of the options against the provider's rules.
    """
    _check_model_name(arguments.get("model"))
    _check_option_names(api, arguments, missing_options, reserved_members)
    options = _convert_options({name: value for name, value in arguments.items() if value is not None})
    _check_tool_choice(options.tool_choice)
    for violation in find_violations(options) if check == "strict" else ():
        if violation.rule.grade in CERTAIN_GRADES:
            raise BadInput(f"{api} does not take these options: {violation.message}", expected=violation.rule.statement)
    return options


def _check_option_names(
    api: str, arguments: Mapping[str, Any], missing_options: Mapping[str, str], reserved_members: Mapping[str, str]
) -> None:
    for name, do in missing_options.items():
        if arguments.get(name):
            raise BadInput(f"{api} has no option {name!r}", do=do)
    option_names = [name for name in RequestOptions.__struct_fields__ if name not in ("model", *missing_options)]
    for name in arguments:
        if name not in RequestOptions.__struct_fields__:
            raise BadInput(f"there is no option {name!r}", expected=", ".join(option_names), do=_suggest_option(name, option_names))
    for name in arguments.get("extra") or ():
        if name in reserved_members:
            raise BadInput(f"extra={{{name!r}: ...}} cannot be given: {reserved_members[name]}", do="leave it out")


def _check_tool_choice(choice: str | None) -> None:
    """Refuse a near miss of one of the choices. Any other text is the name of a tool."""
    if choice and choice not in TOOL_CHOICES and (close := get_close_matches(choice, TOOL_CHOICES, 1, 0.85)):
        raise BadInput(
            f"tool_choice={choice!r} names no tool", expected=f"{', '.join(TOOL_CHOICES)} or the name of a tool", do=f"{close[0]!r}?"
        )


def _check_model_name(model: object) -> None:
    if not isinstance(model, str) or not model:
        raise BadInput("a model has a name", found=repr(model)[:80], do='write OpenAIResponses("gpt-5.1")')
    if model.startswith(MODEL_NAME_PREFIXES):
        prefix, _, name = model.partition(":")
        raise BadInput(f"{model!r} is a string for Agent(model=...)", do=f"leave out {prefix + ':'!r} here, and write {name!r}")


def _suggest_option(name: str, option_names: Sequence[str]) -> str:
    close = [PROVIDER_OPTION_NAMES[name]] if PROVIDER_OPTION_NAMES.get(name) in option_names else get_close_matches(name, option_names, 1)
    return f"write {close[0]}=..." if close else "put what only this provider knows into extra={...}"


def _convert_options(arguments: dict[str, Any]) -> RequestOptions:
    for name, kind in (("memory", MemoryMode), ("effort", Effort)):
        if name in arguments and arguments[name] not in get_args(kind):
            raise BadInput(f"{name}={arguments[name]!r} cannot be used", expected=" or ".join(map(repr, get_args(kind))))
    try:
        return msgspec.convert(arguments, RequestOptions)
    except msgspec.ValidationError as error:
        raise BadInput(f"this option cannot be used: {error}") from None


def check_arguments(*, stream: object, check: object, prices: object, timeout: object) -> None:
    """Check the arguments that every model takes besides its options."""
    if not isinstance(stream, bool):
        raise BadInput("stream is True or False", found=repr(stream)[:80])
    if check not in ("strict", "warn"):
        raise BadInput('check is "strict" or "warn"', found=repr(check)[:80])
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise BadInput("timeout is a number of seconds above 0", found=repr(timeout)[:80])
    if prices is not None and not (isinstance(prices, Mapping) and all(isinstance(each, Price) for each in prices.values())):
        raise BadInput("prices are Price objects by the names of models", do='write prices={"gpt-5.1": Price(1.25, 10.0)}')
