"""Sealed content opens for its maker, as it was made, and for nobody else."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.seal import Seal
from legato.providers.rules.responses.held import Blob

SEAL = Seal(b"a key")


def test_a_blob_looks_like_the_providers() -> None:
    assert re.fullmatch(r"gAAAA[A-Za-z0-9_-]+={0,2}", SEAL.seal("org-1", "rs_1", "gpt-5"))


def test_a_blob_says_whose_and_what_it_is() -> None:
    assert SEAL.open(SEAL.seal("org-1", "rs_1", "gpt-5", "msg_1")) == Blob("org-1", "rs_1", "gpt-5", "msg_1")


def test_what_is_sealed_cannot_be_read_without_the_key() -> None:
    assert "secret" not in SEAL.seal_json({"thought": "secret"})
    assert Seal(b"another key").open_json(SEAL.seal_json({"thought": "secret"})) is None


def test_the_same_content_sealed_again_is_another_text_and_both_open() -> None:
    texts = {SEAL.seal("org-1", "rs_1", "gpt-5") for _ in range(20)}
    assert len(texts) == 20
    assert {SEAL.open(text) for text in texts} == {Blob("org-1", "rs_1", "gpt-5")}


def test_blobs_of_a_new_process_with_the_same_key_open() -> None:
    assert Seal(b"a key").open(SEAL.seal("org-1", "rs_1", "gpt-5")) is not None


@given(st.data())
@settings(max_examples=200)
def test_a_text_with_one_character_changed_does_not_open(data: st.DataObject) -> None:
    text = SEAL.seal("org-1", "rs_1", "gpt-5", "fc_1")
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[place]))
    assert SEAL.open(text[:place] + other + text[place + 1 :]) is None


@given(st.data())
def test_a_text_cut_short_or_continued_does_not_open(data: st.DataObject) -> None:
    text = SEAL.seal("org-1", "rs_1", "gpt-5")
    assert SEAL.open(text[: data.draw(st.integers(0, len(text) - 1))]) is None
    assert SEAL.open(text + data.draw(st.text(min_size=1))) is None


@given(st.text())
def test_any_other_text_does_not_open(text: str) -> None:
    assert SEAL.open(text) is None


@given(st.dictionaries(st.text(max_size=8), st.none() | st.integers(-(2**63), 2**63) | st.lists(st.text(max_size=8)), max_size=5))
def test_any_json_object_comes_back(content: dict[str, object]) -> None:
    assert SEAL.open_json(SEAL.seal_json(content)) == content


def test_a_blob_of_something_else_is_no_reasoning() -> None:
    assert SEAL.open(SEAL.seal_json({"organisation": 7})) is None
