"""Connections to a provider: the effect of a lost one on a story, and idle connections."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from legato.core.facts import ModelRequestFailed
from legato.core.view import ModelRequest
from legato.emulator.server import KEEP_ALIVE_TIMEOUT_S
from legato.errors import ModelFailed
from legato.models.model import Emit, ModelReply
from legato.stores import MemoryStore
from tests.providers.stories.recording_provider import RecordingProvider
from tests.providers.stories.story_formats import FORMATS
from tests.providers.stories.story_player import PlayedStory, check_story, count_recorded_facts, play_story
from tests.stories.child_sessions import STORIES

pytestmark = pytest.mark.asyncio(loop_scope="session")

STORY = STORIES["an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on"]
FORMAT = "responses inline"


class DisconnectedModel:
    """A model whose connection closes at one agent's first request, before the provider receives it."""

    def __init__(self, model: Any, agent: str) -> None:
        self.model = model
        self.agents = [agent]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        if request.agent in self.agents:
            self.agents.remove(request.agent)
            raise ModelFailed("Server disconnected without sending a response.", retryable=True, retry_after=0.0)
        reply: ModelReply = await self.model.reply(request, emit)
        return reply


async def test_lost_request_is_recorded_and_reported(emulated: RecordingProvider, models: dict[tuple[str, bool], Any]) -> None:
    whole = await _play(emulated, models[FORMAT, True])
    broken = await _play(emulated, DisconnectedModel(models[FORMAT, True], "clerk"))
    check_story(whole)
    with pytest.raises(AssertionError, match="clerk in turn 2: Server disconnected"):
        check_story(broken)
    (attempted,) = [fact for fact in broken.session.facts if isinstance(fact, ModelRequestFailed)]
    assert (attempted.agent, attempted.upto) == ("clerk", 10)
    more, less = count_recorded_facts(broken) - count_recorded_facts(whole), count_recorded_facts(whole) - count_recorded_facts(broken)
    assert (more.total(), less.total()) == (2, 1)  # the failed attempt, and the reply, whose view ends at 9 instead of 8


async def _play(provider: RecordingProvider, model: Any) -> PlayedStory:
    return await play_story(STORY, provider, FORMATS[FORMAT], model, True, MemoryStore())


@pytest.mark.parametrize("sdk", [openai, anthropic])
async def test_clients_close_idle_connections_before_the_emulator(emulated: RecordingProvider, sdk: Any) -> None:
    running = emulated.emulator._server_thread
    assert running is not None
    assert running._server.config.timeout_keep_alive == KEEP_ALIVE_TIMEOUT_S > 2 * sdk.DEFAULT_CONNECTION_LIMITS.keepalive_expiry
