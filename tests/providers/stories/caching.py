"""Whether a provider's prompt cache can hit: what one request said is said again, byte by byte, by the next one of that frame.

Compared are the bodies as they came over the wire. Within a frame nothing but what names the past (`previous_response_id`,
`conversation`) and the items themselves may differ; and the items are the same bytes up to the last one that both requests share. What
is shared is told by what they say (`raw.py`); how it is written, reasoning included, must not have changed.

No reasoning is excepted here. Reasoning that was sent once in a frame goes on being sent in it: that of other frames is left out from
the first request on, where a law binds it to them; only a refusal takes it away later, and stories have none.

What a provider holds it was told by earlier requests, and by itself. Its own items never went over the wire from here: they are compared
by what they say.
"""

from __future__ import annotations

from itertools import takewhile, zip_longest

from tests.providers.stories.raw import ITEMS, Asked, Piece, lines_of

PAST = ("previous_response_id", "conversation")


def misses(before: Asked, after: Asked) -> list[str]:
    """What keeps the cache from being of use, in words; nothing if all that is shared is the same."""
    found = [f"{name} is written otherwise" for name in _differing(before, after)]
    same = _shared(before, after)
    first, second = _upto(before, same), _upto(after, same)
    if first and not before.held and not after.held:
        otherwise = _bytes(before, first[-1]) != _bytes(after, second[-1])
        return [*found, f"the items up to {first[-1].text} are written otherwise"] if otherwise else found
    pairs = list(zip_longest(_compared(first), _compared(second)))
    return found + [f"{one} is {other}" for one, other in pairs if one is None or other is None or not _same(one, other)]


def shared(before: Asked, after: Asked) -> int:
    """How many pieces are shared: for those who want to know that there is something to compare."""
    return len(_upto(before, _shared(before, after)))


def _differing(before: Asked, after: Asked) -> list[str]:
    """The members around the items that are not the same bytes, or not in the same order."""
    around = [
        {name: asked.text[slice(*span)] for name, span in asked.spans.items() if name not in (*PAST, ITEMS[asked.sent.api])}
        for asked in (before, after)
    ]
    names = [name for name in {**around[0], **around[1]} if around[0].get(name) != around[1].get(name)]
    return names or (["the order of the members"] if list(around[0]) != list(around[1]) else [])


def _shared(before: Asked, after: Asked) -> int:
    """How many lines both requests begin with."""
    pairs = zip(_lines(before.told), _lines(after.told), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _lines(pieces: tuple[Piece, ...]) -> list[tuple[str, str]]:
    return [line for line in lines_of(pieces) if line[0] != "thought"]


def _upto(asked: Asked, lines: int) -> tuple[Piece, ...]:
    """The pieces up to the last that says something, and nothing but what is shared."""
    upto = said = 0
    for place, piece in enumerate(asked.told, 1):
        says = len(_lines((piece,)))
        said += says
        if said > lines:
            break
        upto = place if says else upto
    return asked.told[:upto]


def _compared(pieces: tuple[Piece, ...]) -> list[Piece]:
    """All but the provider's own thoughts: whether it still reads them is for it to know."""
    return [piece for piece in pieces if piece.text or _lines((piece,))]


def _bytes(asked: Asked, last: Piece) -> str:
    """The items as they stand in the body, brackets and all, up to the end of one."""
    return asked.text[asked.spans[ITEMS[asked.sent.api]][0] : last.end]


def _same(one: Piece, other: Piece) -> bool:
    return one.text == other.text if one.text and other.text else lines_of([one]) == lines_of([other])
