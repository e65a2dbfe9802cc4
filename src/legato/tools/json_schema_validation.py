"""JSON Schema validation with bounded work, for schemas of MCP servers and clients, which are not trusted.

Validation blocks the event loop, so no schema may make it slow. A pattern can keep Python's `re` busy forever, so patterns are matched by
RE2, in linear time. References that branch can double the work with each step, so every evaluated keyword counts against a budget.
References are resolved within the schema only: `jsonschema` by itself would fetch URLs and files.

`SchemaValidator.unenforced` lists what cannot be enforced this way: patterns that RE2 does not support (lookahead, back references), and
`unevaluatedProperties` and `unevaluatedItems`, whose evaluation in `jsonschema` cannot be counted. The server validates them itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, TypeAlias

import re2  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry
from referencing.jsonschema import SchemaRegistry, specification_with

_Check: TypeAlias = Callable[[Any, Any, Any, Any], Iterable[ValidationError]]

MAX_STEPS = 100_000
"""Steps to validate the arguments of one call: 0.05 to 0.4 s. A usual call needs less than 200, 1,000 rows of five values 43,000."""

MAX_SCHEMA_STEPS = 500_000
"""Steps to read one schema: 0.3 to 0.5 s. A schema with two arguments needs 900, one with 600 arguments 230,000."""

MAX_SCHEMA_CHARS = 256_000
"""Characters of one schema. It is sent with every model request, and would fill a model's window."""

MAX_PATTERNS = 100
"""Different patterns in one schema that are enforced. Each takes up to 6 ms to compile."""

MAX_PATTERN_CHARS = 2_000
MAX_PATTERN_MEMORY_BYTES = 1 << 18
"""Limits of one pattern. `^.{1,1000}$` fits, and so does every pattern of the usual generators for UUIDs, dates and addresses."""

_CHARS_PER_STEP = 500
"""RE2 needs up to 3 ns for each character and instruction; a step takes about 2 µs."""

_NODES_PER_STEP = 32
"""Errors quote values and schemas, and `enum` compares them: 32 of their nodes take as long as a step."""

_STEPS_PER_REFERENCE = 30
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNCOUNTED = ("unevaluatedProperties", "unevaluatedItems")


class TooMuchWork(Exception):
    """Raised if a validation needs more steps than allowed."""


class SchemaValidator:
    """The validator of one JSON schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Read a schema. Raise `ValueError` if it is invalid, or cannot be read with bounded work."""
        try:
            schema_copy = _without_dialects(schema)
            if len(json.dumps(schema_copy, ensure_ascii=False)) > MAX_SCHEMA_CHARS:
                raise ValueError(f"it is longer than {MAX_SCHEMA_CHARS:,} characters")
            if not isinstance(schema.get("$schema", ""), str):
                raise ValueError("its $schema is not text")
            validator_class = _make_counting_validator(validator_for(schema, default=Draft202012Validator))
            with _count_steps(_StepCounter(MAX_SCHEMA_STEPS)) as counter:
                if error := next(validator_class(validator_class.META_SCHEMA, registry=_get_metaschemas()).iter_errors(schema_copy), None):
                    path = ".".join(map(str, error.absolute_path))
                    raise ValueError(f"{path}: {error.message}" if path else error.message)
                self._nodes = counter.count_nodes(schema_copy)
        except TooMuchWork:
            raise ValueError("reading it takes too much work") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        patterns, uncounted = _find_patterns(schema_copy)
        self._patterns = {pattern: _compile_pattern(pattern) for pattern in patterns[:MAX_PATTERNS]}
        self._validator = validator_class(schema_copy, registry=_get_metaschemas())
        self.unenforced = (*(f"pattern {each!r}" for each in patterns if self._patterns.get(each) is None), *uncounted)
        """The parts of the schema that are not enforced, as text for people."""

    def find_errors(self, values: object) -> list[ValidationError]:
        """Return the errors in the values, ordered by path. Raise `TooMuchWork` if this needs too many steps."""
        with _count_steps(_StepCounter(MAX_STEPS, self._nodes, self._patterns)):
            return sorted(self._validator.iter_errors(values), key=lambda error: [str(step) for step in error.absolute_path])


