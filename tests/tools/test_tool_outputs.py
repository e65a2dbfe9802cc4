"""The output of a tool is text that can be recorded, whatever the tool returns."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from legato.core import codec
from legato.core.facts import CallRef, CallReturned
from legato.tools import tool_output


class Order(BaseModel):
    id: str
    cents: int = 3


@dataclass
class Point:
    x: int
    y: Order


class Fact(msgspec.Struct):
    a: int


class Colour(enum.StrEnum):
    RED = "red"


class Plain:
    pass


class Spoken:
    def __repr__(self) -> str:
        return "Spoken(1)"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


circle: list[Any] = []
circle.append(circle)

OUTPUTS: dict[str, tuple[object, str]] = {
    "text": ("as it is\n", "as it is\n"),
    "text that looks like JSON": ('{"a": 1}', '{"a": 1}'),
    "nothing": (None, "(no output)"),
    "empty text": ("", "(no output)"),
    "an enum of strings": (Colour.RED, "red"),
    "a number": (3, "3"),
    "a truth": (True, "true"),
    "a float that is no JSON": (float("nan"), "NaN"),
    "a list": ([1, "ä", None], '[1,"ä",null]'),
    "an empty list": ([], "[]"),
    "a tuple": ((1, 2), "[1,2]"),
    "a pydantic model": (Order(id="A"), '{"id":"A","cents":3}'),
    "a dataclass with a model inside": (Point(1, Order(id="A")), '{"x":1,"y":{"id":"A","cents":3}}'),
    "a struct": (Fact(1), '{"a":1}'),
    "structs inside": ({"all": [Fact(1)]}, '{"all":[{"a":1}]}'),
    "a date": (datetime.date(2026, 1, 2), "2026-01-02"),
    "a uuid inside": ({"id": uuid.UUID(int=0)}, '{"id":"00000000-0000-0000-0000-000000000000"}'),
    "a decimal": (Decimal("1.10"), "1.10"),
    "bytes": (b"\xff\x00", "(2 bytes of binary data)"),
    "bytes inside": ({"raw": b"\xff"}, '{"raw":"_w=="}'),
    "an object with a repr": (Spoken(), "Spoken(1)"),
    "an object without one": (Plain(), "<Plain>"),
    "an object whose repr fails": (Broken(), "<Broken>"),
    "such an object inside": ([Broken()], "<list>"),
    "a class": (Plain, repr(Plain)),
    "a circle": (circle, "[[...]]"),
    "half an emoji": ("a\ud83d", "a\ufffd"),
    "an emoji in halves": ("\ud83d\ude00", "\U0001f600"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_output_text_of_each_kind(kind: str) -> None:
    value, text = OUTPUTS[kind]
    assert tool_output(value) == text


words = st.text(st.characters(codec=None, exclude_categories=()))  # lone surrogates too
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | words,
    lambda inner: st.lists(inner) | st.dictionaries(words | st.integers(), inner),
)


@given(anything)
def test_every_output_can_be_recorded(value: object) -> None:
    fact = CallReturned(at=0, call=CallRef(0, 0), output=tool_output(value))
    assert codec.decode_fact(codec.encode_fact(fact)) == fact
