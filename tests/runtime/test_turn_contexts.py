"""Turn contexts: the reason of a handoff is shown once, by its call or, if a policy hides the call, by a note."""

from __future__ import annotations

import pytest

from legato import Agent, HandoffBuilder
from legato.history import custom, dialogue, everything, last, own_tools, since_handoff
from legato.testing import ScriptedModel, handoff


@pytest.mark.parametrize(
    "policy",
    [everything(), since_handoff(), last(1), last(3), dialogue(), own_tools(), custom(lambda groups: groups[:1])],
    ids=["everything", "since_handoff", "last(1)", "last(3)", "dialogue", "own_tools", "custom"],
)
async def test_handoff_reason_appears_once_under_every_policy(policy: object) -> None:
    model = ScriptedModel(by_agent={"front": [["One moment.", handoff("back", "teapot broken")]], "back": ["I see.", "Yes."]})
    front, back = Agent("front", model=model), Agent("back", model=model, history=policy)  # type: ignore[arg-type]
    desk = HandoffBuilder("desk", [front, back]).add_handoff(front, [back]).add_handoff(back, [front]).build()
    session = desk.session("s")
    await session.run("Hello")
    first = str((await session.seen()).messages)
    assert first.count("teapot broken") == 1
    await session.run("Are you there?")
    again = str((await session.seen()).messages)
    assert again.count("teapot broken") == 1
