"""An attempt that left no words may have cost something: what the provider told of that is recorded, and part of the sums (D1)."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Prompt, Thought, Words
from tests.providers.crossing.test_usage import billed, counted, without_cost
from tests.providers.failures.test_retries import greeter
from tests.providers.failures.test_stopped_replies import Hesitant
from tests.providers.failures.wires import WIRES, attempts, line


@pytest.mark.parametrize("name", WIRES)
async def test_an_empty_reply_is_paid_for(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, Hesitant(2)) as wire:
        session = greeter(wire.model(name)).session("s")
        assert (await session.run("Hello")).text == "Hello!"
        told = [counted((exchange.reply or {})["usage"]) for exchange in await wire.exchanges()]
        assert [without_cost(attempt.usage) for attempt in attempts(session)] == told[:2]
        assert without_cost(session.usage) == await billed(wire)


async def test_a_message_that_breaks_off_after_it_said_what_was_read(at_once: None) -> None:
    """Anthropic says at the beginning of a stream what the input was."""

    def reply(prompt: Prompt) -> list[Any]:
        return [Thought("A guest."), Words("Hello, and welcome to the hall!")]

    async with line(True, reply) as wire:
        session = greeter(wire.model("anthropic")).session("s")
        for fault in ("cut event=9", "error_event after=9", "cut event=0"):
            wire.emulator.fault(fault)
        assert (await session.run("Hello")).status == "waiting"
        read = (await wire.exchanges())[-1].reply or {}
        expected = counted(read["usage"]).input
        assert [attempt.usage.input for attempt in attempts(session)] == [expected, expected, 0]
        assert session.usage.input == 3 * expected
