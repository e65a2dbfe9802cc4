"""The rules of scripts: their conditions, their replies, and the checks of their values.

Every condition of a rule must hold; a rule without conditions always applies. Nothing in a rule is code: a text may name a few values in
braces, and that is all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from legato.emulator.fake_models.base import FakeReplyItem, ModelPrompt, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.fake_models.prompt_turns import count_turn, list_messages_since_user, list_newest_outputs
from legato.emulator.fake_models.schema_values import json_text, make_arguments
from legato.emulator.fault_syntax import parse_fault
from legato.errors import BadInput

FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]
APIS = ("responses", "chat", "anthropic")
FINISH_REASONS = ("stop", "length", "content_filter")
TEMPLATE_VALUES = ("said", "output", "tool", "turn", "model", "api")
_BRACES = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


class ScriptedCall(Struct, frozen=True):
    """A tool call with given arguments, or with `"auto"`: arguments made from the tool's schema and the user's text."""

    tool: str
    arguments: dict[str, Any] | Literal["auto"] = "auto"
    id: str = ""


SayItem: TypeAlias = str | FakeReplyItem | ScriptedCall


class ScriptRule(Struct, frozen=True, kw_only=True):
    """A rule of a script: conditions, and the reply if they hold. The keys of a YAML script have the same names.

    Conditions on text are a part of the text, or /a regular expression/, in any case: `instructions`, `said` (the user's last message) and
    `output` (of the newest tools). Conditions on names are the whole name: `tool` (which the request has), `after_tool` (which has a new
    output), `model`, `api`. `turn` is the number of the model's turn, or several numbers. `times` limits how often the rule applies in a
    conversation.

    `say` is text, or a list of texts, `ReplyThought`, `ScriptedCall`, `ReplyCall` and `ReplyRefusal`. Without it the script's fallback
    replies. `fault` is a fault of the emulator.
    """

    instructions: str | None = None
    said: str | None = None
    output: str | None = None
    tool: str | None = None
    after_tool: str | None = None
    model: str | None = None
    api: str | None = None
    turn: int | Sequence[int] | None = None
    times: int | None = None
    say: SayItem | Sequence[SayItem] | None = None
    finish: FinishReason = "stop"
    fault: str = ""

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if value is not None:
                force_setattr(self, key, check_value(key, value))

    def applies_to(self, prompt: ModelPrompt) -> bool:
        """Return True if every condition holds.

        A rule that calls tools does not apply again after their outputs, until the user's next message, unless it has a condition on the
        turn or on an output.
        """
        if self.turn is not None and count_turn(prompt) not in _as_numbers(self.turn):
            return False
        if not (_matches_part(self.said, prompt.last_user_text) and _matches_part(self.instructions, prompt.instructions)):
            return False
        if not (_matches_whole(self.api, prompt.api) and _matches_whole(self.model, prompt.model)):
            return False
        if self.tool is not None and not any(_matches_whole(self.tool, tool.name) for tool in prompt.tools):
            return False
        if self.after_tool is not None or self.output is not None:
            return any(
                _matches_whole(self.after_tool, message.tool) and _matches_part(self.output, message.text)
                for message in list_newest_outputs(prompt)
            )
        return self.turn is not None or not self._has_called_its_tools(prompt)

    def _has_called_its_tools(self, prompt: ModelPrompt) -> bool:
        tools = {item.tool for item in list_items(self.say) if isinstance(item, ScriptedCall | ReplyCall)}
        return bool(tools) and any(message.role == "tool" and message.tool in tools for message in list_messages_since_user(prompt))

    def make_items(self, prompt: ModelPrompt) -> tuple[FakeReplyItem, ...]:
        """Return the items of the reply to a prompt."""
        values = self._template_values(prompt)
        return tuple(_make_item(item, prompt, values) for item in list_items(self.say))

    def _template_values(self, prompt: ModelPrompt) -> dict[str, str]:
        outputs = [
            message
            for message in list_newest_outputs(prompt)
            if _matches_whole(self.after_tool, message.tool) and _matches_part(self.output, message.text)
        ] or list_newest_outputs(prompt)
        return {
            "said": prompt.last_user_text,
            "output": outputs[-1].text if outputs else "",
            "tool": outputs[-1].tool if outputs else "",
            "turn": str(count_turn(prompt)),
            "model": prompt.model,
            "api": prompt.api,
        }


def list_items(say: object) -> tuple[FakeReplyItem | ScriptedCall, ...]:
    """Return the value of `say` as items."""
    items = say if isinstance(say, list | tuple) else () if say is None else (say,)
    return tuple(ReplyText(item) if isinstance(item, str) else item for item in items)


def _make_item(item: FakeReplyItem | ScriptedCall, prompt: ModelPrompt, values: Mapping[str, str]) -> FakeReplyItem:
    match item:
        case ScriptedCall(tool=name, arguments="auto", id=id):
            schema = next((tool.schema for tool in prompt.tools if tool.name == name), None)
            return ReplyCall(name, json_text(make_arguments(schema, prompt.last_user_text, prompt.seed) if schema is not None else {}), id)
        case ScriptedCall(tool=name, arguments=arguments, id=id):
            return ReplyCall(name, json_text(_fill_nested(arguments, values)), id)
        case ReplyCall():
            return item
        case _:
            return type(item)(fill_template(item.text, values))


def _fill_nested(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill_template(value, values)
    if isinstance(value, Mapping):
        return {key: _fill_nested(each, values) for key, each in value.items()}
    return [_fill_nested(each, values) for each in value] if isinstance(value, list | tuple) else value


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """Fill in the values that a text names in braces. Values are not filled in again. Doubled braces are plain braces.

    >>> fill_template("You said {said}, not {{said}}.", {"said": "{model}"})
    'You said {model}, not {said}.'
    """
    return _BRACES.sub(lambda match: f"{{{match[1]}}}" if match[1] else values.get(match[2], match[0]), text)


def _matches_part(condition: str | None, text: str) -> bool:
    if condition is None:
        return True
    pattern = _compile_pattern(condition)
    return bool(pattern.search(text)) if pattern else condition.casefold() in text.casefold()


def _matches_whole(condition: str | None, name: str) -> bool:
    if condition is None:
        return True
    pattern = _compile_pattern(condition)
    return bool(pattern.fullmatch(name)) if pattern else condition == name


def _compile_pattern(condition: str) -> re.Pattern[str] | None:
    return re.compile(condition[1:-1], re.IGNORECASE | re.DOTALL) if len(condition) > 2 and condition[0] == condition[-1] == "/" else None


def _as_numbers(turn: int | Sequence[int]) -> Sequence[int]:
    return (turn,) if isinstance(turn, int) else turn


# -- checks of values


def _check_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise _InvalidValue("text")
    try:
        _compile_pattern(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise _InvalidValue(f"text, or /a regular expression/ ({error})") from None
    return value


def _check_nonempty_text(value: Any) -> Any:
    if not _check_text(value):
        raise _InvalidValue("text that is not empty")
    return value


def _check_one_of(*options: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value not in options:
            raise _InvalidValue(" or ".join(options))
        return value

    return check


def _check_count(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _InvalidValue("a number from 1 on")
    return value


def _check_turns(value: Any) -> Any:
    try:
        return tuple(map(_check_count, value)) if isinstance(value, list | tuple) and value else _check_count(value)
    except _InvalidValue:
        raise _InvalidValue("a number from 1 on, or a list of such numbers") from None


def _check_say(value: Any) -> Any:
    items = list_items(value)
    if not items:
        raise _InvalidValue("something to say; leave `say` out to let the fallback reply")
    for item in items:
        match item:
            case ReplyText() | ReplyThought() | ReplyRefusal():
                _check_template(item.text)
            case ScriptedCall():
                _check_nonempty_text(item.tool)
                if item.arguments != "auto" and not isinstance(item.arguments, Mapping):
                    raise _InvalidValue("arguments by name, or auto")
                _check_templates(item.arguments)
            case ReplyCall():
                _check_nonempty_text(item.tool)
            case _:
                raise _InvalidValue("texts, thoughts, calls and refusals", found_value=repr(item))
    return items


def _check_templates(value: Any) -> None:
    if isinstance(value, str):
        _check_template(value)
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            _check_templates(each)


def _check_template(text: Any) -> None:
    if not isinstance(text, str):
        raise _InvalidValue("text", found_value=repr(text))
    for match in _BRACES.finditer(text):
        if match[2] and match[2] not in TEMPLATE_VALUES:
            allowed = ", ".join(f"{{{name}}}" for name in TEMPLATE_VALUES)
            raise _InvalidValue(f"{allowed}, or doubled braces for plain braces", found_value=f"{{{match[2]}}} in {text[:60]!r}")


def _check_fault(value: Any) -> Any:
    if not isinstance(value, str):
        raise _InvalidValue("text")
    try:
        if value:
            parse_fault(value)
    except BadInput as error:
        raise _InvalidValue(error.expected, found_value=error.summary, do=error.do) from None
    return value


class _InvalidValue(Exception):
    """A value that its key does not allow. `check_value` turns it into a `BadInput` with the place."""

    def __init__(self, expected: str, found_value: str = "", do: str = "") -> None:
        self.expected = expected
        self.found_value = found_value
        self.do = do


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "instructions": _check_text,
    "said": _check_text,
    "output": _check_text,
    "tool": _check_nonempty_text,
    "after_tool": _check_nonempty_text,
    "model": _check_nonempty_text,
    "api": _check_one_of(*APIS),
    "turn": _check_turns,
    "times": _check_count,
    "say": _check_say,
    "finish": _check_one_of(*FINISH_REASONS),
    "fault": _check_fault,
}
RULE_KEYS = tuple(_CHECKS)


def check_value(key: str, value: Any, place: str = "") -> Any:
    """Return the value of a rule's key in its stored form, or raise `BadInput`. `place` names the file and line."""
    try:
        return _CHECKS[key](value)
    except _InvalidValue as invalid:
        raise BadInput(
            f"{place or 'a rule'}: {key!r} cannot be used",
            expected=invalid.expected,
            found=(invalid.found_value or repr(value))[:200],
            do=invalid.do,
        ) from None
