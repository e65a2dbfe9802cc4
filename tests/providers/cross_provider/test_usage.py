"""The usage of a session equals the providers' counts, to the token, and adds up by agent and by handoff (story 47)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from legato import Session
from legato.core.facts import Usage
from legato.stores.contract import Store
from tests.providers.cross_provider.test_two_providers import SCRIPT, make_desk
from tests.providers.failures.emulator_harness import FORMATS, EmulatorHarness, find_replies, run_emulator

MESSAGES = ("Where are A-17 and B-2?", "And C-3?", "Nothing.")


def decode_usage(usage: dict[str, Any]) -> Usage:
    """Decode a provider's usage, independently of Legato."""
    if "prompt_tokens" in usage:
        cached, thought = usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]
        return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached, thought)
    if "cache_read_input_tokens" in usage:
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        thought = usage.get("output_tokens_details", {}).get("thinking_tokens", 0)
        return Usage(usage["input_tokens"] + read + written, usage["output_tokens"], read, thought)
    cached, thought = usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["reasoning_tokens"]
    return Usage(usage["input_tokens"], usage["output_tokens"], cached, thought)


def drop_cost(usage: Usage) -> Usage:
    return Usage(usage.input, usage.output, usage.cached, usage.reasoning)


async def sum_billed_usage(harness: EmulatorHarness) -> Usage:
    """Sum the usage of all complete answers."""
    total = Usage()
    for exchange in await harness.read_exchanges():
        if exchange.status == 200 and exchange.is_complete and (exchange.reply_body or {}).get("usage"):
            total += decode_usage((exchange.reply_body or {})["usage"])
    return total


async def check_sums(harness: EmulatorHarness, session: Session) -> None:
    assert drop_cost(session.usage) == await sum_billed_usage(harness)
    assert session.usage.input > 0 < session.usage.output
    by_agent = Usage()
    for usage in session.usage_by_agent.values():
        by_agent += usage
    assert by_agent == session.usage
    for agent, usage in session.usage_by_agent.items():
        own = Usage()
        for fact in find_replies(session):
            own += fact.usage if fact.agent == agent else Usage()
        assert usage == own


async def run_conversation(session: Session) -> Usage:
    """Run a conversation, and return the summed usage of its runs."""
    total = Usage()
    for message in MESSAGES:
        result = await session.run(message)
        assert result.error == ""
        total += result.usage
    return total


@pytest.mark.parametrize("name", FORMATS)
async def test_usage_matches_the_provider_to_the_token(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT) as harness:
        model = harness.make_model(name)
        session = make_desk(model, model).session("s", store=store)
        assert await run_conversation(session) == session.usage
        await check_sums(harness, session)
        assert [(source, target) for source, target, _ in session.usage_by_handoff] == [
            ("front", "back"),
            ("back", "front"),
            ("front", "back"),
        ]
        handed = Usage()
        for _, _, usage in session.usage_by_handoff:
            handed += usage
        assert handed + find_replies(session)[0].usage == session.usage
        assert session.usage.reasoning > 0


@pytest.mark.parametrize(("front", "back"), [("anthropic", "responses chained"), ("chat", "anthropic"), ("responses inline", "azure")])
async def test_usage_of_two_providers_is_summed(front: str, back: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_desk(harness.make_model(front), harness.make_model(back)).session("s")
        await run_conversation(session)
        await check_sums(harness, session)
        assert set(session.usage_by_agent) == {"front", "back"}


@pytest.mark.parametrize("name", ["responses chained", "responses conversation", "azure"])
async def test_cached_tokens_of_the_provider_are_recorded(name: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        model = harness.make_model(name)
        session = make_desk(model, model).session("s")
        await run_conversation(session)
        recorded = [fact.usage.cached for fact in find_replies(session)]
        reported = [
            (exchange.reply_body or {})["usage"]["input_tokens_details"]["cached_tokens"] for exchange in await harness.read_exchanges()
        ]
        assert recorded == reported
        assert sum(recorded) > 0


@pytest.mark.parametrize("name", FORMATS)
async def test_failures_without_usage_cost_nothing(name: str, stream: bool, without_backoff: None) -> None:
    async with run_emulator(stream, SCRIPT, faults=["server_error@2", "overloaded@4", "hang_up@6", "expired@7"]) as harness:
        model = harness.make_model(name)
        session = make_desk(model, model).session("s")
        await run_conversation(session)
        await check_sums(harness, session)


class RequestIdTransport(httpx2.AsyncHTTPTransport):
    """A transport that records the provider's request ids."""

    def __init__(self) -> None:
        super().__init__(verify=False)
        self.names: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if "/conversations" not in request.url.path:
            self.names.append(answer.headers.get("x-request-id") or answer.headers["request-id"])
        return answer


@pytest.mark.parametrize("name", FORMATS)
async def test_provider_ids_of_requests_are_recorded(name: str, stream: bool) -> None:
    transport = RequestIdTransport()
    async with run_emulator(stream, SCRIPT) as harness:
        model = harness.make_model(name, http_client=httpx2.AsyncClient(transport=transport))
        session = make_desk(model, model).session("s")
        await run_conversation(session)
        assert [fact.request_id for fact in find_replies(session)] == transport.names
        assert len(set(transport.names)) == len(SCRIPT)
        assert [fact.response_id for fact in find_replies(session)] == [
            (exchange.reply_body or {})["id"] for exchange in await harness.read_exchanges()
        ]
        assert all(fact.model for fact in find_replies(session))
