"""Connections that break after the last event of a reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from legato import Agent
from legato.core.facts import ModelRequestFailed
from legato.emulator import serve
from legato.models import Anthropic, OpenAIChat, OpenAIResponses


class _BreakingBody(httpx2.AsyncByteStream):
    """A body that breaks after its last byte instead of ending."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            yield chunk
        raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")

    async def aclose(self) -> None:
        await self._body.aclose()


class _BreakingTransport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        answer.stream = _BreakingBody(answer.stream)
        return answer


@pytest.mark.parametrize("api", ["responses", "chat", "anthropic"])
async def test_stream_broken_after_the_last_event_is_whole(api: str) -> None:
    import anthropic
    import openai

    async with serve() as emulator, httpx2.AsyncClient(transport=_BreakingTransport()) as http:
        model: Any
        if api == "anthropic":
            client = anthropic.AsyncAnthropic(base_url=emulator.url, api_key="any", max_retries=0, http_client=http)
            model = Anthropic("claude-sonnet-5", client=client)
        else:
            kind = OpenAIResponses if api == "responses" else OpenAIChat
            model = kind("gpt-5", client=openai.AsyncOpenAI(base_url=emulator.openai_url, api_key="any", max_retries=0, http_client=http))
        result = await Agent("a", model=model).run("Hello")
        assert result.status == "waiting"
        assert result.text
        assert not [fact for fact in result.session.facts if isinstance(fact, ModelRequestFailed)]
        assert emulator.log.requests == 1
