"""A running emulator, and the official clients that talk to it over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.minds.base import Item, Prompt, Thought, Use, Words

MODEL, CLAUDE = "gpt-4.1", "claude-sonnet-5"
MESSAGES: list[Any] = [{"role": "user", "content": "What is the weather?"}]


def clerk(prompt: Prompt) -> list[Item]:
    """Looks the weather of two cities up if it can, tells what it found, and else repeats what it heard."""
    told = [heard.text for heard in prompt.heard if heard.who == "tool"]
    thoughts: list[Item] = [Thought("Let me see.")] if prompt.thinks else []
    if prompt.schema is not None:
        return [*thoughts, Words('{"city": "Oslo", "degrees": 21}')]
    if told:
        return [*thoughts, Words(f"It is {' and '.join(told)}.")]
    if prompt.tools:
        return [*thoughts, Use(prompt.tools[0].name, '{"city": "Oslo"}'), Use(prompt.tools[0].name, '{"city": "Rome"}')]
    return [*thoughts, Words(f"You said: {prompt.said}")]


def plain(**options: Any) -> httpx2.Client:
    """A client for HTTP without TLS. Loading the world's certificates takes longer than most of the tests."""
    return httpx2.Client(verify=False, **options)


def fetch(method: str, url: str, **options: Any) -> httpx2.Response:
    """One request by such a client."""
    with plain() as client:
        return client.request(method, url, **options)


def connect(emulator: Emulator, key: str = "sk-test", **options: Any) -> openai.OpenAI:
    """OpenAI's client for one emulator. It tries nothing twice."""
    return openai.OpenAI(base_url=emulator.openai_url, api_key=key, max_retries=0, http_client=plain(), **options)


def respond(client: openai.OpenAI, fault: str, **more: Any) -> Any:
    """A response under a fault."""
    return client.responses.create(**{"model": MODEL, "input": "Hi", "extra_headers": {"x-legato-fault": fault}} | more)


def complete(client: openai.OpenAI, fault: str, **more: Any) -> Any:
    """A chat completion under a fault."""
    return client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, "extra_headers": {"x-legato-fault": fault}} | more)


def say(claude: anthropic.Anthropic, fault: str, **more: Any) -> Any:
    """A message under a fault."""
    asked: dict[str, Any] = {"model": CLAUDE, "max_tokens": 1000, "messages": MESSAGES, "extra_headers": {"x-legato-fault": fault}}
    return claude.messages.create(**asked | more)


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    """An emulator whose model is the clerk. Every test of a worker shares it."""
    with serve(mind=clerk) as running:
        yield running


@pytest.fixture(scope="session")
def client(emulator: Emulator) -> Iterator[openai.OpenAI]:
    """OpenAI's client. It tries nothing twice."""
    with openai.OpenAI(base_url=emulator.openai_url, api_key="sk-one", max_retries=0) as made:
        yield made


@pytest.fixture(scope="session")
def claude(emulator: Emulator) -> Iterator[anthropic.Anthropic]:
    """Anthropic's client. It tries nothing twice."""
    with anthropic.Anthropic(base_url=emulator.url, api_key="sk-ant-one", max_retries=0) as made:
        yield made
