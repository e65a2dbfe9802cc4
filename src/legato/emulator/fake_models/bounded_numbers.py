"""Numbers for the bounds of a JSON schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from legato.emulator.fake_models.schemas import Schema, as_finite_number


def find_number(schema: Schema, guess: int, is_integer: bool, fits: Callable[[Any], bool]) -> int | float:
    """Return a number that fits, near a guess if possible; the guess if none was found."""
    for candidate in _list_candidates(schema, guess, is_integer):
        value = _to_number(candidate, is_integer)
        if value is not None and fits(value):
            return value
    return guess


def parse_number(text: str, is_integer: bool, *, in_cents: bool = False) -> int | float | None:
    """Return the number that a text is, or None. `in_cents`: a price with a fraction counts in hundredths.

    >>> parse_number("49.90", False), parse_number("49.90", True), parse_number("49.90", True, in_cents=True), parse_number("A-17", True)
    (49.9, None, 4990, None)
    """
    try:
        value = Fraction(text)
    except ValueError:
        return None
    return _to_number(value * 100 if in_cents and "." in text else value, is_integer)


def _to_number(value: Fraction, is_integer: bool) -> int | float | None:
    if value.denominator == 1:
        return int(value)
    if is_integer:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _list_candidates(schema: Schema, guess: int, integer: bool) -> Iterator[Fraction]:
    low, high = (
        _tightest_bound(schema.get(closed), schema.get(opened), choose)
        for closed, opened, choose in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min))
    )
    stride = _find_stride(schema, integer)
    bounds = [bound for bound in (low, high) if bound is not None]
    span = (low, high) if low is not None and high is not None else None
    if span:
        yield from _multiple_in_range(*span, stride, guess)
    yield Fraction(guess)
    for base in (guess, *((span[0], (span[0] + span[1]) / 2, span[1]) if span else bounds), 0):
        yield from _multiples_near(base, stride)
    if span and not integer and as_finite_number(schema.get("multipleOf")) is None:
        yield from _fractions_of_range(*span)
    if not integer:
        yield from (base + Fraction(1, 2) for base in (Fraction(guess), *bounds))
    for bound in bounds:
        yield from _values_beside(bound)


def _find_stride(schema: Schema, integer: bool) -> Fraction:
    """Return the number of which all candidates are multiples."""
    step = as_finite_number(schema.get("multipleOf"))
    stride = Fraction(str(step)) if step is not None and step > 0 else Fraction(1)
    return Fraction(stride.numerator) if integer else stride  # of the multiples of p/q, those of p are whole


def _multiple_in_range(low: Fraction, high: Fraction, stride: Fraction, guess: int) -> Iterator[Fraction]:
    """Yield a multiple between bounds, if there is one. Other guesses give other multiples."""
    first, last = math.ceil(low / stride), math.floor(high / stride)
    if first <= last:
        yield (first + (guess - first) % (last - first + 1)) * stride


def _multiples_near(base: int | Fraction, stride: Fraction) -> Iterator[Fraction]:
    nearest = round(Fraction(base) / stride)
    for away in range(60):
        yield (nearest + away) * stride
        yield (nearest - away) * stride


def _fractions_of_range(low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """Yield numbers in a range that is too narrow for integers, short ones first."""
    for part in (low + (high - low) * sixtieths / 60 for sixtieths in range(1, 60)):
        yield Fraction(round(float(part), 3)) if abs(low) < 10**9 and abs(high) < 10**9 else low
        yield part


def _values_beside(bound: Fraction) -> Iterator[Fraction]:
    yield from (bound, bound * 2, bound / 2)
    if abs(bound) < 10**300:
        yield from (Fraction(math.nextafter(float(bound), direction)) for direction in (math.inf, -math.inf))


def _tightest_bound(inclusive: object, exclusive: object, choose: Callable[[list[Fraction]], Fraction]) -> Fraction | None:
    bounds = [Fraction(str(bound)) for bound in (as_finite_number(inclusive), as_finite_number(exclusive)) if bound is not None]
    return choose(bounds) if bounds else None
