"""Facts as rows: fewer bytes than one by one, and the very same facts again."""

import json
from pathlib import Path

import msgspec
import pytest

from legato.core.codec import decode, encode
from legato.core.fact_rows import BUNDLE, from_rows, to_rows
from legato.core.facts import MessageReceived, Opened
from legato.errors import CodecError, NewerFormat

LEDGERS = sorted((Path(__file__).parent / "golden_ledgers").rglob("*.jsonl"))


def bundle(*rows):
    return [msgspec.Raw(json.dumps(rows).encode())]


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_what_is_read_from_rows_is_what_was_written(path):
    facts = [decode(line) for line in path.read_bytes().splitlines()]
    shapes, rows = to_rows(facts)
    assert from_rows(shapes, rows) == facts
    assert list(map(encode, from_rows(shapes, rows))) == list(map(encode, facts))


def test_facts_of_more_than_one_bundle_whose_clock_steps_back_keep_their_order_and_times():
    facts = [Opened(ledger="x", workflow="w", at=5_000), *(MessageReceived(f"word {number}", at=5_000 - number) for number in range(2 * BUNDLE))]
    shapes, bundles = to_rows(facts)
    assert len(bundles) == 3
    assert from_rows(shapes, bundles) == facts


def test_no_facts_are_no_rows():
    assert from_rows(*to_rows([])) == []


SAID = ["message_received", "content", "at"]
BROKEN = {
    "a shape of no fact": ([["sung", "content", "at"]], bundle([0, "x", 1])),
    "a shape without a time at its end": ([["message_received", "at", "content"]], bundle([0, 1, "x"])),
    "a shape with a name twice": ([["message_received", "content", "content", "at"]], bundle([0, "x", "y", 1])),
    "a shape that says twice what it is": ([["message_received", "content", "fact", "at"]], bundle([0, "x", "message_received", 1])),
    "an empty shape": ([[]], bundle([0, 1])),
    "an unknown name": ([["message_received", "content", "colour", "at"]], bundle([0, "x", "red", 1])),
    "a number of no shape": ([SAID], bundle([1, "x", 1])),
    "a negative number": ([SAID], bundle([-1, "x", 1])),
    "a shape that is no number": ([SAID], bundle([True, "x", 1])),
    "an empty row": ([SAID], bundle([])),
    "a row that is too short": ([SAID], bundle([0, 1])),
    "a row that is too long": ([SAID], bundle([0, "x", "y", 1])),
    "a time that is none": ([SAID], bundle([0, "x", "soon"])),
    "a value of a wrong type": ([SAID], bundle([0, 7, 1])),
    "a bundle that is none": ([SAID], [msgspec.Raw(b'"x"')]),
}


@pytest.mark.parametrize(("shapes", "rows"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_row_is_refused(shapes, rows):
    with pytest.raises((ValueError, CodecError)):
        from_rows(shapes, rows)


def test_a_ledger_of_a_newer_format_is_refused_by_name_whatever_else_it_has():
    with pytest.raises(NewerFormat, match="format 2"):
        from_rows([["opened", "ledger", "colour", "format", "at"]], bundle([0, "x", "red", 2, 1]))
