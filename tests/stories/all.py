"""Every story of this folder that can be told in any number of lives: `STORIES`, by its sentence."""

from __future__ import annotations

from legato.testing.story import Story
from tests.stories import approvals, autonomous, clients, handoffs, judging, nested, policies, tools

STORIES: dict[str, Story] = {}
for _part in (handoffs, approvals, tools, clients, nested, autonomous, judging, policies):
    assert not STORIES.keys() & _part.STORIES.keys(), "two stories have the same name"
    STORIES.update(_part.STORIES)
