"""Arguments for a tool's schema. May know: schemas, what was said, chance from a seed. Decides: which of the things said goes where.

A value is made and then checked against its schema; where it does not fit, the next way of making one is tried. What was said comes
first (an order's id, an amount, a word in quotes), then the schema's own default and examples, then something made up. A schema that
nothing can satisfy gets what comes close: the emulated model must always say something.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from legato.emulator.minds.bounds import number_for, whole
from legato.emulator.minds.dice import Dice
from legato.emulator.minds.guesses import ANYTHING, KEYS, asked, made_up, words_of
from legato.emulator.minds.hearing import Found, Hearing
from legato.emulator.minds.patterns import LONGEST, Unsupported, text_for
from legato.emulator.minds.schemas import Schema, Schemas, TooMuch, canonical, kinds, length, listed, mapping, merged, same

DEEPEST = 30
SHALLOW = 3  # from here on nothing is added that need not be
MOST_MADE = 1_500  # values; what a schema wants beyond that is left out
MOST_APART = 8  # alternatives that are told apart, where a value fits more than one
MOST_RETRIES = 200  # of values that did not fit
MOST_LETTERS = 100_000  # that lengths may ask for, all in all
_SIMPLE = ("null", "boolean", "integer", "number", "string", "array", "object")
_LEAST: dict[str, Any] = {"object": {}, "array": [], "number": 0, "integer": 0, "boolean": False, "null": None, "string": ""}


def arguments_for(schema: Schema, prompt_words: str, seed: int = 0) -> dict[str, Any]:
    """Arguments that are valid for a JSON schema and look as if they came from what was said. The same for the same seed.

    >>> schema = {"properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}, "required": ["order_id", "amount"]}
    >>> arguments_for(schema, "Please refund 49.90 for order A-17.")
    {'order_id': 'A-17', 'amount': 49.9}
    """
    return several_arguments_for(schema, [prompt_words], seed, 1)[0]


def several_arguments_for(schema: Schema, texts: Sequence[str], seed: int = 0, most: int = 3) -> list[dict[str, Any]]:
    """Arguments for one call; for more, if the first text asks about several things of one kind ("orders A-17 and B-22")."""
    hearing, keys = Hearing(texts), 0
    schemas = Schemas({"type": "object", **schema})  # one for all calls: it counts the steps
    calls: list[dict[str, Any]] = []
    while len(calls) < most:
        maker = _Maker(schemas, hearing, seed)
        arguments = maker.whole()
        found = len([each for each in maker.fresh if each.kind in KEYS and each.source == 0])
        if calls and (found != keys or found == 0):
            break
        keys = found
        calls.append(arguments if isinstance(arguments, dict) else {})
    return calls


def is_called_for(schema: Schema, said: str) -> bool:
    """Whether what was said has something for the arguments, or there are none."""
    maker = _Maker(Schemas({"type": "object", **schema}), Hearing([said]), 0)
    return maker.whole() == {} or bool(maker.fresh) or maker.noticed > 0


def value_for(schema: Schema, texts: Sequence[str], seed: int = 0, *, counted: Schemas | None = None) -> Any:
    """Any JSON value that is valid for a schema, from some texts, the first before the others. `counted` then has the steps it took."""
    return _Maker(counted or Schemas(schema), Hearing(texts), seed).whole()


def json_text(value: object) -> str:
    """A value as a model writes it: JSON, with letters as they are."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, from a schema
        return json.dumps(value)
    return text


class _Maker:
    def __init__(self, schemas: Schemas, hearing: Hearing, seed: int) -> None:
        self.schemas = schemas
        self.hearing = hearing
        self.seed = seed
        self.fresh: list[Found] = []  # what was taken from what was said and not used before
        self.noticed = 0  # what else was understood from it
        self.left = MOST_MADE
        self.retries = MOST_RETRIES
        self.letters = MOST_LETTERS

    def whole(self) -> Any:
        try:
            return self.make(self.schemas.root, "", 0, 0)
        except RecursionError:
            return {}

    # -- what has been understood so far, so that a way of making a value can be taken back

    def _mark(self) -> tuple[int, int, int]:
        return len(self.fresh), len(self.hearing.used), self.noticed

    def _back(self, mark: tuple[int, int, int]) -> None:
        del self.fresh[mark[0] :]
        del self.hearing.used[mark[1] :]
        self.noticed = mark[2]

    def _understood(self, mark: tuple[int, int, int]) -> bool:
        return len(self.fresh) > mark[0] or self.noticed > mark[2]

    def _fits(self, value: object, schema: Schema) -> bool:
        try:
            return self.schemas.fits(value, schema)
        except TooMuch:
            return True

    # -- any value

    def make(self, given: object, name: str, depth: int, salt: int) -> Any:
        """A value for a schema. `salt`: another one gives another value, where there is one."""
        self.left -= 1
        try:
            schema = self.schemas.flat(given)
        except TooMuch:
            schema = dict(mapping(given))
            self.left = -1
        if self.left < 0 or depth > DEEPEST:
            return copy.deepcopy(_LEAST[next(iter(kinds(schema)), "string")])
        if "const" in schema:
            return copy.deepcopy(schema["const"])
        if listed(schema.get("enum")):
            return self._option(schema, name, depth, salt)
        for way in self._ways(schema, depth, salt):
            mark = self._mark()
            value = self.make(way, name, depth + 1, salt)
            if self._fits(value, schema):
                return self._or_null(value, schema, mark)
            self._back(mark)
        mark = self._mark()
        return self._or_null(self._of_some_kind(schema, name, depth, salt), schema, mark)

    def _of_some_kind(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        """A value of one of the types that a schema allows. Where it does not fit, others are tried."""
        types = kinds(schema) or ["string"]
        plain = [each for each in types if each != "null"] or ["null"]
        value = self._of_kind(min(plain, key=_SIMPLE.index) if depth >= SHALLOW else plain[salt % len(plain)], schema, name, depth, salt)
        more = 9 if "not" in schema or "also" in schema else 1  # what these exclude, another value may not be
        for kind, other in [*((kind, salt) for kind in types if len(types) > 1), *((plain[0], salt + other) for other in range(1, more))]:
            if self.retries <= 0 or self._fits(value, schema):
                break
            self.retries -= 1
            value = self._of_kind(kind, schema, name, depth, other)
        return value

    def _or_null(self, value: Any, schema: Schema, mark: tuple[int, int, int]) -> Any:
        """What may be null is, if nothing that was said speaks for a value."""
        allowed = "null" in kinds(schema) or any(_is_null(self._flat(way)) for key in ("anyOf", "oneOf") for way in listed(schema.get(key)))
        if value is None or not allowed or self._understood(mark) or not self._fits(None, schema):
            return value
        self._back(mark)
        return None

    def _ways(self, schema: Schema, depth: int, salt: int) -> Iterator[Schema]:
        """The schema once for each of its alternatives, null last, or the simplest first where it is deep."""
        for key in ("anyOf", "oneOf"):
            options = [self._flat(option) for option in listed(schema.get(key)) if option is not False]
            if options:
                base = {other: each for other, each in schema.items() if other != key}
                turn = salt % len(options)
                options = options[turn:] + options[:turn]
                options.sort(key=_rank if depth >= SHALLOW else _is_null)
                yield from (merged(base, option) for option in options)
                if key == "oneOf" and len(options) <= MOST_APART:  # where they overlap: what only one of them allows
                    for at, option in enumerate(options):
                        yield merged(merged(base, option), {"not": {"anyOf": options[:at] + options[at + 1 :]}})
                return
        if "if" in schema:
            base = {key: each for key, each in schema.items() if key not in ("if", "then", "else")}
            yield merged(merged(base, self._flat(schema.get("then", True))), self._flat(schema["if"]))
            yield merged(base, self._flat(schema.get("else", True)))

    def _flat(self, schema: object) -> dict[str, Any]:
        try:
            return self.schemas.flat(schema)
        except TooMuch:
            return {}

    def _of_kind(self, kind: str, schema: Schema, name: str, depth: int, salt: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, depth, salt)
            case "array":
                return self._array(schema, name, depth, salt)
            case "string":
                return self._text(schema, name, depth, salt)
            case "boolean":
                return self._truth(schema, name, depth, salt)
            case "null":
                return None
            case _:
                return self._number(kind, schema, name, depth, salt)

    def _own(self, schema: Schema, salt: int) -> Iterator[Any]:
        """What the schema itself proposes."""
        if salt == 0:
            proposed = [schema["default"]] if "default" in schema else []
            yield from (copy.deepcopy(each) for each in (*proposed, *listed(schema.get("examples"))))

    def _dice(self, name: str, depth: int, salt: int) -> Dice:
        return Dice(self.seed, name, depth, salt)

    # -- one kind of value each

    def _option(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        options = [option for option in schema["enum"] if self._fits(option, schema)] or list(schema["enum"])
        said = f" {' '.join(words_of(self.hearing.sentence))} "
        named = [at for at, each in enumerate(options) if isinstance(each, str) and f" {' '.join(words_of(each))} " in said]
        proposed = [at for at, each in enumerate(options) if "default" in schema and same(each, schema["default"])]
        self.noticed += bool(named)
        first = next(iter(named + proposed), self._dice(name, depth, 0)(len(options)))
        return copy.deepcopy(options[(first + salt) % len(options)])

    def _truth(self, schema: Schema, name: str, depth: int, salt: int) -> bool:
        said = words_of(self.hearing.sentence)
        words = words_of(name)
        if words and words[-1] in said:
            self.noticed += 1
            return salt % 2 == 0
        first = next((each for each in self._own(schema, 0) if isinstance(each, bool)), self._dice(name, depth, 0)(2) == 1)
        return first != (salt % 2 == 1)

    def _number(self, kind: str, schema: Schema, name: str, depth: int, salt: int) -> int | float:
        for value in self.hearing.facts.get(name.lower(), ()) if salt == 0 else ():
            if isinstance(value, int | float) and not isinstance(value, bool) and self._fits(value, schema):
                self.noticed += 1
                return value

        def read(text: str) -> int | float | None:
            value = whole(text, kind == "integer", cents="cents" in words_of(name))
            return value if value is not None and self._fits(value, schema) else None

        wanted = asked(name)
        counts = wanted == ("paging",)  # "the order 17" is not "17 results"
        among = () if counts else ("id", "number") if "id" in wanted else ("number",)
        found = self._take(among, lambda text: read(text) is not None, salt)
        if found is not None and (said := read(found)) is not None:
            return said
        for value in self._own(schema, salt):
            if isinstance(value, int | float) and self._fits(value, schema):
                return value
        guess = int(made_up("paging" if counts else "number", self._dice(name, depth, 0), salt))
        return number_for(schema, guess, kind == "integer", lambda value: self._fits(value, schema))

    def _take(self, wanted: Sequence[str], accept: Callable[[str], object], salt: int, again: bool = True) -> str | None:
        found = self.hearing.take(wanted, accept, again=again and salt == 0)
        if found is None:
            return None
        if self.hearing.used.count(found) == 1:
            self.fresh.append(found)
        return found.text

    def _text(self, schema: Schema, name: str, depth: int, salt: int) -> str:
        def fits(text: object) -> bool:
            return isinstance(text, str) and self._fits(text, schema)

        wanted = asked(name, schema.get("format"))
        if (found := self._heard_text(schema, name, wanted, fits, salt)) is not None:
            return found
        least, most = min(length(schema, "minLength", 0), LONGEST, self.letters), length(schema, "maxLength", LONGEST)
        self.letters -= least
        if "text" in wanted and salt == 0 and fits(said := self.hearing.sentence[: min(most, 400)]) and said:
            self.noticed += 1
            return said
        for value in self._own(schema, salt):
            if fits(value):
                return str(value)
        if isinstance(schema.get("pattern"), str):
            with suppress(Unsupported):
                return text_for(schema["pattern"], self._dice(name, depth, salt), least, most, self.schemas.patterns)
        guess = made_up(wanted[0] if wanted else "", self._dice(name, depth, 0), salt)
        return guess if fits(guess) else _sized(guess, least, most, salt)

    def _heard_text(self, schema: Schema, name: str, wanted: Sequence[str], fits: Callable[[object], bool], salt: int) -> str | None:
        """A text that was said: under this name, as one of the things that are wanted, or as anything that has the pattern."""
        for value in self.hearing.facts.get(name.lower(), ()) if salt == 0 and "format" not in schema else ():
            if fits(value):
                self.noticed += 1
                return str(value)
        found = self._take(wanted or ANYTHING, fits, salt, again=bool(wanted))
        if found is None and "pattern" in schema:
            found = self._take((*ANYTHING, "number", "date", "email"), fits, salt)
        return found

    def _array(self, schema: Schema, name: str, depth: int, salt: int) -> list[Any]:
        least = length(schema, "minItems", 0)
        most = min(length(schema, "maxItems", max(least, 5)), 1_000)
        enough = min(most, least if depth >= SHALLOW else max(least, 1))
        unique = schema.get("uniqueItems") is True
        made: list[Any] = []
        seen: set[str] = set()
        other = salt
        while len(made) < most:
            item = self.schemas.item(schema, len(made))
            if item is False:
                break
            if "contains" in schema and not any(self._fits(each, {"allOf": [schema["contains"]]}) for each in made):
                item, enough = {"allOf": [item, schema["contains"]]}, max(enough, len(made) + 1)
            mark = self._mark()
            value = self.make(item, name, depth + 1, other)
            for _ in range(60):
                if not unique or canonical(value) not in seen:
                    break
                other += 1
                value = self.make(item, name, depth + 1, other)
            again = canonical(value) in seen
            if (again and unique) or (len(made) >= enough and (again or not self._understood(mark))):
                self._back(mark)
                break
            seen.add(canonical(value))
            made.append(value)
            other += 1
        return made

    def _object(self, schema: Schema, depth: int, salt: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for plan in ("what was said", "what is required", "everything"):
            mark = self._mark()
            made = self._filled(schema, plan, depth, salt)
            if self._fits(made, schema):
                break
            self._back(mark)
        return made

    def _filled(self, schema: Schema, plan: str, depth: int, salt: int) -> dict[str, Any]:
        known = [name for name in mapping(schema.get("properties")) if isinstance(name, str)]
        required = [name for name in listed(schema.get("required")) if isinstance(name, str)]
        optional = [name for name in known if name not in required and mapping(schema["properties"])[name] is not False]
        least, most = length(schema, "minProperties", 0), length(schema, "maxProperties", MOST_MADE)
        made = {name: self._property(schema, name, depth, salt) for name in _in_order(required, known)}
        if plan == "everything":
            self._add_until(made, most, optional, schema, depth, salt)
        elif plan == "what was said" and depth < SHALLOW:
            self._add_said(made, most, optional, schema, depth, salt)
        self._add_until(made, least, [name for name in optional if name not in made], schema, depth, salt)
        self._add_until(made, min(least, most), self._new_names(schema, depth), schema, depth, salt)
        return {name: made[name] for name in _in_order(made, known)}

    def _add_until(self, made: dict[str, Any], enough: int, names: Iterable[str], schema: Schema, depth: int, salt: int) -> None:
        """Add properties of these names until there are enough."""
        for name in names:
            if len(made) >= enough:
                break
            if name not in made:
                made[name] = self._property(schema, name, depth, salt)

    def _add_said(self, made: dict[str, Any], most: int, names: Iterable[str], schema: Schema, depth: int, salt: int) -> None:
        """Add the properties for which something was said."""
        for name in names:
            if len(made) >= most:
                break
            mark = self._mark()
            value = self._property(schema, name, depth, salt)
            if value is not None and self._understood(mark):
                made[name] = value
            else:
                self._back(mark)

    def _property(self, schema: Schema, name: str, depth: int, salt: int) -> Any:
        parts = self.schemas.property(schema, name)
        return self.make(parts[0] if len(parts) == 1 else {"allOf": parts}, name, depth + 1, salt)

    def _new_names(self, schema: Schema, depth: int) -> Iterator[str]:
        """Names for properties that the schema allows without naming them."""
        for salt in range(60):
            if "propertyNames" in schema:
                yield str(self.make({"type": "string", **mapping(schema["propertyNames"])}, "name", depth + 1, salt))
            for pattern in mapping(schema.get("patternProperties")):
                try:
                    yield text_for(pattern, self._dice(pattern, depth, salt), budget=self.schemas.patterns)
                except Unsupported:
                    self.retries -= 1
                if self.retries <= 0:
                    return
            if schema.get("additionalProperties") is not False:
                yield f"detail_{salt + 1}"


def _in_order(names: Collection[str], known: Sequence[str]) -> list[str]:
    """Those that the schema names first, in its order."""
    return [*(name for name in known if name in names), *(name for name in names if name not in known)]


def _is_null(schema: Schema) -> bool:
    return kinds(schema) == ["null"] or ("const" in schema and schema["const"] is None)


def _rank(schema: Schema) -> int:
    """The simplest first."""
    return min((_SIMPLE.index(kind) for kind in kinds(schema)), default=3) if "const" not in schema else 0


def _sized(text: str, least: int, most: int, salt: int) -> str:
    """The text cut or drawn out to a length; where that is too short to say anything, a number."""
    if most < 5:
        return str(salt)[-most:].rjust(least, "0") if most else ""
    while len(text) < least:
        text = f"{text} {text}"[: max(least, len(text))]
    mark = str(salt) if salt else ""
    return text if len(text) <= most else text[: most - len(mark)] + mark
