"""The strict codec: it decodes what it encodes, refuses what it does not know, and reads old ledgers."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.core.codec import FORMATS, decode_fact, encode_fact
from legato.core.facts import (
    LEDGER_FORMAT,
    MAX_COUNT,
    MAX_TIME_MS,
    AnyFact,
    CallRef,
    ChildUsageReported,
    Count,
    Index,
    MessageReceived,
    Opened,
    TimeMs,
    Usage,
)
from legato.core.state import fold
from legato.errors import CodecError, NewerFormat
from tests.core.golden import GOLDEN, find_folder, read_lines

TYPES = AnyFact.__args__
BOUNDS = {Count: (0, MAX_COUNT), Index: (-1, MAX_COUNT), TimeMs: (0, MAX_TIME_MS)}
COUNTS = st.integers(*BOUNDS[Count])
st.register_type_strategy(CallRef, st.builds(CallRef, COUNTS, COUNTS))
st.register_type_strategy(Usage, st.builds(Usage, *[COUNTS] * 6))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_golden_ledgers_have_every_kind_of_fact(kind):
    assert any(type(decode_fact(line)) is kind for path in find_folder(LEDGER_FORMAT).glob("*.jsonl") for line in read_lines(path))


@given(st.data())
def test_decoding_returns_the_encoded_fact(data):
    kind = data.draw(st.sampled_from(TYPES))
    fact = data.draw(st.builds(kind, **_strategies(kind)))
    assert decode_fact(encode_fact(fact)) == fact


def _strategies(kind):
    text = st.text(st.characters(exclude_categories=["Cs"]))
    found = {}
    for field in msgspec.structs.fields(kind):
        if field.type in ("str", str):
            found[field.name] = text
        elif field.name == "format":
            found[field.name] = st.just(LEDGER_FORMAT)
        elif field.type in BOUNDS:
            found[field.name] = st.integers(*BOUNDS[field.type])
        elif field.type == tuple[Count, ...]:
            found[field.name] = st.lists(COUNTS).map(tuple)
        elif field.required:
            found[field.name] = st.from_type(field.type) if not isinstance(field.type, str) else text
    return found


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_number_in_a_fact_has_bounds(kind):
    """Facts come from other stores, strings and providers, and code does arithmetic with them: a number out of bounds is an error."""
    numbers = [field.encode_name for field in msgspec.structs.fields(kind) if field.type in BOUNDS]
    assert not [field for field in msgspec.structs.fields(kind) if field.type is int and field.name != "format"]
    fact = next(decode_fact(line) for path in find_folder(LEDGER_FORMAT).glob("*.jsonl") for line in read_lines(path) if type(decode_fact(line)) is kind)
    for name in numbers:
        for number in (-2, 2**53 + 1, 2**63 - 1, 10**30):
            members = {**msgspec.to_builtins(fact), name: number}
            with pytest.raises(CodecError, match=rf"Expected `int` [<>]= -?\d+ - at `\$\.{name}`"):
                decode_fact(msgspec.json.encode(members) if number < 2**63 else json.dumps(members).encode())


def test_sums_of_usage_stay_recordable():
    most = Usage(*[MAX_COUNT] * 6)
    report = ChildUsageReported(at=1, call=CallRef(1, 0), agents=(("a", most + most),), turns=MAX_COUNT)
    assert decode_fact(encode_fact(report)) == report


GOLDENS = [pytest.param(path, id=f"format {path.parent.name}: {path.stem}") for path in sorted(GOLDEN.rglob("*.jsonl"))]


@pytest.mark.parametrize("path", GOLDENS)
def test_ledger_of_each_released_format_folds(path):
    facts = [decode_fact(line, int(path.parent.name)) for line in read_lines(path)]
    state = fold(facts)
    assert state.length == len(facts) > 1


@pytest.mark.parametrize("path", [case for case in GOLDENS if case.values[0].parent.name == str(LEDGER_FORMAT)])
def test_present_format_is_encoded_byte_for_byte(path):
    """Encoding a golden ledger of the present format gives the same bytes."""
    assert [encode_fact(decode_fact(line)) for line in read_lines(path)] == read_lines(path)


def test_every_format_has_decoder_and_golden_ledgers():
    assert list(FORMATS) == list(range(1, LEDGER_FORMAT + 1))
    assert all(list(find_folder(format).glob("*.jsonl")) for format in FORMATS)


def test_newer_format_is_refused_by_name():
    newer = json.dumps({"fact": "opened", "at": 1, "ledger": "x", "workflow": "w", "format": LEDGER_FORMAT + 1, "shape": "unknown"})
    with pytest.raises(NewerFormat, match=f"format {LEDGER_FORMAT + 1}, written by a newer Legato"):
        decode_fact(newer.encode())
    with pytest.raises(NewerFormat):
        decode_fact(encode_fact(Opened(at=1, ledger_id="x", workflow="w", format=LEDGER_FORMAT + 1)))
    with pytest.raises(NewerFormat):
        decode_fact(b"{}", LEDGER_FORMAT + 1)


REFUSED = {
    "no JSON": b"nonsense",
    "nothing": b"",
    "a list": b"[]",
    "an unknown fact": b'{"fact":"forgot","at":1}',
    "a fact without its time": b'{"fact":"message_received","content":"x"}',
    "an unknown field": b'{"fact":"message_received","at":1,"content":"x","colour":"red"}',
    "a wrong type": b'{"fact":"message_received","at":"soon","content":"x"}',
    "bytes that are not UTF-8": b'{"fact":"message_received","at":1,"content":"\xff"}',
    "a torn write": b'{"fact":"message_received","at":1,"cont',
    "something behind the fact": b'{"fact":"message_received","at":1,"content":"x"} {}',
    "a depth that would exhaust the stack": b'{"fact":"message_received","at":1,"content":' + b"[" * 100_000,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_undecodable_bytes_give_one_clear_error(data):
    with pytest.raises(CodecError) as refusal:
        decode_fact(data)
    assert "do " in str(refusal.value)


def test_text_that_cannot_be_encoded_is_refused():
    with pytest.raises(CodecError, match="cannot be written"):
        encode_fact(MessageReceived(at=1, content="\ud800"))
