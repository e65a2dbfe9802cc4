"""A program that may have no key: the emulator stands in for every provider whose key is not set, and for no other."""

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
from legato.emulator.standing_in import PAST_PROXIES, PROVIDERS, PROXIES
from legato.errors import BadInput
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses

SRC = Path(__file__).parents[2] / "src"
VARIABLES = {name for provider in PROVIDERS for name in (provider.address, provider.key, *provider.chosen_by)}
HELLO = "Hello! How can I help you today?"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No provider is chosen, and no proxy is in the way."""
    for name in {*VARIABLES, *PROXIES, *PAST_PROXIES}:
        monkeypatch.delenv(name, raising=False)


def ask_openai(**options: Any) -> str:
    with openai.OpenAI(**options) as client:
        return client.responses.create(model="gpt-5.1", input="Hello").output_text


def set_now() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


# -- where no key is set


def test_without_keys_every_sdk_finds_the_emulator_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in() as standing:
        assert ask_openai() == HELLO
        hello = [{"role": "user", "content": "Hello"}]
        with anthropic.Anthropic() as claude:
            said = claude.messages.create(model="claude-sonnet-5", max_tokens=99, messages=hello)  # type: ignore[arg-type]
        assert said.content[0].text == HELLO  # type: ignore[union-attr]
        with openai.AzureOpenAI(api_version="2026-01-01") as gpt:
            azure = gpt.chat.completions.create(model="mine", messages=hello)  # type: ignore[call-overload]
        assert azure.choices[0].message.content == HELLO
        assert standing.emulator is not None
        url = standing.emulator.url
        assert [exchange.status for exchange in standing.emulator.exchanges] == [200, 200, 200]
    assert set_now() == {}
    assert capsys.readouterr().err.splitlines() == [
        f"legato: no key is set, so the emulator at {url} stands in for OpenAI, Anthropic and Azure",
        "legato: the emulator was asked for 3 replies and refused none",
    ]


@pytest.mark.parametrize(
    "model",
    [OpenAIResponses("gpt-5.1"), OpenAIChat("gpt-4o"), AzureOpenAIResponses("mine"), Anthropic("claude-sonnet-5")],
    ids=lambda model: type(model).__name__,
)
async def test_a_model_that_was_made_before_the_block_speaks_to_the_emulator_in_it(model: OpenAIResponses) -> None:
    async with stand_in(["Good evening."], quiet=True) as standing:
        assert (await Agent("clerk", model=model).run("Hello")).text == "Good evening."
        assert standing.emulator is not None
        assert len(standing.emulator.exchanges) == 1
        await model.close()


def test_start_and_stop_do_the_same_without_a_block() -> None:
    standing = stand_in(quiet=True).start()
    with pytest.raises(BadInput, match="at work already"):
        standing.start()
    assert Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text == HELLO
    standing.stop()
    standing.stop()
    assert set_now() == {}
    assert standing.emulator is not None
    assert len(standing.emulator.exchanges) == 1, "what was asked can be looked at afterwards"


def test_it_can_be_used_again() -> None:
    standing = stand_in(quiet=True)
    for _ in range(2):
        with standing:
            assert ask_openai() == HELLO
    assert standing.emulator is not None
    assert len(standing.emulator.exchanges) == 1


def test_options_are_those_of_the_emulator_and_our_key_is_one_of_its_keys() -> None:
    with stand_in(keys="mine", faults=["server_error@1"], quiet=True) as standing, openai.OpenAI(max_retries=0) as client:
        with pytest.raises(openai.InternalServerError):
            client.responses.create(model="gpt-5.1", input="Hello")
        assert client.responses.create(model="gpt-5.1", input="Hello").output_text == HELLO
        assert standing.emulator is not None
        with pytest.raises(openai.AuthenticationError):
            ask_openai(api_key="another", max_retries=0)


# -- where a key is set


def test_where_the_key_of_one_provider_is_set_the_others_are_stood_in_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(mind=["I am the real one."]) as real:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
        monkeypatch.setenv("OPENAI_BASE_URL", real.openai_url)
        with stand_in(mind=["I stand in."]) as standing:
            assert Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text == "I am the real one."
            assert Agent("clerk", model="anthropic:claude-sonnet-5").run_sync("Hello").text == "I stand in."
            assert standing.emulator is not None
            where = f"{real.openai_url} answers; the emulator at {standing.emulator.url} stands in for Anthropic and Azure"
        assert (real.log.requests, standing.emulator.log.requests) == (1, 1)
        assert set_now() == {"OPENAI_API_KEY": "sk-real", "OPENAI_BASE_URL": real.openai_url}
    assert capsys.readouterr().err.splitlines() == [
        f"legato: OPENAI_API_KEY is set, so {where}",
        "legato: the emulator was asked for 1 reply and refused none",
    ]


def test_where_every_provider_is_chosen_no_emulator_is_started(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"OPENAI_API_KEY": "sk", "ANTHROPIC_AUTH_TOKEN": "token", "AZURE_OPENAI_ENDPOINT": "https://me:secret@mine.example"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with stand_in(mind="there is no such script.yaml") as standing:  # which nobody needs
        assert standing.emulator is None
        assert set_now() == given
    assert capsys.readouterr().err.splitlines() == [
        "legato: OPENAI_API_KEY is set, so OpenAI answers; ANTHROPIC_AUTH_TOKEN is set, so Anthropic answers; "
        "AZURE_OPENAI_ENDPOINT is set, so https://mine.example answers"
    ]


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with stand_in(quiet=True):
        assert ask_openai() == HELLO
    assert set_now() == {"OPENAI_API_KEY": ""}


def test_an_address_without_a_key_is_set_aside_and_put_back(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    with stand_in():
        assert ask_openai() == HELLO
    assert set_now() == {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    assert "stands in for OpenAI, Anthropic and Azure (OPENAI_BASE_URL is set aside)" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "sk-real"])
def test_a_misspelled_option_is_told_with_a_key_and_without(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(TypeError, match="sed"):
        stand_in(sed=3)


# -- within one another, and when things go wrong


def test_one_within_another_answers_with_its_own_mind_and_then_the_outer_does_again() -> None:
    def said() -> str:
        return ask_openai()

    with stand_in(["outer"], quiet=True):
        outer = set_now()
        with stand_in(["inner"]) as inner:
            assert said() == "inner"
            assert inner.emulator is not None
        assert set_now() == outer
        assert said() == "outer"
    assert set_now() == {}


def test_one_in_a_child_process_answers_with_its_own_mind() -> None:
    program = """
