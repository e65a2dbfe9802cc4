"""What the server says where one clause has more than one sentence. The sentences were seen on the live API unless said otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from legato.providers.rules.responses.laws import OPENAI, Profile, envelope, judge
from legato.providers.rules.responses.spelling import KEYS, distance
from tests.providers.responses.lawcase import TOOL, USER, ask, call, output, reference, said

SHORTENED = "'fil...lts', 'web...lts', 'web...ces', 'mes...url', 'com...url', 'cod...uts', 'rea...ent', or 'mes...obs'"
EFFORTS = "'none', 'minimal', 'low', 'medium', 'high', 'xhigh', or 'max'"

SENTENCES: list[tuple[dict[str, Any], str, str | None]] = [
    (ask(sto=1), "Unknown parameter: 'sto'. Did you mean 'store'?", "sto"),
    (ask(st=1), "Unknown parameter: 'st'.", "st"),
    (ask(stre=1), "Unknown parameter: 'stre'. Did you mean 'store' or 'stream'?", "stre"),
    (ask(strem=1), "Unknown parameter: 'strem'. Did you mean 'stream' or 'store'?", "strem"),
    (ask(inpu=1), "Unknown parameter: 'inpu'.", "inpu"),
    (ask(modell=1), "Unknown parameter: 'modell'.", "modell"),
    (ask(max_tokens=16), "Unknown parameter: 'max_tokens'.", "max_tokens"),
    (ask(temperatur=1), "Unknown parameter: 'temperatur'. Did you mean 'temperature'?", "temperatur"),
    (ask() | {"model": None}, "Invalid type for 'model': expected a string, but got an object instead.", "model"),
    (
        ask({"a": 1}),
        "Invalid type for 'input': expected one of a string or array of input items, but got an object instead.",
        "input",
    ),
    (ask([None]), "Invalid type for 'input[0]': expected an input item, but got null instead.", "input[0]"),
    (ask([{}]), "Invalid value: ''. Supported values are: 'assistant', 'system', 'developer', and 'user'.", "input[0]"),
    (
        ask([USER, {"role": "assistant", "content": {"a": 1}}]),
        "Invalid type for 'input[1].content': expected one of an array of objects or string, but got an object instead.",
        "input[1].content",
    ),
    (
        ask([USER, call(arguments={"a": 1}), output()]),
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        "input[1].arguments",
    ),
    (ask([{"type": "reasoning", "id": "rs_1"}]), "Missing required parameter: 'input[0].summary'.", "input[0].summary"),
    (
        ask([{"type": "reasoning", "summary": ["hm"]}]),
        "Invalid type for 'input[0].summary[0]': expected an object, but got a string instead.",
        "input[0].summary[0]",
    ),
    (ask(tools=[{}]), "Missing required parameter: 'tools[0].type'.", "tools[0].type"),
    (
        ask(tools=[{"type": "function", "function": {"name": "look_up"}}]),
        "Missing required parameter: 'tools[0].name'.",
        "tools[0].name",
    ),
    (
        ask(tool_choice=7),
        "Invalid type for 'tool_choice': expected one of an object or 'none', 'auto', or 'required', but got an integer instead.",
        "tool_choice",
    ),
    (ask(tools=[TOOL], tool_choice={"type": "function"}), "Missing required parameter: 'tool_choice.name'.", "tool_choice.name"),
    (
        ask(tool_choice={"type": "function", "name": "look_up"}),
        "Tool choice 'function' not found in 'tools' parameter.",
        "tool_choice",
    ),
    (
        ask(tools=[TOOL], tool_choice={"type": "image_generation"}),
        "Tool choice 'image_generation' not found in 'tools' parameter.",
        "tool_choice",
    ),
    (
        ask(include="x"),
        f"Invalid type for 'include': expected an array of one of {SHORTENED}, but got a string instead.",
        "include",
    ),
    (ask(prompt={}), "Missing required parameter: 'prompt.id'.", "prompt.id"),
    (ask(text={"zzz": 1}), "Unknown parameter: 'text.zzz'.", "text.zzz"),
    (
        ask(text={"format": {"type": "bogus"}}),
        "Invalid value: 'bogus'. Supported values are: 'json_object', 'text', and 'json_schema'.",
        "text.format.type",
    ),
    (ask(text={"format": {"type": "json_schema"}}), "Missing required parameter: 'text.format.name'.", "text.format.name"),
    (
        ask(temperature=2.1),
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.1 instead.",
        "temperature",
    ),
    (
        ask(truncation={"a": 1}),
        "Invalid type for 'truncation': expected one of 'auto' or 'disabled', but got an object instead.",
        "truncation",
    ),
    (
        ask(reasoning={"effort": 5}),
        "Invalid type for 'reasoning.effort': expected one of 'minimal', 'low', 'medium', or 'high', but got an integer instead.",
        "reasoning.effort",
    ),
    (
        ask(reasoning={"effort": ["low"]}),
        f"Invalid type for 'reasoning.effort': expected one of one of {EFFORTS} or integer, but got an array instead.",
        "reasoning.effort",
    ),
    (
        ask(reasoning={"summary": "bogus"}),
        "Invalid value: 'bogus'. Supported values are: 'concise', 'detailed', and 'auto'.",
        "reasoning.summary",
    ),
    (ask(stream_options={"bogus": 1}), "Unknown parameter: 'stream_options.bogus'.", "stream_options.bogus"),
    (ask(metadata={"k": 1}), "Invalid type for 'metadata.k': expected a string, but got an integer instead.", "metadata.k"),
    (
        ask(max_output_tokens=-(10**5000)),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got a very large integer instead.",
        "max_output_tokens",
    ),
]


@pytest.mark.parametrize(("request_", "message", "param"), SENTENCES, ids=[message[:70] for _, message, _ in SENTENCES])
def test_the_sentence_is_the_servers(request_: dict[str, Any], message: str, param: str | None) -> None:
    (complaint, *_) = judge(request_)
    assert (complaint.message, complaint.param) == (message, param)


def test_null_means_left_out_for_every_field_but_model_and_input() -> None:
    assert judge({**dict.fromkeys(KEYS), **ask()}) == []
    assert [complaint.clause.id for complaint in judge({"model": None, "input": None})] == ["V33", "N1"]


def test_what_the_server_accepts_without_printing_it_is_accepted() -> None:
    assert judge(ask(service_tier="scale")) == []
    assert judge(ask(tools=[{"type": "web_search_preview"}], tool_choice={"type": "web_search"})) == []
    assert judge(ask(tools=[{"type": "mcp", "server_label": "s"}], tool_choice={"type": "mcp", "server_label": "s"})) == []


def test_a_tool_may_be_chosen_from_a_namespace_or_from_tools_that_came_later() -> None:
    chosen = {"type": "function", "name": "look_up"}
    space = {"type": "namespace", "name": "space", "description": "", "tools": [TOOL]}
    assert judge(ask(tools=[space], tool_choice=chosen)) == []
    assert judge(ask([{"type": "additional_tools", "role": "developer", "tools": [TOOL]}, USER], tool_choice=chosen)) == []


def test_a_deep_schema_is_followed_to_the_open_object() -> None:
    inner = {"type": "object", "properties": {}}
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": inner}},
        "required": ["rows"],
        "additionalProperties": False,
    }
    (complaint,) = judge(ask(tools=[{**TOOL, "strict": True, "parameters": schema}]))
    assert "In context=('properties', 'rows', 'items'), 'additionalProperties'" in complaint.message


def test_a_type_that_is_printed_but_refused_is_refused() -> None:
    (complaint,) = judge(ask([{"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {}, "status": "completed"}]))
    assert complaint.message.startswith("Invalid value: 'local_shell_call'. Supported values are: ")


def test_azure_may_answer_an_unknown_item_with_400_and_a_code_that_openai_leaves_null() -> None:
    azure = Profile(item_not_found_status=400, code_never_null=True)
    lost = ask([USER, reference("rs_1")])
    (complaint,) = judge(lost, profile=azure)
    assert complaint.status == 400
    assert envelope(complaint, azure)["error"]["code"] == "invalid_request_error"
    (complaint,) = judge(lost, profile=OPENAI)
    assert (complaint.status, envelope(complaint, OPENAI)["error"]["code"]) == (404, None)


def test_a_model_that_nobody_knows_may_reason() -> None:
    assert judge({"model": "gpt-5.5", "input": "Hi", "reasoning": {"effort": "low"}}) == []


@pytest.mark.parametrize("body", ["x", ["x"], 7, None])
def test_what_is_no_object_is_no_request(body: object) -> None:
    (complaint,) = judge(body)
    assert complaint.clause.id == "P0"


def test_a_complaint_says_where_the_offending_item_stands() -> None:
    (complaint,) = judge(ask([USER, said(), call()]))
    assert str(complaint) == "[T1] 400 No tool output found for function call call_1. at input[2]"


def test_the_tool_name_limit_is_a_number_that_may_be_set_or_lifted() -> None:
    long = ask(tools=[{**TOOL, "name": "x" * 129}])
    assert [complaint.clause.id for complaint in judge(long)] == ["T11"]
    assert judge(long, profile=Profile(tool_name_limit=0)) == []


def test_one_bad_request_gets_a_hundred_complaints_at_most() -> None:
    assert len(judge(ask([7] * 1000))) == 100


def test_the_distance_of_words_counts_letters() -> None:
    assert [distance("stop", "store"), distance("", "ab"), distance("ab", ""), distance("abc", "abc")] == [2, 2, 2, 0]


def test_a_screenshot_may_have_failed_as_a_call_may_not() -> None:
    asked = {"type": "computer_call", "call_id": "call_1", "id": "cu_1", "action": {"type": "screenshot"}, "pending_safety_checks": []}
    shot = {"type": "computer_screenshot", "image_url": "https://example.com/1.png"}
    done = {"type": "computer_call_output", "call_id": "call_1", "output": shot, "status": "failed"}
    assert judge(ask([USER, asked, done])) == []
    (complaint, *_) = judge(ask([USER, {**asked, "status": "failed"}, done]))
    assert complaint.message == "Invalid value: 'failed'. Supported values are: 'in_progress', 'completed', and 'incomplete'."
