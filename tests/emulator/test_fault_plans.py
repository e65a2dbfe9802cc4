"""Where faults come from: headers, plans, tests and scripts; and those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.faults import FaultPlan, parse, planned
from legato.emulator.minds import Desk, Prompt, Rule, Script
from legato.errors import BadInput
from tests.emulator.conftest import MESSAGES, MODEL, connect, plain, respond, say

# -- where faults come from --------------------------------------------------------------------------------------------


def test_the_client_tries_again_after_the_time_that_the_limit_names(emulator: Emulator) -> None:
    emulator.fault("rate_limit retry_after=0.3")
    with openai.OpenAI(base_url=emulator.openai_url, api_key="sk-again", max_retries=1) as patient:
        assert patient.responses.create(model=MODEL, input="Hi").status == "completed"
    limited, answered = emulator.exchanges[-2:]
    assert (limited.status, limited.fault, answered.status, answered.fault) == (429, "rate_limit retry_after=0.3", 200, "")
    assert answered.at - limited.at >= 0.3


def test_queued_faults_strike_one_request_each_in_their_order(client: openai.OpenAI, emulator: Emulator) -> None:
    emulator.fault("server_error")
    emulator.fault("incomplete")
    with pytest.raises(openai.RateLimitError):
        respond(client, "rate_limit")  # whoever brings a fault of its own leaves the queue alone
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model=MODEL, input="Hi")
    assert client.responses.create(model=MODEL, input="Hi").status == "incomplete"
    assert client.responses.create(model=MODEL, input="Hi").status == "completed"


def test_a_plan_strikes_the_requests_that_it_numbers_and_a_share_of_the_others_by_seed() -> None:
    def statuses(seed: int) -> list[int]:
        with serve(faults=["rate_limit@2,4", "server_error~40%"], seed=seed) as emulator, plain(base_url=emulator.url) as http:
            asked = {"model": MODEL, "messages": MESSAGES}
            return [http.post("/v1/chat/completions", json=asked, headers={"authorization": "Bearer k"}).status_code for _ in range(30)]

    first = statuses(7)
    assert (first[1], first[3], first.count(429)) == (429, 429, 2)
    assert 4 <= first.count(500) <= 20
    assert first == statuses(7)
    assert first != statuses(8)


def test_a_share_of_a_plan_is_kept_to_in_the_long_run() -> None:
    plan = FaultPlan(["server_error~5%"], seed=3)
    assert 400 <= sum(plan.due(number, None) is not None for number in range(10_000)) <= 600
    assert all(FaultPlan(["quota"]).due(number, None) for number in range(5))


@pytest.fixture(scope="module")
def scripted() -> Iterator[openai.OpenAI]:
    """A model whose script has faults, by what is said."""
    kinds = ["rate_limit", "hang_up", "locked", "expired", "incomplete", "cut event=3"]
    rules = [Rule(said=f"try {kind}", say="Well.", fault=kind) for kind in kinds]
    with serve(mind=rules) as emulator, connect(emulator) as client:
        yield client


def test_a_rule_of_a_script_may_have_a_fault(scripted: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError):
        scripted.responses.create(model=MODEL, input="try rate_limit")
    with pytest.raises(openai.APIConnectionError):
        scripted.responses.create(model=MODEL, input="try hang_up")
    assert scripted.responses.create(model=MODEL, input="try incomplete").status == "incomplete"
    with pytest.raises(openai.APIConnectionError):
        list(scripted.responses.create(model=MODEL, input="try cut event=3", stream=True))
    assert scripted.responses.create(model=MODEL, input="Hello").status == "completed"


def test_a_rule_may_lock_a_conversation_or_let_a_response_expire(scripted: openai.OpenAI) -> None:
    talk = scripted.conversations.create().id
    with pytest.raises(openai.BadRequestError) as locked:
        scripted.responses.create(model=MODEL, input="try locked", conversation=talk)
    assert locked.value.code == "conversation_locked"
    assert scripted.responses.create(model=MODEL, input="Hello", conversation=talk).status == "completed"
    first = scripted.responses.create(model=MODEL, input="Hello").id
    with pytest.raises(openai.BadRequestError) as gone:
        scripted.responses.create(model=MODEL, input="try expired", previous_response_id=first)
    assert gone.value.code == "previous_response_not_found"


def test_a_rule_with_an_unreadable_fault_is_refused_when_it_is_written() -> None:
    with pytest.raises(BadInput, match="there is no fault 'rate_limits'") as refused:
        Rule(said="Hi", fault="rate_limits")
    assert refused.value.do == "did you mean 'rate_limit'?"
    with pytest.raises(BadInput, match="the script, line 2: 'fault' cannot be used"):
        Script.from_yaml("- said: Hi\n  fault: cut event=1 byte=2\n")


def test_a_mind_of_ones_own_with_an_unreadable_fault_tells_whoever_asks() -> None:
    class Clumsy(Desk):
        def fault(self, prompt: Prompt) -> str:
            return "nonsense"

    with serve(mind=Clumsy()) as emulator, connect(emulator) as client:
        with pytest.raises(openai.BadRequestError, match="there is no fault 'nonsense'") as refused:
            client.responses.create(model=MODEL, input="Hi")
        assert (refused.value.type, refused.value.response.headers["x-legato-error"]) == ("emulator_error", "1")
        assert repr(emulator.exchanges[0]) == "<exchange 1: responses 400 emulator: there is no fault 'nonsense'>"
        assert emulator.exchanges[0].told == "emulator: there is no fault 'nonsense'"
        assert emulator.summary().splitlines()[1] == "errors of the emulator itself: 1"


def test_a_fault_that_finds_nothing_to_strike_at_is_told_and_not_counted() -> None:
    with serve(mind=lambda prompt: "Fine.") as emulator, connect(emulator) as client:
        for fault in ("locked", "expired", "broken_arguments"):
            assert respond(client, fault).status == "completed"
        assert [exchange.fault for exchange in emulator.exchanges] == [
            "locked (did not apply)",
            "expired (did not apply)",
            "broken_arguments (did not apply)",
        ]
        assert emulator.exchanges[0].told == "[locked (did not apply)] Fine."
        assert "faults" not in emulator.summary()


def test_a_plan_counts_requests_for_replies_and_no_others() -> None:
    with serve(faults=["quota@2"]) as emulator, connect(emulator) as client:
        talk = client.conversations.create().id
        assert client.responses.create(model=MODEL, input="Hi", conversation=talk).status == "completed"
        client.models.list()
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model=MODEL, input="Hi")
        assert [exchange.number for exchange in emulator.exchanges] == [1, 2, 3, 4]
        assert [exchange.asks for exchange in emulator.exchanges] == [False, True, False, True]


def test_a_message_of_several_words_ends_a_fault() -> None:
    assert parse("error_event after=1 message=Try again, please.").word("message") == "Try again, please."
    assert planned("error_event message=Try again.@3").fault.word("message") == "Try again."


# -- faults that cannot be read ----------------------------------------------------------------------------------------

UNREADABLE = {
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


@pytest.mark.parametrize("text", UNREADABLE)
def test_an_unreadable_fault_is_a_bad_request_that_says_why(client: openai.OpenAI, claude: anthropic.Anthropic, text: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, text, stream=True)
    assert UNREADABLE[text] in refused.value.message
    with pytest.raises(anthropic.BadRequestError) as theirs:
        say(claude, text)
    body: Any = theirs.value.body
    assert UNREADABLE[text] in body["error"]["message"]
    with pytest.raises(BadInput):
        parse(text)


MISPLANNED = [
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


@pytest.mark.parametrize("line", MISPLANNED)
def test_an_unreadable_line_of_a_plan_keeps_the_emulator_from_starting(line: str) -> None:
    with pytest.raises(BadInput):
        planned(line)
    with pytest.raises(BadInput):
        serve(faults=[line])


def test_a_plan_of_one_line_need_not_be_a_list() -> None:
    emulator = serve(faults="rate_limit@1")
    try:
        assert emulator.options.faults == ("rate_limit@1",)
    finally:
        emulator.stop()


def test_a_fault_that_is_queued_is_read_at_once(emulator: Emulator) -> None:
    with pytest.raises(BadInput, match="there is no fault 'nonsense'"):
        emulator.fault("nonsense")


def test_where_requests_are_counted_is_for_plans() -> None:
    for text in ("rate_limit@3", "slow~5%", "cut event=5@3", "slow delay=1~5%"):
        with pytest.raises(BadInput) as refused:
            parse(text)
        assert "end a line of a plan" in refused.value.do


def test_what_is_written_in_any_order_is_said_again_as_it_was() -> None:
    for text in ("cut event=5", "error_event form=flat after=3", "quota", "unknown_tool name=shrug"):
        assert str(parse(text)) == text
