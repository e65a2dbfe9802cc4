"""Token counts, by a vocabulary if one is found, else by an estimate."""

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
    MAX_PIECE_CHARS,
    MESSAGE_OVERHEAD_TOKENS,
    REPLY_OVERHEAD_TOKENS,
    VOCABULARY_FILE,
    VOCABULARY_SHA256,
    count_encoded,
    count_request_tokens,
    count_tokens,
    load_encoding,
)

MERGED = ("he", "ll", "hell", "hello", " w", "or", "ld", " wor", " world", "aa", "aaaa", "  ")
VOCABULARY = b"".join(
    base64.b64encode(token) + b" %d\n" % rank
    for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *(text.encode() for text in MERGED)])
)
"""A small vocabulary in tiktoken's format."""

COUNTING_PROGRAM = """
import sys
class BlockDownloads:
    def find_spec(self, name, path=None, target=None):
        if name in ("requests", "urllib.request", "blobfile"):
            sys.exit("something is about to be downloaded")
sys.meta_path.insert(0, BlockDownloads())
import tokens
print(tokens.COUNTING_METHOD)
print("tiktoken" in sys.modules)
print([tokens.count_tokens(text) for text in ("", "a", "abcd", "abcde", "é" * 4, chr(0xd800), "hello world")])
print("tiktoken" in sys.modules)
"""


BY_ESTIMATE, BY_VOCABULARY = "[0, 1, 1, 2, 2, 1, 3]", "[0, 1, 4, 5, 8, 1, 2]"


def run_program(program: str, folder: Path, **environment: str) -> list[str]:
    """Run a program with a copy of the module that accepts the small vocabulary, and return its output lines."""
    module = Path(tokens.__file__).read_text()
    (folder / "tokens.py").write_text(module.replace(VOCABULARY_SHA256, sha256(VOCABULARY).hexdigest()))
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(folder), **environment}
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    folder = tmp_path / "data-gym-cache"
    folder.mkdir()
    (folder / VOCABULARY_FILE).write_bytes(VOCABULARY)
    return folder


@pytest.mark.parametrize("variable", ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "TMPDIR"])
def test_vocabulary_in_tiktokens_cache_is_used(variable: str, vocabulary: Path, tmp_path: Path) -> None:
    variables = {variable: str(tmp_path if variable == "TMPDIR" else vocabulary)}
    assert run_program(COUNTING_PROGRAM, tmp_path, **variables) == [ENCODING, "False", BY_VOCABULARY, "True"]


@pytest.mark.parametrize("content", [None, VOCABULARY[:-1]], ids=["missing", "damaged"])
def test_damaged_vocabulary_falls_back_to_estimate(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / VOCABULARY_FILE
    if content is not None:
        path.write_bytes(content)
    assert run_program(COUNTING_PROGRAM, tmp_path, TIKTOKEN_CACHE_DIR=str(tmp_path)) == [ESTIMATE, "False", BY_ESTIMATE, "False"]
    assert path.exists() is (content is not None), "the file is the user's"


def test_disabled_cache_has_no_vocabulary(vocabulary: Path, tmp_path: Path) -> None:
    lines = run_program(COUNTING_PROGRAM, tmp_path, TIKTOKEN_CACHE_DIR="", TMPDIR=str(tmp_path))
    assert lines == [ESTIMATE, "False", BY_ESTIMATE, "False"]


def test_missing_tiktoken_falls_back_to_estimate(vocabulary: Path, tmp_path: Path) -> None:
    lines = ("import sys", "sys.modules['tiktoken'] = None", "from tokens import *", "print(COUNTING_METHOD, count_tokens('hello world'))")
    assert run_program("\n".join(lines), tmp_path, TIKTOKEN_CACHE_DIR=str(vocabulary)) == [f"{ESTIMATE} 3"]


def test_file_and_pattern_are_tiktokens() -> None:
    digests: list[str] = []

    def load_nothing(address: str, expected_hash: str) -> dict[bytes, int]:
        digests.append(sha1(address.encode()).hexdigest())
        assert expected_hash == VOCABULARY_SHA256
        return {}

    with patch.object(openai_public, "load_tiktoken_bpe", load_nothing):
        assert openai_public.o200k_base()["pat_str"] == tokens.WORD_PATTERN
    assert digests == [VOCABULARY_FILE]


@pytest.mark.parametrize("text", ["a", " ", "\n", "1", "!?", "ab", "'s", "é", "漢", "a b", "\U0001f600", "<|endoftext|>"])
def test_encoding_counts_millions_of_characters(text: str, vocabulary: Path) -> None:
    encoding = load_encoding(vocabulary / VOCABULARY_FILE)
    text_without_cuts, long_text = text * 40_000, text * 1_000_000
    assert (
        count_encoded(text_without_cuts, encoding)
        <= len(encoding.encode_ordinary(text_without_cuts)) + len(text_without_cuts) // MAX_PIECE_CHARS + 1
    )
    assert 0 < count_encoded(long_text, encoding) <= len(long_text.encode())


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
@example("\ud800 half a pair \udfff")
@example("<|endoftext|>")
@example("\0\x1b\u202e\U0010ffff")
def test_any_text_can_be_counted(text: str) -> None:
    token_count = count_tokens(text)
    assert 0 < token_count <= len(text.encode("utf-8", "replace")) if text else token_count == 0


@given(st.lists(st.text(max_size=40), max_size=6))
def test_request_tokens_include_the_overhead(strings: list[str]) -> None:
    assert count_request_tokens(strings) == REPLY_OVERHEAD_TOKENS + sum(count_tokens(text) + MESSAGE_OVERHEAD_TOKENS for text in strings)
    assert count_request_tokens(iter(strings)) == count_request_tokens(strings)


def test_only_short_texts_are_cached() -> None:
    limit = tokens._count_cached.cache_info().maxsize
    assert limit is not None
    assert limit * tokens.MAX_CACHED_TEXT_CHARS * 2 < 10_000_000
    before = tokens._count_cached.cache_info().currsize
    count_tokens("long " * tokens.MAX_CACHED_TEXT_CHARS)
    assert tokens._count_cached.cache_info().currsize == before
