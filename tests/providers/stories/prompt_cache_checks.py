"""Checks that a provider's prompt cache can hit: each request of a turn context repeats the bytes of the previous one.

The request bodies are compared. Within a turn context only the members that name the base (`previous_response_id`, `conversation`) and the
items may differ, and the items have the same bytes up to the last one that both requests share. Shared contents are found by their lines
(`traffic_reader.py`); their bytes, reasoning included, must not change.

Reasoning is no exception. Reasoning that was sent once in a turn context is sent in all its later requests: bound reasoning of other turn
contexts is left out from the first request on, and only a refusal would remove it later, which stories do not have.

Stored contents come from earlier requests and from the provider. The provider's own items were never sent, so their lines are compared.
"""

from __future__ import annotations

from itertools import takewhile, zip_longest

from tests.providers.stories.traffic_reader import ITEM_MEMBERS, ContentPiece, ReadRequest, list_content_lines

BASE_MEMBERS = ("previous_response_id", "conversation")


def find_cache_misses(before: ReadRequest, after: ReadRequest) -> list[str]:
    """Return the reasons why the cache would miss; none if all shared contents have the same bytes."""
    misses = [f"{name} has other bytes" for name in _find_changed_members(before, after)]
    same = _count_shared_lines(before, after)
    first, second = _take_shared_pieces(before, same), _take_shared_pieces(after, same)
    if first and not before.stored_count and not after.stored_count:
        otherwise = _item_text(before, first[-1]) != _item_text(after, second[-1])
        return [*misses, f"the items up to {first[-1].text} have other bytes"] if otherwise else misses
    pairs = list(zip_longest(_drop_provider_reasoning(first), _drop_provider_reasoning(second)))
    return misses + [f"{one} is {other}" for one, other in pairs if one is None or other is None or not _is_same_piece(one, other)]


def count_shared_pieces(before: ReadRequest, after: ReadRequest) -> int:
    """Count the shared pieces, to make sure that there is something to compare."""
    return len(_take_shared_pieces(before, _count_shared_lines(before, after)))


def _find_changed_members(before: ReadRequest, after: ReadRequest) -> list[str]:
    """Return the members around the items whose bytes or order differ."""
    around = [
        {
            name: request.text[slice(*span)]
            for name, span in request.spans.items()
            if name not in (*BASE_MEMBERS, ITEM_MEMBERS[request.request.api])
        }
        for request in (before, after)
    ]
    names = [name for name in {**around[0], **around[1]} if around[0].get(name) != around[1].get(name)]
    return names or (["the order of the members"] if list(around[0]) != list(around[1]) else [])


def _count_shared_lines(before: ReadRequest, after: ReadRequest) -> int:
    """Count the lines that both requests begin with."""
    pairs = zip(_list_lines(before.contents), _list_lines(after.contents), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _list_lines(pieces: tuple[ContentPiece, ...]) -> list[tuple[str, str]]:
    return [line for line in list_content_lines(pieces) if line[0] != "thought"]


def _take_shared_pieces(request: ReadRequest, line_count: int) -> tuple[ContentPiece, ...]:
    """Return the pieces with the first lines, up to the last piece that has a line."""
    piece_count = lines_so_far = 0
    for place, piece in enumerate(request.contents, 1):
        new_lines = len(_list_lines((piece,)))
        lines_so_far += new_lines
        if lines_so_far > line_count:
            break
        piece_count = place if new_lines else piece_count
    return request.contents[:piece_count]


def _drop_provider_reasoning(pieces: tuple[ContentPiece, ...]) -> list[ContentPiece]:
    """Return the pieces without the provider's stored reasoning: only the provider knows whether it still reads it."""
    return [piece for piece in pieces if piece.text or _list_lines((piece,))]


def _item_text(request: ReadRequest, last: ContentPiece) -> str:
    """Return the bytes of the items in the body, up to the end of one."""
    return request.text[request.spans[ITEM_MEMBERS[request.request.api]][0] : last.end]


def _is_same_piece(one: ContentPiece, other: ContentPiece) -> bool:
    return one.text == other.text if one.text and other.text else list_content_lines([one]) == list_content_lines([other])
