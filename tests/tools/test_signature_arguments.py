"""Schemas of tool arguments, and the errors for models whose arguments do not fit."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, SecretStr

from legato.errors import BadInput, LegatoError
from legato.tools import BadArguments, Secret, Tool, ToolContext, tool
from tests.line_counter import count_lines


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    count: int = 1


@dataclass
class Address:
    street: str
    town: str = "Bath"


@tool
def order(  # type: ignore[no-untyped-def]  # one parameter is meant to have no annotation
    ctx: ToolContext[None],
    lines: list[Line],
    to: Address,
    colour: Colour = Colour.RED,
    speed: Literal["slow", "fast"] | None = None,
    note: Optional[str] = None,  # noqa: UP045 - both spellings are read
    cents: Annotated[int, Field(ge=0, description="from the annotation")] = 0,
    tags: frozenset[str] = frozenset({"delta", "alpha", "charlie", "bravo"}),
    anything=None,
) -> None:
    """Order things.

    Args:
        lines: what to send
        cents: from the docstring
        colour (Colour, optional): which
            one
    """


def decode_schema(tool: Tool) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(tool.parameters)
    return schema


def get_error(tool: Tool, arguments: str) -> str:
    with pytest.raises(BadArguments) as caught:
        tool.validate(arguments)
    return str(caught.value)


def test_schema_is_a_closed_object_in_order() -> None:
    schema = decode_schema(order)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["lines", "to"]
    assert list(schema["properties"]) == ["lines", "to", "colour", "speed", "note", "cents", "tags", "anything"]
    assert "Arguments" not in order.parameters
    assert "argument_" not in order.parameters


def test_tool_without_parameters_has_empty_schema() -> None:
    @tool
    def now() -> None: ...

    assert now.parameters == '{"additionalProperties":false,"properties":{},"type":"object"}'
    assert now.validate("{}") == {}
    assert now.validate("") == {}
    assert now.validate(" \n") == {}


def test_annotation_description_wins_over_docstring() -> None:
    properties = decode_schema(order)["properties"]
    assert properties["lines"]["description"] == "what to send"
    assert properties["cents"]["description"] == "from the annotation"
    assert properties["colour"]["description"] == "which one"
    assert "description" not in properties["to"]


def test_a_parameter_without_annotation_takes_any_json() -> None:
    assert decode_schema(order)["properties"]["anything"] == {"default": None}
    for value in (1, "x", None, [1, {"a": None}], {"a": 1.5}):
        assert order.validate(json.dumps({"lines": [], "to": {"street": "s"}, "anything": value}))["anything"] == value


def test_values_arrive_as_the_types_that_were_annotated() -> None:
    values = order.validate('{"lines": [{"sku": "a"}], "to": {"street": "s"}, "colour": "blue", "cents": "5", "tags": ["x"]}')
    assert values == {
        "lines": [Line(sku="a")],
        "to": Address("s"),
        "colour": Colour.BLUE,
        "speed": None,
        "note": None,
        "cents": 5,
        "tags": frozenset({"x"}),
        "anything": None,
    }


def test_a_default_is_never_shared_between_calls() -> None:
    @tool
    def collect(into: list[int] = []) -> None: ...  # noqa: B006 - the mistake that must do no harm

    first = collect.validate("{}")["into"]
    assert isinstance(first, list)
    first.append(1)
    assert collect.validate("{}") == {"into": []}


def test_default_without_json_form_is_hidden() -> None:
    marker = object()

    @tool
    def find(a: Any = marker) -> None: ...

    assert decode_schema(find)["properties"] == {"a": {}}
    assert find.validate("{}")["a"] is marker


def test_parameter_names_that_pydantic_would_refuse_are_fine() -> None:
    @tool
    def odd(_x: int, schema: str, copy: bool, model_config: int, argument_1: int, json: int = 3) -> None: ...

    values = {"_x": 1, "schema": "s", "copy": True, "model_config": 2, "argument_1": 4}
    assert odd.validate(json.dumps(values)) == {**values, "json": 3}
    assert list(decode_schema(odd)["properties"]) == [*values, "json"]


def test_pydantic_field_as_default_is_refused() -> None:
    def find(limit: int = Field(3, ge=0)) -> None: ...

    with pytest.raises(BadInput, match=r"write limit: Annotated\[<type>, Field\(\.\.\.\)\] = <default>"):
        tool(find)


def test_secrets_are_found_anywhere_in_annotations() -> None:
    @tool
    def log_in(
        user: str,
        password: Secret[str],
        pin: Secret[int] | None = None,
        spare: list[Secret[str]] | None = None,
        token: SecretStr | None = None,
    ) -> None: ...

    assert log_in.secrets == {"password", "pin", "spare", "token"}
    assert decode_schema(log_in)["properties"]["password"] == {"type": "string"}
    assert log_in.validate('{"user": "u", "password": "p", "pin": 4}')["password"] == "p"


def test_a_secret_default_is_used_and_not_shown() -> None:
    @tool
    def log_in(password: Secret[str] = "hunter2") -> None: ...

    assert "hunter2" not in log_in.parameters
    assert log_in.validate("{}") == {"password": "hunter2"}


def test_infinite_default_leaves_the_schema_valid() -> None:
    @tool
    def wait(longest: float = float("inf"), steps: list[float] = [float("-inf")]) -> None: ...  # noqa: B006 - only read

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(wait.parameters, parse_constant=refuse)


@tool
def refund(order_id: str, cents: int, why: list[str] | None = None) -> None: ...


ERRORS: dict[str, tuple[str, list[str]]] = {
    "broken JSON": ('{"order_id": "A1", "cents"', ["Invalid JSON", "line 1 column 26", 'came: \'{"order_id"']),
    "words": ("refund it please", ["Invalid JSON", "line 1 column 1"]),
    "something behind the object": ('{"order_id": "A", "cents": 1}}', ["trailing characters at line 1 column 30"]),
    "a list": ("[1, 2]", ["expected one JSON object", "came: '[1, 2]'"]),
    "a missing argument": ('{"order_id": "A1"}', ["- cents: missing, and required"]),
    "nothing": ("", ["- order_id: missing", "- cents: missing"]),
    "an unknown argument": (
        '{"order_id": "A", "cents": 1, "colour": 2}',
        ["- colour: there is no such argument; it takes order_id, cents, why"],
    ),
    "a wrong type": ('{"order_id": "A", "cents": "ten"}', ["- cents: Input should be a valid integer", "came: 'ten'"]),
    "a wrong type inside": (
        '{"order_id": "A", "cents": 1, "why": ["x", 2]}',
        ["- why.1: Input should be a valid string; came: '2'"],
    ),
    "null": ('{"order_id": null, "cents": 1}', ["- order_id: Input should be a valid string; came: 'null'"]),
    "infinity": ('{"order_id": "A", "cents": Infinity}', ["- cents: "]),
    "half an emoji": ('{"order_id": "\\ud83d", "cents": 1}', ["Invalid JSON"]),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_validation_errors_are_precise_for_models(kind: str) -> None:
    arguments, parts = ERRORS[kind]
    message = get_error(refund, arguments)
    assert message.startswith("the arguments of refund are not valid, and it did not run:")
    for each in parts:
        assert each in message


def test_bad_arguments_is_a_value_error() -> None:
    assert issubclass(BadArguments, LegatoError)
    assert issubclass(BadArguments, ValueError)
    assert BadArguments.code == "bad_arguments"


@pytest.mark.parametrize(
    "arguments",
    [
        "x" * 100_000,
        json.dumps({"order_id": 1, "cents": "y" * 100_000}),
        json.dumps({"k" * 100_000: 1}),
        json.dumps({f"k{number}": 1 for number in range(1000)}),
        json.dumps({"order_id": "a", "cents": 1, "why": [1] * 10_000}),
        json.dumps({"order_id": "a", "cents": [["z" * 1000]] * 1000}),
    ],
)
def test_an_error_stays_short_however_much_came(arguments: str) -> None:
    assert len(get_error(refund, arguments)) < 4000


@pytest.mark.parametrize(
    "arguments",
    [
        '{"password": "hunter2"}',
        '{"password": "hunter2"',
        '"hunter2"',
        '{"password": ["hunter2"]}',
        '{"password": "hunter", "keys": {"hunter2": 1}}',
    ],
)
def test_an_error_never_repeats_a_secret(arguments: str) -> None:
    def long_enough(value: str) -> str:
        raise ValueError(f"{value} is too short")

    @tool
    def log_in(password: Secret[Annotated[str, AfterValidator(long_enough)]], keys: Secret[dict[str, str]]) -> None: ...

    assert "hunter2" not in get_error(log_in, arguments)


def test_failing_custom_validator_gives_bad_arguments() -> None:
    def careless(value: str) -> str:
        return {"a": "b"}[value]

    @tool
    def find(word: Annotated[str, AfterValidator(careless)]) -> None: ...

    assert get_error(find, '{"word": "x"}') == "the arguments of find could not be checked: KeyError"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["sku", "count", "street", "town"]) | st.text(), inner),
)
names = st.sampled_from([*order.arguments.names, "ctx"])


@given(
    st.text(st.characters(codec=None, exclude_categories=()))
    | st.text('{}[]":,0123456789.eE+-\\ntrufalsu ')
    | json_values.map(json.dumps)
    | st.dictionaries(names, json_values).map(json.dumps)
)
def test_any_text_gives_values_or_bad_arguments(arguments: str) -> None:
    for tested in (order, refund):
        try:
            values = tested.validate(arguments)
        except BadArguments as error:
            str(error).encode()  # the error can be recorded
        else:
            assert tuple(values) == tested.arguments.names


def test_schema_text_is_stable_across_processes() -> None:
    root = Path(__file__).parents[2]
    script = "from tests.tools.test_signature_arguments import order; print(ascii(order.parameters))"
    texts = set()
    for seed in ("0", "1", "2", "3"):
        here = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
        run = subprocess.run([sys.executable, "-c", script], env=here, capture_output=True, text=True, timeout=60, check=True)
        texts.add(run.stdout.strip())
    assert texts == {ascii(order.parameters)}


def count_lines_for_options(number):
    """Count the lines that run when a tool is made whose parameter has so many options."""
    options = Literal[tuple(f"option {each}" for each in range(number))]

    def choose(option):
        return "chosen"

    choose.__annotations__["option"] = options  # annotations of this file are text

    return count_lines(lambda: tool(choose))


def test_cost_of_many_options_is_linear():
    count_lines_for_options(1)
    assert count_lines_for_options(1_000) / count_lines_for_options(250) < 4.5
