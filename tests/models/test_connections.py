"""Connections are closed: at the end of the event loop, and when nobody holds the model any more."""

from __future__ import annotations

import asyncio
import gc

import pytest

from legato import Agent
from legato.emulator import stand_in
from legato.models import sdk


@pytest.mark.parametrize("model", ["openai:gpt-5.1", "openai-chat:gpt-4o", "azure:mine", "anthropic:claude-sonnet-5"])
async def test_a_model_that_nobody_holds_any_more_is_closed_while_the_loop_goes_on(model: str) -> None:
    open_before = set(sdk._open)
    async with stand_in(quiet=True):
        for _ in range(3):
            assert (await Agent("clerk", model=model).run("Hello")).status == "waiting"
        assert set(sdk._open) - open_before
        gc.collect()  # a socket that is torn down here, rather than closed, warns; and warnings are errors
        for _ in range(100):
            if set(sdk._open) == open_before:
                break
            await asyncio.sleep(0.01)
        assert set(sdk._open) == open_before


def test_the_end_of_the_loop_closes_what_is_open() -> None:
    clerk = Agent("clerk", model="openai:gpt-5.1")
    open_before = set(sdk._open)
    with stand_in(quiet=True):
        for _ in range(2):  # each in a loop of its own
            assert clerk.run_sync("Hello").status == "waiting"
            assert set(sdk._open) == open_before
