"""All stories of this folder that can be played across any number of process deaths: `STORIES`, by title."""

from __future__ import annotations

from legato.testing.story import Story
from tests.stories import approvals, autonomous, child_sessions, client_tools, guardrails, handoffs, history_policies, tool_calls

STORIES: dict[str, Story] = {}
for _module in (handoffs, approvals, tool_calls, client_tools, child_sessions, autonomous, guardrails, history_policies):
    assert not STORIES.keys() & _module.STORIES.keys(), "two stories have the same name"
    STORIES.update(_module.STORIES)
