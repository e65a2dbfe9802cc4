"""A script in YAML. May know: YAML, and which keys a rule has. Decides: nothing about rules; it says where in the file something is wrong.

Only data is read: text, numbers, true, false, null, lists and mappings. Tags, merge keys and documents after the first are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from legato.emulator.minds.base import Refused, Thought, Words
from legato.emulator.minds.rules import KEYS, Call, Rule, Said, checked
from legato.emulator.spelling import did_you_mean
from legato.errors import BadInput

LARGEST = 50_000  # values, aliases counted as often as they are used
DEEPEST = 50
_ITEMS: dict[str, type[Words] | type[Thought] | type[Refused]] = {"text": Words, "think": Thought, "refuse": Refused}
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")}


class Piece(Struct):
    """A value and the line on which it stands. A mapping's keys are texts."""

    value: Any  # a dict of pieces, a list of pieces, or a scalar
    line: int

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: piece.plain() for key, piece in self.value.items()}
        return [piece.plain() for piece in self.value] if isinstance(self.value, list) else self.value


def rules_from(path_or_text: str | Path) -> list[Rule]:
    """The rules of a script. A text is a path if it is one line that ends in .yaml or .yml."""
    is_path = isinstance(path_or_text, Path) or ("\n" not in path_or_text and path_or_text.endswith((".yaml", ".yml")))
    if not is_path:
        return _Reader("the script").rules(str(path_or_text))
    path = Path(path_or_text)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadInput("the script cannot be read", found=f"{path}: {error}", do="name a YAML file that exists, in UTF-8") from None
    return _Reader(path.name).rules(text)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0

    def _wrong(self, line: int, summary: str, **rest: str) -> BadInput:
        return BadInput(f"{self.source}, line {line}: {summary}", **{key: text[:300] for key, text in rest.items()})

    # -- from text to pieces

    def rules(self, text: str) -> list[Rule]:
        whole = self._parsed(text)
        rules = whole.value
        if isinstance(rules, dict):
            self._only(whole, ("rules",), "a script")
            rules = rules["rules"].value if "rules" in rules else None
        if not isinstance(rules, list):
            raise self._wrong(whole.line, "a script is a list of rules", expected="rules: and below it a list", found=_told(whole))
        return [self._rule(piece) for piece in rules]

    def _parsed(self, text: str) -> Piece:
        try:
            loader = yaml.SafeLoader(text)
            try:
                node = loader.get_single_node()
                return self._piece(loader, node, 0) if node is not None else Piece(None, 1)
            finally:
                loader.dispose()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._wrong(mark.line + 1 if mark else 1, "this is not YAML", found=error.problem or str(error)) from None
        except (yaml.YAMLError, RecursionError, UnicodeError) as error:
            raise self._wrong(1, "this is not YAML", found=str(error)) from None

    def _piece(self, loader: yaml.SafeLoader, node: yaml.Node, depth: int) -> Piece:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > LARGEST or depth > DEEPEST:
            raise self._wrong(line, "this is more than a script may hold", expected=f"{LARGEST} values, {DEEPEST} deep at most")
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return Piece([self._piece(loader, each, depth + 1) for each in node.value], line)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return Piece(self._mapping(loader, node, depth), line)
        if isinstance(node, yaml.ScalarNode):
            return Piece(self._scalar(loader, node, line), line)
        raise self._wrong(line, "only plain data is read", found=f"the tag {node.tag}")

    def _mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode, depth: int) -> dict[str, Piece]:
        pieces: dict[str, Piece] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(line, "a key is text", found="a list or a mapping")
            if key.value in pieces:
                raise self._wrong(line, f"the key {key.value!r} stands here a second time")
            piece = self._piece(loader, value, depth + 1)
            pieces[key.value] = Piece(piece.value, line)
        return pieces

    def _scalar(self, loader: yaml.SafeLoader, node: yaml.ScalarNode, line: int) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value  # a date is text, as in JSON
        if node.tag not in _PLAIN:
            raise self._wrong(line, "only plain data is read", found=f"the tag {node.tag}")
        try:
            value = loader.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
            raise self._wrong(line, "a value cannot be read", found=f"{node.value!r}: {error}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(line, "a value cannot be read", expected="a number that JSON has", found=node.value)
        return value

    # -- from pieces to rules

    def _only(self, piece: Piece, allowed: Iterable[str], what: str) -> None:
        allowed = list(allowed)
        for key, value in piece.value.items():
            if key not in allowed:
                told = f"{what} has no key {key[:60]!r}"
                raise self._wrong(value.line, told, expected=", ".join(allowed), do=did_you_mean(key, allowed))

    def _rule(self, piece: Piece) -> Rule:
        if not isinstance(piece.value, dict):
            raise self._wrong(piece.line, "a rule is a mapping", expected=f"some of {', '.join(KEYS)}", found=_told(piece))
        self._only(piece, KEYS, "a rule")
        values: dict[str, Any] = {}
        for key, value in piece.value.items():
            place = f"{self.source}, line {value.line}"
            if value.value is None:
                raise BadInput(f"{place}: {key!r} has no value", do="leave the key out, or write one")
            plain = self._say(value) if key == "say" else value.plain()
            values[key] = checked(key, plain, place)
        return Rule(**values)

    def _say(self, piece: Piece) -> list[Said]:
        pieces = piece.value if isinstance(piece.value, list) else [piece]
        return [self._item(each) for each in pieces]

    def _item(self, piece: Piece) -> Said:
        if isinstance(piece.value, str):
            return piece.value
        known = [*_ITEMS, "call"]
        if not isinstance(piece.value, dict) or len(piece.value) != 1:
            expected = f"text, or one of {', '.join(f'{key}: ...' for key in known)}"
            raise self._wrong(piece.line, "'say' has something that cannot be said", expected=expected, found=_told(piece))
        self._only(piece, known, "what is said")
        key, value = next(iter(piece.value.items()))
        if key == "call":
            return self._call(value)
        if not isinstance(value.value, str):
            raise self._wrong(value.line, f"{key!r} cannot be used", expected="text", found=_told(value))
        return _ITEMS[key](value.value)

    def _call(self, piece: Piece) -> Call:
        if isinstance(piece.value, str):
            piece = Piece({"tool": piece}, piece.line)
        if not isinstance(piece.value, dict) or "tool" not in piece.value:
            raise self._wrong(piece.line, "a call names its tool", expected="call: NAME, or call: {tool: NAME, ...}", found=_told(piece))
        self._only(piece, Call.__struct_fields__, "a call")
        given = {key: value.plain() for key, value in piece.value.items()}
        arguments = given.get("arguments", "auto")
        for key in ("tool", "id"):
            if key in given and not isinstance(given[key], str):
                raise self._wrong(piece.value[key].line, f"{key!r} of a call cannot be used", expected="text", found=repr(given[key]))
        if arguments != "auto" and not isinstance(arguments, dict):
            line = piece.value["arguments"].line
            raise self._wrong(line, "'arguments' cannot be used", expected="auto, or arguments by name", found=repr(arguments))
        return Call(given["tool"], arguments, given.get("id", ""))


def _told(piece: Piece) -> str:
    return repr(piece.plain())[:200] if piece.value is not None else "nothing"
