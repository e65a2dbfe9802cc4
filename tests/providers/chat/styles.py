"""The ways in which servers stream calls. Each writes the same calls as chunks of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st

Piece: TypeAlias = tuple[int, str, str, str]  # the place of the call, its id, its name, a piece of its arguments
Style: TypeAlias = Callable[[list[list[Piece]]], Iterator[dict[str, Any]]]
STYLES: dict[str, Style] = {}
NAMES = st.sampled_from(["look_up", "wire_name", "no_such"])


def delta(finish: str | None = None, /, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def style(title: str) -> Callable[[Style], Style]:
    def add(write: Style) -> Style:
        STYLES[title] = write
        return write

    return add


def function(name: str | None, arguments: Any) -> dict[str, Any]:
    return {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}


@style("as OpenAI does: id and name first, then pieces by index")
def as_openai(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        place, id, name, _ = pieces[0]
        yield delta(tool_calls=[{"index": place, "id": id, "type": "function", "function": function(name, "")}])
        for _, _, _, arguments in pieces:
            yield delta(tool_calls=[{"index": place, "function": function(None, arguments)}])


@style("pieces of all calls by turns")
def by_turns(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for number in range(max(map(len, calls))):
        for pieces in reversed(calls):
            if number < len(pieces):
                place, id, name, arguments = pieces[number]
                start = {"id": id, "function": function(name, arguments)} if number == 0 else {"function": function(None, arguments)}
                yield delta(tool_calls=[{"index": place, **start}])


@style("id and name repeated in every piece")
def repeating(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for place, id, name, arguments in (piece for pieces in calls for piece in pieces):
        yield delta(tool_calls=[{"index": place, "id": id, "type": "function", "function": function(name, arguments)}])


@style("id and name repeated in every piece, no index")
def repeating_without_index(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for _, id, name, arguments in (piece for pieces in calls for piece in pieces):
        yield delta(tool_calls=[{"id": id, "function": function(name, arguments)}])


@style("a new id in every piece")
def new_ids(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (place, id, name, arguments) in enumerate(pieces):
            once = (
                {"id": id, "function": function(name, arguments)}
                if number == 0
                else {"id": f"other{number}", "function": function(None, arguments)}
            )
            yield delta(tool_calls=[{"index": place, **once}])


@style("no index, id and name first")
def without_index(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (_, id, name, arguments) in enumerate(pieces):
            yield delta(
                tool_calls=[{"id": id, "function": function(name, arguments)} if number == 0 else {"function": function(None, arguments)}]
            )


@style("names null and ids empty after the first piece")
def with_nulls(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (place, id, name, arguments) in enumerate(pieces):
            first = number == 0
            called = {"name": name if first else None, "arguments": arguments}
            yield delta(tool_calls=[{"index": place, "id": id if first else "", "type": None, "function": called}], content=None, role=None)


@style("counted in two ways")
def counted_twice(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        place, id, name, _ = pieces[0]
        yield delta(tool_calls=[{"index": place + 5, "id": id, "function": function(name, "")}])
        for _, _, _, arguments in pieces:
            yield delta(tool_calls=[{"index": place, "function": function(None, arguments)}])


def whole(pieces: list[Piece]) -> str:
    return "".join(arguments for _, _, _, arguments in pieces)


@style("whole calls, every index 0")
def whole_at_zero(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        yield delta(tool_calls=[{"index": 0, "id": pieces[0][1], "function": function(pieces[0][2], whole(pieces))}])


@style("whole calls, no index, in one chunk")
def whole_at_once(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    yield delta(tool_calls=[{"id": pieces[0][1], "function": function(pieces[0][2], whole(pieces))} for pieces in calls])


@style("whole calls with arguments that are objects")
def whole_objects(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for place, pieces in enumerate(calls):
        called = function(pieces[0][2], json.loads(whole(pieces)))
        yield delta(tool_calls=[{"index": place, "id": pieces[0][1], "function": called}])


@style("every call twice, whole")
def whole_twice(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        call = {"index": pieces[0][0], "id": pieces[0][1], "function": function(pieces[0][2], whole(pieces))}
        yield delta(tool_calls=[call])
        yield delta(tool_calls=[call])


@style("a message in place of a delta")
def as_message(calls: list[list[Piece]]) -> Iterator[dict[str, Any]]:
    written = [{"id": pieces[0][1], "function": function(pieces[0][2], whole(pieces))} for pieces in calls]
    yield {"choices": [{"message": {"role": "assistant", "tool_calls": written}, "finish_reason": None}]}


@st.composite
def several_calls(draw: st.DrawFn) -> list[list[Piece]]:
    """Calls with distinct ids, their arguments cut anywhere."""
    calls: list[list[Piece]] = []
    for place in range(draw(st.integers(1, 3))):
        arguments = draw(st.dictionaries(st.text("ab{}\"' ", max_size=3), st.one_of(st.integers(), st.text("x{}", max_size=9)), max_size=2))
        text = json.dumps(arguments, separators=(",", ":"), sort_keys=True)
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
        bounds = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
        name = draw(NAMES)
        calls.append([(place, f"call_{place}", name, text[low:high]) for low, high in bounds])
    return calls
