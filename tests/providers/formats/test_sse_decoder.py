"""Server-sent events are decoded as the WHATWG defines them, however the connection splits the bytes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.providers.formats.sse_decoder import ServerSentEvent, SSEDecoder

PIECES = [
    b"data: one", b"data:two", b"data:", b"data", b"data:  two spaces", b"data: a: b", b"datax: no", b"Data: no", b" data: no",
    b"event: kind", b"event", b"id: 7", b"id", b"id: \0", b"retry: 10", b"retry: soon", b": comment", b":", b"no field",
    b"\xc3\xa9", b"\xef", b"\xef\xbb\xbf", b" ", b"\0", b"\v", b"\f", "data: \u2028 \x85".encode(),
]  # fmt: skip
ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"]
STREAMS = st.lists(st.sampled_from(PIECES) | st.sampled_from(ENDS), max_size=20).map(b"".join)


def decode_by_specification(stream: bytes) -> list[ServerSentEvent]:
    """Decode a whole stream by the steps of the specification."""
    *lines, _ = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    events: list[ServerSentEvent] = []
    data = kind = last_id = b""
    for line in lines:
        if line == b"":
            if data:
                events.append(ServerSentEvent(data[:-1], kind.decode(errors="replace") or "message", last_id.decode(errors="replace")))
            data = kind = b""
            continue
        name, value = [*line.split(b":", 1), b""][:2]
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            data += value + b"\n"
        elif name == b"event":
            kind = value
        elif name == b"id" and b"\0" not in value:
            last_id = value
    return events


def decode_chunks(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = SSEDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(STREAMS, st.data())
def test_any_split_yields_the_specified_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode_chunks(*chunks) == decode_by_specification(stream)


@given(STREAMS)
def test_single_bytes_yield_the_specified_events(stream: bytes) -> None:
    assert decode_chunks(*(bytes([byte]) for byte in stream)) == decode_by_specification(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_event_is_yielded_when_its_line_ends(end: bytes) -> None:
    decoder = SSEDecoder()
    assert list(decoder.feed(b"data: 1" + end)) == []
    assert list(decoder.feed(end[:1])) == [ServerSentEvent(b"1")]
    assert list(decoder.feed(end[1:] + b"data: 2" + end + end)) == [ServerSentEvent(b"2")]


def test_byte_order_mark_hides_no_event() -> None:
    assert decode_chunks(b"\xef\xbb", b"\xbfdata: 1\n\n") == [ServerSentEvent(b"1")]
    assert decode_chunks(b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n") == [ServerSentEvent(b"2")]  # the second one is no mark


def test_id_persists_and_type_does_not() -> None:
    stream = b"id: 7\nevent: kind\ndata: 1\n\ndata: 2\n\nid\ndata: 3\n\n"
    assert decode_chunks(stream) == [ServerSentEvent(b"1", "kind", "7"), ServerSentEvent(b"2", id="7"), ServerSentEvent(b"3")]


def test_unfinished_event_is_not_yielded() -> None:
    assert decode_chunks(b"data: 1\n\ndata: 2\n") == [ServerSentEvent(b"1")]
