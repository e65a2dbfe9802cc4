"""How many tokens a text is. May know: a tokenizer, if one is installed. Decides: the estimate where there is none.

With the extra `tokens` (rs-bpe, whose vocabulary is part of the package: nothing is fetched) the count is that of `o200k_base`, the
encoding of OpenAI's present models. Without it a token is taken to be four bytes of UTF-8. `COUNTED_BY` says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

ESTIMATE = "an estimate: four bytes are a token"
COUNTED_BY = "rs-bpe's o200k_base" if find_spec("rs_bpe") else ESTIMATE

PER_MESSAGE = 3  # the marks around each message
FOR_THE_REPLY = 3  # the marks that open the reply
REMEMBERED = 2_000  # characters: a longer text is counted anew, so that what is remembered stays below some 8 MB


def count(text: str) -> int:
    """The tokens of a text, whatever is in it.

    >>> count("")
    0
    """
    return _remembered(text) if len(text) <= REMEMBERED else _count(text)


def count_request(strings: Iterable[str]) -> int:
    """The tokens of a request: its strings, and the marks that the provider puts around each and before the reply.

    >>> count_request([]) == FOR_THE_REPLY
    True
    """
    return FOR_THE_REPLY + sum(PER_MESSAGE + count(text) for text in strings)


def _count(text: str) -> int:
    data = text.encode("utf-8", "replace")  # half of a surrogate pair is no text; it counts as a question mark
    if COUNTED_BY == ESTIMATE:
        return -(-len(data) // 4)
    return int(_tokenizer().count(data.decode()))


_remembered = lru_cache(maxsize=2048)(_count)


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    # Here, because it takes a tenth of a second, which nobody pays who never counts. It may not be installed, and has no types.
    from rs_bpe.bpe import openai  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return openai.o200k_base()
