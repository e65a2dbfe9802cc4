"""`stand_in`: an emulator for every provider without an API key, and for no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from legato import Agent
from legato.emulator import serve, stand_in
from legato.emulator.fallback_emulator import NO_PROXY_VARIABLES, PROVIDERS, PROXY_VARIABLES
from legato.errors import BadInput
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses

SRC = Path(__file__).parents[2] / "src"
VARIABLES = {name for provider in PROVIDERS for name in (provider.url_variable, provider.key_variable, *provider.credential_variables)}
HELLO = "Hello! How can I help you today?"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variables of all providers and proxies."""
    for name in {*VARIABLES, *PROXY_VARIABLES, *NO_PROXY_VARIABLES}:
        monkeypatch.delenv(name, raising=False)


def ask_openai(**options: Any) -> str:
    with openai.OpenAI(**options) as client:
        return client.responses.create(model="gpt-5.1", input="Hello").output_text


def list_set_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


# -- without keys


def test_every_sdk_finds_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in() as fallback:
        assert ask_openai() == HELLO
        hello = [{"role": "user", "content": "Hello"}]
        with anthropic.Anthropic() as claude:
            reply = claude.messages.create(model="claude-sonnet-5", max_tokens=99, messages=hello)  # type: ignore[arg-type]
        assert reply.content[0].text == HELLO  # type: ignore[union-attr]
        with openai.AzureOpenAI(api_version="2026-01-01") as gpt:
            azure = gpt.chat.completions.create(model="mine", messages=hello)  # type: ignore[call-overload]
        assert azure.choices[0].message.content == HELLO
        assert fallback.emulator is not None
        url = fallback.emulator.url
        assert [exchange.status for exchange in fallback.emulator.exchanges] == [200, 200, 200]
    assert list_set_variables() == {}
    assert capsys.readouterr().err.splitlines() == [
        f"legato: no key is set, so the emulator at {url} stands in for OpenAI, Anthropic and Azure",
        "legato: the emulator was asked for 3 replies and refused none",
    ]


@pytest.mark.parametrize(
    "model",
    [OpenAIResponses("gpt-5.1"), OpenAIChat("gpt-4o"), AzureOpenAIResponses("mine"), Anthropic("claude-sonnet-5")],
    ids=lambda model: type(model).__name__,
)
async def test_model_made_earlier_uses_the_emulator(model: OpenAIResponses) -> None:
    async with stand_in(["Good evening."], quiet=True) as fallback:
        assert (await Agent("clerk", model=model).run("Hello")).text == "Good evening."
        assert fallback.emulator is not None
        assert len(fallback.emulator.exchanges) == 1
        await model.close()


def test_start_and_stop_work_without_block() -> None:
    fallback = stand_in(quiet=True).start()
    with pytest.raises(BadInput, match="running already"):
        fallback.start()
    assert Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text == HELLO
    fallback.stop()
    fallback.stop()
    assert list_set_variables() == {}
    assert fallback.emulator is not None
    assert len(fallback.emulator.exchanges) == 1, "the exchanges stay readable"


def test_stand_in_can_be_reused() -> None:
    fallback = stand_in(quiet=True)
    for _ in range(2):
        with fallback:
            assert ask_openai() == HELLO
    assert fallback.emulator is not None
    assert len(fallback.emulator.exchanges) == 1


def test_serve_options_are_passed_on() -> None:
    with stand_in(keys="mine", faults=["server_error@1"], quiet=True) as fallback, openai.OpenAI(max_retries=0) as client:
        with pytest.raises(openai.InternalServerError):
            client.responses.create(model="gpt-5.1", input="Hello")
        assert client.responses.create(model="gpt-5.1", input="Hello").output_text == HELLO
        assert fallback.emulator is not None
        with pytest.raises(openai.AuthenticationError):
            ask_openai(api_key="another", max_retries=0)


# -- with a key


def test_provider_with_key_is_not_replaced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(fake_model=["I am the real one."]) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        with stand_in(fake_model=["I stand in."]) as fallback:
            assert Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text == "I am the real one."
            assert Agent("clerk", model="anthropic:claude-sonnet-5").run_sync("Hello").text == "I stand in."
            assert fallback.emulator is not None
            sentence = f"{provider.openai_url} answers; the emulator at {fallback.emulator.url} stands in for Anthropic and Azure"
        assert (provider.log.requests, fallback.emulator.log.requests) == (1, 1)
        assert list_set_variables() == {"OPENAI_API_KEY": "sk-real", "OPENAI_BASE_URL": provider.openai_url}
    assert capsys.readouterr().err.splitlines() == [
        f"legato: OPENAI_API_KEY is set, so {sentence}",
        "legato: the emulator was asked for 1 reply and refused none",
    ]


