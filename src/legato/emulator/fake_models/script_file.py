"""Scripts in YAML files, with the line of every error.

Only data is read: text, numbers, true, false, null, lists and mappings. Tags, merge keys and documents after the first are errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from legato.emulator.fake_models.base import ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.fake_models.script_rules import RULE_KEYS, SayItem, ScriptedCall, ScriptRule, check_value
from legato.emulator.suggestions import did_you_mean
from legato.errors import BadInput

MAX_VALUES = 50_000  # an alias counts each time it is used
MAX_DEPTH = 50
_ITEM_TYPES: dict[str, type[ReplyText] | type[ReplyThought] | type[ReplyRefusal]] = {
    "text": ReplyText,
    "think": ReplyThought,
    "refuse": ReplyRefusal,
}
_SCALAR_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")}


class YamlValue(Struct):
    """A value with the number of its line. A mapping's keys are texts."""

    value: Any  # a dict or a list of `YamlValue`, or a scalar
    line: int

    def to_plain(self) -> Any:
        """Return the value without line numbers."""
        if isinstance(self.value, dict):
            return {key: yaml_value.to_plain() for key, yaml_value in self.value.items()}
        return [yaml_value.to_plain() for yaml_value in self.value] if isinstance(self.value, list) else self.value


def load_rules(path_or_text: str | Path) -> list[ScriptRule]:
    """Load the rules of a script. A text is a path if it is one line that ends in .yaml or .yml."""
    is_path = isinstance(path_or_text, Path) or ("\n" not in path_or_text and path_or_text.endswith((".yaml", ".yml")))
    if not is_path:
        return _ScriptReader("the script").read_rules(str(path_or_text))
    path = Path(path_or_text)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInput("the script cannot be read", found=f"{path}: {error}", do="name a YAML file that exists, in UTF-8") from None
    return _ScriptReader(path.name).read_rules(text)


