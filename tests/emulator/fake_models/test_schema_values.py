"""Values for schemas: always valid, and made from the texts where possible."""

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

from legato.emulator.fake_models.patterns import MAX_STEPS as PATTERN_STEPS
from legato.emulator.fake_models.patterns import MAX_TEXT_CHARS
from legato.emulator.fake_models.schema_values import json_text, make_argument_sets, make_arguments, make_value
from legato.emulator.fake_models.schemas import MAX_STEPS, SchemaDocument
from tests.emulator.fake_models.random_schemas import DEFINITIONS, JSON, SCHEMAS, USER_TEXTS, tool_schemas

FORMAT_CHECKER = Draft202012Validator.FORMAT_CHECKER


def list_errors(schema: Any, value: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema, format_checker=FORMAT_CHECKER).iter_errors(value)]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=tool_schemas(), user_text=USER_TEXTS, seed=st.integers(0, 9))
def test_arguments_are_valid_for_their_schema(schema: dict[str, Any], user_text: str, seed: int) -> None:
    arguments = make_arguments(schema, user_text, seed)
    assert list_errors(schema, json.loads(json_text(arguments))) == []


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=SCHEMAS, user_text=USER_TEXTS, seed=st.integers(0, 9))
def test_any_value_is_valid_for_its_schema(schema: dict[str, Any], user_text: str, seed: int) -> None:
    root_schema = {**schema, "$defs": DEFINITIONS}
    assert list_errors(root_schema, make_value(root_schema, [user_text], seed)) == []


