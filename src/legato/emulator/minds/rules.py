"""One rule of a script. May know: prompts. Decides: when a rule applies, what may be written in one, and what it says.

Every condition that a rule names must hold; a rule that names none always applies. Nothing in a rule is code: a text may name a few
values in braces, and that is all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from legato.emulator.fault_words import parse
from legato.emulator.minds.arguments import arguments_for, json_text
from legato.emulator.minds.base import Item, Prompt, Refused, Thought, Use, Words
from legato.emulator.minds.turns import newest_outputs, since_user, turn_of
from legato.errors import BadInput

Finish: TypeAlias = Literal["stop", "length", "content_filter"]
APIS = ("responses", "chat", "anthropic")
FINISHES = ("stop", "length", "content_filter")
VALUES = ("said", "output", "tool", "turn", "model", "api")
_BRACES = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


class Call(Struct, frozen=True):
    """A call of a tool with these arguments, or with `"auto"`: arguments that fit the tool's schema and what was said."""

    tool: str
    arguments: dict[str, Any] | Literal["auto"] = "auto"
    id: str = ""


Said: TypeAlias = str | Item | Call


class Rule(Struct, frozen=True, kw_only=True):
    """When it applies, and what is said then. Text conditions: a part of the text, or /a regular expression/, in any case.

    `instructions`, `said` (what the user said last), `output` (of a tool, just heard): a part of the text. `tool` (that the model was
    given), `after_tool` (whose output was just heard), `model`, `api`: the whole name. `turn`: the how manieth time the model speaks,
    or several numbers. `times`: how often in a conversation the rule may apply.

    `say`: text, or a list of texts, `Thought`, `Call`, `Use` and `Refused`. Without it the script's fallback speaks. `fault` is what
    goes wrong, in the words of the emulator's faults.
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
    say: Said | Sequence[Said] | None = None
    finish: Finish = "stop"
    fault: str = ""

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            value = getattr(self, key)
            if value is not None:
                force_setattr(self, key, checked(key, value))

    def applies(self, prompt: Prompt) -> bool:
        """Whether every condition holds. A rule that calls tools is done when their outputs have been heard: without a condition on
        the turn or on an output it does not apply again until the user speaks."""
        if self.turn is not None and turn_of(prompt) not in _several(self.turn):
            return False
        if not (_part(self.said, prompt.said) and _part(self.instructions, prompt.instructions)):
            return False
        if not (_whole(self.api, prompt.api) and _whole(self.model, prompt.model)):
            return False
        if self.tool is not None and not any(_whole(self.tool, tool.name) for tool in prompt.tools):
            return False
        if self.after_tool is not None or self.output is not None:
            return any(_whole(self.after_tool, heard.tool) and _part(self.output, heard.text) for heard in newest_outputs(prompt))
        return self.turn is not None or not self._done(prompt)

    def _done(self, prompt: Prompt) -> bool:
        called = {item.tool for item in items_of(self.say) if isinstance(item, Call | Use)}
        return bool(called) and any(heard.who == "tool" and heard.tool in called for heard in since_user(prompt))

    def items(self, prompt: Prompt) -> tuple[Item, ...]:
        """What is said to this prompt."""
        values = self._values(prompt)
        return tuple(_spoken(item, prompt, values) for item in items_of(self.say))

    def _values(self, prompt: Prompt) -> dict[str, str]:
        outputs = [
            heard for heard in newest_outputs(prompt) if _whole(self.after_tool, heard.tool) and _part(self.output, heard.text)
        ] or newest_outputs(prompt)
        return {
            "said": prompt.said,
            "output": outputs[-1].text if outputs else "",
            "tool": outputs[-1].tool if outputs else "",
            "turn": str(turn_of(prompt)),
            "model": prompt.model,
            "api": prompt.api,
        }


def items_of(say: object) -> tuple[Item | Call, ...]:
    """What a rule says, item by item."""
    told = say if isinstance(say, list | tuple) else () if say is None else (say,)
    return tuple(Words(item) if isinstance(item, str) else item for item in told)


def _spoken(item: Item | Call, prompt: Prompt, values: Mapping[str, str]) -> Item:
    match item:
        case Call(tool=name, arguments="auto", id=id):
            schema = next((tool.schema for tool in prompt.tools if tool.name == name), None)
            return Use(name, json_text(arguments_for(schema, prompt.said, prompt.seed) if schema is not None else {}), id)
        case Call(tool=name, arguments=arguments, id=id):
            return Use(name, json_text(_filled(arguments, values)), id)
        case Use():
            return item
        case _:
            return type(item)(fill(item.text, values))


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, Mapping):
        return {key: _filled(each, values) for key, each in value.items()}
    return [_filled(each, values) for each in value] if isinstance(value, list | tuple) else value


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with the values that it names in braces; what they hold is not looked at again. Doubled braces are plain braces.

    >>> fill("You said {said}, not {{said}}.", {"said": "{model}"})
    'You said {model}, not {said}.'
    """
    return _BRACES.sub(lambda match: f"{{{match[1]}}}" if match[1] else values.get(match[2], match[0]), text)


