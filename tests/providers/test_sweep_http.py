"""Random conversations through the providers' own SDKs over real HTTP: nothing is refused, and each agent is told what it should see."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.providers.sweep.bugs import seeded
from tests.providers.sweep.http import Mouth, converse, differences, noted, running
from tests.providers.sweep.lines import LINES


@pytest.mark.parametrize("seeds", [range(35), range(35, 70)], ids=str)
async def test_random_conversations_over_http(seeds: range) -> None:
    mouth, wrong, asked = Mouth(), list[str](), []
    async with running(mouth) as emulator:
        for seed in seeds:
            found, requests = await converse(seed, emulator, mouth)
            wrong += found
            asked += requests
        assert wrong + differences(await noted(emulator), asked) == []
        assert emulator.log.refusals == {}
    counted = Counter(line.name for _, line, _ in asked)
    assert {line.name for line in LINES if counted[line.name] < 10} == set()


@pytest.mark.parametrize("sentence", ["ids that come twice are kept", "over Responses the last output of a reply is dropped"])
async def test_a_bug_is_found_over_http(sentence: str) -> None:
    mouth = Mouth()
    with seeded(sentence):
        async with running(mouth) as emulator:
            for seed in range(60):
                wrong, asked = await converse(seed, emulator, mouth)
                if wrong or differences(await noted(emulator), asked):
                    return
    pytest.fail("nobody sees it")
