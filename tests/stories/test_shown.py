"""What did this agent see at that moment? (48)"""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder, Workflow, tool
from legato.core.view import Request
from legato.errors import BadInput
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import Asked
from tests.stories import checking


def desk(day: str) -> Workflow:
    @tool
    async def look() -> str:
        return f"seen on {day}"

    model = ScriptedModel(lambda seen: [call("look"), handoff("b"), "Yes."][seen.turn] if seen.turn < 3 else f"{day} again.")
    agents = [Agent("a", f"It is {day}.", model, [look]), Agent("b", f"Still {day}.", model)]
    return HandoffBuilder("desk", agents).build()


async def test_every_request_can_be_shown_from_the_ledger_alone_after_the_definition_has_changed(store: Store, stream: bool) -> None:
    asked: list[Request] = []
    for day, text in (("Monday", "Hello"), ("Tuesday", "And now?")):
        workflow = desk(day)
        await workflow.observed_by(Asked(asked)).session("s", store=store).run(text, stream=stream)
    later = desk("Friday").session("s", store=store)
    shown = [await later.seen(number) for number in range(len(asked))]
    assert [(request.frame, request.messages) for request in shown] == [(request.frame, request.messages) for request in asked]
    assert [request.frame.instructions for request in shown] == ["It is Monday."] * 2 + ["Still Monday.", "Still Tuesday."]
    assert [spec.name for spec in shown[0].frame.tools] == ["look", "handoff_to_b"]
    assert (await later.seen()).messages == asked[-1].messages
    assert checking.outputs(shown[1]) == ["seen on Monday"]
    with pytest.raises(BadInput, match="4 replies"):
        await later.seen(4)


async def test_a_copy_in_another_store_shows_the_same_requests(store: Store) -> None:
    workflow = desk("Monday")
    session = workflow.session("s", store=store)
    await session.run("Hello")
    copy = desk("Friday").load(await session.to_string())
    for number in range(3):
        mine, theirs = await copy.seen(number), await session.seen(number)
        assert (mine.frame, mine.messages) == (theirs.frame, theirs.messages)
