"""What a response stands on: stored responses, their items, and how they come to be forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import ResponseItemList

from legato.emulator.minds.base import Heard, Say, Words
from legato.emulator.responses.turns import Turns
from legato.emulator.shelf import Shelf
from legato.providers.rules.responses.laws import Profile
from tests.emulator.responses.bench import HELLO, LOOKS_UP, NOW, THOUGHTFUL, TOOL, Bench, Refused, repeated, returned

DAY = 24 * 60 * 60


def _heard(bench: Bench, body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(heard.who, heard.text) for heard in bench.prompt(body).heard]


def test_a_chain_holds_what_was_sent_and_what_was_answered() -> None:
    bench = Bench()
    first = bench.post({"input": "One?"}, Say((Words("One."),)))
    second = bench.post({"input": "Two?", "previous_response_id": first["id"]}, Say((Words("Two."),)))
    assert _heard(bench, {"input": "Three?", "previous_response_id": second["id"]}) == [
        ("user", "One?"),
        ("assistant", "One."),
        ("user", "Two?"),
        ("assistant", "Two."),
        ("user", "Three?"),
    ]


def test_a_chain_may_branch() -> None:
    bench = Bench()
    first = bench.post({"input": "One?"}, Say((Words("One."),)))
    bench.post({"input": "Left?", "previous_response_id": first["id"]})
    assert _heard(bench, {"input": "Right?", "previous_response_id": first["id"]})[-2:] == [("assistant", "One."), ("user", "Right?")]


def test_instructions_are_not_carried_over() -> None:
    bench = Bench()
    first = bench.post({"instructions": "Be a pirate."})
    assert bench.prompt({"previous_response_id": first["id"]}).instructions == ""


def test_a_call_of_the_chain_can_be_answered() -> None:
    bench = Bench()
    first = bench.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    prompt = bench.prompt({"model": "gpt-5", "previous_response_id": first["id"], "input": returned(first["output"])})
    call = first["output"][1]["call_id"]
    assert prompt.heard[-1] == Heard("tool", "shipped", call=call, tool="look_up")


def test_a_call_of_the_chain_must_be_answered() -> None:
    bench = Bench()
    first = bench.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    refused = bench.refused({"model": "gpt-5", "previous_response_id": first["id"]})
    assert refused.clauses == ["T1"]
    assert refused.error["message"] == f"No tool output found for function call {first['output'][1]['call_id']}."


def test_what_is_in_the_chain_may_not_be_sent_again() -> None:
    bench = Bench()
    first = bench.post({})
    assert bench.refused({"previous_response_id": first["id"], "input": first["output"]}).clauses == ["I8"]


def test_a_response_that_was_not_stored_cannot_be_continued() -> None:
    bench = Bench()
    first = bench.post({"store": False})
    refused = bench.refused({"previous_response_id": first["id"]})
    assert (refused.status, refused.clauses) == (400, ["S1"])
    assert refused.error == {
        "message": f"Previous response with id '{first['id']}' not found.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
    assert bench.dialect.responses.get(bench.ask(), first["id"], {})[0] == 404


def test_a_response_that_is_not_stored_may_continue_one_that_is() -> None:
    bench = Bench()
    first = bench.post({})
    second = bench.post({"previous_response_id": first["id"], "store": False})
    assert second["previous_response_id"] == first["id"]
    assert bench.refused({"previous_response_id": second["id"]}).clauses == ["S1"]


def test_another_account_sees_nothing_of_it() -> None:
    bench = Bench()
    first = bench.post({})
    assert bench.refused({"previous_response_id": first["id"]}, account="org-2").clauses == ["S1"]
    assert bench.refused({"input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}, account="org-2").clauses == ["I3"]
    assert bench.dialect.responses.get(bench.ask(account="org-2"), first["id"], {})[0] == 404


def test_a_response_is_gone_after_thirty_days_and_its_children_live_on() -> None:
    bench = Bench()
    first = bench.post({})
    second = bench.post({"previous_response_id": first["id"]}, now=NOW + 29 * DAY)
    assert bench.refused({"previous_response_id": first["id"]}, now=NOW + 30 * DAY).clauses == ["S2"]
    bench.post({"previous_response_id": second["id"]}, now=NOW + 31 * DAY)


def test_a_fault_makes_a_response_as_old_as_that() -> None:
    bench = Bench()
    first = bench.post({})
    ask = bench.ask({"previous_response_id": first["id"]})
    bench.dialect.strike(ask, "expired")
    assert [complaint.clause.id for complaint in bench.dialect.judge(ask)] == ["S2"]


def test_a_fault_about_a_response_that_is_not_named_does_nothing() -> None:
    bench = Bench()
    for kind in ("expired", "locked"):
        ask = bench.ask({})
        bench.dialect.strike(ask, kind)
        assert bench.dialect.judge(ask) == []


def test_an_account_without_retention_stores_nothing() -> None:
    bench = Bench(profile=Profile(zero_data_retention=True))
    first = bench.post({})
    assert first["store"] is False
    assert bench.refused({"previous_response_id": first["id"]}).clauses == ["S5"]
    assert bench.refused({"input": [{"type": "item_reference", "id": first["output"][0]["id"]}]}).clauses == ["I2"]


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_a_deleted_response_cannot_be_continued_or_fetched() -> None:
    bench = Bench()
    first = bench.post({})
    assert bench.dialect.responses.delete(bench.ask(), first["id"], {}) == (200, {"id": first["id"], "object": "response", "deleted": True})
    assert bench.refused({"previous_response_id": first["id"]}).clauses == ["S1"]
    for endpoint in (bench.dialect.responses.get, bench.dialect.responses.delete, bench.dialect.responses.input_items):
        status, body = endpoint(bench.ask(), first["id"], {})
        assert (status, body["error"]["message"]) == (404, f"Response with id '{first['id']}' not found.")


def test_what_was_built_on_a_deleted_response_keeps_all_it_stood_on() -> None:
    bench = Bench()
    first = bench.post({"input": "One?"})
    second = bench.post({"input": "Two?", "previous_response_id": first["id"]})
    bench.dialect.responses.delete(bench.ask(), first["id"], {})
    assert [text for who, text in _heard(bench, {"previous_response_id": second["id"]}) if who == "user"] == ["One?", "Two?", "Hi"]


# -- references --------------------------------------------------------------------------------------------------------


def test_a_reference_stands_for_its_item() -> None:
    bench = Bench()
    first = bench.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    body = {"model": "gpt-5", "input": [{"role": "user", "content": "Hi"}, *references, *returned(first["output"])]}
    prompt = bench.prompt(body)
    assert [heard.who for heard in prompt.heard] == ["user", "assistant", "tool"]
    assert prompt.heard[1].uses[0].arguments == '{"order": "A-7"}'
    second = bench.post(body)
    assert [heard.who for heard in bench.prompt({"model": "gpt-5", "previous_response_id": second["id"]}).heard] == [
        "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip


def test_a_reference_without_a_type_is_one_too() -> None:
    bench = Bench()
    first = bench.post({})
    assert _heard(bench, {"input": [{"id": first["output"][0]["id"]}]}) == [("assistant", "Hello, how can I help?")]


@pytest.mark.parametrize(("store", "clause"), [(True, "I3"), (False, "I1")])
def test_a_reference_to_an_item_that_was_not_stored_is_refused(store: bool, clause: str) -> None:
    bench = Bench()
    first = bench.post({"store": False})
    body = {"input": [{"type": "item_reference", "id": first["output"][0]["id"]}], "store": store}
    refused = bench.refused(body)
    assert (refused.status, refused.clauses) == (404, [clause])


def test_input_items_can_be_referred_to_as_well() -> None:
    bench = Bench()
    first = bench.post({"input": "Remember me."})
    _, listed = bench.dialect.responses.input_items(bench.ask(), first["id"], {})
    assert _heard(bench, {"input": [{"type": "item_reference", "id": listed["data"][0]["id"]}]}) == [("user", "Remember me.")]


# -- what is listed ----------------------------------------------------------------------------------------------------


def test_a_stored_response_is_given_back_as_it_was_answered() -> None:
    bench = Bench()
    first = bench.post({"model": "gpt-5", "tools": [TOOL], "metadata": {"a": "b"}}, LOOKS_UP)
    assert bench.dialect.responses.get(bench.ask(), first["id"], {}) == (200, first)


def test_input_items_are_all_that_a_response_stood_on() -> None:
    bench = Bench()
    first = bench.post({"model": "gpt-5", "tools": [TOOL], "input": "Where is it?"}, LOOKS_UP)
    second = bench.post({"model": "gpt-5", "previous_response_id": first["id"], "input": returned(first["output"])}, THOUGHTFUL)
    status, body = bench.dialect.responses.input_items(bench.ask(), second["id"], {"order": "asc"})
    listed = ResponseItemList.model_validate(body)
    assert status == 200
    assert [item.type for item in listed.data] == ["message", "reasoning", "function_call", "function_call_output"]
    assert body["data"][1:3] == first["output"]
    assert (listed.first_id, listed.last_id, listed.has_more) == (body["data"][0]["id"], body["data"][-1]["id"], False)
    assert body["data"][0] == {
        "id": body["data"][0]["id"],
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "Where is it?"}],
    }


def test_a_list_comes_newest_first_in_pages() -> None:
    bench = Bench()
    sent = [{"role": "user", "content": str(number)} for number in range(45)]
    first = bench.post({"input": sent})
    found: list[str] = []
    query: dict[str, str] = {}
    while True:
        _, body = bench.dialect.responses.input_items(bench.ask(), first["id"], query)
        found += [item["content"][0]["text"] for item in body["data"]]
        assert len(body["data"]) <= 20
        if not body["has_more"]:
            break
        query = {"after": body["last_id"]}
    assert found == [str(number) for number in range(44, -1, -1)]


@pytest.mark.parametrize(
    ("param", "value"),
    [*(("limit", value) for value in ("0", "101", "-1", "many", "9" * 5000, "-", "", "\u0663")), ("order", "up")],
)
def test_a_page_that_cannot_be_is_refused(param: str, value: str) -> None:
    bench, query = Bench(), {param: value}
    status, body = bench.dialect.responses.input_items(bench.ask(), bench.post({})["id"], query)
    assert (status, body["error"]["param"]) == (400, param)


def test_a_page_after_an_unknown_item_is_not_found() -> None:
    bench = Bench()
    assert bench.dialect.responses.input_items(bench.ask(), bench.post({})["id"], {"after": "msg_1"})[0] == 404


def test_only_a_response_in_the_background_can_be_cancelled() -> None:
    bench = Bench()
    plain, background = bench.post({}), bench.post({"background": True})
    status, body = bench.dialect.responses.cancel(bench.ask(), plain["id"], {})
    assert (status, body["error"]["message"]) == (400, "Cannot cancel a synchronous response.")
    assert bench.dialect.responses.cancel(bench.ask(), background["id"], {}) == (200, background)
    assert bench.dialect.responses.cancel(bench.ask(), "resp_1", {})[0] == 404


# -- how it is kept ----------------------------------------------------------------------------------------------------


def test_a_restart_loses_nothing_and_repeats_no_id(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "state")
    before = Bench(shelf)
    first = before.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    loose = before.post({"model": "gpt-5", "store": False}, THOUGHTFUL)
    shelf.close()

    shelf = Shelf(tmp_path / "state")
    after = Bench(shelf)
    again = [after.post({"model": "gpt-5", "store": False}, THOUGHTFUL) for _ in range(5)]
    assert repeated([item["id"] for answered in (first, loose, *again) for item in answered["output"]]) == []
    second = after.post({"model": "gpt-5", "previous_response_id": first["id"], "input": returned(first["output"])}, THOUGHTFUL)
    assert second["status"] == "completed"
    assert after.dialect.responses.get(after.ask(), first["id"], {}) == (200, first)
    after.post({"model": "gpt-5", "input": [*loose["output"], {"role": "user", "content": "And?"}]})
    shelf.close()


def test_a_long_chain_is_kept_once(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "state")
    bench = Bench(shelf)
    previous = None
    for number in range(200):
        previous = bench.post({"input": f"{number} " + "words " * 50, **({"previous_response_id": previous} if previous else {})})["id"]
    shelf.close()
    assert (tmp_path / "state").stat().st_size < 200 * 20_000


def test_history_that_is_sent_again_is_kept_as_references(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "state")
    bench = Bench(shelf)
    history: list[dict[str, Any]] = []
    for number in range(40):
        sent = [*history, {"id": f"msg_{number}", "role": "user", "content": "words " * 500}]
        answered = bench.post({"input": sent})
        history = [*sent, *answered["output"]]
    shelf.close()
    assert (tmp_path / "state").stat().st_size < 40 * 40_000
    shelf = Shelf(tmp_path / "state")
    held = Turns(shelf).get("org-1", answered["id"])
    shelf.close()
    assert held is not None
    assert [item["id"] for item in held.items] == [item["id"] for item in history]
    assert all(item["type"] == "message" for item in held.items)


def test_an_item_that_was_changed_before_it_was_sent_again_leaves_the_first_as_it_was() -> None:
    bench = Bench()
    first = bench.post({"input": "One?"})
    message = first["output"][0]
    changed = {**message, "content": [{"type": "output_text", "text": "Something else."}]}
    second = bench.post({"input": [{"role": "user", "content": "One?"}, changed]})
    assert ("assistant", "Something else.") in _heard(bench, {"previous_response_id": second["id"]})
    assert ("assistant", "Hello, how can I help?") in _heard(bench, {"previous_response_id": first["id"]})


def test_an_answer_that_was_not_given_to_its_end_leaves_nothing_behind() -> None:
    bench = Bench()
    ask = bench.ask({})
    bench.dialect.begin(ask)
    answer = bench.dialect.answer(ask, HELLO)
    bench.dialect.end(ask)
    with pytest.raises(Refused, match="S1"):
        bench.post({"previous_response_id": answer.body["id"]})


def test_hundreds_of_turns_can_be_walked_after_a_restart(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "state")
    bench = Bench(shelf)
    previous: dict[str, Any] = {}
    for _ in range(400):
        previous = {"previous_response_id": bench.post(previous)["id"]}
    shelf.close()
    again = Bench(Shelf(tmp_path / "state"))
    assert len(again.prompt(previous).heard) == 801