@given(schema=tool_schemas(), user_text=USER_TEXTS, seed=st.integers(0, 3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_same_inputs_give_same_arguments(schema: dict[str, Any], user_text: str, seed: int) -> None:
    """The same schema, text and seed give the same arguments, and the schema is not changed."""
    before = json.dumps(schema)
    assert make_arguments(schema, user_text, seed) == make_arguments(schema, user_text, seed)
    assert json.dumps(schema) == before  # the schema is not changed


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=st.dictionaries(st.text(max_size=5), JSON, max_size=3) | JSON, user_text=USER_TEXTS)
@example(schema={"type": "array", "minItems": 10**12, "items": {"type": "string", "minLength": 10**12}}, user_text="")
@example(schema={"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}]}, user_text="")
@example(schema={"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}, user_text="")
@example(schema={"type": "string", "pattern": "^((a+)+)+$", "minLength": 5000}, user_text="a" * 5000 + "!")
@example(schema={"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": True}, user_text="")
@example(schema={"type": "number", "minimum": 10**400, "multipleOf": 1e-300}, user_text="")
@example(schema={"enum": ["\ud800"], "properties": {"\udfff": {"const": "\ud800"}}, "required": ["\udfff"]}, user_text="\ud800")
def test_senseless_schema_gets_encodable_arguments(schema: Any, user_text: str) -> None:
    parameters = schema if isinstance(schema, dict) else {"properties": {"a": schema}, "required": ["a"]}
    for value in (make_arguments(parameters, user_text), make_value(schema, [user_text])):
        json_text(value).encode()


def test_deeply_nested_schema_gets_arguments() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "default": {"b": [schema.get("default")]}}
    assert "a" in make_arguments(schema, "hello")


# -- schemas of real tools


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
    index: datetime | None
    customer: UUID
    link: AnyUrl
    thread: Comment
    tags: set[str]
    pair: tuple[int, str]
    extra: dict[str, int]
    either: int | list[str]
    note: str | None = None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("user_text", ["", "Refund 49.90 for order A-17 of 2026-11-03, high priority", "exchange 2 of them"])
def test_pydantic_accepts_arguments_for_its_schema(user_text: str, seed: int) -> None:
    schema = Ticket.model_json_schema()
    arguments = make_arguments(schema, user_text, seed)
    Ticket.model_validate_json(json_text(arguments))
    assert list_errors(schema, arguments) == []


TEXT_CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
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
    "quoted words": ('Search for "blue teapot"', {"title": {"type": "string"}}, "blue teapot"),
    "a quoted word for an unknown field name": ("Paint it 'teal'", {"colour": {"type": "string"}}, "teal"),
    "a link": ("See https://example.com/a?b=c.", {"url": {"type": "string", "format": "uri"}}, "https://example.com/a?b=c"),
    "one of the options": ("I want express delivery", {"speed": {"enum": ["normal", "express"]}}, "express"),
    "a flag by its name": ("It is urgent", {"urgent": {"type": "boolean"}}, True),
    "the question itself": ("Who invented tea?", {"query": {"type": "string"}}, "Who invented tea?"),
    "a match of the pattern": ("My code is ab12, from X-9", {"thing": {"type": "string", "pattern": "^[A-Z]-[0-9]$"}}, "X-9"),
    "several ids": ("Orders A-17, B-22 and C-3", {"order_ids": {"type": "array", "items": {"type": "string"}}}, ["A-17", "B-22", "C-3"]),
    "null without a match": ("Hello", {"order_id": {"type": ["string", "null"]}}, None),
    "null for an object without a match": ("Hello", {"to": {"anyOf": [{"type": "object"}, {"type": "null"}]}}, None),
    "the default": ("Hello", {"order_id": {"type": "string", "default": "Z-1"}}, "Z-1"),
    "an example": ("Hello", {"order_id": {"type": "string", "examples": ["Z-2"]}}, "Z-2"),
    "a number within the bounds": ("Take 500", {"count": {"type": "integer", "minimum": 1, "maximum": 1}}, 1),
    "no id for a count": ("Order 17", {"limit": {"type": "integer", "minimum": 10, "maximum": 10}}, 10),
    "no date that does not exist": ("On 2026-02-31", {"date": {"type": "string", "enum": ["2026-02-28"]}}, "2026-02-28"),
}


@pytest.mark.parametrize("case", TEXT_CASES.values(), ids=TEXT_CASES)
def test_text_fills_the_matching_field(case: tuple[str, dict[str, Any], Any]) -> None:
    user_text, properties, expected = case
    arguments = make_arguments({"type": "object", "properties": properties, "required": list(properties)}, user_text)
    assert list(arguments.values()) == [expected]


def test_two_cities_go_to_two_fields() -> None:
    properties = {"from_city": {"type": "string"}, "to_city": {"type": "string"}}
    arguments = make_arguments({"properties": properties, "required": list(properties)}, "A flight from Paris to London, please")
    assert arguments == {"from_city": "Paris", "to_city": "London"}


def test_optional_field_needs_a_match() -> None:
    schema = {"properties": {"order_id": {"type": "string"}, "email": {"type": "string"}, "notes": {"type": "integer"}}}
    assert make_arguments(schema, "Order A-17") == {"order_id": "A-17"}
    assert make_arguments(schema, "Order A-17, ann@example.com") == {"order_id": "A-17", "email": "ann@example.com"}


def test_another_seed_gives_another_placeholder() -> None:
    schema = {"properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
    assert len({make_arguments(schema, "", seed)["order_id"] for seed in range(20)}) > 10


def test_several_entities_give_several_argument_sets() -> None:
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
    argument_sets = make_argument_sets(schema, ["The weather in Paris, London and Rome?"])
    assert [arguments["city"] for arguments in argument_sets] == ["Paris", "London", "Rome"]
    assert make_argument_sets(schema, ["The weather in Paris?"]) == [{"city": "Paris"}]
    assert len(make_argument_sets(schema, ["The weather, please"])) == 1


def test_named_output_value_comes_before_text() -> None:
    schema = {"properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}}, "required": ["order_id", "amount"]}
    texts = ["Refund A-17, I paid at least 40", '{"order": {"order_id": "A-17", "amount": 49.9}}']
    assert make_argument_sets(schema, texts, max_sets=1) == [{"order_id": "A-17", "amount": 49.9}]


UNSATISFIABLE = {"type": "string", "not": {}}
BRANCHING_SCHEMA: Any = UNSATISFIABLE
for _ in range(14):
    BRANCHING_SCHEMA = {"type": "object", "properties": {"a": BRANCHING_SCHEMA, "b": BRANCHING_SCHEMA}, "required": ["a", "b"]}
HARD_PATTERNS = (
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
HARD_SCHEMAS: dict[str, Any] = {
    **{pattern[:30]: {"type": "string", "pattern": pattern} for pattern in HARD_PATTERNS},
    **{f"{pattern[:30]} and long": {"type": "string", "pattern": pattern, "minLength": 5000} for pattern in HARD_PATTERNS},
    **{f"{pattern[:30]} and not": {"type": "string", "pattern": pattern, "not": {"pattern": "a"}} for pattern in HARD_PATTERNS},
    "thousands of options": {"enum": list(range(5000))},
    "thousands of parts": {
        "allOf": [{"properties": {f"p{index}": {"type": "string"}}, "required": [f"p{index}"]} for index in range(2000)]
    },
    "hundreds of names by pattern": {
        "type": "object",
        "minProperties": 500,
        "patternProperties": {f"^a{{{index}}}": {"type": "string"} for index in range(200)},
        "additionalProperties": False,
    },
    "a thousand large things": {"type": "array", "minItems": 1000, "items": {"const": {f"k{index}": "v" * 20 for index in range(50)}}},
    "numbers of thousands of digits": {"type": "integer", "minimum": 10**4000, "multipleOf": 7, "not": {}},
    "a schema that branches at each level": BRANCHING_SCHEMA,
}


@pytest.mark.parametrize("user_text", ["", "Please refund order A-17 for 49.90."])
@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("hard_schema", HARD_SCHEMAS.values(), ids=HARD_SCHEMAS)
def test_hard_schema_stays_within_step_limit(hard_schema: Any, times: int, user_text: str) -> None:
    names = [f"order_{index}" for index in range(times)]
    schema = {"type": "object", "properties": dict.fromkeys(names, hard_schema), "required": names}
    document = SchemaDocument(schema)
    make_value(schema, [user_text], document=document)
    assert document.pattern_budget.steps_spent <= PATTERN_STEPS + 2 * MAX_TEXT_CHARS
    assert document.steps <= MAX_STEPS + 5_000  # the last step may be long


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
@pytest.mark.parametrize("user_text", ["order A-17", "12"])
def test_one_of_value_fits_exactly_one_alternative(options: list[Any], user_text: str) -> None:
    schema = {"type": "object", "properties": {"value": {"oneOf": options}}, "required": ["value"]}
    assert list_errors(schema, make_arguments(schema, user_text)) == []
