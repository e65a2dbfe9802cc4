"""The harness behind `make traffic` finds every kind of fault: each is seeded, in a recording or in a decoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from legato.core.facts import NO_USAGE
from legato.providers.formats.chat.decode import decode_reply as decode_chat
from tests.traffic import reply_checks
from tests.traffic.corpus import APIS, read_corpus
from tests.traffic.replay import FAULT_KINDS, Tally, replay_corpus
from tests.traffic.sample_exchanges import (
    ANSWER_TEXT,
    CALL,
    MESSAGE,
    REQUESTS,
    make_completion,
    make_exchange,
    make_message,
    make_refusal,
    make_response,
    make_stream,
    write_corpus,
)  # fmt: skip

ReplayLines = Callable[..., dict[Any, Tally]]


@pytest.fixture
def replay_lines(tmp_path: Path) -> ReplayLines:
    """A function that replays some lines of a corpus."""
    return lambda *lines: replay_corpus(read_corpus(write_corpus(tmp_path / "corpus.jsonl", *lines)))


def count_rows(tally: Tally, kind: str) -> dict[str, int]:
    """Return the counts of the rows of a kind, without those that are allowed."""
    return {row.name: row.exchange_count for row in tally.list_rows(kind) if not row.allowed_reason}


def count_faults(tally: Tally) -> dict[str, dict[str, int]]:
    """Return the counts of everything that counts against a goal."""
    return {kind: found for kind in FAULT_KINDS if (found := count_rows(tally, kind))}


# -- requests ----------------------------------------------------------------------------------------------------------


def test_plain_exchanges_meet_every_goal(replay_lines: ReplayLines) -> None:
    for api, tally in replay_lines(*(make_exchange(api, key=api) for api in APIS)).items():
        assert tally.list_missed_goals() == [], api
        assert (tally.count_exchanges("accepted"), tally.count_exchanges("answers read")) == (1, 1)


def test_a_false_refusal_is_found_by_rule(replay_lines: ReplayLines) -> None:
    request = {**REQUESTS["responses"], "crystal_ball": True}
    tally = replay_lines(make_exchange("responses"), make_exchange("responses", request=request, index=1))["responses"]
    assert count_rows(tally, "false refusal, any model") == count_rows(tally, "false refusal, the emulator's models") == {"P3": 1}
    assert "1 of 2 accepted requests are refused (any model)" in tally.list_missed_goals()[0]


def test_false_refusal_for_catalogue_model_is_found(replay_lines: ReplayLines) -> None:
    tally = replay_lines(make_exchange("chat", request={**REQUESTS["chat"], "model": "o3", "temperature": 0.5}))["chat"]
    assert count_rows(tally, "false refusal, any model") == {}
    assert count_rows(tally, "false refusal, the emulator's models") == {"CP5": 1}


def test_repeated_request_is_checked_once(replay_lines: ReplayLines) -> None:
    tally = replay_lines(*(make_exchange("chat", index=index) for index in range(3)))["chat"]
    assert (tally.count_exchanges("accepted"), tally.count_exchanges("answers read")) == (1, 1)


def test_refusals_are_compared_by_their_messages(replay_lines: ReplayLines) -> None:
    unknown = {**REQUESTS["responses"], "crystal_ball": True}
    lines = [
        make_exchange("responses", make_refusal("Unknown parameter: 'crystal_ball'."), 400, request=unknown),
        make_exchange("responses", make_refusal("No such thing: crystal_ball"), 400, request={**unknown, "input": "another"}),
        make_exchange("responses", make_refusal("The weather does not allow it."), 400),
    ]
    tally = replay_lines(*lines)["responses"]
    assert count_rows(tally, "refused") == {"same words here": 1, "other words here": 1, "accepted here": 1}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"host": "other:example.com"}, "another server"),
        ({"host": "local"}, "another server"),
        ({"status": 401}, "status 401"),
        ({"status": 429}, "status 429"),
        ({"status": 503}, "status 503"),
        ({"status": 404, "response": "no such page"}, "the refusal is in no known form"),
        ({"status": 400, "response": make_refusal("Test error")}, "made up by the suite"),
        ({"status": 404, "response": make_refusal("Resource not found")}, "a route that is not there"),
        ({"request": None}, "no request is recorded"),
    ],
)
def test_refusals_unrelated_to_rules_are_not_checked(replay_lines: ReplayLines, members: dict[str, Any], reason: str) -> None:
    tally = replay_lines({**make_exchange("chat", request={"crystal_ball": 1}), **members})["chat"]
    assert count_rows(tally, "not judged") == {reason: 1}
    assert tally.count_exchanges("false refusal, any model") == tally.count_exchanges("refused") == 0


def test_unknown_model_has_its_own_row(replay_lines: ReplayLines) -> None:
    not_found = make_refusal("The model `teapot-1` does not exist or you do not have access to it.", code="model_not_found")
    tally = replay_lines(make_exchange("chat", not_found, 404, request={**REQUESTS["chat"], "model": "teapot-1"}))["chat"]
    assert count_rows(tally, "no such model") == {"same words here": 1}
    assert tally.count_exchanges("refused") == 0


def test_on_azure_the_path_names_the_model(replay_lines: ReplayLines) -> None:
    url = "https://x.openai.azure.com/openai/deployments/o3/chat/completions?api-version=2024-10-21"
    plain = {"messages": REQUESTS["chat"]["messages"]}
    azure = make_exchange("chat", request=plain, host="azure", url=url)
    assert count_rows(replay_lines(azure)["chat"], "false refusal, any model") == {}
    assert count_rows(replay_lines(azure)["chat"], "false refusal, the emulator's models") == {}
    warm = make_exchange("chat", request={**plain, "temperature": 0.5}, host="azure", url=url)
    assert count_rows(replay_lines(warm)["chat"], "false refusal, the emulator's models") == {"CP5": 1}


# -- provider state ----------------------------------------------------------------------------------------------------

OUTPUT = {"type": "function_call_output", "call_id": "call_7", "output": "shipped"}


def make_next_exchange(*input: dict[str, Any], index: int = 1, **members: Any) -> dict[str, Any]:
    request = {"model": "gpt-4.1", "previous_response_id": "resp_1", "input": list(input)}
    return make_exchange("responses", make_response(id=f"resp_{index + 1}"), request={**request, **members}, index=index)


def test_ids_without_recorded_exchange_count_as_existing(replay_lines: ReplayLines) -> None:
    tally = replay_lines(make_next_exchange(OUTPUT))["responses"]
    assert (tally.count_exchanges("accepted"), count_rows(tally, "false refusal, any model")) == (1, {})


def test_exchanges_of_one_file_build_on_each_other(replay_lines: ReplayLines) -> None:
    first = make_exchange("responses", make_response(CALL))
    assert count_rows(replay_lines(first, make_next_exchange(OUTPUT))["responses"], "false refusal, any model") == {}
    other = {**OUTPUT, "call_id": "call_8"}
    assert count_rows(replay_lines(first, make_next_exchange(OUTPUT, other))["responses"], "false refusal, any model") == {"T2": 1}


def test_exchanges_of_different_files_are_independent(replay_lines: ReplayLines) -> None:
    first = make_exchange("responses", make_response(CALL), file="another.yaml")
    assert (
        count_rows(replay_lines(first, make_next_exchange({**OUTPUT, "call_id": "call_8"}))["responses"], "false refusal, any model") == {}
    )


def test_ambiguous_response_id_is_a_placeholder(replay_lines: ReplayLines) -> None:
    first = make_exchange("responses", make_response(CALL))
    another = make_exchange("responses", make_response(), request={**REQUESTS["responses"], "input": "Who are you?"}, index=1)
    assert count_rows(replay_lines(first, another, make_next_exchange(OUTPUT, index=2))["responses"], "false refusal, any model") == {}


def test_self_referencing_response_ends_the_chain(replay_lines: ReplayLines) -> None:
    itself = make_exchange("responses", make_response(CALL), request={**REQUESTS["responses"], "previous_response_id": "resp_1"})
    assert count_rows(replay_lines(itself, make_next_exchange(OUTPUT))["responses"], "false refusal, any model") == {}


def test_ambiguous_thinking_signature_is_a_placeholder(replay_lines: ReplayLines) -> None:
    thoughts = [{"type": "thinking", "thinking": words, "signature": "sig-1"} for words in ("Seven.", "Eight.", "Nine.")]
    conversation = [*REQUESTS["anthropic"]["messages"], {"role": "assistant", "content": [thoughts[2]]}]
    next_request = {**REQUESTS["anthropic"], "messages": [*conversation, {"role": "user", "content": "Well?"}]}
    answers = [make_message(thought, {"type": "text", "text": ANSWER_TEXT}) for thought in thoughts[:2]]
    lines = [make_exchange("anthropic", answer, index=index) for index, answer in enumerate(answers)]
    assert (
        count_rows(replay_lines(*lines, make_exchange("anthropic", request=next_request, index=2))["anthropic"], "false refusal, any model")
        == {}
    )


def test_response_without_storage_does_not_exist(replay_lines: ReplayLines) -> None:
    first = make_exchange("responses", make_response(CALL, store=False))
    assert count_rows(replay_lines(first, make_next_exchange(OUTPUT))["responses"], "false refusal, any model") == {"S1": 1}


def test_thinking_must_match_its_recorded_signature(replay_lines: ReplayLines) -> None:
    thinking = {"type": "thinking", "thinking": "Seven is a number.", "signature": "sig-1"}
    conversation = [*REQUESTS["anthropic"]["messages"], {"role": "assistant", "content": [{**thinking, "thinking": "Eight is."}]}]
    request = {**REQUESTS["anthropic"], "messages": [*conversation, {"role": "user", "content": "Well?"}]}
    lines = [
        make_exchange("anthropic", make_message(thinking, {"type": "text", "text": ANSWER_TEXT})),
        make_exchange("anthropic", request=request, index=1),
    ]
    assert count_rows(replay_lines(*lines)["anthropic"], "false refusal, any model") == {"M7": 1}


def test_betas_are_unknown_where_no_header_is_recorded(replay_lines: ReplayLines) -> None:
    request = {**REQUESTS["anthropic"], "context_management": {"edits": []}}
    assert count_rows(replay_lines(make_exchange("anthropic", request=request))["anthropic"], "false refusal, any model") == {}
    with_headers = make_exchange("anthropic", request=request, headers={"anthropic-version": "2023-06-01"})
    assert count_rows(replay_lines(with_headers)["anthropic"], "false refusal, any model") == {"M20": 1}


# -- answers -----------------------------------------------------------------------------------------------------------

UNKNOWN_MEMBERS = [
    ("responses", make_response({**MESSAGE, "mood": "calm"}), "output[message].mood"),
    ("chat", make_completion({"mood": "calm"}), "choices[].message.mood"),
    ("anthropic", make_message({"type": "text", "text": ANSWER_TEXT, "mood": "calm"}), "content[text].mood"),
]
UNKNOWN_STREAM_MEMBERS = [
    (
        "responses",
        make_stream({"type": "response.completed", "response": make_response({**MESSAGE, "mood": "calm"})}),
        "output[message].mood",
    ),
    (
        "chat",
        make_stream(
            {"id": "c_1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "It was ", "mood": "ca"}}]},
            {"id": "c_1", "choices": [{"index": 0, "delta": {"content": "shipped.", "mood": "lm"}}]},
            {"id": "c_1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ),
        "choices[].message.mood",
    ),
    (
        "anthropic",
        make_stream(
            {"type": "message_start", "message": make_message(stop_reason=None) | {"content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER_TEXT}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "mood_delta", "mood": "calm"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ),
        "content[text].mood",
    ),
]


@pytest.mark.parametrize(("api", "answer", "path"), UNKNOWN_MEMBERS)
def test_a_member_lost_in_a_body_is_found(replay_lines: ReplayLines, api: str, answer: Any, path: str) -> None:
    tally = replay_lines(make_exchange(api, answer))[api]
    assert count_rows(tally, "lost in reading") == {path: 1}
    assert any("lost in reading" in missed for missed in tally.list_missed_goals())


@pytest.mark.parametrize(("api", "answer", "path"), UNKNOWN_STREAM_MEMBERS)
def test_a_member_lost_in_a_stream_is_found(replay_lines: ReplayLines, api: str, answer: Any, path: str) -> None:
    tally = replay_lines(make_exchange(api, answer))[api]
    assert count_rows(tally, "answers read") == {"event stream": 1}
    assert count_rows(tally, "lost in reading") == {path: 1}
    (row,) = (row for row in tally.list_rows("lost in reading") if row.name == path)
    assert row.cases[0].note == "calm"


def test_decoder_that_refuses_valid_answer_is_found(replay_lines: ReplayLines) -> None:
    tally = replay_lines(make_exchange("chat", {**make_completion(), "choices": [{"index": 0, "finish_reason": "stop"}]}))["chat"]
    assert count_faults(tally) == {"reader refused": {"the provider's answer is no completion: it has no message": 1}}


def test_decoder_that_raises_is_found(replay_lines: ReplayLines, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyError("content")

    monkeypatch.setitem(reply_checks.REPLY_DECODERS, "chat", crash)
    assert count_faults(replay_lines(make_exchange("chat"))["chat"]) == {"reader crashed": {"KeyError": 1}}


def test_decoder_that_records_nothing_is_found(replay_lines: ReplayLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reply_checks.REPLY_DECODERS, "chat", lambda *arguments: msgspec.structs.replace(decode_chat(*arguments), items=()))
    assert count_rows(replay_lines(make_exchange("chat"))["chat"], "reader refused") == {"nothing of the reply is recorded": 1}


def test_answer_that_reports_failure_may_be_refused(replay_lines: ReplayLines) -> None:
    failed = make_response(status="failed", error={"code": "server_error", "message": "Sorry."}, output=[])
    assert count_faults(replay_lines(make_exchange("responses", failed))["responses"]) == {}


def test_tokens_that_are_misread_are_found(replay_lines: ReplayLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        reply_checks.REPLY_DECODERS, "chat", lambda *arguments: msgspec.structs.replace(decode_chat(*arguments), usage=NO_USAGE)
    )
    assert count_faults(replay_lines(make_exchange("chat"))["chat"]) == {"usage misread": {"usage.input": 1, "usage.output": 1}}


def test_truncated_recording_is_no_fault(replay_lines: ReplayLines) -> None:
    cut = make_stream({"type": "message_start", "message": make_message()})
    for answer in (cut, cut[:-9], '{"id": "m_', ""):
        tally = replay_lines(make_exchange("anthropic", answer))["anthropic"]
        assert (tally.count_exchanges("answer not read"), count_faults(tally)) == (1, {})


def test_losses_of_other_servers_miss_no_goal(replay_lines: ReplayLines) -> None:
    tally = replay_lines(make_exchange("chat", make_completion({"mood": "calm"}), host="other:example.com"))["chat"]
    assert count_rows(tally, "lost in reading (another server)") == {"choices[].message.mood": 1}
    assert tally.list_missed_goals() == []


# -- follow-up requests ------------------------------------------------------------------------------------------------


def test_missing_item_in_follow_up_is_found(replay_lines: ReplayLines) -> None:
    vision = {"id": "cb_1", "type": "crystal_ball_call", "vision": "a teapot"}
    tally = replay_lines(make_exchange("responses", make_response(vision, MESSAGE)))["responses"]
    assert count_faults(tally) == {"not sent back": {"output[crystal_ball_call]": 1}}


def test_a_reply_in_another_order_is_found(replay_lines: ReplayLines, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_in_order = reply_checks.REQUEST_ENCODERS["responses"]

    def encode_reversed(*arguments: Any, **options: Any) -> Any:
        encoded = encode_in_order(*arguments, **options)
        body = msgspec.json.decode(encoded.body)
        return msgspec.structs.replace(encoded, body=msgspec.json.encode({**body, "input": body["input"][::-1]}))

    answer = make_exchange("responses", make_response(MESSAGE, CALL))
    assert count_faults(replay_lines(answer)["responses"]) == {}
    monkeypatch.setitem(reply_checks.REQUEST_ENCODERS, "responses", encode_reversed)
    found = count_faults(replay_lines(answer)["responses"])
    assert found == {"out of order in the follow-up": {"items": 1}, "follow-up we would refuse": {"T3": 1}}


def test_changed_value_in_follow_up_is_found(replay_lines: ReplayLines, monkeypatch: pytest.MonkeyPatch) -> None:
    encode_unchanged = reply_checks.REQUEST_ENCODERS["chat"]

    def encode_changed(*arguments: Any, **options: Any) -> Any:
        encoded = encode_unchanged(*arguments, **options)
        return msgspec.structs.replace(encoded, body=encoded.body.replace(b"call_7", b"call_8"))

    called = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}
    answer = make_exchange("chat", make_completion({"content": None, "tool_calls": [called]}))
    assert count_faults(replay_lines(answer)["chat"]) == {}
    monkeypatch.setitem(reply_checks.REQUEST_ENCODERS, "chat", encode_changed)
    found = count_faults(replay_lines(answer)["chat"])
    assert found["not sent back"] == {"message[].tool_calls[function].id": 1}


def test_paused_reply_is_joined_with_its_continuation(replay_lines: ReplayLines) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "order 7"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    conversation = {"role": "assistant", "content": [use]}
    next_request = {**REQUESTS["anthropic"], "messages": [*REQUESTS["anthropic"]["messages"], conversation]}
    later = make_exchange("anthropic", make_message(result, {"type": "text", "text": ANSWER_TEXT}), request=next_request, index=1)
    alone = {row.name: row.exchange_count for row in replay_lines(later)["anthropic"].list_rows("not sent back")}
    assert alone == {"half of a turn[web_search_tool_result]": 1}
    both = replay_lines(make_exchange("anthropic", make_message(use, stop_reason="pause_turn")), later)["anthropic"]
    assert {case.exchange.index for row in both.list_rows("not sent back") for case in row.cases} <= {0}


@pytest.mark.parametrize(
    "odd", [{"type": ["x"]}, {"type": "server_tool_use", "id": ["x"]}, {"type": "web_search_tool_result", "tool_use_id": {}}]
)
def test_malformed_block_stops_no_replay(tmp_path: Path, odd: dict[str, Any]) -> None:
    lines = (make_exchange("anthropic", make_message(odd)), make_exchange("chat"))
    tallies = replay_corpus(read_corpus(write_corpus(tmp_path / "corpus.jsonl", *lines)), lambda done: None)
    assert [tallies[api].count_exchanges("accepted") for api in ("anthropic", "chat")] == [1, 1]
    assert tallies["anthropic"].count_exchanges("not sent back") == 1
