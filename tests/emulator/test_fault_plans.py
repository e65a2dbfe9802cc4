"""The sources of faults: headers, plans, tests and scripts. And faults that cannot be parsed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.fake_models import ModelPrompt, Script, ScriptRule, SupportDesk
from legato.emulator.faults import FaultPlan, parse_fault, parse_plan_line
from legato.errors import BadInput
from tests.emulator.conftest import MESSAGES, MODEL, create_message, create_response, make_http_client, make_openai_client

# -- sources of faults -------------------------------------------------------------------------------------------------


def test_client_retries_after_rate_limit_time(emulator: Emulator) -> None:
    emulator.fault("rate_limit retry_after=0.3")
    with openai.OpenAI(base_url=emulator.openai_url, api_key="sk-again", max_retries=1) as patient:
        assert patient.responses.create(model=MODEL, input="Hi").status == "completed"
    limited, answered = emulator.exchanges[-2:]
    assert (limited.status, limited.fault, answered.status, answered.fault) == (429, "rate_limit retry_after=0.3", 200, "")
    assert answered.started_at - limited.started_at >= 0.3


def test_queued_faults_apply_one_per_request(client: openai.OpenAI, emulator: Emulator) -> None:
    emulator.fault("server_error")
    emulator.fault("incomplete")
    with pytest.raises(openai.RateLimitError):
        create_response(client, "rate_limit")  # a request with its own fault leaves the queue alone
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model=MODEL, input="Hi")
    assert client.responses.create(model=MODEL, input="Hi").status == "incomplete"
    assert client.responses.create(model=MODEL, input="Hi").status == "completed"


def test_plan_applies_by_number_and_rate() -> None:
    """Faults by rate follow from the seed."""

    def statuses(seed: int) -> list[int]:
        with serve(faults=["rate_limit@2,4", "server_error~40%"], seed=seed) as emulator, make_http_client(base_url=emulator.url) as http:
            body = {"model": MODEL, "messages": MESSAGES}
            return [http.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer k"}).status_code for _ in range(30)]

    first = statuses(7)
    assert (first[1], first[3], first.count(429)) == (429, 429, 2)
    assert 4 <= first.count(500) <= 20
    assert first == statuses(7)
    assert first != statuses(8)


def test_fault_rate_holds_over_many_requests() -> None:
    plan = FaultPlan(["server_error~5%"], seed=3)
    assert 400 <= sum(plan.take_fault(number, None) is not None for number in range(10_000)) <= 600
    assert all(FaultPlan(["quota"]).take_fault(number, None) for number in range(5))


@pytest.fixture(scope="module")
def scripted() -> Iterator[openai.OpenAI]:
    """A client of a model whose script has faults."""
    kinds = ["rate_limit", "hang_up", "locked", "expired", "incomplete", "cut event=3"]
    rules = [ScriptRule(said=f"try {kind}", say="Well.", fault=kind) for kind in kinds]
    with serve(fake_model=rules) as emulator, make_openai_client(emulator) as client:
        yield client


def test_script_rule_may_have_a_fault(scripted: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError):
        scripted.responses.create(model=MODEL, input="try rate_limit")
    with pytest.raises(openai.APIConnectionError):
        scripted.responses.create(model=MODEL, input="try hang_up")
    assert scripted.responses.create(model=MODEL, input="try incomplete").status == "incomplete"
    with pytest.raises(openai.APIConnectionError):
        list(scripted.responses.create(model=MODEL, input="try cut event=3", stream=True))
    assert scripted.responses.create(model=MODEL, input="Hello").status == "completed"


def test_script_rule_may_have_state_fault(scripted: openai.OpenAI) -> None:
    conversation = scripted.conversations.create().id
    with pytest.raises(openai.BadRequestError) as locked:
        scripted.responses.create(model=MODEL, input="try locked", conversation=conversation)
    assert locked.value.code == "conversation_locked"
    assert scripted.responses.create(model=MODEL, input="Hello", conversation=conversation).status == "completed"
    first = scripted.responses.create(model=MODEL, input="Hello").id
    with pytest.raises(openai.BadRequestError) as caught:
        scripted.responses.create(model=MODEL, input="try expired", previous_response_id=first)
    assert caught.value.code == "previous_response_not_found"


def test_script_rule_rejects_invalid_fault() -> None:
    with pytest.raises(BadInput, match="there is no fault 'rate_limits'") as caught:
        ScriptRule(said="Hi", fault="rate_limits")
    assert caught.value.do == "did you mean 'rate_limit'?"
    with pytest.raises(BadInput, match="the script, line 2: 'fault' cannot be used"):
        Script.from_yaml("- said: Hi\n  fault: cut event=1 byte=2\n")


def test_invalid_fault_of_own_fake_model() -> None:
    class Clumsy(SupportDesk):
        def fault(self, prompt: ModelPrompt) -> str:
            return "nonsense"

    with serve(fake_model=Clumsy()) as emulator, make_openai_client(emulator) as client:
        with pytest.raises(openai.BadRequestError, match="there is no fault 'nonsense'") as caught:
            client.responses.create(model=MODEL, input="Hi")
        assert (caught.value.type, caught.value.response.headers["x-legato-error"]) == ("emulator_error", "1")
        assert repr(emulator.exchanges[0]) == "<exchange 1: responses 400 emulator: there is no fault 'nonsense'>"
        assert emulator.exchanges[0].summary_line == "emulator: there is no fault 'nonsense'"
        assert emulator.summary().splitlines()[1] == "errors of the emulator itself: 1"


def test_fault_without_effect_is_not_counted() -> None:
    with serve(fake_model=lambda prompt: "Fine.") as emulator, make_openai_client(emulator) as client:
        for fault in ("locked", "expired", "broken_arguments"):
            assert create_response(client, fault).status == "completed"
        assert [exchange.fault for exchange in emulator.exchanges] == [
            "locked (did not apply)",
            "expired (did not apply)",
            "broken_arguments (did not apply)",
        ]
        assert emulator.exchanges[0].summary_line == "[locked (did not apply)] Fine."
        assert "faults" not in emulator.summary()


def test_plan_counts_only_model_requests() -> None:
    with serve(faults=["quota@2"]) as emulator, make_openai_client(emulator) as client:
        conversation = client.conversations.create().id
        assert client.responses.create(model=MODEL, input="Hi", conversation=conversation).status == "completed"
        client.models.list()
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi")
        assert [exchange.number for exchange in emulator.exchanges] == [1, 2, 3, 4]
        assert [exchange.is_model_request for exchange in emulator.exchanges] == [False, True, False, True]


def test_message_option_takes_the_rest() -> None:
    assert parse_fault("error_event after=1 message=Try again, please.").get_word("message") == "Try again, please."
    assert parse_plan_line("error_event message=Try again.@3").fault.get_word("message") == "Try again."


# -- invalid faults ----------------------------------------------------------------------------------------------------

INVALID_FAULTS = {
    "nonsense": "there is no fault 'nonsense'",
    "rate_limit@3": "there is no fault 'rate_limit@3'",
    "quota status=3": "the fault 'quota' has no option 'status=3'",
    "cut event": "the fault 'cut' has no option 'event'",
    "cut event=x": "event of the fault 'cut' cannot be 'x'",
    "cut byte=nan": "byte of the fault 'cut' cannot be 'nan'",
    "cut byte=-1": "byte of the fault 'cut' cannot be '-1'",
    "slow delay=inf": "delay of the fault 'slow' cannot be 'inf'",
    "server_error status=200": "status of the fault 'server_error' cannot be '200'",
    "server_error status=1000": "status of the fault 'server_error' cannot be '1000'",
    "error_event form=round": "form of the fault 'error_event' cannot be 'round'",
    "error_event kind=rain": "kind of the fault 'error_event' cannot be 'rain'",
    "cut event=1 byte=2": "after so many events or so many bytes, not both",
    "unknown_tool name=": "name of the fault 'unknown_tool' cannot be ''",
}


@pytest.mark.parametrize("text", INVALID_FAULTS)
def test_invalid_fault_header_is_bad_request(client: openai.OpenAI, claude: anthropic.Anthropic, text: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create_response(client, text, stream=True)
    assert INVALID_FAULTS[text] in caught.value.message
    with pytest.raises(anthropic.BadRequestError) as other:
        create_message(claude, text)
    body: Any = other.value.body
    assert INVALID_FAULTS[text] in body["error"]["message"]
    with pytest.raises(BadInput):
        parse_fault(text)


INVALID_PLAN_LINES = [
    "",
    "nonsense@3",
    "quota@",
    "quota@x",
    "quota~5",
    "quota@3~5%",
    "quota@3,",
    "@3",
    "quota@0",
    "quota@2,0",
    "quota~0%",
    "quota~101%",
]


@pytest.mark.parametrize("line", INVALID_PLAN_LINES)
def test_invalid_plan_line_is_bad_input(line: str) -> None:
    with pytest.raises(BadInput):
        parse_plan_line(line)
    with pytest.raises(BadInput):
        serve(faults=[line])


def test_single_plan_line_may_be_string() -> None:
    emulator = serve(faults="rate_limit@1")
    try:
        assert emulator.options.faults == ("rate_limit@1",)
    finally:
        emulator.stop()


def test_queued_fault_is_parsed_at_once(emulator: Emulator) -> None:
    with pytest.raises(BadInput, match="there is no fault 'nonsense'"):
        emulator.fault("nonsense")


def test_request_numbers_belong_to_plans() -> None:
    for text in ("rate_limit@3", "slow~5%", "cut event=5@3", "slow delay=1~5%"):
        with pytest.raises(BadInput) as caught:
            parse_fault(text)
        assert "only at the end of a line of a plan" in caught.value.do


def test_fault_text_survives_parsing() -> None:
    for text in ("cut event=5", "error_event form=flat after=3", "quota", "unknown_tool name=shrug"):
        assert str(parse_fault(text)) == text
