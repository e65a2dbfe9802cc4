"""The usage of failed attempts, as far as the provider reported it, is recorded and counted (D1)."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import ModelPrompt, ReplyText, ReplyThought
from tests.providers.cross_provider.test_usage import decode_usage, drop_cost, sum_billed_usage
from tests.providers.failures.emulator_harness import FORMATS, find_failed_requests, run_emulator
from tests.providers.failures.test_retries import make_greeter
from tests.providers.failures.test_stopped_replies import EmptyRepliesModel


@pytest.mark.parametrize("name", FORMATS)
async def test_usage_of_an_empty_reply_is_recorded(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, EmptyRepliesModel(2)) as harness:
        session = make_greeter(harness.make_model(name)).session("s")
        assert (await session.run("Hello")).text == "Hello!"
        usages = [decode_usage((exchange.reply_body or {})["usage"]) for exchange in await harness.read_exchanges()]
        assert [drop_cost(attempt.usage) for attempt in find_failed_requests(session)] == usages[:2]
        assert drop_cost(session.usage) == await sum_billed_usage(harness)


async def test_usage_of_a_broken_stream_is_recorded(without_backoff: None) -> None:
    """Anthropic reports the input tokens at the beginning of a stream."""

    def reply(prompt: ModelPrompt) -> list[Any]:
        return [ReplyThought("A guest."), ReplyText("Hello, and welcome to the hall!")]

    async with run_emulator(True, reply) as harness:
        session = make_greeter(harness.make_model("anthropic")).session("s")
        for fault in ("cut event=9", "error_event after=9", "cut event=0"):
            harness.emulator.fault(fault)
        assert (await session.run("Hello")).status == "waiting"
        read = (await harness.read_exchanges())[-1].reply_body or {}
        expected = decode_usage(read["usage"]).input
        assert [attempt.usage.input for attempt in find_failed_requests(session)] == [expected, expected, 0]
        assert session.usage.input == 3 * expected