class _ScriptReader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0

    def _make_error(self, line: int, summary: str, **rest: str) -> BadInput:
        return BadInput(f"{self.source}, line {line}: {summary}", **{key: text[:300] for key, text in rest.items()})

    # -- from text to values with lines

    def read_rules(self, text: str) -> list[ScriptRule]:
        document = self._parse(text)
        rules = document.value
        if isinstance(rules, dict):
            self._check_keys(document, ("rules",), "a script")
            rules = rules["rules"].value if "rules" in rules else None
        if not isinstance(rules, list):
            raise self._make_error(
                document.line, "a script is a list of rules", expected="rules: and below it a list", found=_describe(document)
            )
        return [self._read_rule(yaml_value) for yaml_value in rules]

    def _parse(self, text: str) -> YamlValue:
        try:
            loader = yaml.SafeLoader(text)
            try:
                node = loader.get_single_node()
                return self._read_node(loader, node, 0) if node is not None else YamlValue(None, 1)
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._make_error(mark.line + 1 if mark else 1, "this is not YAML", found=error.problem or str(error)) from None
        except (yaml.YAMLError, RecursionError, UnicodeError) as error:
            raise self._make_error(1, "this is not YAML", found=str(error)) from None

    def _read_node(self, loader: yaml.SafeLoader, node: yaml.Node, depth: int) -> YamlValue:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            raise self._make_error(line, "the script is too large", expected=f"{MAX_VALUES} values, {MAX_DEPTH} deep at most")
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return YamlValue([self._read_node(loader, each, depth + 1) for each in node.value], line)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return YamlValue(self._read_mapping(loader, node, depth), line)
        if isinstance(node, yaml.ScalarNode):
            return YamlValue(self._read_scalar(loader, node, line), line)
        raise self._make_error(line, "only plain data is read", found=f"the tag {node.tag}")

    def _read_mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode, depth: int) -> dict[str, YamlValue]:
        yaml_values: dict[str, YamlValue] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._make_error(line, "a key is text", found="a list or a mapping")
            if key.value in yaml_values:
                raise self._make_error(line, f"the key {key.value!r} occurs a second time")
            yaml_value = self._read_node(loader, value, depth + 1)
            yaml_values[key.value] = YamlValue(yaml_value.value, line)
        return yaml_values

    def _read_scalar(self, loader: yaml.SafeLoader, node: yaml.ScalarNode, line: int) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value  # a date is text, as in JSON
        if node.tag not in _SCALAR_TAGS:
            raise self._make_error(line, "only plain data is read", found=f"the tag {node.tag}")
        try:
            value = loader.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
            raise self._make_error(line, "a value cannot be read", found=f"{node.value!r}: {error}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self._make_error(line, "a value cannot be read", expected="a number that JSON has", found=node.value)
        return value

    # -- from values to rules

    def _check_keys(self, yaml_value: YamlValue, allowed: Iterable[str], kind: str) -> None:
        allowed = list(allowed)
        for key, value in yaml_value.value.items():
            if key not in allowed:
                summary = f"{kind} has no key {key[:60]!r}"
                raise self._make_error(value.line, summary, expected=", ".join(allowed), do=did_you_mean(key, allowed))

    def _read_rule(self, yaml_value: YamlValue) -> ScriptRule:
        if not isinstance(yaml_value.value, dict):
            raise self._make_error(
                yaml_value.line, "a rule is a mapping", expected=f"some of {', '.join(RULE_KEYS)}", found=_describe(yaml_value)
            )
        self._check_keys(yaml_value, RULE_KEYS, "a rule")
        values: dict[str, Any] = {}
        for key, value in yaml_value.value.items():
            place = f"{self.source}, line {value.line}"
            if value.value is None:
                raise BadInput(f"{place}: {key!r} has no value", do="leave the key out, or write one")
            plain = self._read_say(value) if key == "say" else value.to_plain()
            values[key] = check_value(key, plain, place)
        return ScriptRule(**values)

    def _read_say(self, yaml_value: YamlValue) -> list[SayItem]:
        yaml_values = yaml_value.value if isinstance(yaml_value.value, list) else [yaml_value]
        return [self._read_item(each) for each in yaml_values]

    def _read_item(self, yaml_value: YamlValue) -> SayItem:
        if isinstance(yaml_value.value, str):
            return yaml_value.value
        allowed_keys = [*_ITEM_TYPES, "call"]
        if not isinstance(yaml_value.value, dict) or len(yaml_value.value) != 1:
            expected = f"text, or one of {', '.join(f'{key}: ...' for key in allowed_keys)}"
            raise self._make_error(
                yaml_value.line, "'say' has something that cannot be said", expected=expected, found=_describe(yaml_value)
            )
        self._check_keys(yaml_value, allowed_keys, "an item of 'say'")
        key, value = next(iter(yaml_value.value.items()))
        if key == "call":
            return self._read_call(value)
        if not isinstance(value.value, str):
            raise self._make_error(value.line, f"{key!r} cannot be used", expected="text", found=_describe(value))
        return _ITEM_TYPES[key](value.value)

    def _read_call(self, yaml_value: YamlValue) -> ScriptedCall:
        if isinstance(yaml_value.value, str):
            yaml_value = YamlValue({"tool": yaml_value}, yaml_value.line)
        if not isinstance(yaml_value.value, dict) or "tool" not in yaml_value.value:
            raise self._make_error(
                yaml_value.line, "a call names its tool", expected="call: NAME, or call: {tool: NAME, ...}", found=_describe(yaml_value)
            )
        self._check_keys(yaml_value, ScriptedCall.__struct_fields__, "a call")
        values = {key: value.to_plain() for key, value in yaml_value.value.items()}
        arguments = values.get("arguments", "auto")
        for key in ("tool", "id"):
            if key in values and not isinstance(values[key], str):
                raise self._make_error(
                    yaml_value.value[key].line, f"{key!r} of a call cannot be used", expected="text", found=repr(values[key])
                )
        if arguments != "auto" and not isinstance(arguments, dict):
            line = yaml_value.value["arguments"].line
            raise self._make_error(line, "'arguments' cannot be used", expected="auto, or arguments by name", found=repr(arguments))
        return ScriptedCall(values["tool"], arguments, values.get("id", ""))


def _describe(yaml_value: YamlValue) -> str:
    return repr(yaml_value.to_plain())[:200] if yaml_value.value is not None else "nothing"
