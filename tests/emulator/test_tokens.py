"""Tokens are counted by a real tokenizer where one is installed, and by a stated estimate where none is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.emulator import tokens
from legato.emulator.tokens import COUNTED_BY, ESTIMATE, FOR_THE_REPLY, PER_MESSAGE, count, count_request

WITHOUT = """
import sys
sys.modules["rs_bpe"] = None
from legato.emulator import tokens
print(tokens.COUNTED_BY)
print([tokens.count(text) for text in ("", "a", "abcd", "abcde", "é" * 4, chr(0xd800))])
"""
LAZY = """
import sys
from legato.emulator import tokens
print("rs_bpe" in sys.modules, tokens.count("hello world"), "rs_bpe" in sys.modules)
"""


def told(program: str) -> str:
    sources = str(Path(__file__).parents[2] / "src")
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": sources}).stdout


def test_the_tokenizer_of_the_present_models_counts() -> None:
    assert COUNTED_BY == "rs-bpe's o200k_base"
    assert [count(text) for text in ("", "hello world", "tiktoken is great!", "antidisestablishmentarianism")] == [0, 2, 6, 6]


def test_without_the_tokenizer_the_estimate_is_used_and_said_to_be_one() -> None:
    lines = told(WITHOUT).splitlines()
    assert lines == [ESTIMATE, "[0, 1, 1, 2, 2, 1]"]


def test_the_tokenizer_is_not_loaded_before_something_is_counted() -> None:
    assert told(LAZY).split() == ["False", "2", "True"]


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
@example("\ud800 half a pair \udfff")
@example("<|endoftext|>")
@example("\0\x1b\u202e\U0010ffff")
def test_whatever_is_in_a_text_it_is_counted(text: str) -> None:
    counted = count(text)
    assert 0 < counted <= len(text.encode("utf-8", "replace")) if text else counted == 0


@given(st.lists(st.text(max_size=40), max_size=6))
def test_a_request_has_the_tokens_of_its_strings_and_those_of_the_marks_around_them(strings: list[str]) -> None:
    assert count_request(strings) == FOR_THE_REPLY + sum(count(text) + PER_MESSAGE for text in strings)
    assert count_request(iter(strings)) == count_request(strings)


@pytest.mark.parametrize("text", ["a", " ", "\n", "1", "!?", "ab", "'s", "é", "漢", "a b", "\U0001f600"])
def test_a_text_of_millions_of_characters_is_counted(text: str) -> None:
    assert 0 < count(text * 1_000_000) <= len(text.encode()) * 1_000_000  # it would never end if it cost the square


def test_only_short_texts_are_remembered_and_not_all_of_them() -> None:
    limit = tokens._remembered.cache_info().maxsize
    assert limit is not None
    assert limit * tokens.REMEMBERED * 2 < 10_000_000
    before = tokens._remembered.cache_info().currsize
    count("long " * tokens.REMEMBERED)
    assert tokens._remembered.cache_info().currsize == before
