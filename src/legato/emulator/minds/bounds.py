"""A number between bounds. May know: arithmetic. Decides: which of the numbers that are allowed lies nearest to a guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from legato.emulator.minds.schemas import Schema, number


def number_for(schema: Schema, guess: int, integer: bool, fits: Callable[[Any], bool]) -> int | float:
    """A number that fits, near the guess if it may be. The guess if none was found."""
    for candidate in _candidates(schema, guess, integer):
        value = _plain(candidate, integer)
        if value is not None and fits(value):
            return value
    return guess


def whole(text: str, integer: bool, *, cents: bool = False) -> int | float | None:
    """The number that a text is, if it is one. `cents`: a price with a fraction is meant in its hundredths.

    >>> whole("49.90", False), whole("49.90", True), whole("49.90", True, cents=True), whole("A-17", True)
    (49.9, None, 4990, None)
    """
    try:
        value = Fraction(text)
    except ValueError:
        return None
    return _plain(value * 100 if cents and "." in text else value, integer)


def _plain(value: Fraction, integer: bool) -> int | float | None:
    if value.denominator == 1:
        return int(value)
    if integer:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _candidates(schema: Schema, guess: int, integer: bool) -> Iterator[Fraction]:
    low, high = (
        _exact(schema.get(closed), schema.get(opened), choose)
        for closed, opened, choose in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min))
    )
    stride = _stride(schema, integer)
    bounds = [bound for bound in (low, high) if bound is not None]
    span = (low, high) if low is not None and high is not None else None
    if span:
        yield from _spread(*span, stride, guess)
    yield Fraction(guess)
    for base in (guess, *((span[0], (span[0] + span[1]) / 2, span[1]) if span else bounds), 0):
        yield from _multiples_near(base, stride)
    if span and not integer and number(schema.get("multipleOf")) is None:
        yield from _parts_of(*span)
    if not integer:
        yield from (base + Fraction(1, 2) for base in (Fraction(guess), *bounds))
    for bound in bounds:
        yield from _beside(bound)


def _stride(schema: Schema, integer: bool) -> Fraction:
    """What the number is a multiple of."""
    step = number(schema.get("multipleOf"))
    stride = Fraction(str(step)) if step is not None and step > 0 else Fraction(1)
    return Fraction(stride.numerator) if integer else stride  # of the multiples of p/q, those of p are whole


def _spread(low: Fraction, high: Fraction, stride: Fraction, guess: int) -> Iterator[Fraction]:
    """A multiple between bounds: other guesses give other numbers, as long as there are some."""
    first, last = math.ceil(low / stride), math.floor(high / stride)
    if first <= last:
        yield (first + (guess - first) % (last - first + 1)) * stride


def _multiples_near(base: int | Fraction, stride: Fraction) -> Iterator[Fraction]:
    nearest = round(Fraction(base) / stride)
    for away in range(60):
        yield (nearest + away) * stride
        yield (nearest - away) * stride


def _parts_of(low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """Numbers in a span that is too narrow for whole ones, short ones first."""
    for part in (low + (high - low) * sixtieths / 60 for sixtieths in range(1, 60)):
        yield Fraction(round(float(part), 3)) if abs(low) < 10**9 and abs(high) < 10**9 else low
        yield part


def _beside(bound: Fraction) -> Iterator[Fraction]:
    yield from (bound, bound * 2, bound / 2)
    if abs(bound) < 10**300:
        yield from (Fraction(math.nextafter(float(bound), direction)) for direction in (math.inf, -math.inf))


def _exact(closed: object, opened: object, choose: Callable[[list[Fraction]], Fraction]) -> Fraction | None:
    bounds = [Fraction(str(bound)) for bound in (number(closed), number(opened)) if bound is not None]
    return choose(bounds) if bounds else None
