"""Past model requests, rebuilt from the ledger (48)."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.view import ModelRequest
from legato.errors import BadInput
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import RequestRecorder
from tests.stories import conversation_checks


def build_desk(day: str) -> Workflow:
    @tool
    async def look() -> str:
        return f"seen on {day}"

    model = ScriptedModel(lambda seen: [call("look"), handoff("b"), "Yes."][seen.reply_count] if seen.reply_count < 3 else f"{day} again.")
    agents = [Agent("a", f"It is {day}.", model, [look]), Agent("b", f"Still {day}.", model)]
    return HandoffBuilder("desk", agents).build()


async def test_past_requests_are_rebuilt_from_the_ledger(store: Store, stream: bool) -> None:
    """Every request is rebuilt from the ledger alone, after the definition has changed."""
    requests: list[ModelRequest] = []
    for day, text in (("Monday", "Hello"), ("Tuesday", "And now?")):
        workflow = build_desk(day)
        await workflow.with_middleware(RequestRecorder(requests)).session("s", store=store).run(text, stream=stream)
    later = build_desk("Friday").session("s", store=store)
    rebuilt = [await later.seen(number) for number in range(len(requests))]
    assert [(request.turn_context, request.messages) for request in rebuilt] == [
        (request.turn_context, request.messages) for request in requests
    ]
    assert [request.turn_context.instructions for request in rebuilt] == ["It is Monday."] * 2 + ["Still Monday.", "Still Tuesday."]
    assert [spec.name for spec in rebuilt[0].turn_context.tools] == ["look", "handoff_to_b"]
    assert (await later.seen()).messages == requests[-1].messages
    assert conversation_checks.list_outputs(rebuilt[1]) == ["seen on Monday"]
    with pytest.raises(BadInput, match="4 replies"):
        await later.seen(4)


async def test_copy_rebuilds_the_same_requests(store: Store) -> None:
    workflow = build_desk("Monday")
    session = workflow.session("s", store=store)
    await session.run("Hello")
    copy = build_desk("Friday").load(await session.to_string())
    for number in range(3):
        copied, original = await copy.seen(number), await session.seen(number)
        assert (copied.turn_context, copied.messages) == (original.turn_context, original.messages)
