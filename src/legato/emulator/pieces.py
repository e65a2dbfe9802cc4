"""Text in the pieces it is streamed in, and cut where its tokens run out. May know: how tokens are counted. Decides: where a cut falls."""

from __future__ import annotations

import re

from legato.emulator.tokens import count

_PIECE = re.compile(r"\s*\S{1,12}|\s+")


def pieces(text: str) -> list[str]:
    """The text in the order and the sizes in which it is streamed.

    >>> pieces("Your parcel is on its way.")
    ['Your', ' parcel', ' is', ' on', ' its', ' way.']
    """
    return _PIECE.findall(text)


def cut_at(text: str, limit: int) -> str:
    """As many pieces from the start as have no more than `limit` tokens."""
    if count(text) <= limit:
        return text
    parts = pieces(text)
    enough, too_many = 0, len(parts)
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        if count("".join(parts[:middle])) <= limit:
            enough = middle
        else:
            too_many = middle
    return "".join(parts[:enough])


def cut_before(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The text up to the first of the stop sequences, and which one that was.

    >>> cut_before("one END two", ("END", "two"))
    ('one ', 'END')
    """
    found = [(place, stop) for stop in stops if stop and (place := text.find(stop)) >= 0]
    if not found:
        return text, None
    place, stop = min(found, key=lambda one: one[0])
    return text[:place], stop


class Budget:
    """How many tokens an answer may have, and how many of them are spent. None: as many as it likes."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.spent = 0
        self.exhausted = False

    @property
    def room(self) -> bool:
        """Whether anything more can be said. Asked only by who has more to say, so a no means that the answer is cut short."""
        if self.limit is not None and self.spent >= self.limit:
            self.exhausted = True
        return not self.exhausted

    def take(self, text: str) -> str:
        """The text, or what the budget leaves of it; then nothing more may be said."""
        if self.exhausted:
            return ""
        if self.limit is not None:
            kept = cut_at(text, self.limit - self.spent)
            self.exhausted = kept != text
            text = kept
        self.spent += count(text)
        return text
