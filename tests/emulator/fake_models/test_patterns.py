"""Pattern matching, compared with Python's `re` where the two agree."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.emulator.fake_models.patterns import MAX_STEPS, MAX_TEXT_CHARS, PatternBudget, UnsupportedPattern, is_match, make_matching_text
from legato.emulator.fake_models.seeded_random import SeededRandom

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
def test_matching_agrees_with_python(pattern: str, text: str) -> None:
    if text.endswith("\n"):
        text += "x"  # Python's $ also matches before a final newline; a JSON schema's does not
    assert is_match(pattern, text) == bool(re.search(pattern, text))


@given(pattern=PATTERNS, seed=st.integers(0, 20))
def test_made_text_matches_the_pattern(pattern: str, seed: int) -> None:
    try:
        text = make_matching_text(pattern, SeededRandom(seed))
    except UnsupportedPattern:
        return
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "min_length", "max_length"),
    [("^[a-z]+$", 30, 30), ("abc", 50, 60), (r"^\d{3,}$", 8, 8), ("^[A-Z]{2}$", 0, 2), ("x$", 12, 12), (r"^\+?\d+$", 20, 25)],
)
def test_made_text_has_the_wanted_length(pattern: str, min_length: int, max_length: int) -> None:
    text = make_matching_text(pattern, SeededRandom(1), min_length, max_length)
    assert min_length <= len(text) <= max_length
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a|a?)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x", "((a{0,30}){0,30}){0,30}b", "(?=(a+)+$)b|c"]
)
def test_catastrophic_pattern_takes_few_steps(pattern: str) -> None:
    """Python's `re` would take years for these patterns."""
    budget = PatternBudget()
    with suppress(UnsupportedPattern):
        is_match(pattern, "a" * 3000 + "!", budget)
    with suppress(UnsupportedPattern):
        make_matching_text(pattern, SeededRandom(1), 50, budget=budget)
    assert budget.steps_spent <= MAX_STEPS + 2 * MAX_TEXT_CHARS


@pytest.mark.parametrize("pattern", ["a{30000}", "((((a{99}){99}){99}){99})", "a{999999999}", "(?:a|bb){20001}", "[A-Z]{5}-[A-Z]{20000}"])
def test_too_long_text_is_rejected_early(pattern: str) -> None:
    budget = PatternBudget()
    with pytest.raises(UnsupportedPattern):
        make_matching_text(pattern, SeededRandom(1), 0, MAX_TEXT_CHARS, budget)
    assert not is_match(pattern, "a" * 50, budget)
    assert budget.steps_spent <= len(pattern)


def test_failed_pattern_costs_no_further_steps() -> None:
    budget = PatternBudget()
    with pytest.raises(UnsupportedPattern):
        make_matching_text("^a$", SeededRandom(1), 5, 9, budget)
    steps_spent = budget.steps_spent
    with pytest.raises(UnsupportedPattern):
        make_matching_text("^a$", SeededRandom(2), 5, 9, budget)
    assert budget.steps_spent == steps_spent


IP_PATTERN = r"^(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}$"


@pytest.mark.parametrize(
    ("pattern", "min_length", "max_length"),
    [
        (r"\bword\b", 20, 30),
        (r"\bword\b", 5, 5),
        (IP_PATTERN, 0, 7),
        (IP_PATTERN, 7, 7),
        (r"^\w+@\w+\.com$", 8, 8),
        ("^(?:ab|cde)+$", 20, 20),
        (r"^(\d{3}-)+\d$", 12, 16),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_difficult_length_is_reached(pattern: str, min_length: int, max_length: int, seed: int) -> None:
    text = make_matching_text(pattern, SeededRandom(seed), min_length, max_length)
    assert min_length <= len(text) <= max_length
    assert re.search(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?i)a", "a**", "(", ")", "[z-a]", "a{", "*", r"\p{L}", "(" * 100 + ")" * 100, "x" * 3000, r"\xzz", "[", "\\", "a{2}{3}"],
)
def test_unsupported_syntax_raises_unsupported_pattern(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        is_match(pattern, "a")


@given(st.text(max_size=30), st.text(max_size=10))
def test_any_pattern_is_decided_or_unsupported(pattern: str, text: str) -> None:
    try:
        is_match(pattern, text)
        make_matching_text(pattern, SeededRandom(1))
    except UnsupportedPattern:
        pass
