"""What a conversation used is what the providers said, to the token; by agent and by handoff it adds up (story 47, on the wires)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from legato import Session
from legato.core.facts import Usage
from legato.stores.contract import Store
from tests.providers.crossing.test_two_providers import SCRIPT, desk
from tests.providers.failures.wires import WIRES, Line, answers, line

MESSAGES = ("Where are A-17 and B-2?", "And C-3?", "Nothing.")


def counted(usage: dict[str, Any]) -> Usage:
    """A provider's usage, read once more by somebody else."""
    if "prompt_tokens" in usage:
        cached, thought = usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]
        return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached, thought)
    if "cache_read_input_tokens" in usage:
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        thought = usage.get("output_tokens_details", {}).get("thinking_tokens", 0)
        return Usage(usage["input_tokens"] + read + written, usage["output_tokens"], read, thought)
    cached, thought = usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["reasoning_tokens"]
    return Usage(usage["input_tokens"], usage["output_tokens"], cached, thought)


def without_cost(usage: Usage) -> Usage:
    return Usage(usage.input, usage.output, usage.cached, usage.reasoning)


async def billed(wire: Line) -> Usage:
    """The sum over all answers that were given to their end."""
    total = Usage()
    for exchange in await wire.exchanges():
        if exchange.status == 200 and exchange.whole and (exchange.reply or {}).get("usage"):
            total += counted((exchange.reply or {})["usage"])
    return total


async def check_sums(wire: Line, session: Session) -> None:
    assert without_cost(session.usage) == await billed(wire)
    assert session.usage.input > 0 < session.usage.output
    by_agent = Usage()
    for usage in session.usage_by_agent.values():
        by_agent += usage
    assert by_agent == session.usage
    for agent, usage in session.usage_by_agent.items():
        own = Usage()
        for fact in answers(session):
            own += fact.usage if fact.agent == agent else Usage()
        assert usage == own


async def talk(session: Session) -> Usage:
    """A conversation; the sum of what its runs say that they used."""
    total = Usage()
    for message in MESSAGES:
        result = await session.run(message)
        assert result.error == ""
        total += result.usage
    return total


@pytest.mark.parametrize("name", WIRES)
async def test_the_sums_are_the_providers_to_the_token(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, SCRIPT) as wire:
        model = wire.model(name)
        session = desk(model, model).session("s", store=store)
        assert await talk(session) == session.usage
        await check_sums(wire, session)
        assert [(source, target) for source, target, _ in session.usage_by_handoff] == [
            ("front", "back"),
            ("back", "front"),
            ("front", "back"),
        ]
        handed = Usage()
        for _, _, usage in session.usage_by_handoff:
            handed += usage
        assert handed + answers(session)[0].usage == session.usage
        assert session.usage.reasoning > 0


@pytest.mark.parametrize(("front", "back"), [("anthropic", "responses chained"), ("chat", "anthropic"), ("responses inline", "azure")])
async def test_the_sums_of_two_providers_are_one_sum(front: str, back: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        session = desk(wire.model(front), wire.model(back)).session("s")
        await talk(session)
        await check_sums(wire, session)
        assert set(session.usage_by_agent) == {"front", "back"}


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure"])
async def test_what_the_provider_read_from_its_cache_is_recorded(name: str, stream: bool) -> None:
    async with line(stream, SCRIPT) as wire:
        model = wire.model(name)
        session = desk(model, model).session("s")
        await talk(session)
        recorded = [fact.usage.cached for fact in answers(session)]
        told = [(exchange.reply or {})["usage"]["input_tokens_details"]["cached_tokens"] for exchange in await wire.exchanges()]
        assert recorded == told
        assert sum(recorded) > 0


@pytest.mark.parametrize("name", WIRES)
async def test_what_was_refused_or_failed_before_it_was_answered_costs_nothing(name: str, stream: bool, at_once: None) -> None:
    async with line(stream, SCRIPT, faults=["server_error@2", "overloaded@4", "hang_up@6", "expired@7"]) as wire:
        model = wire.model(name)
        session = desk(model, model).session("s")
        await talk(session)
        await check_sums(wire, session)


class Noting(httpx2.AsyncHTTPTransport):
    """Notes the provider's name for each exchange."""

    def __init__(self) -> None:
        super().__init__(verify=False)
        self.names: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if "/conversations" not in request.url.path:
            self.names.append(answer.headers.get("x-request-id") or answer.headers["request-id"])
        return answer


@pytest.mark.parametrize("name", WIRES)
async def test_the_providers_name_of_each_request_and_reply_is_recorded(name: str, stream: bool) -> None:
    noted = Noting()
    async with line(stream, SCRIPT) as wire:
        model = wire.model(name, http_client=httpx2.AsyncClient(transport=noted))
        session = desk(model, model).session("s")
        await talk(session)
        assert [fact.request_id for fact in answers(session)] == noted.names
        assert len(set(noted.names)) == len(SCRIPT)
        assert [fact.response_id for fact in answers(session)] == [(exchange.reply or {})["id"] for exchange in await wire.exchanges()]
        assert all(fact.model for fact in answers(session))