class _StepCounter:
    """Counts the steps of one validation. `patterns` has those to enforce, compiled; None for the metaschemas of `jsonschema`."""

    def __init__(self, max_steps: int, schema_nodes: int = 0, patterns: Mapping[str, Any] | None = None) -> None:
        self.max_steps = max_steps
        self.steps = 0
        self.schema_nodes = schema_nodes
        self.patterns = patterns
        self._counts: dict[int, int] = {}

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.max_steps:
            raise TooMuchWork

    def spend_for(self, keyword: str, value: object, instance: object) -> None:
        """Spend the cost of a keyword: its evaluation may read each part of value and instance, and an error quotes them."""
        parts = sum(len(each) for each in (value, instance) if isinstance(each, dict | list))
        self.spend(1 + parts + (self.count_nodes(value) + self.count_nodes(instance)) // _NODES_PER_STEP)
        if keyword in _REFERENCES:
            is_local = isinstance(value, str) and (value == "#" or value.startswith("#/"))
            self.spend(
                _STEPS_PER_REFERENCE if is_local else _STEPS_PER_REFERENCE + self.schema_nodes
            )  # searches the whole schema for anchors

    def count_nodes(self, value: object) -> int:
        """Count the nodes of a value; 64 characters count as one."""
        if isinstance(value, str):
            return 1 + len(value) // 64
        if not isinstance(value, dict | list):
            return 1
        if (count := self._counts.get(id(value))) is None:
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            count = self._counts[id(value)] = 1 + sum(map(self.count_nodes, parts))
        return count

    def matches(self, pattern: str, text: str, unenforced: bool) -> bool:
        """Return True if the text contains the pattern; `unenforced` if the pattern is not enforced."""
        compiled = _compile_pattern(pattern) if self.patterns is None else self.patterns.get(pattern)
        self.spend(1 + (len(text) * compiled.programsize // _CHARS_PER_STEP if compiled is not None else 0))
        return unenforced if compiled is None else compiled.search(text) is not None


_current_counter: ContextVar[_StepCounter] = ContextVar("legato_schema_work")


@contextmanager
def _count_steps(work: _StepCounter) -> Iterator[_StepCounter]:
    token = _current_counter.set(work)
    try:
        yield work
    finally:
        _current_counter.reset(token)


@cache
def _make_counting_validator(kind: Any) -> Any:
    """Return the validator class of a JSON Schema version, with each keyword counted."""
    checks = {**kind.VALIDATORS, **{name: check for name, check in _OWN_CHECKS.items() if name in kind.VALIDATORS}}
    counted = extend(kind, {name: _make_counting_check(name, check) for name, check in checks.items()})  # type: ignore[no-untyped-call]
    counted.META_SCHEMA = _without_dialects(kind.META_SCHEMA)
    return counted


def _make_counting_check(keyword: str, check: _Check) -> _Check:
    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
        _current_counter.get().spend_for(keyword, value, instance)
        return check(validator, value, instance, schema) or ()

    return evaluate


def _check_pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _current_counter.get().matches(pattern, instance, unenforced=True):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _current_counter.get().matches(pattern, name, unenforced=False):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _check_additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns, work = schema.get("properties", {}), schema.get("patternProperties", {}), _current_counter.get()
    extras = [
        name for name in instance if name not in known and not any(work.matches(pattern, name, unenforced=True) for pattern in patterns)
    ]
    if isinstance(allowed, dict):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif allowed is False and extras:
        names = ", ".join(map(repr, sorted(extras)))
        yield ValidationError(f"Additional properties are not allowed ({names} {'was' if len(extras) == 1 else 'were'} unexpected)")


def _check_unique_items(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # `jsonschema` compares all pairs of items if they are objects.
    if unique is not True or not isinstance(instance, list):
        return
    if len({json.dumps(_with_whole_numbers(item), sort_keys=True) for item in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _check_nothing(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    yield from ()


_OWN_CHECKS: dict[str, _Check] = {
    "pattern": _check_pattern,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional_properties,
    "uniqueItems": _check_unique_items,
    **dict.fromkeys(_UNCOUNTED, _check_nothing),
}


def _with_whole_numbers(value: object) -> object:
    """Return the value with 1.0 as 1: they are equal in JSON Schema."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_whole_numbers(each) for each in value]
        case dict():
            return {name: _with_whole_numbers(each) for name, each in value.items()}
    return value


@lru_cache(maxsize=1024)
def _compile_pattern(pattern: str) -> Any:
    """Compile a pattern with RE2; None if RE2 does not support it, or if it is too large."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, MAX_PATTERN_MEMORY_BYTES
    try:
        return re2.compile(re.sub(r"\\u([0-9a-fA-F]{4})", r"\\x{\1}", pattern), options=options)
    except (re2.error, UnicodeError):
        return None


def _find_patterns(schema: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return all patterns in a schema, and its keywords whose evaluation cannot be counted. Each once, in order."""
    patterns, uncounted = dict[str, None](), dict[str, None]()
    pending: list[object] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(pattern := node.get("pattern"), str):
                patterns[pattern] = None
            if isinstance(by_pattern := node.get("patternProperties"), dict):
                patterns.update(dict.fromkeys(by_pattern))
            uncounted.update((name, None) for name in _UNCOUNTED if name in node)
            pending += reversed(node.values())
        elif isinstance(node, list):
            pending += reversed(node)
    return list(patterns), list(uncounted)


def _without_dialects(node: Any) -> Any:
    """Return a copy without `$schema`: at each one, `jsonschema` would continue with a validator of its own, which counts nothing."""
    if isinstance(node, dict):
        return {name: _without_dialects(each) for name, each in node.items() if name != "$schema" or not isinstance(each, str)}
    return [_without_dialects(each) for each in node] if isinstance(node, list) else node


@cache
def _get_metaschemas() -> SchemaRegistry:
    """Return the schemas that a schema may refer to besides itself: those of JSON Schema. This registry never fetches a URL."""
    registry: SchemaRegistry = Registry()
    for uri in REGISTRY:
        metaschema = REGISTRY.contents(uri)
        registry = registry.with_resource(uri, specification_with(metaschema["$schema"]).create_resource(_without_dialects(metaschema)))
    return registry.crawl()  # their anchors must resolve to these copies
