"""Texts for patterns: checked against Python's own regular expressions where these can be trusted."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.emulator.minds.dice import Dice
from legato.emulator.minds.patterns import LONGEST, STEPS, Budget, Unsupported, matches, text_for

ATOMS = st.sampled_from(["a", "b", r"\d", r"\w", r"\s", "[a-c]", "[^a]", ".", "0", "-", r"\.", r"[\w-]", r"[^\d\s]", "(?:ab|c)", "(a|bc)"])
COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])
PIECES = st.builds("{}{}".format, ATOMS, COUNTS)
PATTERNS = st.builds(
    lambda start, pieces, end: start + "".join(pieces) + end,
    st.sampled_from(["", "^", r"^(?!00)", r"^(?=.{1,40}$)"]),
    st.lists(PIECES, max_size=5),
    st.sampled_from(["", "$", "|x$"]),
)


@given(pattern=PATTERNS, text=st.text(alphabet="abc0-. \nx", max_size=8))
def test_a_pattern_matches_what_python_says_it_matches(pattern: str, text: str) -> None:
    if text.endswith("\n"):
        text += "x"  # Python's $ also stands before a last line's end; a JSON schema's does not
    assert matches(pattern, text) == bool(re.search(pattern, text))


@given(pattern=PATTERNS, seed=st.integers(0, 20))
def test_a_text_that_is_made_matches(pattern: str, seed: int) -> None:
    try:
        text = text_for(pattern, Dice(seed))
    except Unsupported:
        return
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [("^[a-z]+$", 30, 30), ("abc", 50, 60), (r"^\d{3,}$", 8, 8), ("^[A-Z]{2}$", 0, 2), ("x$", 12, 12), (r"^\+?\d+$", 20, 25)],
)
def test_the_text_has_the_length_that_is_asked_for(pattern: str, least: int, most: int) -> None:
    text = text_for(pattern, Dice(1), least, most)
    assert least <= len(text) <= most
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a|a?)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x", "((a{0,30}){0,30}){0,30}b", "(?=(a+)+$)b|c"]
)
def test_a_pattern_that_would_keep_python_busy_for_years_is_decided_in_few_steps(pattern: str) -> None:
    budget = Budget()
    with suppress(Unsupported):
        matches(pattern, "a" * 3000 + "!", budget)
    with suppress(Unsupported):
        text_for(pattern, Dice(1), 50, budget=budget)
    assert budget.spent <= STEPS + 2 * LONGEST


@pytest.mark.parametrize("pattern", ["a{30000}", "((((a{99}){99}){99}){99})", "a{999999999}", "(?:a|bb){20001}", "[A-Z]{5}-[A-Z]{20000}"])
def test_what_would_be_too_long_is_given_up_before_it_is_begun(pattern: str) -> None:
    budget = Budget()
    with pytest.raises(Unsupported):
        text_for(pattern, Dice(1), 0, LONGEST, budget)
    assert not matches(pattern, "a" * 50, budget)
    assert budget.spent <= len(pattern)


def test_a_pattern_that_was_given_up_costs_nothing_more() -> None:
    budget = Budget()
    with pytest.raises(Unsupported):
        text_for("^a$", Dice(1), 5, 9, budget)
    spent = budget.spent
    with pytest.raises(Unsupported):
        text_for("^a$", Dice(2), 5, 9, budget)
    assert budget.spent == spent


IP = r"^(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}$"


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        (r"\bword\b", 20, 30),
        (r"\bword\b", 5, 5),
        (IP, 0, 7),
        (IP, 7, 7),
        (r"^\w+@\w+\.com$", 8, 8),
        ("^(?:ab|cde)+$", 20, 20),
        (r"^(\d{3}-)+\d$", 12, 16),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_length_that_is_hard_to_hit_is_hit(pattern: str, least: int, most: int, seed: int) -> None:
    text = text_for(pattern, Dice(seed), least, most)
    assert least <= len(text) <= most
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?i)a", "a**", "(", ")", "[z-a]", "a{", "*", r"\p{L}", "(" * 100 + ")" * 100, "x" * 3000, r"\xzz", "[", "\\", "a{2}{3}"],
)
def test_what_is_not_understood_is_said_to_be_so(pattern: str) -> None:
    with pytest.raises(Unsupported):
        matches(pattern, "a")


@given(st.text(max_size=30), st.text(max_size=10))
def test_any_pattern_is_decided_or_not_understood(pattern: str, text: str) -> None:
    try:
        matches(pattern, text)
        text_for(pattern, Dice(1))
    except Unsupported:
        pass
