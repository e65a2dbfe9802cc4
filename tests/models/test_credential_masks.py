"""S4: credentials that a gateway repeats reach no error, no ledger, no log and no screen."""

from __future__ import annotations

import asyncio
import binascii
import html
import json
import logging
import re
import traceback
from base64 import b64decode, b64encode, encodebytes
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import anthropic
import httpx2
import openai
import pytest

from legato import Agent, HandoffBuilder
from legato.cli.commands.sessions import show
from legato.compat.agents.settings import ModelSettings, OpenAIResponsesModel
from legato.core.codec import encode_fact
from legato.core.turn_context import TurnContext
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from legato.models.credential_masks import CredentialMasks, find_secrets
from legato.stores import open_store
from tests.models.echoing_gateway import ENCODINGS, FAILURES, EchoingGateway, serve_gateway
from tests.providers.formats.anthropic.conversations import make_message_group, make_request

KEY = "sk-proj-Zk3/9a+Qw==~7Lm_2xR8tVbYcE4u"
OTHER_SECRET = "2f9d&c41b-77aa_e05'83bd66.1c0f"
PIECE_CHARS = 12
HELLO = make_request(TurnContext("a", "You help."), [make_message_group(0, "Hello")])


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EchoingGateway]:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with serve_gateway() as running:
        yield running


def find_leaks(text: str, *secrets: str) -> list[str]:
    """Return the secrets of which a text has a piece, in any encoding."""
    texts = [text, unquote(text), unquote(unquote(text)), text.encode().decode("unicode_escape", "replace")]
    for run in [run for each in tuple(texts) for run in re.findall(r"[A-Za-z0-9+/_-]{12,}", each)]:
        for shift in range(4):
            part = run[shift:].translate(str.maketrans("-_", "+/"))
            try:
                texts.append(b64decode(part[: len(part) // 4 * 4]).decode("latin-1"))
            except binascii.Error:
                continue
    texts += [unquote(each) for each in texts]
    return [
        secret
        for secret in secrets
        if any(secret[at : at + PIECE_CHARS] in each for at in range(len(secret) - PIECE_CHARS + 1) for each in texts)
    ]


async def provide_key() -> str:
    return KEY


def make_credential() -> Any:
    return SimpleNamespace(get_token=lambda scope: SimpleNamespace(token=KEY))


def make_http_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"X-Gateway-Pass": f"Token {OTHER_SECRET}"}, cookies={"session": OTHER_SECRET}, follow_redirects=True)


def make_openai_client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=url, api_key=provide_key, max_retries=0, default_query={"sig": OTHER_SECRET}, http_client=make_http_client()
    )


def make_anthropic_client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=url, api_key=KEY, max_retries=0, default_headers={"X-Pass": OTHER_SECRET}, http_client=make_http_client()
    )


MODELS: dict[str, Callable[[str, bool], Any]] = {
    "responses": lambda host, stream: OpenAIResponses("m", base_url=f"http://{host}/v1", api_key=KEY, stream=stream),
    "chat": lambda host, stream: OpenAIChat("m", base_url=f"http://{host}/v1", api_key=KEY, stream=stream),
    "azure key": lambda host, stream: AzureOpenAIResponses("m", endpoint=f"http://{host}", api_key=KEY, stream=stream),
    "azure credential": lambda host, stream: AzureOpenAIResponses(
        "m", endpoint=f"http://{host}", credential=make_credential(), stream=stream
    ),
    "anthropic key": lambda host, stream: Anthropic("m", base_url=f"http://{host}", api_key=KEY, stream=stream),
    "anthropic token of the environment": lambda host, stream: Anthropic("m", base_url=f"http://{host}", stream=stream),
    "client of the caller, responses": lambda host, stream: OpenAIResponses(
        "m", client=make_openai_client(f"http://{host}/v1"), stream=stream
    ),
    "client of the caller, chat": lambda host, stream: OpenAIChat("m", client=make_openai_client(f"http://{host}/v1"), stream=stream),
    "client of the caller, anthropic": lambda host, stream: Anthropic("m", client=make_anthropic_client(f"http://{host}"), stream=stream),
    "query of the address": lambda host, stream: OpenAIChat(
        "m", base_url=f"http://{host}/v1?key={quote(OTHER_SECRET)}", api_key="none", stream=stream
    ),
    "password in the address": lambda host, stream: OpenAIResponses(
        "m", base_url=f"http://gatekeeper:{quote(OTHER_SECRET)}@{host}/v1", api_key="none", stream=stream
    ),
    "provider's conversation": lambda host, stream: OpenAIResponses(
        "m", base_url=f"http://{host}/v1", api_key=KEY, memory="conversation", stream=stream
    ),
    "conversation of the Agents SDK": lambda host, stream: OpenAIResponsesModel("m", make_openai_client(f"http://{host}/v1")).native(
        ModelSettings(), "conv_1"
    ),
}