def _part(wanted: str | None, text: str) -> bool:
    if wanted is None:
        return True
    pattern = _pattern(wanted)
    return bool(pattern.search(text)) if pattern else wanted.casefold() in text.casefold()


def _whole(wanted: str | None, name: str) -> bool:
    if wanted is None:
        return True
    pattern = _pattern(wanted)
    return bool(pattern.fullmatch(name)) if pattern else wanted == name


def _pattern(wanted: str) -> re.Pattern[str] | None:
    return re.compile(wanted[1:-1], re.IGNORECASE | re.DOTALL) if len(wanted) > 2 and wanted[0] == wanted[-1] == "/" else None


def _several(turn: int | Sequence[int]) -> Sequence[int]:
    return (turn,) if isinstance(turn, int) else turn


# -- what may be written


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise _Wrong("text")
    try:
        _pattern(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise _Wrong(f"text, or /a regular expression/ ({error})") from None
    return value


def _some_text(value: Any) -> Any:
    if not _text(value):
        raise _Wrong("text that is not empty")
    return value


def _one_of(*options: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value not in options:
            raise _Wrong(" or ".join(options))
        return value

    return check


def _count(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _Wrong("a number from 1 on")
    return value


def _turns(value: Any) -> Any:
    try:
        return tuple(map(_count, value)) if isinstance(value, list | tuple) and value else _count(value)
    except _Wrong:
        raise _Wrong("a number from 1 on, or a list of such numbers") from None


def _say(value: Any) -> Any:
    items = items_of(value)
    if not items:
        raise _Wrong("something to say; leave `say` out to let the fallback speak")
    for item in items:
        match item:
            case Words() | Thought() | Refused():
                _template(item.text)
            case Call():
                _some_text(item.tool)
                if item.arguments != "auto" and not isinstance(item.arguments, Mapping):
                    raise _Wrong("arguments by name, or auto")
                _templates(item.arguments)
            case Use():
                _some_text(item.tool)
            case _:
                raise _Wrong("texts, thoughts, calls and refusals", found=repr(item))
    return items


def _templates(value: Any) -> None:
    if isinstance(value, str):
        _template(value)
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            _templates(each)


def _template(text: Any) -> None:
    if not isinstance(text, str):
        raise _Wrong("text", found=repr(text))
    for match in _BRACES.finditer(text):
        if match[2] and match[2] not in VALUES:
            allowed = ", ".join(f"{{{name}}}" for name in VALUES)
            raise _Wrong(f"{allowed}, or doubled braces for braces that are meant as such", found=f"{{{match[2]}}} in {text[:60]!r}")


def _fault(value: Any) -> Any:
    if not isinstance(value, str):
        raise _Wrong("text")
    try:
        if value:
            parse(value)
    except BadInput as error:
        raise _Wrong(error.expected, found=error.summary, do=error.do) from None
    return value


class _Wrong(Exception):
    """A value that may not be written there. Becomes a `BadInput` that says where."""

    def __init__(self, expected: str, found: str = "", do: str = "") -> None:
        self.expected = expected
        self.found = found
        self.do = do


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "instructions": _text,
    "said": _text,
    "output": _text,
    "tool": _some_text,
    "after_tool": _some_text,
    "model": _some_text,
    "api": _one_of(*APIS),
    "turn": _turns,
    "times": _count,
    "say": _say,
    "finish": _one_of(*FINISHES),
    "fault": _fault,
}
KEYS = tuple(_CHECKS)


def checked(key: str, value: Any, place: str = "") -> Any:
    """The value of a rule's key as it is kept; `BadInput` if it may not be written there."""
    try:
        return _CHECKS[key](value)
    except _Wrong as wrong:
        raise BadInput(
            f"{place or 'a rule'}: {key!r} cannot be used",
            expected=wrong.expected,
            found=(wrong.found or repr(value))[:200],
            do=wrong.do,
        ) from None
