"""`ScriptedModel` keeps the newest requests, under the numbers that they always had."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder
from legato.errors import BadInput
from legato.testing import ScriptedModel


async def hold_conversation(turns: int, keep_requests: int) -> ScriptedModel:
    model = ScriptedModel(lambda seen: f"reply {seen.reply_count}", keep_requests=keep_requests)
    clerk = Agent(name="clerk", instructions="Answer.", model=model)
    session = HandoffBuilder(name="desk", participants=[clerk]).build().session()
    for turn in range(turns):
        await session.run(f"question {turn}")
    return model


async def test_newest_requests_keep_their_numbers() -> None:
    model = await hold_conversation(turns=5, keep_requests=2)
    assert len(model.requests) == 5
    assert model.requests[4] is model.requests[-1]
    assert [request.reply_count for request in model.requests[3:]] == [3, 4]


async def test_dropped_request_names_the_option() -> None:
    model = await hold_conversation(turns=5, keep_requests=2)
    with pytest.raises(BadInput, match=r"request 2 .*no longer kept") as error:
        model.requests[2]
    assert "keep_requests=5" in str(error.value)


async def test_iterating_over_dropped_requests_raises() -> None:
    model = await hold_conversation(turns=3, keep_requests=2)
    with pytest.raises(BadInput, match="request 0"):
        list(model.requests)


async def test_all_requests_of_short_scripts_are_kept() -> None:
    model = await hold_conversation(turns=3, keep_requests=100)
    assert [request.reply_count for request in model.requests] == [0, 1, 2]


def test_keeping_no_requests_is_refused() -> None:
    with pytest.raises(BadInput, match="keep_requests"):
        ScriptedModel(["hello"], keep_requests=0)
