"""Random conversations through the providers' own SDKs over real HTTP: nothing is refused, and requests have the agents' views."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.providers.next_reply_model import NextReplyModel
from tests.providers.sweep.format_variants import VARIANTS
from tests.providers.sweep.http_conversations import find_differences, play_conversation, read_exchanges, serve_strictly
from tests.providers.sweep.seeded_bugs import seed_bug


@pytest.mark.parametrize("seeds", [range(35), range(35, 70)], ids=str)
async def test_random_http_conversations_are_legal_and_complete(seeds: range) -> None:
    fake_model, problems, requests = NextReplyModel(), list[str](), []
    async with serve_strictly(fake_model) as emulator:
        for seed in seeds:
            new_problems, new_requests = await play_conversation(seed, emulator, fake_model)
            problems += new_problems
            requests += new_requests
        assert problems + find_differences(await read_exchanges(emulator), requests) == []
        assert emulator.log.refusals == {}
    counts = Counter(variant.name for _, variant, _ in requests)
    assert {variant.name for variant in VARIANTS if counts[variant.name] < 10} == set()


@pytest.mark.parametrize("sentence", ["repeated ids are kept", "over Responses the last output of a reply is dropped"])
async def test_seeded_bug_is_found_over_http(sentence: str) -> None:
    fake_model = NextReplyModel()
    with seed_bug(sentence):
        async with serve_strictly(fake_model) as emulator:
            for seed in range(60):
                problems, requests = await play_conversation(seed, emulator, fake_model)
                if problems or find_differences(await read_exchanges(emulator), requests):
                    return
    pytest.fail("the bug was not detected")
