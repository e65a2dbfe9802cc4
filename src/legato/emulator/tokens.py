"""Token counts, by OpenAI's encoding if its vocabulary is on this machine, else by an estimate. `COUNTING_METHOD` says which.

With the extra `tokens` (tiktoken) and the vocabulary of `o200k_base` in tiktoken's cache, the count is that of OpenAI's present models.
Nothing is ever downloaded: tiktoken's own functions would fetch a missing vocabulary, so the file is read here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from base64 import b64decode
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

ESTIMATE = "an estimate: four bytes are a token"
ENCODING = "tiktoken's o200k_base"

VOCABULARY_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name in tiktoken's cache: the SHA-1 of the address that it downloads `o200k_base` from."""

VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# As in tiktoken_ext/openai_public.py of tiktoken 0.14.
WORD_PATTERN = "|".join(
    [
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""",
        r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
        r"""\s*[\r\n]+""",
        r"""\s+(?!\S)""",
        r"""\s+""",
    ]
)

MESSAGE_OVERHEAD_TOKENS = 3  # the marks around each message
REPLY_OVERHEAD_TOKENS = 3  # the marks that open the reply
MAX_CACHED_TEXT_CHARS = 2_000  # a longer text is counted each time, so that the cache stays below some 8 MB
MAX_PIECE_CHARS = 100_000  # tiktoken panics at a million spaces; each cut adds one token at most


def find_vocabulary() -> Path | None:
    """Return the path of the vocabulary in tiktoken's cache, or None if it is missing or damaged."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    path = Path(folder if folder is not None else f"{tempfile.gettempdir()}/data-gym-cache", VOCABULARY_FILE)
    try:
        sound = folder != "" and hashlib.sha256(path.read_bytes()).hexdigest() == VOCABULARY_SHA256  # "" turns the cache off
    except OSError:
        return None
    return path if sound else None


def load_encoding(vocabulary: Path) -> Encoding:
    """Load an encoding from a vocabulary in tiktoken's format: each line has a token in Base64, and its rank."""
    from tiktoken import Encoding  # here: it takes a tenth of a second, only for programs that count

    lines = (line.split() for line in vocabulary.read_bytes().splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    return Encoding("o200k_base", pat_str=WORD_PATTERN, mergeable_ranks=ranks, special_tokens={})


def count_encoded(text: str, encoding: Encoding) -> int:
    """Count the tokens of any text in an encoding."""
    pieces = (text[start : start + MAX_PIECE_CHARS] for start in range(0, len(text), MAX_PIECE_CHARS))
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)


_VOCABULARY = find_vocabulary() if find_spec("tiktoken") else None

COUNTING_METHOD = ENCODING if _VOCABULARY else ESTIMATE


def count_tokens(text: str) -> int:
    """Count the tokens of any text.

    >>> count_tokens("")
    0
    """
    return _count_cached(text) if len(text) <= MAX_CACHED_TEXT_CHARS else _count(text)


def count_request_tokens(strings: Iterable[str]) -> int:
    """Count the tokens of a request: its texts, and the marks that the provider adds around each and before the reply.

    >>> count_request_tokens([]) == REPLY_OVERHEAD_TOKENS
    True
    """
    return REPLY_OVERHEAD_TOKENS + sum(MESSAGE_OVERHEAD_TOKENS + count_tokens(text) for text in strings)


def _count(text: str) -> int:
    data = text.encode("utf-8", "replace")  # half of a surrogate pair counts as a question mark
    if _VOCABULARY is None:
        return -(-len(data) // 4)
    return count_encoded(data.decode(), _load_encoding_cached(_VOCABULARY))


_count_cached = lru_cache(maxsize=2048)(_count)
_load_encoding_cached = lru_cache(maxsize=1)(load_encoding)