from legato import Agent
from legato.emulator import stand_in
with stand_in(["child"]):
    print(Agent("clerk", model="openai:gpt-5.1").run_sync("Hello").text)
"""
    with stand_in(["parent"], quiet=True) as standing:
        env = {**os.environ, "PYTHONPATH": str(SRC)}
        child = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=True)
        assert standing.emulator is not None
        assert (child.stdout, standing.emulator.log.requests) == ("child\n", 0)
    assert "set aside" not in child.stderr


def test_a_variable_that_the_program_sets_itself_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")  # so that it is put back after the test
    with stand_in(quiet=True):
        os.environ["OPENAI_API_KEY"] = "sk-from-a-file"
    assert set_now() == {"OPENAI_API_KEY": "sk-from-a-file"}


def test_an_error_in_the_block_passes_through_and_the_variables_are_put_back() -> None:
    with pytest.raises(ZeroDivisionError), stand_in(quiet=True):
        1 / 0
    assert set_now() == {}


def test_a_mind_that_is_none_changes_nothing() -> None:
    with pytest.raises(BadInput, match="no mind"), stand_in(mind="a word", quiet=True):
        pass
    assert set_now() == {}


def test_what_was_refused_is_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in(faults=["rate_limit@1"]), openai.OpenAI(max_retries=0) as client:
        with pytest.raises(openai.RateLimitError):  # asked for, and so no refusal
            client.responses.create(model="gpt-5.1", input="Hello")
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="gpt-5.1", input=[{"type": "function_call_output", "call_id": "c", "output": ""}])
        client.responses.create(model="gpt-5.1", input="Hello")
    assert capsys.readouterr().err.splitlines()[-1] == (
        "legato: the emulator was asked for 3 replies and refused 1, first number 2: "
        "T2 No tool call found for function call output with call_id c."
    )


def test_an_emulator_that_nobody_asked_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in():
        pass
    assert capsys.readouterr().err.splitlines()[-1] == "legato: the emulator was asked nothing"


def test_a_proxy_is_not_asked_for_what_is_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("NO_PROXY", "example.com")
    with stand_in(quiet=True):
        assert os.environ["NO_PROXY"] == "example.com,127.0.0.1"
        for model in ("openai:gpt-5.1", "anthropic:claude-sonnet-5"):
            assert Agent("clerk", model=model).run_sync("Hello").text == HELLO
    assert os.environ["NO_PROXY"] == "example.com"
    assert "no_proxy" not in os.environ


# -- without the extra

WITHOUT_A_WEB_SERVER = """
import sys
sys.modules["starlette"] = None  # as if it were not installed
from legato.emulator import stand_in
try:
    with stand_in() as standing:
        print("emulator", standing.emulator)
except Exception as error:
    print(type(error).__name__, error)
"""


def without_a_web_server(**variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SRC), **variables}
    return subprocess.run([sys.executable, "-c", WITHOUT_A_WEB_SERVER], env=env, capture_output=True, text=True, timeout=60, check=True)


def test_without_a_key_and_without_the_extra_both_ways_out_are_named() -> None:
    told, found, do = without_a_web_server().stdout.splitlines()
    assert "No module named 'starlette" in found
    assert [told, do] == [
        "BadInput no key is set, and the emulator that would stand in is not installed",
        "  do        set OPENAI_API_KEY or ANTHROPIC_API_KEY or AZURE_OPENAI_API_KEY; or pip install '.[emulator]' in a clone of Legato",
    ]


def test_with_a_key_the_extra_is_not_needed() -> None:
    done = without_a_web_server(OPENAI_API_KEY="sk-real")
    assert done.stdout == "emulator None\n"
    assert done.stderr == (
        "legato: OPENAI_API_KEY is set, so OpenAI answers; nobody stands in for Anthropic and Azure: "
        "the emulator is not installed (pip install '.[emulator]' in a clone of Legato)\n"
    )
