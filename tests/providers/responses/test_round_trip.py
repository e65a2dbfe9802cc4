"""What the provider sent goes back to it as it came: members of messages and calls, other kinds of calls, and what it did by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call, Content, Hosted, Item, Words
from legato.core.turn_context import ToolSpec
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.options import Options
from legato.providers.formats.responses.compile import compile_request
from legato.providers.formats.responses.read import read_reply
from legato.providers.formats.responses.round_trip import BY_VALUE, MEMBERS, NOT_BY_VALUE
from legato.providers.formats.responses.stream import StreamReader
from legato.providers.rules.responses.laws import judge
from legato.providers.rules.responses.shapes import ITEM_SHAPES
from tests.providers.chat.talk import LOOK_UP, Talk

HERE = "responses http://here/v1 m"
THERE = "responses http://there/v1 m"
RUN = ToolSpec("run", "Run a command.", '{"type":"object","properties":{"input":{"type":"string"}}}')

MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "look_up", "arguments": "{}", "status": "completed"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_b", "name": "run", "input": "ls -l", "status": "completed"}
SEARCH = {
    "type": "tool_search_call", "id": "tsc_1", "call_id": "call_c", "execution": "client", "arguments": {"query": "rates"},
    "status": "completed",
}  # fmt: skip
PROGRAM = {"type": "program", "id": "prog_1", "call_id": "call_d", "code": "look_up()", "fingerprint": "gAAAA"}
BY_PROGRAM = {"type": "program", "caller_id": "call_d"}


def said(text: str, **members: Any) -> dict[str, Any]:
    """A message of the model's."""
    return {**MESSAGE, "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}], **members}


def items_of(*output: dict[str, Any]) -> tuple[Item, ...]:
    """What is recorded of a reply, which is the same whether it came whole or in a stream."""
    body = {"id": "resp_1", "status": "completed", "output": list(output)}
    asked = Compiled(b"{}", {})
    reader = StreamReader(lambda text: None)
    for index, item in enumerate(output):
        reader.take(json.dumps({"type": "response.output_item.done", "output_index": index, "item": item}).encode())
    reader.take(json.dumps({"type": "response.completed", "response": {**body, "output": []}}).encode())
    streamed = reader.reply(asked, HERE).items
    assert read_reply(body, asked, HERE).items == streamed
    return streamed


def sent_back(*output: dict[str, Any], outputs: tuple[Content, ...] = (), origin: str = HERE, **options: Any) -> list[dict[str, Any]]:
    """What the next request has between the user's two messages."""
    return follow_up(*output, outputs=outputs, origin=origin, **options)["input"][1:-1]


def follow_up(*output: dict[str, Any], outputs: tuple[Content, ...] = (), origin: str = HERE, **options: Any) -> dict[str, Any]:
    """The request that follows a reply. It breaks no rule."""
    talk = Talk().says("Hello").replies(*items_of(*output), outputs=outputs, origin=origin).says("And now?")
    made = compile_request(talk.request(tools=(LOOK_UP, RUN)), Options("m", **options), HERE, stream=False)
    assert made.complaints == ()
    body: dict[str, Any] = json.loads(made.body)
    assert judge(body) == []
    return body


@pytest.mark.parametrize("phase", ["commentary", "final_answer"])
def test_the_phase_of_a_message_goes_back(phase: str) -> None:
    assert items_of(said("Yes.", phase=phase)) == (Words("Yes.", "msg_1", "", f'{{"phase":"{phase}"}}'),)
    assert sent_back(said("Yes.", phase=phase)) == [{"role": "assistant", "content": "Yes.", "phase": phase}]
    assert sent_back(said("Yes.", phase=phase), origin=THERE) == [{"role": "assistant", "content": "Yes."}]


def test_a_phase_that_is_not_known_stays_behind() -> None:
    assert sent_back(said("Yes.", phase="afterthought")) == [{"role": "assistant", "content": "Yes."}]


def test_citations_go_back_to_their_provider() -> None:
    cited = {"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 3}
    content = [{"type": "output_text", "text": "Yes.", "annotations": [cited]}]
    assert sent_back({**MESSAGE, "content": content}) == [{"role": "assistant", "content": content}]
    assert sent_back({**MESSAGE, "content": content}, origin=THERE) == [{"role": "assistant", "content": "Yes."}]


def test_the_namespace_of_a_call_goes_back() -> None:
    """The call is still one of the agent's tool, which is known by its name."""
    (recorded,) = items_of({**CALL, "namespace": "orders"})
    assert recorded == Call("look_up", "{}", "call_a", "fc_1", '{"namespace":"orders"}')
    call, output = sent_back({**CALL, "namespace": "orders"})
    assert call == {"type": "function_call", "call_id": "call_a", "name": "look_up", "arguments": "{}", "namespace": "orders"}
    assert output == {"type": "function_call_output", "call_id": "call_a", "output": "done"}
    assert "namespace" not in sent_back({**CALL, "namespace": "orders"}, origin=THERE)[0]


@pytest.mark.parametrize(
    ("declared", "namespace"),
    [
        ({"type": "function", "name": "look_up", "defer_loading": True}, "look_up"),
        ({"type": "namespace", "name": "orders", "tools": [{"type": "function", "name": "look_up"}]}, "orders"),
        ({"type": "function", "name": "look_up"}, None),
    ],
    ids=["loaded later", "in a namespace", "at the top"],
)
def test_another_models_call_gets_the_namespace_of_today(declared: dict[str, Any], namespace: str | None) -> None:
    """Without it the provider would refuse the call."""
    call, _ = sent_back(CALL, origin=THERE, hosted=(declared,))
    assert call.get("namespace") == namespace


def test_members_of_the_wrong_type_are_not_recorded() -> None:
    assert items_of({**CALL, "namespace": 7, "caller": "direct"}) == (Call("look_up", "{}", "call_a", "fc_1"),)
    assert items_of(said("Yes.", phase=["final_answer"])) == (Words("Yes.", "msg_1"),)


def test_a_program_goes_back_with_its_calls() -> None:
    """Its fingerprint belongs to its id; the output of a call says who called, as the call did."""
    program, call, output = sent_back(PROGRAM, {**CALL, "caller": BY_PROGRAM})
    assert program == PROGRAM
    assert call["caller"] == output["caller"] == BY_PROGRAM


def test_a_call_of_no_program_is_a_plain_call() -> None:
    """The program is gone: it was erased, or the agent's history does not reach back to it. Nor can it have output."""
    output = {"type": "program_output", "id": "po_1", "call_id": "call_d", "result": "7", "status": "completed"}
    call, answer = sent_back({**CALL, "caller": BY_PROGRAM}, output)
    assert "caller" not in call
    assert "caller" not in answer
    assert answer["type"] == "function_call_output"


def test_a_program_goes_on_in_later_replies() -> None:
    output = {"type": "program_output", "id": "po_1", "call_id": "call_d", "result": "7", "status": "completed"}
    second = {**CALL, "call_id": "call_e", "caller": BY_PROGRAM}
    talk = Talk().says("Hello").replies(*items_of(PROGRAM, {**CALL, "caller": BY_PROGRAM}), origin=HERE)
    talk.replies(*items_of(second), origin=HERE).replies(*items_of(output, said("Seven.")), origin=HERE).says("And now?")
    sent = json.loads(compile_request(talk.request(tools=(LOOK_UP, RUN)), Options("m"), HERE, stream=False).body)["input"]
    assert [item.get("type") for item in sent[1:-2]] == ["program", *["function_call", "function_call_output"] * 2, "program_output"]
    assert all(item["caller"] == BY_PROGRAM for item in sent[2:6])


def test_a_custom_call_stays_a_custom_call() -> None:
    (recorded,) = items_of(CUSTOM)
    assert recorded == Call("run", '{"input":"ls -l"}', "call_b", "ctc_1", '{"type":"custom_tool_call"}')
    call, output = sent_back(CUSTOM, outputs=("a file",))
    assert call == {"type": "custom_tool_call", "call_id": "call_b", "name": "run", "input": "ls -l"}
    assert output == {"type": "custom_tool_call_output", "call_id": "call_b", "output": "a file"}


def test_another_provider_reads_a_custom_call_as_a_function() -> None:
    call, output = sent_back(CUSTOM, origin=THERE)
    assert call == {"type": "function_call", "call_id": "call_b", "name": "run", "arguments": '{"input":"ls -l"}'}
    assert output["type"] == "function_call_output"


@pytest.mark.parametrize(
    ("hosted", "declared"),
    [
        ({"type": "custom", "name": "run"}, "custom"),
        ({"type": "function", "name": "run", "defer_loading": True, "parameters": {"type": "object"}}, "function"),
        ({"type": "namespace", "name": "shell", "tools": [{"type": "function", "name": "run"}]}, "function"),
    ],
    ids=["custom", "deferred", "in a namespace"],
)
def test_a_tool_that_options_declare_is_declared_once(hosted: dict[str, Any], declared: str) -> None:
    body = follow_up(said("Yes."), hosted=(hosted,), tool_choice="run")
    assert [tool["name"] for tool in body["tools"]] == ["look_up", hosted["name"]]
    assert body["tool_choice"] == {"type": declared, "name": "run"}


def test_a_clients_search_for_tools_is_a_call() -> None:
    (recorded,) = items_of(SEARCH)
    assert isinstance(recorded, Call)
    assert (recorded.tool, recorded.arguments) == ("tool_search", '{"query":"rates"}')
    found = [{"type": "function", "name": "rates", "defer_loading": True}]
    call, output = sent_back(SEARCH, outputs=(json.dumps(found),))
    assert call == {name: value for name, value in SEARCH.items() if name != "id"}
    assert output == {"type": "tool_search_output", "call_id": "call_c", "execution": "client", "status": "completed", "tools": found}


def test_a_search_that_found_no_tools_is_answered_in_words() -> None:
    _, output = sent_back(SEARCH, outputs=("there is no such tool",))
    assert output == {"type": "function_call_output", "call_id": "call_c", "output": "there is no such tool"}


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        ({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA", "created_by": "m"}, {"encrypted_content": "gAAAA"}),
        (
            {"type": "code_interpreter_call", "id": "ci_9", "code": "1", "container_id": "cntr_1", "outputs": None, "status": "completed"},
            {"id": "ci_2_0", "code": "1", "container_id": "cntr_1", "status": "completed"},
        ),
        (
            {"type": "tool_search_call", "id": "tsc_1", "call_id": None, "execution": "server", "arguments": {}, "status": "completed"},
            {"execution": "server", "arguments": {}, "status": "completed"},
        ),
        (
            {"type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server", "tools": [], "status": "completed"},
            {"execution": "server", "tools": [], "status": "completed"},
        ),
        (
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo=", "output_format": "png"},
            None,
        ),
    ],
    ids=lambda value: value.get("type", "") if isinstance(value, dict) else "",
)
def test_what_the_provider_did_goes_back_by_value(item: dict[str, Any], sent: dict[str, Any] | None) -> None:
    assert isinstance(items_of(item)[0], Hosted)
    assert sent_back(item, said("Yes."))[0] == ({"type": item["type"], **sent} if sent is not None else item)
    assert sent_back(item, said("Yes."), origin=THERE) == [{"role": "assistant", "content": "Yes."}]


SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "call_e", "action": {"commands": ["ls"]}, "status": "completed"}
RAN = {
    "type": "shell_call_output", "id": "sho_1", "call_id": "call_e", "status": "completed", "max_output_length": 100,
    "output": [{"stdout": "a file", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}  # fmt: skip


def test_commands_go_back_if_the_provider_ran_them() -> None:
    assert [item.get("type") for item in sent_back(SHELL, RAN, said("Yes."))] == ["shell_call", "shell_call_output", None]
    assert [item.get("type") for item in sent_back(SHELL, said("Yes."))] == [None]


def test_every_type_of_output_has_a_way_back_or_a_reason() -> None:
    """No item of the provider's is forgotten in these tables."""
    answers = {kind for kind in ITEM_SHAPES if kind.endswith("_output")} - BY_VALUE.keys()
    sent_by_callers = {"item_reference", "mcp_approval_response", "compaction_trigger", "additional_tools", "configuration_update"}
    undocumented = {"agent_message", "multi_agent_call"}
    made = ITEM_SHAPES.keys() - answers - sent_by_callers - undocumented | {"local_shell_call"}
    assert made == {*MEMBERS, *BY_VALUE, *NOT_BY_VALUE, "reasoning"}
    assert not BY_VALUE.keys() & NOT_BY_VALUE.keys()
