"""Replies that the provider makes in the background are fetched by their ids: no second reply is ever started."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai
import pytest

from legato import Agent
from legato.errors import ModelFailed
from legato.models import OpenAIResponses
from tests.models.fake_providers import ScriptedProvider
from tests.providers.formats.chat.conversations import ConversationBuilder

IN_BACKGROUND: dict[str, Any] = {"memory": "chained", "extra": {"background": True}}
QUEUED = {"id": "resp_1", "status": "queued", "background": True, "model": "gpt-5", "output": [], "store": True}
LOST = 404, {"error": {"message": "Response with id 'resp_1' not found.", "type": "invalid_request_error", "param": "id", "code": None}}
BUSY = 503, {"error": {"message": "Overloaded.", "type": "server_error", "param": None, "code": "server_error"}}


def completed_response(text: str, **members: Any) -> dict[str, Any]:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}
    return {**QUEUED, "status": "completed", "output": [message], **members}


async def test_a_queued_reply_is_fetched_until_whole() -> None:
    provider = ScriptedProvider(QUEUED, {**QUEUED, "status": "in_progress"}, BUSY, completed_response("Done."))
    result = await Agent("a", model=provider.make_responses_model(**IN_BACKGROUND)).run("Think long")
    assert result.text == "Done."
    assert provider.paths == ["POST /v1/responses", *["GET /v1/responses/resp_1"] * 3]


async def test_lost_background_reply_is_a_final_failure() -> None:
    provider = ScriptedProvider(QUEUED, LOST)
    result = await Agent("a", model=provider.make_responses_model(**IN_BACKGROUND)).run("Think long")
    assert result.status == "failed"
    assert "the reply resp_1, made in the background, could not be fetched: 404" in result.error
    assert provider.paths == ["POST /v1/responses", "GET /v1/responses/resp_1"]


@pytest.mark.parametrize("id", ["..", "x" * 70_000, "resp\n1"], ids=["dots", "long", "a line break"])
async def test_an_id_that_leads_elsewhere_is_not_fetched(id: str) -> None:
    provider = ScriptedProvider({**QUEUED, "id": id}, completed_response("Done."))
    result = await Agent("a", model=provider.make_responses_model(**IN_BACKGROUND)).run("Think long")
    assert result.status == "failed"
    assert "its id cannot be used to fetch it" in result.error
    assert provider.paths == ["POST /v1/responses"]


async def test_failed_background_reply_is_not_retried() -> None:
    failed = {**QUEUED, "status": "failed", "error": {"code": "invalid_prompt", "message": "No."}}
    provider = ScriptedProvider(QUEUED, failed)
    result = await Agent("a", model=provider.make_responses_model(**IN_BACKGROUND)).run("Think long")
    assert (result.status, "No." in result.error) == ("failed", True)
    assert len(provider.requests) == 1


class BreakingStreamProvider:
    """A provider whose stream breaks, and which has the reply afterwards."""

    def __init__(self, *events: dict[str, Any], then: Any = None) -> None:
        self._events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        self._then = then
        self.paths: list[str] = []
        self.fetched = asyncio.Event()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.paths.append(f"{request.method} {request.url.path}")
        if request.url.path.endswith("/cancel"):
            return httpx2.Response(200, json={**QUEUED, "status": "cancelled"})
        if request.method == "POST":
            return httpx2.Response(200, content=self._events, headers={"content-type": "text/event-stream"})
        self.fetched.set()
        return httpx2.Response(200, json=self._then or QUEUED)

    def make_model(self) -> OpenAIResponses:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        client = openai.AsyncOpenAI(base_url="http://provider/v1", api_key="sk-0123456789", max_retries=0, http_client=http)
        return OpenAIResponses("gpt-5", client=client, **IN_BACKGROUND)


CREATED = {"type": "response.created", "response": QUEUED}


@pytest.mark.parametrize("deltas", ["", "Do", "Done."])
async def test_a_broken_stream_is_fetched_by_its_id(deltas: str) -> None:
    """The rest of the text is emitted, and nothing twice."""
    delta = {"type": "response.output_text.delta", "delta": deltas}
    provider = BreakingStreamProvider(CREATED, delta, then=completed_response("Done."))
    session = Agent("a", model=provider.make_model())._as_workflow().session("s")
    events = [event async for event in session.run("Think long", stream=True)]
    assert "".join(event.data.text for event in events if event.type == "output" and event.data.delta) == "Done."
    assert session.messages[-1].text == "Done."
    assert not {event.type for event in events} & {"output_reset", "model_failed"}
    assert provider.paths == ["POST /v1/responses", "GET /v1/responses/resp_1"]


async def test_reply_no_longer_wanted_is_cancelled() -> None:
    provider = BreakingStreamProvider(CREATED)
    request = ConversationBuilder().add_message("Think long").build_request()
    task = asyncio.create_task(provider.make_model().reply(request, lambda text: None))
    await provider.fetched.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.paths[-1] == "POST /v1/responses/resp_1/cancel"


async def test_a_plain_stream_that_breaks_is_not_fetched() -> None:
    provider = BreakingStreamProvider({"type": "response.created", "response": {**QUEUED, "background": False}})
    with pytest.raises(ModelFailed) as failure:
        await provider.make_model().reply(ConversationBuilder().add_message("Hello").build_request(), lambda text: None)
    assert failure.value.retryable
    assert provider.paths == ["POST /v1/responses"]
