"""Reasoning that comes back: the seal is checked, and what belongs together stays together."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Say, Thought, Use, Words
from legato.providers.rules.responses.laws import Profile
from tests.emulator.responses.bench import LOOKS_UP, THOUGHTFUL, TOOL, Bench, returned

MODEL = {"model": "gpt-5", "tools": [TOOL]}
MORE = {"role": "user", "content": "And?"}


@pytest.mark.parametrize("store", [True, False])
def test_output_that_is_sent_back_whole_is_accepted(store: bool) -> None:
    bench = Bench()
    first = bench.post({**MODEL, "store": store}, LOOKS_UP)
    bench.post({**MODEL, "store": store, "input": [MORE, *first["output"], *returned(first["output"])]})


@pytest.mark.parametrize("store", [True, False])
def test_several_thoughts_and_calls_can_be_sent_back_whole(store: bool) -> None:
    bench = Bench()
    say = Say((Thought("a"), Thought("b"), Words("One moment."), Use("look_up"), Use("look_up"), Thought("c"), Words("So.")))
    first = bench.post({**MODEL, "store": store}, say)
    assert [item["type"] for item in first["output"]] == [
        "reasoning", "message", "function_call", "function_call", "reasoning", "message",
    ]  # fmt: skip
    bench.post({**MODEL, "store": store, "input": [MORE, *first["output"], *returned(first["output"])]})


def test_reasoning_is_sealed_for_all_or_only_for_who_asks_where_the_switch_says_so() -> None:
    older = Bench(profile=Profile(encrypted_by_default=False))
    asked = {**MODEL, "store": False}
    bare = older.post(asked, THOUGHTFUL)["output"]
    assert "encrypted_content" not in bare[0]
    assert older.refused({**asked, "input": [*bare, MORE]}).clauses == ["I1"]
    sealed = older.post({**asked, "include": ["reasoning.encrypted_content"]}, THOUGHTFUL)["output"]
    older.post({**asked, "input": [*sealed, MORE]})
    stored = older.post(MODEL, THOUGHTFUL)["output"]
    older.post({**MODEL, "input": [*stored, MORE]})


def test_a_blob_of_another_account_is_refused() -> None:
    bench = Bench()
    first = bench.post({**MODEL, "store": False}, THOUGHTFUL, account="org-2")
    refused = bench.refused({**MODEL, "store": False, "input": [*first["output"], MORE]})
    assert (refused.status, refused.clauses) == (400, ["R9"])
    assert refused.error == {
        "message": f"The encrypted content for item {first['output'][0]['id']} could not be verified. "
        "Reason: Encrypted content organization_id did not match the target organization.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_encrypted_content",
    }


def test_a_blob_under_another_id_is_refused() -> None:
    bench = Bench()
    first, second = (bench.post({**MODEL, "store": False}, THOUGHTFUL)["output"] for _ in range(2))
    swapped = {**first[0], "encrypted_content": second[0]["encrypted_content"]}
    assert bench.refused({**MODEL, "store": False, "input": [swapped, first[1], MORE]}).clauses == ["R10"]


@pytest.mark.parametrize("change", [lambda blob: blob[:-9], lambda blob: "plain text", lambda blob: blob[:40] + "AAAA" + blob[44:]])
def test_a_blob_that_was_tampered_with_is_refused(change: Any) -> None:
    bench = Bench()
    reasoning, message = bench.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    changed = {**reasoning, "encrypted_content": change(reasoning["encrypted_content"])}
    refused = bench.refused({**MODEL, "store": False, "input": [changed, message, MORE]})
    assert refused.clauses == ["R11"]
    assert refused.error["message"].endswith("Reason: Encrypted content could not be decrypted or parsed.")


def test_a_blob_of_an_emulator_with_another_key_is_refused() -> None:
    output = Bench(key=b"one").post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    assert Bench(key=b"two").refused({**MODEL, "store": False, "input": [*output, MORE]}).clauses == ["R11"]


def test_a_blob_without_its_items_id_is_accepted_and_known_by_its_seal() -> None:
    bench = Bench()
    reasoning, message = bench.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    nameless = {key: value for key, value in reasoning.items() if key != "id"}
    second = bench.post({**MODEL, "input": [MORE, nameless, message, MORE]})
    _, listed = bench.dialect.responses.input_items(bench.ask(), second["id"], {"order": "asc"})
    assert listed["data"][1]["id"] == reasoning["id"]


def test_a_blob_of_another_model_is_accepted_and_not_heard() -> None:
    bench = Bench()
    output = bench.post({**MODEL, "store": False}, THOUGHTFUL)["output"]
    assert [heard.who for heard in bench.prompt({"model": "o4-mini", "input": [*output, MORE]}).heard] == ["assistant", "user"]


def test_reasoning_without_what_followed_it_is_refused() -> None:
    bench = Bench()
    reasoning, message = bench.post(MODEL, THOUGHTFUL)["output"]
    other = {"role": "assistant", "content": message["content"][0]["text"]}
    refused = bench.refused({**MODEL, "input": [reasoning, other, MORE]})
    assert refused.clauses == ["R1"]
    assert refused.error["message"] == f"Item '{reasoning['id']}' of type 'reasoning' was provided without its required following item."


def test_what_followed_reasoning_is_refused_without_it() -> None:
    bench = Bench()
    reasoning, call = bench.post(MODEL, LOOKS_UP)["output"]
    refused = bench.refused({**MODEL, "input": [call, *returned([call])]})
    assert refused.clauses == ["R2"]
    assert refused.error["message"] == (
        f"Item '{call['id']}' of type 'function_call' was provided without its required 'reasoning' item: '{reasoning['id']}'."
    )


def test_what_followed_reasoning_is_accepted_without_it_and_without_its_id() -> None:
    bench = Bench()
    call = {key: value for key, value in bench.post(MODEL, LOOKS_UP)["output"][1].items() if key != "id"}
    bench.post({**MODEL, "input": [call, *returned([call])]})


def test_only_the_item_right_after_reasoning_needs_it() -> None:
    bench = Bench()
    _, first, second = bench.post(MODEL, Say((Thought("a"), Use("look_up"), Use("look_up"))))["output"]
    bench.post({**MODEL, "input": [second, *returned([second])]})
    assert bench.refused({**MODEL, "input": [first, *returned([first])]}).clauses == ["R2"]


def test_reasoning_that_nothing_followed_is_refused() -> None:
    bench = Bench()
    cut = bench.post({**MODEL, "max_output_tokens": 16}, Say((Thought("word " * 100), Words("Never said."))))["output"]
    assert bench.refused({**MODEL, "input": [*cut, MORE]}).clauses == ["R8"]


def test_stored_reasoning_may_come_without_its_blob_and_unstored_may_not() -> None:
    bench = Bench()
    for store, clause in ((True, ""), (False, "I3")):
        reasoning, message = bench.post({**MODEL, "store": store}, THOUGHTFUL)["output"]
        bare = {key: value for key, value in reasoning.items() if key != "encrypted_content"}
        body = {**MODEL, "input": [bare, message, MORE]}
        if clause:
            assert bench.refused(body).clauses == [clause]
        else:
            bench.post(body)


def test_reasoning_of_the_chain_needs_no_sending() -> None:
    bench = Bench()
    first = bench.post(MODEL, LOOKS_UP)
    second = bench.post({**MODEL, "previous_response_id": first["id"], "input": returned(first["output"])}, THOUGHTFUL)
    bench.post({**MODEL, "previous_response_id": second["id"]})
