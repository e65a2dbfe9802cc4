"""The harness behind `make traffic` finds what is wrong: each fault is seeded, by a recording that shows it or in a reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from legato.core.facts import NO_USAGE
from legato.providers.formats.chat.decode import decode_reply as read_chat
from tests.traffic import replies
from tests.traffic.corpus import APIS, read_corpus
from tests.traffic.exchanges_for_tests import (
    CALL,
    HELLO,
    MESSAGE,
    WORDS,
    completion,
    exchange,
    message,
    refusal,
    response,
    stream,
    write_corpus,
)  # fmt: skip
from tests.traffic.replay import FAULTS, Tally, replay

Replay = Callable[..., dict[Any, Tally]]


@pytest.fixture
def replayed(tmp_path: Path) -> Replay:
    """Replays some lines of a corpus."""
    return lambda *lines: replay(read_corpus(write_corpus(tmp_path / "corpus.jsonl", *lines)))


def rows(tally: Tally, kind: str) -> dict[str, int]:
    """What the rows of a kind count, without those that are allowed."""
    return {row.name: row.count for row in tally.rows(kind) if not row.allowed}


def faults(tally: Tally) -> dict[str, dict[str, int]]:
    """Everything that counts against a goal."""
    return {kind: found for kind in FAULTS if (found := rows(tally, kind))}


# -- requests ----------------------------------------------------------------------------------------------------------


def test_plain_exchanges_meet_every_goal(replayed: Replay) -> None:
    for api, tally in replayed(*(exchange(api, key=api) for api in APIS)).items():
        assert tally.missed_goals() == [], api
        assert (tally.count("accepted"), tally.count("answers read")) == (1, 1)


def test_a_false_refusal_is_found_by_rule(replayed: Replay) -> None:
    request = {**HELLO["responses"], "crystal_ball": True}
    tally = replayed(exchange("responses"), exchange("responses", request=request, index=1))["responses"]
    assert rows(tally, "false refusal, any model") == rows(tally, "false refusal, the emulator's models") == {"P3": 1}
    assert "1 of 2 accepted requests are refused (any model)" in tally.missed_goals()[0]


def test_a_false_refusal_for_a_known_model_is_told_apart(replayed: Replay) -> None:
    tally = replayed(exchange("chat", request={**HELLO["chat"], "model": "o3", "temperature": 0.5}))["chat"]
    assert rows(tally, "false refusal, any model") == {}
    assert rows(tally, "false refusal, the emulator's models") == {"CP5": 1}


def test_a_request_is_judged_once_however_often_it_came(replayed: Replay) -> None:
    tally = replayed(*(exchange("chat", index=index) for index in range(3)))["chat"]
    assert (tally.count("accepted"), tally.count("answers read")) == (1, 1)


def test_refusals_are_compared_by_their_words(replayed: Replay) -> None:
    unknown = {**HELLO["responses"], "crystal_ball": True}
    lines = [
        exchange("responses", refusal("Unknown parameter: 'crystal_ball'."), 400, request=unknown),
        exchange("responses", refusal("No such thing: crystal_ball"), 400, request={**unknown, "input": "another"}),
        exchange("responses", refusal("The weather does not allow it."), 400),
    ]
    tally = replayed(*lines)["responses"]
    assert rows(tally, "refused") == {"same words here": 1, "other words here": 1, "accepted here": 1}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"host": "other:example.com"}, "another server"),
        ({"host": "local"}, "another server"),
        ({"status": 401}, "status 401"),
        ({"status": 429}, "status 429"),
        ({"status": 503}, "status 503"),
        ({"status": 404, "response": "no such page"}, "the refusal is in no known form"),
        ({"status": 400, "response": refusal("Test error")}, "made up by the suite"),
        ({"status": 404, "response": refusal("Resource not found")}, "a route that is not there"),
        ({"request": None}, "no request is recorded"),
    ],
)
def test_what_says_nothing_about_rules_is_not_judged(replayed: Replay, members: dict[str, Any], reason: str) -> None:
    tally = replayed({**exchange("chat", request={"crystal_ball": 1}), **members})["chat"]
    assert rows(tally, "not judged") == {reason: 1}
    assert tally.count("false refusal, any model") == tally.count("refused") == 0


def test_a_model_that_is_not_there_is_a_row_of_its_own(replayed: Replay) -> None:
    told = refusal("The model `teapot-1` does not exist or you do not have access to it.", code="model_not_found")
    tally = replayed(exchange("chat", told, 404, request={**HELLO["chat"], "model": "teapot-1"}))["chat"]
    assert rows(tally, "no such model") == {"same words here": 1}
    assert tally.count("refused") == 0


def test_on_azure_the_path_names_the_model(replayed: Replay) -> None:
    url = "https://x.openai.azure.com/openai/deployments/o3/chat/completions?api-version=2024-10-21"
    plain = {"messages": HELLO["chat"]["messages"]}
    azure = exchange("chat", request=plain, host="azure", url=url)
    assert rows(replayed(azure)["chat"], "false refusal, any model") == {}
    assert rows(replayed(azure)["chat"], "false refusal, the emulator's models") == {}
    warm = exchange("chat", request={**plain, "temperature": 0.5}, host="azure", url=url)
    assert rows(replayed(warm)["chat"], "false refusal, the emulator's models") == {"CP5": 1}


# -- what the provider holds -------------------------------------------------------------------------------------------

OUTPUT = {"type": "function_call_output", "call_id": "call_7", "output": "shipped"}


def go_on(*input: dict[str, Any], index: int = 1, **members: Any) -> dict[str, Any]:
    request = {"model": "gpt-4.1", "previous_response_id": "resp_1", "input": list(input)}
    return exchange("responses", response(id=f"resp_{index + 1}"), request={**request, **members}, index=index)


def test_ids_that_no_exchange_shows_count_as_existing(replayed: Replay) -> None:
    tally = replayed(go_on(OUTPUT))["responses"]
    assert (tally.count("accepted"), rows(tally, "false refusal, any model")) == (1, {})


def test_exchanges_of_one_file_build_on_each_other(replayed: Replay) -> None:
    asked = exchange("responses", response(CALL))
    assert rows(replayed(asked, go_on(OUTPUT))["responses"], "false refusal, any model") == {}
    other = {**OUTPUT, "call_id": "call_8"}
    assert rows(replayed(asked, go_on(OUTPUT, other))["responses"], "false refusal, any model") == {"T2": 1}


def test_exchanges_of_other_files_do_not_build_on_each_other(replayed: Replay) -> None:
    asked = exchange("responses", response(CALL), file="another.yaml")
    assert rows(replayed(asked, go_on({**OUTPUT, "call_id": "call_8"}))["responses"], "false refusal, any model") == {}


def test_an_id_that_stands_for_several_responses_shows_nothing(replayed: Replay) -> None:
    asked = exchange("responses", response(CALL))
    another = exchange("responses", response(), request={**HELLO["responses"], "input": "Who are you?"}, index=1)
    assert rows(replayed(asked, another, go_on(OUTPUT, index=2))["responses"], "false refusal, any model") == {}


def test_a_response_that_stands_on_itself_has_an_end(replayed: Replay) -> None:
    itself = exchange("responses", response(CALL), request={**HELLO["responses"], "previous_response_id": "resp_1"})
    assert rows(replayed(itself, go_on(OUTPUT))["responses"], "false refusal, any model") == {}


def test_a_signature_of_several_thoughts_shows_nothing(replayed: Replay) -> None:
    thoughts = [{"type": "thinking", "thinking": words, "signature": "sig-1"} for words in ("Seven.", "Eight.", "Nine.")]
    said = [*HELLO["anthropic"]["messages"], {"role": "assistant", "content": [thoughts[2]]}]
    go_on = {**HELLO["anthropic"], "messages": [*said, {"role": "user", "content": "Well?"}]}
    answers = [message(thought, {"type": "text", "text": WORDS}) for thought in thoughts[:2]]
    lines = [exchange("anthropic", answer, index=index) for index, answer in enumerate(answers)]
    assert rows(replayed(*lines, exchange("anthropic", request=go_on, index=2))["anthropic"], "false refusal, any model") == {}


def test_a_response_that_was_not_stored_does_not_exist(replayed: Replay) -> None:
    asked = exchange("responses", response(CALL, store=False))
    assert rows(replayed(asked, go_on(OUTPUT))["responses"], "false refusal, any model") == {"S1": 1}


def test_thinking_is_compared_with_what_its_signature_vouched_for(replayed: Replay) -> None:
    thinking = {"type": "thinking", "thinking": "Seven is a number.", "signature": "sig-1"}
    said = [*HELLO["anthropic"]["messages"], {"role": "assistant", "content": [{**thinking, "thinking": "Eight is."}]}]
    request = {**HELLO["anthropic"], "messages": [*said, {"role": "user", "content": "Well?"}]}
    lines = [exchange("anthropic", message(thinking, {"type": "text", "text": WORDS})), exchange("anthropic", request=request, index=1)]
    assert rows(replayed(*lines)["anthropic"], "false refusal, any model") == {"M7": 1}


def test_betas_are_unknown_where_no_header_is_recorded(replayed: Replay) -> None:
    request = {**HELLO["anthropic"], "context_management": {"edits": []}}
    assert rows(replayed(exchange("anthropic", request=request))["anthropic"], "false refusal, any model") == {}
    with_headers = exchange("anthropic", request=request, headers={"anthropic-version": "2023-06-01"})
    assert rows(replayed(with_headers)["anthropic"], "false refusal, any model") == {"M20": 1}


# -- answers -----------------------------------------------------------------------------------------------------------

ODD = [
    ("responses", response({**MESSAGE, "mood": "calm"}), "output[message].mood"),
    ("chat", completion({"mood": "calm"}), "choices[].message.mood"),
    ("anthropic", message({"type": "text", "text": WORDS, "mood": "calm"}), "content[text].mood"),
]
STREAMS = [
    ("responses", stream({"type": "response.completed", "response": response({**MESSAGE, "mood": "calm"})}), "output[message].mood"),
    (
        "chat",
        stream(
            {"id": "c_1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "It was ", "mood": "ca"}}]},
            {"id": "c_1", "choices": [{"index": 0, "delta": {"content": "shipped.", "mood": "lm"}}]},
            {"id": "c_1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ),
        "choices[].message.mood",
    ),
    (
        "anthropic",
        stream(
            {"type": "message_start", "message": message(stop_reason=None) | {"content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORDS}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "mood_delta", "mood": "calm"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ),
        "content[text].mood",
    ),
]


@pytest.mark.parametrize(("api", "answer", "path"), ODD)
def test_a_member_lost_in_a_body_is_found(replayed: Replay, api: str, answer: Any, path: str) -> None:
    tally = replayed(exchange(api, answer))[api]
    assert rows(tally, "lost in reading") == {path: 1}
    assert any("lost in reading" in missed for missed in tally.missed_goals())


@pytest.mark.parametrize(("api", "answer", "path"), STREAMS)
def test_a_member_lost_in_a_stream_is_found(replayed: Replay, api: str, answer: Any, path: str) -> None:
    tally = replayed(exchange(api, answer))[api]
    assert rows(tally, "answers read") == {"event stream": 1}
    assert rows(tally, "lost in reading") == {path: 1}
    (row,) = (row for row in tally.rows("lost in reading") if row.name == path)
    assert row.cases[0].note == "calm"


def test_a_reader_that_refuses_a_good_answer_is_found(replayed: Replay) -> None:
    tally = replayed(exchange("chat", {**completion(), "choices": [{"index": 0, "finish_reason": "stop"}]}))["chat"]
    assert faults(tally) == {"reader refused": {"the provider's answer is no completion: it has no message": 1}}


def test_a_reader_that_raises_is_found(replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyError("content")

    monkeypatch.setitem(replies.READ, "chat", crash)
    assert faults(replayed(exchange("chat"))["chat"]) == {"reader crashed": {"KeyError": 1}}


def test_a_reader_that_records_nothing_is_found(replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(replies.READ, "chat", lambda *given: msgspec.structs.replace(read_chat(*given), items=()))
    assert rows(replayed(exchange("chat"))["chat"], "reader refused") == {"nothing of the reply is recorded": 1}


def test_an_answer_that_tells_of_a_failure_may_be_refused(replayed: Replay) -> None:
    failed = response(status="failed", error={"code": "server_error", "message": "Sorry."}, output=[])
    assert faults(replayed(exchange("responses", failed))["responses"]) == {}


def test_tokens_that_are_misread_are_found(replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(replies.READ, "chat", lambda *given: msgspec.structs.replace(read_chat(*given), usage=NO_USAGE))
    assert faults(replayed(exchange("chat"))["chat"]) == {"usage misread": {"usage.input": 1, "usage.output": 1}}


def test_a_recording_that_is_cut_off_is_no_fault(replayed: Replay) -> None:
    cut = stream({"type": "message_start", "message": message()})
    for answer in (cut, cut[:-9], '{"id": "m_', ""):
        tally = replayed(exchange("anthropic", answer))["anthropic"]
        assert (tally.count("answer not read"), faults(tally)) == (1, {})


def test_losses_of_other_servers_do_not_count_against_goals(replayed: Replay) -> None:
    tally = replayed(exchange("chat", completion({"mood": "calm"}), host="other:example.com"))["chat"]
    assert rows(tally, "lost in reading (another server)") == {"choices[].message.mood": 1}
    assert tally.missed_goals() == []


# -- what goes back ----------------------------------------------------------------------------------------------------


def test_an_item_that_is_not_sent_back_is_found(replayed: Replay) -> None:
    vision = {"id": "cb_1", "type": "crystal_ball_call", "vision": "a teapot"}
    tally = replayed(exchange("responses", response(vision, MESSAGE)))["responses"]
    assert faults(tally) == {"not sent back": {"output[crystal_ball_call]": 1}}


def test_a_reply_in_another_order_is_found(replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_in_order = replies.COMPILE["responses"]

    def compile_reversed(*given: Any, **how: Any) -> Any:
        compiled = compile_in_order(*given, **how)
        body = msgspec.json.decode(compiled.body)
        return msgspec.structs.replace(compiled, body=msgspec.json.encode({**body, "input": body["input"][::-1]}))

    answer = exchange("responses", response(MESSAGE, CALL))
    assert faults(replayed(answer)["responses"]) == {}
    monkeypatch.setitem(replies.COMPILE, "responses", compile_reversed)
    found = faults(replayed(answer)["responses"])
    assert found == {"out of order in the follow-up": {"items": 1}, "follow-up we would refuse": {"T3": 1}}


def test_a_value_that_changes_on_its_way_back_is_found(replayed: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_as_it_is = replies.COMPILE["chat"]

    def compile_changed(*given: Any, **how: Any) -> Any:
        compiled = compile_as_it_is(*given, **how)
        return msgspec.structs.replace(compiled, body=compiled.body.replace(b"call_7", b"call_8"))

    called = {"id": "call_7", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 7}'}}
    answer = exchange("chat", completion({"content": None, "tool_calls": [called]}))
    assert faults(replayed(answer)["chat"]) == {}
    monkeypatch.setitem(replies.COMPILE, "chat", compile_changed)
    found = faults(replayed(answer)["chat"])
    assert found["not sent back"] == {"message[].tool_calls[function].id": 1}


def test_a_paused_reply_is_read_with_what_goes_on(replayed: Replay) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "order 7"}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    said = {"role": "assistant", "content": [use]}
    go_on = {**HELLO["anthropic"], "messages": [*HELLO["anthropic"]["messages"], said]}
    later = exchange("anthropic", message(result, {"type": "text", "text": WORDS}), request=go_on, index=1)
    alone = {row.name: row.count for row in replayed(later)["anthropic"].rows("not sent back")}
    assert alone == {"half of a turn[web_search_tool_result]": 1}
    both = replayed(exchange("anthropic", message(use, stop_reason="pause_turn")), later)["anthropic"]
    assert {case.exchange.index for row in both.rows("not sent back") for case in row.cases} <= {0}


@pytest.mark.parametrize(
    "odd", [{"type": ["x"]}, {"type": "server_tool_use", "id": ["x"]}, {"type": "web_search_tool_result", "tool_use_id": {}}]
)
def test_a_block_without_sense_stops_no_replay(tmp_path: Path, odd: dict[str, Any]) -> None:
    lines = (exchange("anthropic", message(odd)), exchange("chat"))
    tallies = replay(read_corpus(write_corpus(tmp_path / "corpus.jsonl", *lines)), lambda done: None)
    assert [tallies[api].count("accepted") for api in ("anthropic", "chat")] == [1, 1]
    assert tallies["anthropic"].count("not sent back") == 1
