"""A request costs its new groups only, however long the conversation is: counted in work, not in time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator.fake_models.base import FakeReply
from legato.models.model import Emit
from legato.providers.formats import comparable_history, incremental_encoder
from legato.providers.formats.anthropic import encode as anthropic
from legato.providers.formats.chat import encode as chat
from legato.providers.formats.group_cache import clear_group_caches, get_group_cache
from legato.providers.formats.responses import encode as responses
from legato.providers.formats.responses import stored_history
from legato.providers.rules import rule_set
from legato.runtime.session import Session
from tests.providers.long_conversation import make_desk, make_question, reply_to_question
from tests.providers.sweep.format_variants import VARIANTS, FormatVariant, InProcessProvider

EARLY_TURNS, LATE_TURNS = range(21, 61), range(81, 121)


class InProcessModel:
    """A model that calls the emulator's code in this process, with the replies of the long conversation."""

    def __init__(self, line: FormatVariant) -> None:
        self.name = line.name
        self.options_text = line.options.to_json()
        self._line = line
        self._provider = InProcessProvider("work")

    async def conversation_for(self, request: ModelRequest) -> str:
        return self._provider.conversation_for(self._line, request)

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        compiled = self._line.encode(request, stream=False)
        dialect, ask = self._provider.get_adapter(self._line), self._provider.make_request(self._line, msgspec.json.decode(compiled.body))
        assert [*compiled.violations, *dialect.find_violations(ask)] == []
        dialect.acquire_locks(ask)
        answer = dialect.make_reply(ask, FakeReply(tuple(reply_to_question(dialect.make_prompt(ask)))))
        dialect.store_reply(ask, answer)
        dialect.release_locks(ask)
        return self._line.decode(answer, compiled, emit, stream=False)


class WorkCounter:
    """Counts the work of encoders and decoders."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self._patch = patch
        self._count(incremental_encoder.IncrementalEncoder, "_needs_own_ids", "groups visited")
        self._count(responses._GroupEncoder, "encode_group", "groups encoded")
        self._count(chat._GroupEncoder, "encode_group", "groups encoded")
        self._count(anthropic, "_encode_group", "groups encoded")
        self._count(comparable_history, "_digest_value", "elements digested")
        for module in (responses, chat, anthropic):
            self._count(module, "_encode", "bytes encoded", len)
        self._count(rule_set.Phase, "select_rules", "phases checked")

    def _count(self, owner: Any, name: str, kind: str, measure: Any = lambda result: 1) -> None:
        before = getattr(owner, name)

        def count(*arguments: Any, **more: Any) -> Any:
            result = before(*arguments, **more)
            self.counts[kind] += measure(result)
            return result

        self._patch.setattr(owner, name, count)


async def count_work_per_turn(line: FormatVariant, patch: pytest.MonkeyPatch) -> tuple[list[Counter[str]], Session]:
    """Count the work of each turn of a long conversation, without the provider's work."""
    work, turns = WorkCounter(patch), list[Counter[str]]()
    model = InProcessModel(line)
    dialect = type(model._provider.get_adapter(line))
    find_violations = dialect.find_violations

    def find_uncounted(self: Any, ask: Any) -> Any:  # the emulator checks the same rules: that is the provider's work
        before = Counter(work.counts)
        try:
            return find_violations(self, ask)
        finally:
            work.counts = before

    patch.setattr(dialect, "find_violations", find_uncounted)
    session = make_desk(model).session("s")
    for number in range(1, LATE_TURNS.stop):
        work.counts = Counter()
        await session.run(make_question(number))
        turns.append(work.counts)
    return turns, session


def find_maximum(turns: list[Counter[str]], numbers: range) -> dict[str, int]:
    """Return the maximum of each count over these turns."""
    names = sorted({name for turn in turns for name in turn})
    return {name: max(turns[number - 1][name] for number in numbers) for name in names}


@pytest.mark.parametrize("line", VARIANTS, ids=lambda line: line.name)
async def test_late_turns_take_no_more_work(line: FormatVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, session = await count_work_per_turn(line, monkeypatch)
    early, late = find_maximum(turns, EARLY_TURNS), find_maximum(turns, LATE_TURNS)
    assert {name: (late[name], early[name]) for name in late if late[name] > 1.05 * early[name]} == {}
    assert late["groups visited"] > 1
    cached_encoders = [
        value
        for group in session.state.groups
        for value in get_group_cache(group).values()
        if isinstance(value, incremental_encoder.IncrementalEncoder)
    ]
    assert len(cached_encoders) <= 2, "one encoder per agent is cached, and no old one"


@pytest.mark.parametrize("line", VARIANTS[::2], ids=lambda line: line.name)
async def test_growing_work_is_detected(line: FormatVariant, monkeypatch: pytest.MonkeyPatch) -> None:
    before = incremental_encoder.get_cached_encoder

    def uncached_encoder(request: ModelRequest, key: str, dependencies: Any, make_encoder: Any) -> Any:
        clear_group_caches(request.groups)
        return before(request, key, dependencies, make_encoder)

    for module in (responses, stored_history, chat, anthropic):
        monkeypatch.setattr(module, "get_cached_encoder", uncached_encoder)
    turns, _ = await count_work_per_turn(line, monkeypatch)
    early, late = find_maximum(turns, EARLY_TURNS), find_maximum(turns, LATE_TURNS)
    assert late["groups visited"] > 1.5 * early["groups visited"]
    grown = "elements digested" if line.options.memory == "conversation" else "bytes encoded"
    assert late[grown] > 1.5 * early[grown]