def test_no_emulator_if_all_keys_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"OPENAI_API_KEY": "sk", "ANTHROPIC_AUTH_TOKEN": "token", "AZURE_OPENAI_ENDPOINT": "https://me:secret@mine.example"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with stand_in(fake_model="there is no such script.yaml") as fallback:  # which is not needed
        assert fallback.emulator is None
        assert list_set_variables() == variables
    assert capsys.readouterr().err.splitlines() == [
        "legato: OPENAI_API_KEY is set, so OpenAI answers; ANTHROPIC_AUTH_TOKEN is set, so Anthropic answers; "
        "AZURE_OPENAI_ENDPOINT is set, so https://mine.example answers"
    ]


def test_empty_key_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with stand_in(quiet=True):
        assert ask_openai() == HELLO
    assert list_set_variables() == {"OPENAI_API_KEY": ""}


def test_url_without_key_is_set_aside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    with stand_in():
        assert ask_openai() == HELLO
    assert list_set_variables() == {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    assert "stands in for OpenAI, Anthropic and Azure (OPENAI_BASE_URL is set aside)" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "sk-real"])
def test_misspelled_option_is_always_an_error(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(TypeError, match="sed"):
        stand_in(sed=3)


# -- nesting and errors


def test_nested_stand_ins_restore_the_outer() -> None:
    def reply() -> str:
        return ask_openai()

    with stand_in(["outer"], quiet=True):
        outer_variables = list_set_variables()
        with stand_in(["inner"]) as inner:
            assert reply() == "inner"
            assert inner.emulator is not None
        assert list_set_variables() == outer_variables
        assert reply() == "outer"
    assert list_set_variables() == {}


def test_child_process_starts_its_own_emulator() -> None:
    program = """
from legato import Agent
from legato.emulator import stand_in
with stand_in(["child"]):
    print(Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text)
"""
    with stand_in(["parent"], quiet=True) as fallback:
        env = {**os.environ, "PYTHONPATH": str(SRC)}
        child = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=True)
        assert fallback.emulator is not None
        assert (child.stdout, fallback.emulator.log.requests) == ("child\n", 0)
    assert "set aside" not in child.stderr


def test_variables_set_by_program_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")  # so that it is restored after the test
    with stand_in(quiet=True):
        os.environ["OPENAI_API_KEY"] = "sk-from-a-file"
    assert list_set_variables() == {"OPENAI_API_KEY": "sk-from-a-file"}


def test_error_in_block_restores_variables() -> None:
    with pytest.raises(ZeroDivisionError), stand_in(quiet=True):
        1 / 0
    assert list_set_variables() == {}


def test_invalid_fake_model_changes_nothing() -> None:
    with pytest.raises(BadInput, match="cannot be the emulator's fake model"), stand_in(fake_model="a word", quiet=True):
        pass
    assert list_set_variables() == {}


def test_rejected_requests_are_reported_at_end(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in(faults=["rate_limit@1"]), openai.OpenAI(max_retries=0) as client:
        with pytest.raises(openai.RateLimitError):  # a fault is no rejection
            client.responses.create(model="gpt-5.1", input="Hello")
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="gpt-5.1", input=[{"type": "function_call_output", "call_id": "c", "output": ""}])
        client.responses.create(model="gpt-5.1", input="Hello")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "legato: the emulator was asked for 3 replies and refused 1, first number 2: "
        "T2 No tool call found for function call output with call_id c."
    )


def test_unused_emulator_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in():
        pass
    assert capsys.readouterr().err.splitlines()[-1] == "legato: the emulator was asked for nothing"


def test_proxy_is_bypassed_for_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # an unused port
    monkeypatch.setenv("NO_PROXY", "example.com")
    with stand_in(quiet=True):
        assert os.environ["NO_PROXY"] == "example.com,127.0.0.1"
        for model in ("openai:gpt-5.1", "anthropic:claude-sonnet-5"):
            assert Agent("clerk", model=model).run_sync("Hello").text == HELLO
    assert os.environ["NO_PROXY"] == "example.com"
    assert "no_proxy" not in os.environ


# -- without the extra

PROGRAM_WITHOUT_WEB_SERVER = """
import sys
sys.modules["starlette"] = None  # as if it were not installed
from legato.emulator import stand_in
try:
    with stand_in() as standing:
        print("emulator", standing.emulator)
except Exception as error:
    print(type(error).__name__, error)
"""


def run_without_web_server(**variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SRC), **variables}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM_WITHOUT_WEB_SERVER], env=env, capture_output=True, text=True, timeout=60, check=True
    )


def test_missing_key_and_extra_are_named() -> None:
    summary, found, do = run_without_web_server().stdout.splitlines()
    assert "No module named 'starlette" in found
    assert [summary, do] == [
        "BadInput no key is set, and the emulator that would stand in is not installed",
        "  do        set OPENAI_API_KEY or ANTHROPIC_API_KEY or AZURE_OPENAI_API_KEY; or pip install '.[emulator]' in a clone of Legato",
    ]


def test_extra_is_not_needed_with_key() -> None:
    process = run_without_web_server(OPENAI_API_KEY="sk-real")
    assert process.stdout == "emulator None\n"
    assert process.stderr == (
        "legato: OPENAI_API_KEY is set, so OpenAI answers; no emulator stands in for Anthropic and Azure: "
        "it is not installed (pip install '.[emulator]' in a clone of Legato)\n"
    )
