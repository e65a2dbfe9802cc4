"""A running emulator, and the official clients for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.fake_models.base import FakeReplyItem, ModelPrompt, ReplyCall, ReplyText, ReplyThought

MODEL, CLAUDE = "gpt-4.1", "claude-sonnet-5"
MESSAGES: list[Any] = [{"role": "user", "content": "What is the weather?"}]


def weather_model(prompt: ModelPrompt) -> list[FakeReplyItem]:
    """Look up the weather of two cities if there is a tool, report the outputs, and else repeat the user's text."""
    outputs = [message.text for message in prompt.messages if message.role == "tool"]
    thoughts: list[FakeReplyItem] = [ReplyThought("Let me see.")] if prompt.has_reasoning else []
    if prompt.output_schema is not None:
        return [*thoughts, ReplyText('{"city": "Oslo", "degrees": 21}')]
    if outputs:
        return [*thoughts, ReplyText(f"It is {' and '.join(outputs)}.")]
    if prompt.tools:
        return [*thoughts, ReplyCall(prompt.tools[0].name, '{"city": "Oslo"}'), ReplyCall(prompt.tools[0].name, '{"city": "Rome"}')]
    return [*thoughts, ReplyText(f"You said: {prompt.last_user_text}")]


def make_http_client(**options: Any) -> httpx2.Client:
    """Return a client for HTTP without TLS. Loading the certificates takes longer than most of the tests."""
    return httpx2.Client(verify=False, **options)


def fetch(method: str, url: str, **options: Any) -> httpx2.Response:
    """Send one request with such a client."""
    with make_http_client() as client:
        return client.request(method, url, **options)


def make_openai_client(emulator: Emulator, key: str = "sk-test", **options: Any) -> openai.OpenAI:
    """Return OpenAI's client for an emulator, without retries."""
    return openai.OpenAI(base_url=emulator.openai_url, api_key=key, max_retries=0, http_client=make_http_client(), **options)


def create_response(client: openai.OpenAI, fault: str, **more: Any) -> Any:
    """Request a response with a fault."""
    return client.responses.create(**{"model": MODEL, "input": "Hi", "extra_headers": {"x-legato-fault": fault}} | more)


def create_completion(client: openai.OpenAI, fault: str, **more: Any) -> Any:
    """Request a chat completion with a fault."""
    return client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, "extra_headers": {"x-legato-fault": fault}} | more)


def create_message(claude: anthropic.Anthropic, fault: str, **more: Any) -> Any:
    """Request a message with a fault."""
    parameters: dict[str, Any] = {"model": CLAUDE, "max_tokens": 1000, "messages": MESSAGES, "extra_headers": {"x-legato-fault": fault}}
    return claude.messages.create(**parameters | more)


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """An emulator with the weather model. All tests of a worker share it."""
    with serve(fake_model=weather_model) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def client(emulator: Emulator) -> Iterator[openai.OpenAI]:
    """OpenAI's client, without retries."""
    with openai.OpenAI(base_url=emulator.openai_url, api_key="sk-one", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def claude(emulator: Emulator) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client, without retries."""
    with anthropic.Anthropic(base_url=emulator.url, api_key="sk-ant-one", max_retries=0) as client:
        yield client
