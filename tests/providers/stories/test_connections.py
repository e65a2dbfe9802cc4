"""Connections between a story and its provider: what one that is lost does to a story, and that the provider loses none."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from legato.core.facts import ModelRequestFailed
from legato.core.view import Request
from legato.emulator.running import KEEP_ALIVE
from legato.errors import ModelFailed
from legato.models.base import Emit, Reply
from legato.stores import MemoryStore
from tests.providers.stories.telling import Travelled, check, recorded, tell
from tests.providers.stories.traffic import Provider
from tests.providers.stories.wires import WIRES
from tests.stories.nested import STORIES

pytestmark = pytest.mark.asyncio(loop_scope="session")

STORY = STORIES["an agent as a tool asks people: approve, reject and edit in the outer session, and both conversations go on"]
WIRE = "responses inline"


class Disconnected:
    """A model whose connection is closed under one agent's first request, before the provider has heard any of it."""

    def __init__(self, model: Any, agent: str) -> None:
        self.model = model
        self.agents = [agent]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        if request.agent in self.agents:
            self.agents.remove(request.agent)
            raise ModelFailed("Server disconnected without sending a response.", retryable=True, retry_after=0.0)
        reply: Reply = await self.model.reply(request, emit)
        return reply


async def test_a_request_that_never_arrived_is_one_more_fact_and_the_story_over_a_wire_says_which(
    emulated: Provider, models: dict[tuple[str, bool], Any]
) -> None:
    whole = await _told(emulated, models[WIRE, True])
    broken = await _told(emulated, Disconnected(models[WIRE, True], "clerk"))
    check(whole)
    with pytest.raises(AssertionError, match="clerk in turn 2: Server disconnected"):
        check(broken)
    (attempted,) = [fact for fact in broken.session.facts if isinstance(fact, ModelRequestFailed)]
    assert (attempted.agent, attempted.upto) == ("clerk", 10)
    more, less = recorded(broken) - recorded(whole), recorded(whole) - recorded(broken)
    assert (more.total(), less.total()) == (2, 1)  # the attempt; and the reply, which saw up to 9 instead of 8


async def _told(provider: Provider, model: Any) -> Travelled:
    return await tell(STORY, provider, WIRES[WIRE], model, True, MemoryStore())


@pytest.mark.parametrize("sdk", [openai, anthropic])
async def test_an_idle_connection_is_let_go_of_by_the_client_long_before_the_emulator_would_close_it(emulated: Provider, sdk: Any) -> None:
    running = emulated.emulator._running
    assert running is not None
    assert running._server.config.timeout_keep_alive == KEEP_ALIVE > 2 * sdk.DEFAULT_CONNECTION_LIMITS.keepalive_expiry
