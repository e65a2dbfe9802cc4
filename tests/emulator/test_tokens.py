"""Tokens are counted by a vocabulary where one is found, and by a stated estimate where none is."""

from __future__ import annotations

import base64
import subprocess
import sys
from hashlib import sha1, sha256
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from legato.emulator import tokens
from legato.emulator.tokens import (
    ENCODING,
    ESTIMATE,
    FOR_THE_REPLY,
    MAX_PIECE_CHARS,
    PER_MESSAGE,
    VOCABULARY_FILE,
    VOCABULARY_SHA256,
    count,
    count_encoded,
    count_request,
    load_encoding,
)

MERGED = ("he", "ll", "hell", "hello", " w", "or", "ld", " wor", " world", "aa", "aaaa", "  ")
VOCABULARY = b"".join(
    base64.b64encode(token) + b" %d\n" % rank
    for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *(text.encode() for text in MERGED)])
)
"""A small vocabulary in tiktoken's format."""

COUNTED = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name in ("requests", "urllib.request", "blobfile"):
            sys.exit("something is about to be downloaded")
sys.meta_path.insert(0, Refused())
import tokens
print(tokens.COUNTED_BY)
print("tiktoken" in sys.modules)
print([tokens.count(text) for text in ("", "a", "abcd", "abcde", "é" * 4, chr(0xd800), "hello world")])
print("tiktoken" in sys.modules)
"""


BY_ESTIMATE, BY_VOCABULARY = "[0, 1, 1, 2, 2, 1, 3]", "[0, 1, 4, 5, 8, 1, 2]"


def told(program: str, folder: Path, **environment: str) -> list[str]:
    """What a process prints for which the small vocabulary is the right one: it has the module with that digest."""
    module = Path(tokens.__file__).read_text()
    (folder / "tokens.py").write_text(module.replace(VOCABULARY_SHA256, sha256(VOCABULARY).hexdigest()))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(folder), **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    folder = tmp_path / "data-gym-cache"
    folder.mkdir()
    (folder / VOCABULARY_FILE).write_bytes(VOCABULARY)
    return folder


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "TMPDIR"])
def test_vocabulary_in_the_cache_of_tiktoken_is_used(variable: str, vocabulary: Path, tmp_path: Path) -> None:
    where = {variable: str(tmp_path if variable == "TMPDIR" else vocabulary)}
    assert told(COUNTED, tmp_path, **where) == [ENCODING, "False", BY_VOCABULARY, "True"]


@pytest.mark.parametrize("content", [None, VOCABULARY[:-1]], ids=["missing", "damaged"])
def test_without_a_sound_vocabulary_the_estimate_counts(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / VOCABULARY_FILE
    if content is not None:
        path.write_bytes(content)
    assert told(COUNTED, tmp_path, TIKTOKEN_CACHE_DIR=str(tmp_path)) == [ESTIMATE, "False", BY_ESTIMATE, "False"]
    assert path.exists() is (content is not None), "the file is the user's"


def test_cache_that_is_turned_off_has_no_vocabulary(vocabulary: Path, tmp_path: Path) -> None:
    found = told(COUNTED, tmp_path, TIKTOKEN_CACHE_DIR="", TMPDIR=str(tmp_path))
    assert found == [ESTIMATE, "False", BY_ESTIMATE, "False"]


def test_without_tiktoken_the_estimate_counts(vocabulary: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['tiktoken'] = None\nfrom tokens import COUNTED_BY, count\nprint(COUNTED_BY, count('hello world'))"
    assert told(program, tmp_path, TIKTOKEN_CACHE_DIR=str(vocabulary)) == [f"{ESTIMATE} 3"]


def test_file_and_words_are_those_of_tiktoken() -> None:
    read: list[str] = []

    def noted(address: str, expected_hash: str) -> dict[bytes, int]:
        read.append(sha1(address.encode()).hexdigest())
        assert expected_hash == VOCABULARY_SHA256
        return {}

    with patch.object(openai_public, "load_tiktoken_bpe", noted):
        assert openai_public.o200k_base()["pat_str"] == tokens.WORDS
    assert read == [VOCABULARY_FILE]


@pytest.mark.parametrize("text", ["a", " ", "\n", "1", "!?", "ab", "'s", "é", "漢", "a b", "\U0001f600", "<|endoftext|>"])
def test_encoding_counts_millions_of_characters(text: str, vocabulary: Path) -> None:
    encoding = load_encoding(vocabulary / VOCABULARY_FILE)
    whole, cut = text * 40_000, text * 1_000_000
    assert count_encoded(whole, encoding) <= len(encoding.encode_ordinary(whole)) + len(whole) // MAX_PIECE_CHARS + 1
    assert 0 < count_encoded(cut, encoding) <= len(cut.encode())


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


def test_only_short_texts_are_remembered_and_not_all_of_them() -> None:
    limit = tokens._remembered.cache_info().maxsize
    assert limit is not None
    assert limit * tokens.REMEMBERED * 2 < 10_000_000
    before = tokens._remembered.cache_info().currsize
    count("long " * tokens.REMEMBERED)
    assert tokens._remembered.cache_info().currsize == before
