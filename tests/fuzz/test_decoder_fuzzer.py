"""A sample of `make fuzz`: mutated bytes give a value or the decoder's own error, and nothing else."""

import pytest

from legato.core.codec import decode_fact
from tests.fuzz.hostile import Target, attack, targets

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_give_nothing_but_the_decoders_own_error(name):
    *_, findings = attack(TARGETS[name], 3_000, seed=7)
    assert not findings.wrong
    assert findings.refused, "the mutations did no harm: this test sees nothing"


def test_a_decoder_that_lets_another_error_through_is_found():
    def careless(data: bytes) -> object:
        return decode_fact(data) if b"said" in data else data.decode()

    *_, findings = attack(Target(careless, TARGETS["a fact"].seeds, TARGETS["a fact"].own), 3_000, seed=7)
    assert any("UnicodeDecodeError" in wrong for wrong in findings.wrong)
