"""The ways in which servers stream calls. Each style writes the same calls as chunks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st

CallPiece: TypeAlias = tuple[int, str, str, str]  # the index of the call, its id, its name, a piece of its arguments
ChunkWriter: TypeAlias = Callable[[list[list[CallPiece]]], Iterator[dict[str, Any]]]
STREAMING_STYLES: dict[str, ChunkWriter] = {}
STREAMED_TOOL_NAMES = st.sampled_from(["look_up", "wire_name", "no_such"])


def delta_chunk(finish: str | None = None, /, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def streaming_style(title: str) -> Callable[[ChunkWriter], ChunkWriter]:
    def add(write: ChunkWriter) -> ChunkWriter:
        STREAMING_STYLES[title] = write
        return write

    return add


def function_member(name: str | None, arguments: Any) -> dict[str, Any]:
    return {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}


@streaming_style("as OpenAI does: id and name first, then pieces by index")
def as_openai(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        place, id, name, _ = pieces[0]
        yield delta_chunk(tool_calls=[{"index": place, "id": id, "type": "function", "function": function_member(name, "")}])
        for _, _, _, arguments in pieces:
            yield delta_chunk(tool_calls=[{"index": place, "function": function_member(None, arguments)}])


@streaming_style("pieces of all calls by turns")
def by_turns(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for number in range(max(map(len, calls))):
        for pieces in reversed(calls):
            if number < len(pieces):
                place, id, name, arguments = pieces[number]
                start = (
                    {"id": id, "function": function_member(name, arguments)}
                    if number == 0
                    else {"function": function_member(None, arguments)}
                )
                yield delta_chunk(tool_calls=[{"index": place, **start}])


@streaming_style("id and name repeated in every piece")
def repeating(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for place, id, name, arguments in (piece for pieces in calls for piece in pieces):
        yield delta_chunk(tool_calls=[{"index": place, "id": id, "type": "function", "function": function_member(name, arguments)}])


@streaming_style("id and name repeated in every piece, no index")
def repeating_without_index(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for _, id, name, arguments in (piece for pieces in calls for piece in pieces):
        yield delta_chunk(tool_calls=[{"id": id, "function": function_member(name, arguments)}])


@streaming_style("a new id in every piece")
def new_ids(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (place, id, name, arguments) in enumerate(pieces):
            once = (
                {"id": id, "function": function_member(name, arguments)}
                if number == 0
                else {"id": f"other{number}", "function": function_member(None, arguments)}
            )
            yield delta_chunk(tool_calls=[{"index": place, **once}])


@streaming_style("no index, id and name first")
def without_index(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (_, id, name, arguments) in enumerate(pieces):
            yield delta_chunk(
                tool_calls=[
                    {"id": id, "function": function_member(name, arguments)}
                    if number == 0
                    else {"function": function_member(None, arguments)}
                ]
            )


@streaming_style("names null and ids empty after the first piece")
def with_nulls(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        for number, (place, id, name, arguments) in enumerate(pieces):
            first = number == 0
            called = {"name": name if first else None, "arguments": arguments}
            yield delta_chunk(
                tool_calls=[{"index": place, "id": id if first else "", "type": None, "function": called}], content=None, role=None
            )


@streaming_style("counted in two ways")
def counted_twice(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        place, id, name, _ = pieces[0]
        yield delta_chunk(tool_calls=[{"index": place + 5, "id": id, "function": function_member(name, "")}])
        for _, _, _, arguments in pieces:
            yield delta_chunk(tool_calls=[{"index": place, "function": function_member(None, arguments)}])


def join_arguments(pieces: list[CallPiece]) -> str:
    return "".join(arguments for _, _, _, arguments in pieces)


@streaming_style("whole calls, every index 0")
def whole_at_zero(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        yield delta_chunk(tool_calls=[{"index": 0, "id": pieces[0][1], "function": function_member(pieces[0][2], join_arguments(pieces))}])


@streaming_style("whole calls, no index, in one chunk")
def whole_at_once(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    yield delta_chunk(
        tool_calls=[{"id": pieces[0][1], "function": function_member(pieces[0][2], join_arguments(pieces))} for pieces in calls]
    )


@streaming_style("whole calls with arguments that are objects")
def whole_objects(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for place, pieces in enumerate(calls):
        called = function_member(pieces[0][2], json.loads(join_arguments(pieces)))
        yield delta_chunk(tool_calls=[{"index": place, "id": pieces[0][1], "function": called}])


@streaming_style("every call twice, whole")
def whole_twice(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    for pieces in calls:
        call = {"index": pieces[0][0], "id": pieces[0][1], "function": function_member(pieces[0][2], join_arguments(pieces))}
        yield delta_chunk(tool_calls=[call])
        yield delta_chunk(tool_calls=[call])


@streaming_style("a message in place of a delta")
def as_message(calls: list[list[CallPiece]]) -> Iterator[dict[str, Any]]:
    tool_calls = [{"id": pieces[0][1], "function": function_member(pieces[0][2], join_arguments(pieces))} for pieces in calls]
    yield {"choices": [{"message": {"role": "assistant", "tool_calls": tool_calls}, "finish_reason": None}]}


@st.composite
def several_calls(draw: st.DrawFn) -> list[list[CallPiece]]:
    """Generate calls with distinct ids, with their arguments cut anywhere."""
    calls: list[list[CallPiece]] = []
    for place in range(draw(st.integers(1, 3))):
        arguments = draw(st.dictionaries(st.text("ab{}\"' ", max_size=3), st.one_of(st.integers(), st.text("x{}", max_size=9)), max_size=2))
        text = json.dumps(arguments, separators=(",", ":"), sort_keys=True)
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
        bounds = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
        name = draw(STREAMED_TOOL_NAMES)
        calls.append([(place, f"call_{place}", name, text[low:high]) for low, high in bounds])
    return calls
