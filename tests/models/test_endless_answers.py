"""Providers that send pings forever, over real HTTP: `timeout=` and `Limits(seconds=)` end the request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from legato import Agent, HandoffBuilder, Limits
from legato.core.facts import ModelRequestFailed
from legato.models import Anthropic, FallbackModel, OpenAIChat, OpenAIResponses, Price, Usage
from legato.testing import ScriptedModel
from legato.testing.simulated_event_loop import SimulatedLoop

STARTED = {"type": "message_start", "message": {"type": "message", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}}
PING_INTERVAL_S = 0.005


class PingingProvider:
    """A provider that answers at once, and then sends only pings until its client hangs up."""

    def __init__(self) -> None:
        self.port = 0
        self._answering = 0
        self._idle = asyncio.Condition()

    async def wait_until_idle(self) -> None:
        """Wait until every client has hung up."""
        async with self._idle:
            await self._idle.wait_for(lambda: not self._answering)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request until its client hangs up."""
        self._answering += 1
        try:
            await self._ping(reader, writer)
        finally:
            writer.close()
            async with self._idle:
                self._answering -= 1
                self._idle.notify_all()

    async def _ping(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
        streams = json.loads(await reader.readexactly(length)).get("stream")
        kind, ping = ("text/event-stream", b": ping\n\n") if streams else ("application/json", b" ")
        if streams and head.startswith("POST /v1/messages"):
            ping = b'event: ping\ndata: {"type": "ping"}\n\n'
            first = f"event: message_start\ndata: {json.dumps(STARTED)}\n\n".encode()
        else:
            first = b""
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + first)
        with suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(ping)
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), PING_INTERVAL_S)


@pytest.fixture
async def provider() -> AsyncIterator[PingingProvider]:
    pinging = PingingProvider()
    async with await asyncio.start_server(pinging.answer, "127.0.0.1", 0) as server:
        pinging.port = server.sockets[0].getsockname()[1]
        yield pinging


def make_with_client(url: str, timeout: float = 600.0, **more: Any) -> OpenAIResponses:
    client = openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=timeout)
    return OpenAIResponses("m", client=client, **more)


MODELS: dict[str, Callable[..., Any]] = {
    "responses": lambda url, **more: OpenAIResponses("m", base_url=f"{url}/v1", api_key="any", **more),
    "chat": lambda url, **more: OpenAIChat("m", base_url=f"{url}/v1", api_key="any", **more),
    "anthropic": lambda url, **more: Anthropic("m", base_url=url, api_key="any", prices={"m": Price(1, 1)}, **more),
    "client of the caller": lambda url, **more: make_with_client(f"{url}/v1", **more),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_timeout_bounds_the_whole_request(make: Callable[..., Any], stream: bool, provider: PingingProvider) -> None:
    model = make(f"http://127.0.0.1:{provider.port}", timeout=0.2, stream=stream)
    session = HandoffBuilder("desk", [Agent("a", model=model)]).with_model_attempts(1).build().session("s")
    for go_on in (lambda: session.run("Hello"), session.resume):  # it can be resumed, as every failure can
        result = await go_on()
        assert (result.status, result.error) == ("failed", f"{model.name}: no whole reply within 0.2 s")
    await model.close()
    await provider.wait_until_idle()


async def test_timeout_has_the_next_model_asked(provider: PingingProvider) -> None:
    model = OpenAIChat("m", base_url=f"http://127.0.0.1:{provider.port}/v1", api_key="any", timeout=0.2)
    result = await Agent("a", model=FallbackModel(model, ScriptedModel(["I am here."]))).run("Hello")
    await model.close()
    assert result.text == "I am here."


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_seconds_limit_bounds_the_whole_request(make: Callable[..., Any], provider: PingingProvider) -> None:
    model = make(f"http://127.0.0.1:{provider.port}")
    session = HandoffBuilder("desk", [Agent("a", model=model)]).with_limits(Limits(seconds=0.2)).build().session("s")
    result = await session.run("Hello")
    await model.close()
    assert (result.status, [request.limit for request in result.pending]) == ("pending", ["seconds"])
    await provider.wait_until_idle()


class EndlessLine(httpx2.AsyncByteStream):
    """One event that never ends."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: "
        while True:
            yield b"x" * 1000


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_endless_line_is_not_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.models.sdk_client.MAX_REPLY_BYTES", 100_000)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, headers={"content-type": kind}, stream=EndlessLine()))
    client = openai.AsyncOpenAI(api_key="any", max_retries=0, http_client=httpx2.AsyncClient(transport=transport))
    result = await HandoffBuilder("desk", [Agent("a", model=OpenAIChat("m", client=client))]).build().session("s").run("Hello")
    assert (result.status, result.error) == ("failed", "openai-chat:m: the reply is longer than 100,000 bytes")


class PingingBody(httpx2.AsyncByteStream):
    """The beginning of a message, and then one ping per second."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f"event: message_start\ndata: {json.dumps(STARTED)}\n\n".encode()
        while True:
            await asyncio.sleep(1)
            yield b'event: ping\ndata: {"type": "ping"}\n\n'


@pytest.mark.parametrize(("timeout", "limit"), [(30.0, 600), (600.0, 30)], ids=["timeout", "limit"])
def test_usage_of_a_stopped_request_is_counted(timeout: float, limit: float) -> None:
    """The usage that the provider reported before the request was stopped counts. In virtual time."""

    async def test() -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=PingingBody()))
        http = httpx2.AsyncClient(transport=transport)
        client = anthropic.AsyncAnthropic(base_url="http://provider", api_key="any", max_retries=0, http_client=http)
        model = Anthropic("m", client=client, prices={"m": Price(1, 1)}, timeout=timeout)
        builder = HandoffBuilder("desk", [Agent("a", model=model)]).with_model_attempts(1)
        session = builder.with_limits(Limits(seconds=limit)).build().session("s")
        result = await session.run("Hello")
        (attempted,) = [fact for fact in session.facts if isinstance(fact, ModelRequestFailed)]
        assert (attempted.usage, result.usage) == (Usage(input=7, output=1, cost=8000),) * 2
        assert (attempted.limit, result.status) == (("seconds", "pending") if limit == 30 else ("", "failed"))
        assert 30 <= asyncio.get_running_loop().time() < 31

    SimulatedLoop().run_until_complete(test())
