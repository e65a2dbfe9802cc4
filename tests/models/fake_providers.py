"""Providers with scripted answers behind the SDKs' own transports: for what the emulator does not do."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai

from legato.models import Anthropic, OpenAIResponses


class ScriptedProvider:
    """A provider with a list of answers, each bytes or JSON, with or without a status. It records the requests."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.paths.append(f"{request.method} {request.url.path}")
        if request.method == "POST" and request.content:
            self.requests.append(json.loads(request.content))
        answer = self._answers.pop(0)
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.Response(status, content=content, headers={"content-type": "application/json"})

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def make_responses_model(self, key: str = "sk-0123456789", url: str = "http://provider/v1", **more: Any) -> OpenAIResponses:
        client = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, http_client=self._http())
        return OpenAIResponses("gpt-5", client=client, stream=False, **more)

    def make_anthropic_model(self, **more: Any) -> Anthropic:
        client = anthropic.AsyncAnthropic(base_url="http://provider", api_key="sk-ant", max_retries=0, http_client=self._http())
        return Anthropic("claude-sonnet-5", client=client, stream=False, **more)