CASES = [("refusal", name) for name in ENCODINGS] + [(each, name) for each in FAILURES[1:] for name in ("plain", "base64 in a url")]


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_echoed_credentials_reach_no_ledger(
    make: Callable[[str, bool], Any],
    stream: bool,
    gateway: EchoingGateway,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The gateway repeats headers and path in nine kinds of failure; the result, the ledger, `legato show` and the log are searched."""
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "legato")
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    async with open_store(url) as store:
        for gateway.failure, encoding in CASES:
            gateway.encode = ENCODINGS[encoding]
            before, model = len(gateway.requests), make(f"127.0.0.1:{gateway.port}", stream)
            workflow = HandoffBuilder("desk", [Agent("a", model=model)]).with_model_attempts(1).build()
            id = f"{gateway.failure}-{encoding}".replace(" ", "-")
            result = await workflow.session(id, store=store).run("Hello")
            await model.close()
            assert (result.status, len(gateway.requests) > before) == ("failed", True), gateway.failure
            texts = [result.error, str(result), *(encode_fact(fact).decode() for fact in result.session.facts)]
            await asyncio.to_thread(show, id, store=url)
            await asyncio.to_thread(show, id, store=url, facts=True)
            texts += [*capsys.readouterr(), *(record.getMessage() for record in caplog.records)]
            for text in texts:
                assert not find_leaks(text, KEY, OTHER_SECRET), (gateway.failure, encoding, text)


async def request_reply(model: Any) -> None:
    if hasattr(model, "conversation_for"):
        await model.conversation_for(HELLO)
    await model.reply(HELLO, lambda piece: None)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
async def test_echoed_credentials_are_in_no_traceback(make: Callable[[str, bool], Any], gateway: EchoingGateway) -> None:
    """The texts of an error that a direct request of a model raises, and of its causes, repeat nothing either."""
    for gateway.failure in FAILURES:
        model = make(f"127.0.0.1:{gateway.port}", True)
        with pytest.raises(Exception) as raised:  # noqa: PT011 - an SDK that cannot read an answer raises what it happens to
            await request_reply(model)
        await model.close()
        error = raised.value
        texts = [*traceback.format_exception(error), repr(error), *map(str, vars(error).values())]
        assert not find_leaks("\n".join(texts), KEY, OTHER_SECRET), gateway.failure


async def test_key_that_is_no_header_is_masked() -> None:
    """A key that was read from a file with its line end cannot be sent, and the HTTP library quotes it."""
    async with serve_gateway() as gateway:
        model = OpenAIResponses("m", base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=f"{KEY}\n")
        result = await HandoffBuilder("desk", [Agent("a", model=model)]).with_model_attempts(1).build().session("s").run("Hello")
        await model.close()
    assert "Illegal header value b'Bearer ***" in result.error
    assert not find_leaks(result.error, KEY)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["none", "true", ""], "tool_choice is none, auto or required, and stream is true"),
        (["sk-0123456789"], "a key begins with sk- and has 40 characters"),
        ([], "plain words"),
    ],
)
def test_harmless_words_are_not_masked(values: list[str], text: str) -> None:
    assert CredentialMasks(values).mask(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"cut: {KEY[:20]}...",
        f"{quote(quote(KEY, safe=''), safe='')}",
        "".join(f"%{ord(char):02x}" for char in KEY),
        json.dumps({"key": json.dumps(KEY).replace("/", "\\/")}),
        "".join(f"\\u{ord(char):04x}" for char in KEY),
        html.escape(KEY).replace("+", "&#43;").replace("/", "&#x2F;").replace("=", "&#61;"),
        b64encode(f"Authorization: Bearer {KEY}\n".encode()).decode(),
        b64encode(quote(f"?key={KEY}&more=1", safe="").encode()).decode(),
        encodebytes(f"Authorization: Bearer {KEY * 3}\n".encode()).decode(),
        json.dumps(encodebytes(f"Authorization: Bearer {KEY * 3}\n".encode()).decode()),
    ],
    ids=[
        "cut",
        "encoded twice",
        "every character encoded",
        "JSON in JSON",
        "escaped",
        "HTML",
        "base64 of a header",
        "base64 of a query",
        "base64 in lines",
        "base64 in lines in JSON",
    ],
)
def test_spellings_of_a_key_are_masked(text: str) -> None:
    assert not find_leaks(html.unescape(CredentialMasks([KEY]).mask(text)), KEY)


def test_other_case_of_a_key_is_masked() -> None:
    assert CredentialMasks(["2f9dc41b77aae0583bd6"]).mask("no such key: 2F9DC41B77AAE0583BD6.") == "no such key: ***."


@pytest.mark.parametrize(
    ("query", "text"), [("key=Zk3/9a+Qw==~7Lm_2x", "key: Zk3/9a+Qw==~7Lm_2x"), ("sk-0123456789", "?sk-0123456789")], ids=["plus", "no name"]
)
def test_any_value_in_a_query_is_masked(query: str, text: str) -> None:
    masks = CredentialMasks(find_secrets(httpx2.Request("GET", f"http://host/?{query}")))
    assert masks.mask(text) in ("key: ***", "?***")


def test_pieces_of_basic_credentials_are_masked() -> None:
    request = next(httpx2.BasicAuth("gatekeeper", OTHER_SECRET).auth_flow(httpx2.Request("GET", "http://host/")))
    assert CredentialMasks(find_secrets(request)).mask(f"gatekeeper may not enter with {OTHER_SECRET}") == "*** may not enter with ***"


def test_hostile_repetition_is_masked_in_bounded_steps() -> None:
    """Runs of escapes do not multiply: otherwise this test would not end."""
    for piece in ("\\", "%25", "&#0", KEY[:8]):
        CredentialMasks([KEY, OTHER_SECRET]).mask(piece * 20_000)
