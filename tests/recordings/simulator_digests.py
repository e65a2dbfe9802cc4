"""Digests of the simulator's conversations: the model requests and the facts, one line per seed.

The simulator chooses everything at random, also the task that runs next. So a version that takes one step more gets another conversation
from the same seed: different digests mean a change only if the steps are the same. Equal digests mean equal conversations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import anthropic
import openai

from legato.core.view import ModelRequest
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.testing.simulated_workflow import current_schedule
from tests.recordings.models import HOST, KEY
from tests.recordings.story_runs import omitted_fields, render_fact

try:
    from tests.sim.administered_simulator import simulate_administered
    from tests.sim.random_workflows import make_random_workflow
except ImportError:  # an older commit, which is recorded to be compared with
    pass  # type: ignore[attr-defined, no-redef]

TIME_FIELDS = ("at", "took", "retry_at")
"""Fields of facts that are times: they depend on the number of steps."""


class _RequestDigester:
    """A wrapper of the simulator's model that digests each request in the formats of three APIs."""

    def __init__(self, model: Any) -> None:
        self.name = model.name
        self._model = model
        self.digest = hashlib.blake2b(digest_size=12)
        self.request_count = 0
        self.schedule: Any = None
        openai_client = openai.AsyncOpenAI(base_url=f"{HOST}/v1", api_key=KEY)
        anthropic_client = anthropic.AsyncAnthropic(base_url=HOST, api_key=KEY)
        self._apis: tuple[Any, ...] = (
            OpenAIResponses("gpt-5", client=openai_client),
            OpenAIChat("gpt-5", client=openai_client),
            Anthropic("claude-sonnet-5-5", client=anthropic_client),
        )

    async def reply(self, request: ModelRequest, emit: Any) -> Any:
        self.schedule = current_schedule.get()
        self.request_count += 1
        for api in self._apis:
            self.digest.update(await api.body(request))
        return await self._model.reply(request, emit)


def digest_simulations(seeds: Iterable[int]) -> tuple[dict[int, str], dict[int, str]]:
    """Return two lines for each seed: the number and digest of its requests, and the number and digest of its facts in the end."""
    requests: dict[int, str] = {}
    facts: dict[int, str] = {}
    digesters: list[_RequestDigester] = []

    def wrap_model(model: Any) -> Any:
        digesters.append(_RequestDigester(model))
        return digesters[-1]

    for seed in seeds:
        simulate_administered(make_random_workflow, [seed], wrap_model=wrap_model)
        model = digesters.pop()
        lines = _render_facts(model.schedule.store) if model.schedule is not None else []
        requests[seed] = f"{model.request_count} requests {model.digest.hexdigest()}"
        facts[seed] = f"{len(lines)} facts {hashlib.blake2b(chr(10).join(lines).encode(), digest_size=12).hexdigest()}"
    return requests, facts


def _render_facts(store: Any) -> list[str]:
    """Render the facts of all sessions that exist in the end."""
    return [
        f"{name} {position} {render_fact(fact, {*TIME_FIELDS, *omitted_fields})}"
        for name in sorted(store._ledgers)
        for position, fact in enumerate(store._ledgers[name].facts)
    ]
