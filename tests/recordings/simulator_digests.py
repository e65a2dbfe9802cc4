"""The simulator's conversations, in digests: what models were asked, and what was recorded, one line per seed.

The simulator rolls its dice for everything, also for who runs next. So a version that takes one step more plays another conversation
under the same seed: digests that differ say something only where the steps are the same. Digests that do not differ say much.
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
from tests.recordings.plays import as_line, left_out

try:
    from tests.sim.administered_simulator import simulate_administered
    from tests.sim.random_workflows import make_random_workflow
except ImportError:  # an older commit, which is recorded to be compared with
    pass  # type: ignore[attr-defined, no-redef]

PASSING = ("at", "took", "retry_at")
"""Members of facts that are times: they follow from the number of steps."""


class _Digesting:
    """The simulator's model, beside somebody who writes down what it is asked, as three APIs would be."""

    def __init__(self, model: Any) -> None:
        self.name = model.name
        self._model = model
        self.digest = hashlib.blake2b(digest_size=12)
        self.asked = 0
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
        self.asked += 1
        for api in self._apis:
            self.digest.update(await api.body(request))
        return await self._model.reply(request, emit)


def digests(seeds: Iterable[int]) -> tuple[dict[int, str], dict[int, str]]:
    """For each seed: how many requests there were, and their digest; how many facts there are in the end, and their digest."""
    requests: dict[int, str] = {}
    facts: dict[int, str] = {}
    made: list[_Digesting] = []

    def between(model: Any) -> Any:
        made.append(_Digesting(model))
        return made[-1]

    for seed in seeds:
        simulate_administered(make_random_workflow, [seed], wrap_model=between)
        model = made.pop()
        lines = _facts(model.schedule.store) if model.schedule is not None else []
        requests[seed] = f"{model.asked} requests {model.digest.hexdigest()}"
        facts[seed] = f"{len(lines)} facts {hashlib.blake2b(chr(10).join(lines).encode(), digest_size=12).hexdigest()}"
    return requests, facts


def _facts(store: Any) -> list[str]:
    """The facts of all sessions that there are in the end."""
    return [
        f"{name} {position} {as_line(fact, {*PASSING, *left_out})}"
        for name in sorted(store._ledgers)
        for position, fact in enumerate(store._ledgers[name].facts)
    ]
