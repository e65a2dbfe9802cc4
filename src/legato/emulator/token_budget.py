"""The token limit of a reply, and the pieces in which text is streamed."""

from __future__ import annotations

import re

from legato.emulator.tokens import count_tokens

_PIECE = re.compile(r"\s*\S{1,12}|\s+")


def split_for_stream(text: str) -> list[str]:
    """Split a text into the pieces in which it is streamed.

    >>> split_for_stream("Your parcel is on its way.")
    ['Your', ' parcel', ' is', ' on', ' its', ' way.']
    """
    return _PIECE.findall(text)


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """Return the first pieces of a text that have at most `max_tokens` tokens."""
    if count_tokens(text) <= max_tokens:
        return text
    pieces = split_for_stream(text)
    fitting, too_many = 0, len(pieces)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if count_tokens("".join(pieces[:middle])) <= max_tokens:
            fitting = middle
        else:
            too_many = middle
    return "".join(pieces[:fitting])


def cut_before_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """Return a text up to its first stop sequence, and that sequence; None if it has none.

    >>> cut_before_stop("one END two", ("END", "two"))
    ('one ', 'END')
    """
    positions = [(position, stop) for stop in stops if stop and (position := text.find(stop)) >= 0]
    if not positions:
        return text, None
    position, stop = min(positions, key=lambda pair: pair[0])
    return text[:position], stop


class TokenBudget:
    """The tokens that a reply may have, and the tokens spent. `max_tokens` None: no limit."""

    def __init__(self, max_tokens: int | None) -> None:
        self.max_tokens = max_tokens
        self.spent_tokens = 0
        self.is_exhausted = False

    @property
    def has_room(self) -> bool:
        """True if tokens are left. Read this only before more text: False marks the reply as cut short."""
        if self.max_tokens is not None and self.spent_tokens >= self.max_tokens:
            self.is_exhausted = True
        return not self.is_exhausted

    def spend(self, text: str) -> str:
        """Spend tokens on a text. Returns the part that fits the budget, which is then exhausted."""
        if self.is_exhausted:
            return ""
        if self.max_tokens is not None:
            fitting_text = cut_to_tokens(text, self.max_tokens - self.spent_tokens)
            self.is_exhausted = fitting_text != text
            text = fitting_text
        self.spent_tokens += count_tokens(text)
        return text
