"""Values for JSON schemas, such as arguments for a tool, made from texts.

A value is made and then checked against its schema; if it is not valid, another way of making one is tried. Entities of the texts come
first (an order's id, an amount, a quoted word), then the schema's default and examples, then placeholders. A schema that nothing
satisfies gets a value that comes close: a fake model must always reply.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from legato.emulator.fake_models.bounded_numbers import find_number, parse_number
from legato.emulator.fake_models.patterns import MAX_TEXT_CHARS, UnsupportedPattern, make_matching_text
from legato.emulator.fake_models.plausible_values import (
    GENERIC_KINDS,
    IDENTIFYING_KINDS,
    list_field_kinds,
    make_placeholder,
    split_identifier,
)
from legato.emulator.fake_models.schemas import (
    Schema,
    SchemaDocument,
    SchemaTooLarge,
    are_equal,
    as_mapping,
    as_sequence,
    list_types,
    merge_schemas,
    read_count,
    to_canonical_json,
)
from legato.emulator.fake_models.seeded_random import SeededRandom
from legato.emulator.fake_models.text_entities import TextEntities, TextEntity

MAX_DEPTH = 30
MINIMAL_FROM_DEPTH = 3  # from this depth on nothing optional is added
MAX_VALUES = 1_500  # per schema; further values are left out
MAX_EXCLUSIVE_OPTIONS = 8  # alternatives of a `oneOf` that are made mutually exclusive
MAX_RETRIES = 200  # of invalid values
MAX_PADDING_CHARS = 100_000  # of all minimum lengths of a schema
_SIMPLEST_FIRST = ("null", "boolean", "integer", "number", "string", "array", "object")
_EMPTY_VALUES: dict[str, Any] = {"object": {}, "array": [], "number": 0, "integer": 0, "boolean": False, "null": None, "string": ""}


def make_arguments(schema: Schema, text: str, seed: int = 0) -> dict[str, Any]:
    """Return valid arguments for a JSON schema, made from a text if possible. They are the same for the same seed.

    >>> schema = {"properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}, "required": ["order_id", "amount"]}
    >>> make_arguments(schema, "Please refund 49.90 for order A-17.")
    {'order_id': 'A-17', 'amount': 49.9}
    """
    return make_argument_sets(schema, [text], seed, 1)[0]


def make_argument_sets(schema: Schema, texts: Sequence[str], seed: int = 0, max_sets: int = 3) -> list[dict[str, Any]]:
    """Return arguments for one call, or for several if the first text names several things of a kind ("orders A-17 and B-22")."""
    entities, identifying_count = TextEntities(texts), 0
    document = SchemaDocument({"type": "object", **schema})  # one for all calls: it counts the steps
    calls: list[dict[str, Any]] = []
    while len(calls) < max_sets:
        maker = _ValueMaker(document, entities, seed)
        arguments = maker.make_root()
        count = len([each for each in maker.new_entities if each.kind in IDENTIFYING_KINDS and each.text_index == 0])
        if calls and (count != identifying_count or count == 0):
            break
        identifying_count = count
        calls.append(arguments if isinstance(arguments, dict) else {})
    return calls


def can_fill_arguments(schema: Schema, text: str) -> bool:
    """Return True if a text has an entity for the arguments, or if there are no arguments."""
    maker = _ValueMaker(SchemaDocument({"type": "object", **schema}), TextEntities([text]), 0)
    return maker.make_root() == {} or bool(maker.new_entities) or maker.other_matches > 0


def make_value(schema: Schema, texts: Sequence[str], seed: int = 0, *, document: SchemaDocument | None = None) -> Any:
    """Return a valid JSON value for a schema, made from texts, the first text first. `document` then has the steps that it took."""
    return _ValueMaker(document or SchemaDocument(schema), TextEntities(texts), seed).make_root()


def json_text(value: object) -> str:
    """Encode a value as a model does: JSON without escapes for letters."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, from a schema
        return json.dumps(value)
    return text


class _ValueMaker:
    def __init__(self, document: SchemaDocument, entities: TextEntities, seed: int) -> None:
        self.document = document
        self.entities = entities
        self.seed = seed
        self.new_entities: list[TextEntity] = []  # entities of the texts that were not used before
        self.other_matches = 0  # of options, names and named values with the texts
        self.values_left = MAX_VALUES
        self.retries_left = MAX_RETRIES
        self.padding_chars_left = MAX_PADDING_CHARS

    def make_root(self) -> Any:
        try:
            return self.make(self.document.root, "", 0, 0)
        except RecursionError:
            return {}

    # -- saving and restoring the matches so far, to undo an attempt

    def _save(self) -> tuple[int, int, int]:
        return len(self.new_entities), len(self.entities.used_entities), self.other_matches

    def _restore(self, saved: tuple[int, int, int]) -> None:
        del self.new_entities[saved[0] :]
        del self.entities.used_entities[saved[1] :]
        self.other_matches = saved[2]

    def _has_new_matches(self, saved: tuple[int, int, int]) -> bool:
        return len(self.new_entities) > saved[0] or self.other_matches > saved[2]

    def _is_valid(self, value: object, schema: Schema) -> bool:
        try:
            return self.document.is_valid(value, schema)
        except SchemaTooLarge:
            return True

    # -- any value

    def make(self, schema_node: object, name: str, depth: int, salt: int) -> Any:
        """Make a value for a schema. Another `salt` gives another value, if there is one."""
        self.values_left -= 1
        try:
            schema = self.document.flatten(schema_node)
        except SchemaTooLarge:
            schema = dict(as_mapping(schema_node))
            self.values_left = -1
        if self.values_left < 0 or depth > MAX_DEPTH:
            return copy.deepcopy(_EMPTY_VALUES[next(iter(list_types(schema)), "string")])
        if "const" in schema:
            return copy.deepcopy(schema["const"])
        if as_sequence(schema.get("enum")):
            return self._make_option(schema, name, depth, salt)
        for alternative in self._list_alternatives(schema, depth, salt):
            saved = self._save()
            value = self.make(alternative, name, depth + 1, salt)
            if self._is_valid(value, schema):
                return self._prefer_null(value, schema, saved)
            self._restore(saved)
        saved = self._save()
        return self._prefer_null(self._make_of_some_type(schema, name, depth, salt), schema, saved)

    def _make_of_some_type(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        """Make a value of one of a schema's types. If it is not valid, other types and values are tried."""
        types = list_types(schema) or ["string"]
        non_null_types = [each for each in types if each != "null"] or ["null"]
        value = self._make_of_type(
            min(non_null_types, key=_SIMPLEST_FIRST.index) if depth >= MINIMAL_FROM_DEPTH else non_null_types[salt % len(non_null_types)],
            schema,
            name,
            depth,
            salt,
        )
        attempts = 9 if "not" in schema or "also" in schema else 1  # another value may not be excluded
        other_types = [(kind, salt) for kind in types if len(types) > 1]
        other_values = [(non_null_types[0], salt + offset) for offset in range(1, attempts)]
        for kind, other_salt in other_types + other_values:
            if self.retries_left <= 0 or self._is_valid(value, schema):
                break
            self.retries_left -= 1
            value = self._make_of_type(kind, schema, name, depth, other_salt)
        return value

    def _prefer_null(self, value: Any, schema: Schema, saved: tuple[int, int, int]) -> Any:
        """Return null instead of a value if the schema allows it and the texts have nothing for the value."""
        is_null_allowed = "null" in list_types(schema) or any(
            _is_null(self._flatten(alternative)) for key in ("anyOf", "oneOf") for alternative in as_sequence(schema.get(key))
        )
        if value is None or not is_null_allowed or self._has_new_matches(saved) or not self._is_valid(None, schema):
            return value
        self._restore(saved)
        return None

    def _list_alternatives(self, schema: Schema, depth: int, salt: int) -> Iterator[Schema]:
        """Yield the schema once for each of its alternatives: null last; below `MINIMAL_FROM_DEPTH` the simplest first."""
        for key in ("anyOf", "oneOf"):
            options = [self._flatten(option) for option in as_sequence(schema.get(key)) if option is not False]
            if options:
                base = {keyword: each for keyword, each in schema.items() if keyword != key}
                offset = salt % len(options)
                options = options[offset:] + options[:offset]
                options.sort(key=_rank_simplicity if depth >= MINIMAL_FROM_DEPTH else _is_null)
                yield from (merge_schemas(base, option) for option in options)
                if key == "oneOf" and len(options) <= MAX_EXCLUSIVE_OPTIONS:  # if they overlap: values that only one allows
                    for index, option in enumerate(options):
                        yield merge_schemas(merge_schemas(base, option), {"not": {"anyOf": options[:index] + options[index + 1 :]}})
                return
        if "if" in schema:
            base = {key: each for key, each in schema.items() if key not in ("if", "then", "else")}
            yield merge_schemas(merge_schemas(base, self._flatten(schema.get("then", True))), self._flatten(schema["if"]))
            yield merge_schemas(base, self._flatten(schema.get("else", True)))

    def _flatten(self, schema: object) -> dict[str, Any]:
        try:
            return self.document.flatten(schema)
        except SchemaTooLarge:
            return {}

    def _make_of_type(self, kind: str, schema: Schema, name: str, depth: int, salt: int) -> Any:
        match kind:
            case "object":
                return self._make_object(schema, depth, salt)
            case "array":
                return self._make_array(schema, name, depth, salt)
            case "string":
                return self._make_text(schema, name, depth, salt)
            case "boolean":
                return self._make_boolean(schema, name, depth, salt)
            case "null":
                return None
            case _:
                return self._make_number(kind, schema, name, depth, salt)

    def _list_proposals(self, schema: Schema, salt: int) -> Iterator[Any]:
        """Yield the schema's default and examples."""
        if salt == 0:
            proposals = [schema["default"]] if "default" in schema else []
            yield from (copy.deepcopy(each) for each in (*proposals, *as_sequence(schema.get("examples"))))

    def _random(self, name: str, depth: int, salt: int) -> SeededRandom:
        return SeededRandom(self.seed, name, depth, salt)

    # -- values of each type

    def _make_option(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        options = [option for option in schema["enum"] if self._is_valid(option, schema)] or list(schema["enum"])
        first_words = f" {' '.join(split_identifier(self.entities.first_text))} "
        named = [
            index for index, each in enumerate(options) if isinstance(each, str) and f" {' '.join(split_identifier(each))} " in first_words
        ]
        proposals = [index for index, each in enumerate(options) if "default" in schema and are_equal(each, schema["default"])]
        self.other_matches += bool(named)
        first = next(iter(named + proposals), self._random(name, depth, 0)(len(options)))
        return copy.deepcopy(options[(first + salt) % len(options)])

    def _make_boolean(self, schema: Schema, name: str, depth: int, salt: int) -> bool:
        first_words = split_identifier(self.entities.first_text)
        words = split_identifier(name)
        if words and words[-1] in first_words:
            self.other_matches += 1
            return salt % 2 == 0
        first = next((each for each in self._list_proposals(schema, 0) if isinstance(each, bool)), self._random(name, depth, 0)(2) == 1)
        return first != (salt % 2 == 1)

    def _make_number(self, kind: str, schema: Schema, name: str, depth: int, salt: int) -> int | float:
        for value in self.entities.named_values.get(name.lower(), ()) if salt == 0 else ():
            if isinstance(value, int | float) and not isinstance(value, bool) and self._is_valid(value, schema):
                self.other_matches += 1
                return value

        def read(text: str) -> int | float | None:
            value = parse_number(text, kind == "integer", in_cents="cents" in split_identifier(name))
            return value if value is not None and self._is_valid(value, schema) else None

        kinds = list_field_kinds(name)
        is_paging = kinds == ("paging",)  # "the order 17" is not "17 results"
        allowed_kinds = () if is_paging else ("id", "number") if "id" in kinds else ("number",)
        entity = self._take_entity(allowed_kinds, lambda text: read(text) is not None, salt)
        if entity is not None and (number := read(entity)) is not None:
            return number
        for value in self._list_proposals(schema, salt):
            if isinstance(value, int | float) and self._is_valid(value, schema):
                return value
        guess = int(make_placeholder("paging" if is_paging else "number", self._random(name, depth, 0), salt))
        return find_number(schema, guess, kind == "integer", lambda value: self._is_valid(value, schema))

    def _take_entity(self, kinds: Sequence[str], accept: Callable[[str], object], salt: int, allow_reuse: bool = True) -> str | None:
        entity = self.entities.take_entity(kinds, accept, allow_reuse=allow_reuse and salt == 0)
        if entity is None:
            return None
        if self.entities.used_entities.count(entity) == 1:
            self.new_entities.append(entity)
        return entity.text

    def _make_text(self, schema: Schema, name: str, depth: int, salt: int) -> str:
        def fits(text: object) -> bool:
            return isinstance(text, str) and self._is_valid(text, schema)

        kinds = list_field_kinds(name, schema.get("format"))
        if (found_text := self._find_text(schema, name, kinds, fits, salt)) is not None:
            return found_text
        min_length, max_length = (
            min(read_count(schema, "minLength", 0), MAX_TEXT_CHARS, self.padding_chars_left),
            read_count(schema, "maxLength", MAX_TEXT_CHARS),
        )
        self.padding_chars_left -= min_length
        if "text" in kinds and salt == 0 and fits(first_text := self.entities.first_text[: min(max_length, 400)]) and first_text:
            self.other_matches += 1
            return first_text
        for value in self._list_proposals(schema, salt):
            if fits(value):
                return str(value)
        if isinstance(schema.get("pattern"), str):
            with suppress(UnsupportedPattern):
                return make_matching_text(
                    schema["pattern"], self._random(name, depth, salt), min_length, max_length, self.document.pattern_budget
                )
        guess = make_placeholder(kinds[0] if kinds else "", self._random(name, depth, 0), salt)
        return guess if fits(guess) else _fit_length(guess, min_length, max_length, salt)

    def _find_text(self, schema: Schema, name: str, kinds: Sequence[str], fits: Callable[[object], bool], salt: int) -> str | None:
        """Return a text of the texts: a value with this name, an entity of these kinds, or any entity that matches the pattern."""
        for value in self.entities.named_values.get(name.lower(), ()) if salt == 0 and "format" not in schema else ():
            if fits(value):
                self.other_matches += 1
                return str(value)
        entity = self._take_entity(kinds or GENERIC_KINDS, fits, salt, allow_reuse=bool(kinds))
        if entity is None and "pattern" in schema:
            entity = self._take_entity((*GENERIC_KINDS, "number", "date", "email"), fits, salt)
        return entity

    def _make_array(self, schema: Schema, name: str, depth: int, salt: int) -> list[Any]:
        min_length = read_count(schema, "minItems", 0)
        max_length = min(read_count(schema, "maxItems", max(min_length, 5)), 1_000)
        enough_values = min(max_length, min_length if depth >= MINIMAL_FROM_DEPTH else max(min_length, 1))
        unique = schema.get("uniqueItems") is True
        values: list[Any] = []
        canonical_values: set[str] = set()
        other_salt = salt
        while len(values) < max_length:
            item = self.document.find_item_schema(schema, len(values))
            if item is False:
                break
            if "contains" in schema and not any(self._is_valid(each, {"allOf": [schema["contains"]]}) for each in values):
                item, enough_values = {"allOf": [item, schema["contains"]]}, max(enough_values, len(values) + 1)
            saved = self._save()
            value = self.make(item, name, depth + 1, other_salt)
            for _ in range(60):
                if not unique or to_canonical_json(value) not in canonical_values:
                    break
                other_salt += 1
                value = self.make(item, name, depth + 1, other_salt)
            again = to_canonical_json(value) in canonical_values
            if (again and unique) or (len(values) >= enough_values and (again or not self._has_new_matches(saved))):
                self._restore(saved)
                break
            canonical_values.add(to_canonical_json(value))
            values.append(value)
            other_salt += 1
        return values

    def _make_object(self, schema: Schema, depth: int, salt: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for plan in ("matching", "required", "everything"):
            saved = self._save()
            values = self._make_properties(schema, plan, depth, salt)
            if self._is_valid(values, schema):
                break
            self._restore(saved)
        return values

    def _make_properties(self, schema: Schema, plan: str, depth: int, salt: int) -> dict[str, Any]:
        schema_order = [name for name in as_mapping(schema.get("properties")) if isinstance(name, str)]
        required = [name for name in as_sequence(schema.get("required")) if isinstance(name, str)]
        optional = [name for name in schema_order if name not in required and as_mapping(schema["properties"])[name] is not False]
        min_length, max_length = read_count(schema, "minProperties", 0), read_count(schema, "maxProperties", MAX_VALUES)
        values = {name: self._make_property(schema, name, depth, salt) for name in _sort_names(required, schema_order)}
        if plan == "everything":
            self._add_until(values, max_length, optional, schema, depth, salt)
        elif plan == "matching" and depth < MINIMAL_FROM_DEPTH:
            self._add_matching(values, max_length, optional, schema, depth, salt)
        self._add_until(values, min_length, [name for name in optional if name not in values], schema, depth, salt)
        self._add_until(values, min(min_length, max_length), self._make_names(schema, depth), schema, depth, salt)
        return {name: values[name] for name in _sort_names(values, schema_order)}

    def _add_until(self, properties: dict[str, Any], min_count: int, names: Iterable[str], schema: Schema, depth: int, salt: int) -> None:
        """Add properties with these names until there are `min_count`."""
        for name in names:
            if len(properties) >= min_count:
                break
            if name not in properties:
                properties[name] = self._make_property(schema, name, depth, salt)

    def _add_matching(
        self, properties: dict[str, Any], max_count: int, names: Iterable[str], schema: Schema, depth: int, salt: int
    ) -> None:
        """Add the properties for which the texts have something."""
        for name in names:
            if len(properties) >= max_count:
                break
            saved = self._save()
            value = self._make_property(schema, name, depth, salt)
            if value is not None and self._has_new_matches(saved):
                properties[name] = value
            else:
                self._restore(saved)

    def _make_property(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        parts = self.document.find_property_schemas(schema, name)
        return self.make(parts[0] if len(parts) == 1 else {"allOf": parts}, name, depth + 1, salt)

    def _make_names(self, schema: Schema, depth: int) -> Iterator[str]:
        """Yield names for properties that the schema allows without naming them."""
        for salt in range(60):
            if "propertyNames" in schema:
                yield str(self.make({"type": "string", **as_mapping(schema["propertyNames"])}, "name", depth + 1, salt))
            for pattern in as_mapping(schema.get("patternProperties")):
                try:
                    yield make_matching_text(pattern, self._random(pattern, depth, salt), budget=self.document.pattern_budget)
                except UnsupportedPattern:
                    self.retries_left -= 1
                if self.retries_left <= 0:
                    return
            if schema.get("additionalProperties") is not False:
                yield f"detail_{salt + 1}"


def _sort_names(names: Collection[str], schema_order: Sequence[str]) -> list[str]:
    """Sort names in the schema's order, and unknown names last."""
    return [*(name for name in schema_order if name in names), *(name for name in names if name not in schema_order)]


def _is_null(schema: Schema) -> bool:
    return list_types(schema) == ["null"] or ("const" in schema and schema["const"] is None)


def _rank_simplicity(schema: Schema) -> int:
    """Return the rank of a schema: the simplest type has the lowest."""
    return min((_SIMPLEST_FIRST.index(kind) for kind in list_types(schema)), default=3) if "const" not in schema else 0


def _fit_length(text: str, min_length: int, max_length: int, salt: int) -> str:
    """Cut or repeat a text to fit a length. For a very short length, return a number."""
    if max_length < 5:
        return str(salt)[-max_length:].rjust(min_length, "0") if max_length else ""
    while len(text) < min_length:
        text = f"{text} {text}"[: max(min_length, len(text))]
    saved = str(salt) if salt else ""
    return text if len(text) <= max_length else text[: max_length - len(saved)] + saved
