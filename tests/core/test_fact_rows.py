"""Facts as rows: encoding and decoding gives the same facts."""

import json
from pathlib import Path

import msgspec
import pytest

from legato.core.codec import decode_fact, encode_fact
from legato.core.fact_rows import ROWS_PER_BUNDLE, decode_rows, encode_rows
from legato.core.facts import MessageReceived, Opened
from legato.errors import CodecError, NewerFormat

LEDGERS = sorted((Path(__file__).parent / "golden_ledgers").rglob("*.jsonl"))


def make_bundle(*rows):
    return [msgspec.Raw(json.dumps(rows).encode())]


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_decoding_rows_returns_the_encoded_facts(path):
    facts = [decode_fact(line) for line in path.read_bytes().splitlines()]
    shapes, rows = encode_rows(facts)
    assert decode_rows(shapes, rows) == facts
    assert list(map(encode_fact, decode_rows(shapes, rows))) == list(map(encode_fact, facts))


def test_bundles_keep_order_and_times_of_facts():
    """Facts in several bundles keep their order and their times, even if the clock stepped back."""
    facts = [Opened(ledger_id="x", workflow="w", at=5_000), *(MessageReceived(f"word {number}", at=5_000 - number) for number in range(2 * ROWS_PER_BUNDLE))]
    shapes, bundles = encode_rows(facts)
    assert len(bundles) == 3
    assert decode_rows(shapes, bundles) == facts


def test_no_facts_give_no_rows():
    assert decode_rows(*encode_rows([])) == []


MESSAGE_SHAPE = ["message_received", "content", "at"]
BROKEN = {
    "a shape of no fact": ([["sung", "content", "at"]], make_bundle([0, "x", 1])),
    "a shape without a time at its end": ([["message_received", "at", "content"]], make_bundle([0, 1, "x"])),
    "a shape with a name twice": ([["message_received", "content", "content", "at"]], make_bundle([0, "x", "y", 1])),
    "a shape that says twice what it is": ([["message_received", "content", "fact", "at"]], make_bundle([0, "x", "message_received", 1])),
    "an empty shape": ([[]], make_bundle([0, 1])),
    "an unknown name": ([["message_received", "content", "colour", "at"]], make_bundle([0, "x", "red", 1])),
    "a number of no shape": ([MESSAGE_SHAPE], make_bundle([1, "x", 1])),
    "a negative number": ([MESSAGE_SHAPE], make_bundle([-1, "x", 1])),
    "a shape that is no number": ([MESSAGE_SHAPE], make_bundle([True, "x", 1])),
    "an empty row": ([MESSAGE_SHAPE], make_bundle([])),
    "a row that is too short": ([MESSAGE_SHAPE], make_bundle([0, 1])),
    "a row that is too long": ([MESSAGE_SHAPE], make_bundle([0, "x", "y", 1])),
    "a time that is none": ([MESSAGE_SHAPE], make_bundle([0, "x", "soon"])),
    "a value of a wrong type": ([MESSAGE_SHAPE], make_bundle([0, 7, 1])),
    "a bundle that is none": ([MESSAGE_SHAPE], [msgspec.Raw(b'"x"')]),
}


@pytest.mark.parametrize(("shapes", "rows"), BROKEN.values(), ids=BROKEN)
def test_broken_rows_are_refused_as_errors(shapes, rows):
    with pytest.raises((ValueError, CodecError)):
        decode_rows(shapes, rows)


def test_newer_format_is_refused_by_name():
    """A newer format is refused by name, even if the shape has unknown fields."""
    with pytest.raises(NewerFormat, match="format 2"):
        decode_rows([["opened", "ledger", "colour", "format", "at"]], make_bundle([0, "x", "red", 2, 1]))
