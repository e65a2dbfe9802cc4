"""Arguments are valid for their schema, whatever it is, and look as if they came from what was said."""

from __future__ import annotations

import enum
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, BaseModel, ConfigDict, Field

from legato.emulator.minds.arguments import arguments_for, json_text, several_arguments_for, value_for
from legato.emulator.minds.patterns import LONGEST
from legato.emulator.minds.patterns import STEPS as PATTERN_STEPS
from legato.emulator.minds.schemas import STEPS, Schemas
from tests.emulator.minds.random_schemas import DEFINITIONS, JSON, SAID, SCHEMAS, tool_schemas

CHECKED = Draft202012Validator.FORMAT_CHECKER


def problems(schema: Any, value: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema, format_checker=CHECKED).iter_errors(value)]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=tool_schemas(), said=SAID, seed=st.integers(0, 9))
def test_arguments_are_valid_for_their_schema(schema: dict[str, Any], said: str, seed: int) -> None:
    arguments = arguments_for(schema, said, seed)
    assert problems(schema, json.loads(json_text(arguments))) == []


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=SCHEMAS, said=SAID, seed=st.integers(0, 9))
def test_any_value_is_valid_for_its_schema(schema: dict[str, Any], said: str, seed: int) -> None:
    whole = {**schema, "$defs": DEFINITIONS}
    assert problems(whole, value_for(whole, [said], seed)) == []


