"""A sample of `make fuzz`: mutated bytes give a value or one of the decoder's own errors, and nothing else."""

import pytest

from legato.core.codec import decode_fact
from tests.fuzz.decoder_fuzzer import DecoderTarget, fuzz_decoder, make_targets

TARGETS = make_targets()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_raise_only_decoder_errors(name):
    *_, report = fuzz_decoder(TARGETS[name], 3_000, seed=7)
    assert not report.failures
    assert report.refusal_counts, "the mutations changed nothing that matters: this test checks nothing"


def test_unexpected_decoder_error_is_found():
    def decode_carelessly(data: bytes) -> object:
        return decode_fact(data) if b"message_received" in data else data.decode()

    *_, report = fuzz_decoder(DecoderTarget(decode_carelessly, TARGETS["a fact"].seeds, TARGETS["a fact"].expected_errors), 3_000, seed=7)
    assert any("UnicodeDecodeError" in failure for failure in report.failures)