@given(schema=tool_schemas(), said=SAID, seed=st.integers(0, 3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_same_schema_words_and_seed_give_the_same_arguments(schema: dict[str, Any], said: str, seed: int) -> None:
    before = json.dumps(schema)
    assert arguments_for(schema, said, seed) == arguments_for(schema, said, seed)
    assert json.dumps(schema) == before  # and the schema is left as it was


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=st.dictionaries(st.text(max_size=5), JSON, max_size=3) | JSON, said=SAID)
@example(schema={"type": "array", "minItems": 10**12, "items": {"type": "string", "minLength": 10**12}}, said="")
@example(schema={"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]}, said="")
@example(schema={"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}, said="")
@example(schema={"type": "string", "pattern": "^((a+)+)+$", "minLength": 5000}, said="a" * 5000 + "!")
@example(schema={"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": True}, said="")
@example(schema={"type": "number", "minimum": 10**400, "multipleOf": 1e-300}, said="")
@example(schema={"enum": ["\ud800"], "properties": {"\udfff": {"const": "\ud800"}}, "required": ["\udfff"]}, said="\ud800")
def test_a_schema_that_makes_no_sense_still_gets_arguments_that_can_be_sent(schema: Any, said: str) -> None:
    parameters = schema if isinstance(schema, dict) else {"properties": {"a": schema}, "required": ["a"]}
    for made in (arguments_for(parameters, said), value_for(schema, [said])):
        json_text(made).encode()


def test_a_schema_nested_as_deep_as_json_may_be_is_survived() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "default": {"b": [schema.get("default")]}}
    assert "a" in arguments_for(schema, "hello")


# -- as people declare tools


class Priority(enum.StrEnum):
    LOW = "low"
    HIGH = "high"


class Line(BaseModel):
    sku: str
    count: Annotated[int, Field(ge=1, le=20)] = 1


class Comment(BaseModel):
    text: str
    replies: list["Comment"] = []  # noqa: UP037 - refers to itself


class Ticket(BaseModel):
    model_config = ConfigDict(extra="forbid")

    order_id: Annotated[str, Field(pattern=r"^[A-Z]-\d+$")]
    lines: Annotated[list[Line], Field(min_length=1, max_length=3)]
    amount: Annotated[Decimal, Field(gt=0)]
    priority: Priority
    kind: Literal["refund", "exchange"]
    on: date
    at: datetime | None
    customer: UUID
    link: AnyUrl
    thread: Comment
    tags: set[str]
    pair: tuple[int, str]
    extra: dict[str, int]
    either: int | list[str]
    note: str | None = None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("said", ["", "Refund 49.90 for order A-17 of 2026-11-03, high priority", "exchange 2 of them"])
def test_pydantic_accepts_arguments_made_for_its_own_schema(said: str, seed: int) -> None:
    schema = Ticket.model_json_schema()
    arguments = arguments_for(schema, said, seed)
    Ticket.model_validate_json(json_text(arguments))
    assert problems(schema, arguments) == []


SAYINGS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "an order's id": ("Where is order A-17?", {"order_id": {"type": "string"}}, "A-17"),
    "an id behind a number sign": ("Where is order #12345?", {"orderId": {"type": "string"}}, "12345"),
    "an id that is a number": ("Where is order 12345?", {"order_id": {"type": "integer"}}, 12345),
    "an amount, not the id before it": ("Order A-17: refund 49.90 please", {"amount": {"type": "number"}}, 49.9),
    "an amount with a thousand": ("Pay 1,200.50 now", {"amount": {"type": "number"}}, 1200.5),
    "an amount in cents": ("Refund $49.90", {"amount_cents": {"type": "integer"}}, 4990),
    "a currency": ("Refund $49.90", {"currency": {"type": "string"}}, "USD"),
    "an e-mail address": ("Write to ann@example.com!", {"customerEmail": {"type": "string"}}, "ann@example.com"),
    "a format": ("Write to ann@example.com!", {"x": {"type": "string", "format": "email"}}, "ann@example.com"),
    "a city": ("What is the weather in New York today?", {"city": {"type": "string"}}, "New York"),
    "a person": ("Please call Ann Taylor", {"customer_name": {"type": "string"}}, "Ann Taylor"),
    "a date": ("I bought it on March 3rd, 2026.", {"date": {"type": "string"}}, "2026-03-03"),
    "a time": ("Book a table at 19:30", {"time": {"type": "string"}}, "19:30"),
    "a moment": ("At 2026-11-03T10:00", {"starts": {"type": "string", "format": "date-time"}}, "2026-11-03T10:00:00Z"),
    "words in quotes": ('Search for "blue teapot"', {"title": {"type": "string"}}, "blue teapot"),
    "a word in quotes where the name says nothing": ("Paint it 'teal'", {"colour": {"type": "string"}}, "teal"),
    "a link": ("See https://example.com/a?b=c.", {"url": {"type": "string", "format": "uri"}}, "https://example.com/a?b=c"),
    "one of the options": ("I want express delivery", {"speed": {"enum": ["normal", "express"]}}, "express"),
    "a flag by its name": ("It is urgent", {"urgent": {"type": "boolean"}}, True),
    "the question itself": ("Who invented tea?", {"query": {"type": "string"}}, "Who invented tea?"),
    "what a pattern asks for": ("My code is ab12, from X-9", {"thing": {"type": "string", "pattern": "^[A-Z]-[0-9]$"}}, "X-9"),
    "several ids": ("Orders A-17, B-22 and C-3", {"order_ids": {"type": "array", "items": {"type": "string"}}}, ["A-17", "B-22", "C-3"]),
    "null for what was not said": ("Hello", {"order_id": {"type": ["string", "null"]}}, None),
    "null for an object nobody spoke of": ("Hello", {"to": {"anyOf": [{"type": "object"}, {"type": "null"}]}}, None),
    "the default": ("Hello", {"order_id": {"type": "string", "default": "Z-1"}}, "Z-1"),
    "an example": ("Hello", {"order_id": {"type": "string", "examples": ["Z-2"]}}, "Z-2"),
    "nothing but what the bounds allow": ("Take 500", {"count": {"type": "integer", "minimum": 1, "maximum": 1}}, 1),
    "no id where a count is meant": ("Order 17", {"limit": {"type": "integer", "minimum": 10, "maximum": 10}}, 10),
    "no date that does not exist": ("On 2026-02-31", {"date": {"type": "string", "enum": ["2026-02-28"]}}, "2026-02-28"),
}


@pytest.mark.parametrize("case", SAYINGS.values(), ids=SAYINGS)
def test_what_was_said_goes_where_it_belongs(case: tuple[str, dict[str, Any], Any]) -> None:
    said, properties, expected = case
    arguments = arguments_for({"type": "object", "properties": properties, "required": list(properties)}, said)
    assert list(arguments.values()) == [expected]


def test_two_cities_go_to_two_fields() -> None:
    properties = {"from_city": {"type": "string"}, "to_city": {"type": "string"}}
    arguments = arguments_for({"properties": properties, "required": list(properties)}, "A flight from Paris to London, please")
    assert arguments == {"from_city": "Paris", "to_city": "London"}


def test_an_optional_field_is_filled_only_if_something_was_said_for_it() -> None:
    schema = {"properties": {"order_id": {"type": "string"}, "email": {"type": "string"}, "notes": {"type": "integer"}}}
    assert arguments_for(schema, "Order A-17") == {"order_id": "A-17"}
    assert arguments_for(schema, "Order A-17, ann@example.com") == {"order_id": "A-17", "email": "ann@example.com"}


def test_another_seed_makes_up_something_else() -> None:
    schema = {"properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    assert len({arguments_for(schema, "", seed)["order_id"] for seed in range(20)}) > 10


def test_a_question_about_several_things_gives_several_calls_arguments() -> None:
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
    several = several_arguments_for(schema, ["The weather in Paris, London and Rome?"])
    assert [arguments["city"] for arguments in several] == ["Paris", "London", "Rome"]
    assert several_arguments_for(schema, ["The weather in Paris?"]) == [{"city": "Paris"}]
    assert len(several_arguments_for(schema, ["The weather, please"])) == 1


def test_what_a_tool_gave_by_name_is_used_before_what_was_said() -> None:
    schema = {"properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}, "required": ["order_id", "amount"]}
    texts = ["Refund A-17, I paid at least 40", '{"order": {"order_id": "A-17", "amount": 49.9}}']
    assert several_arguments_for(schema, texts, most=1) == [{"order_id": "A-17", "amount": 49.9}]


NOTHING = {"type": "string", "not": {}}
TWOFOLD: Any = NOTHING
for _ in range(14):
    TWOFOLD = {"type": "object", "properties": {"a": TWOFOLD, "b": TWOFOLD}, "required": ["a", "b"]}
EVIL_PATTERNS = (
    "a{30000}",
    "[A-Z]{20000}",
    "((((a{99}){99}){99}){99})",
    "((((a{11}){11}){11}){11})",
    "a{999999999}",
    "(a?){999999999}",
    "(){999999999}",
    "(a{0,500}){0,500}b",
    "(" * 20 + "a*" + ")*" * 20,
    "(?<=a{0,50})" * 50,
    "|".join(["a{1000}"] * 200),
    "x" * 3000,
)
EVIL: dict[str, Any] = {
    **{pattern[:30]: {"type": "string", "pattern": pattern} for pattern in EVIL_PATTERNS},
    **{f"{pattern[:30]} and long": {"type": "string", "pattern": pattern, "minLength": 5000} for pattern in EVIL_PATTERNS},
    **{f"{pattern[:30]} and not": {"type": "string", "pattern": pattern, "not": {"pattern": "a"}} for pattern in EVIL_PATTERNS},
    "thousands of options": {"enum": list(range(5000))},
    "thousands of parts": {"allOf": [{"properties": {f"p{at}": {"type": "string"}}, "required": [f"p{at}"]} for at in range(2000)]},
    "hundreds of names by pattern": {
        "type": "object",
        "minProperties": 500,
        "patternProperties": {f"^a{{{at}}}": {"type": "string"} for at in range(200)},
        "additionalProperties": False,
    },
    "a thousand large things": {"type": "array", "minItems": 1000, "items": {"const": {f"k{at}": "v" * 20 for at in range(50)}}},
    "numbers of thousands of digits": {"type": "integer", "minimum": 10**4000, "multipleOf": 7, "not": {}},
    "what forks at each step": TWOFOLD,
}


@pytest.mark.parametrize("said", ["", "Please refund order A-17 for 49.90."])
@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("evil", EVIL.values(), ids=EVIL)
def test_no_schema_takes_more_than_so_many_steps(evil: Any, times: int, said: str) -> None:
    names = [f"order_{at}" for at in range(times)]
    schema = {"type": "object", "properties": dict.fromkeys(names, evil), "required": names}
    counted = Schemas(schema)
    value_for(schema, [said], counted=counted)
    assert counted.patterns.spent <= PATTERN_STEPS + 2 * LONGEST
    assert counted.steps <= STEPS + 5_000  # the last step may be a long one


@pytest.mark.parametrize(
    "options",
    [
        [{"type": "integer"}, {"type": "number"}],
        [{"type": "string"}, {"type": "string", "maxLength": 3}],
        [{"type": "string", "minLength": 4}, {"type": "string", "maxLength": 8}],
        [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 100}],
        [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}],
        [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}],
        [{"type": "object"}, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}],
    ],
    ids=str,
)
@pytest.mark.parametrize("said", ["order A-17", "12"])
def test_where_alternatives_overlap_the_value_fits_one_of_them_only(options: list[Any], said: str) -> None:
    schema = {"type": "object", "properties": {"value": {"oneOf": options}}, "required": ["value"]}
    assert problems(schema, arguments_for(schema, said)) == []
