"""Items are replayed to their provider as they came: members of messages and calls, other types of calls, and hosted items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call, Content, HostedToolUse, OutputText, ReplyItem
from legato.core.turn_context import ToolSpec
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.request_options import RequestOptions
from legato.providers.formats.responses.decode import decode_reply
from legato.providers.formats.responses.encode import encode_request
from legato.providers.formats.responses.item_replay import REPLAYED_ITEM_ID_PREFIXES, REPLAYED_MEMBERS, UNREPLAYABLE_ITEMS
from legato.providers.formats.responses.stream import ResponsesStreamDecoder
from legato.providers.rules.responses.rules import check_request
from legato.providers.rules.responses.type_shapes import ITEM_SHAPES
from tests.providers.formats.chat.conversations import LOOK_UP_TOOL, ConversationBuilder

ORIGIN = "responses http://here/v1 m"
OTHER_ORIGIN = "responses http://there/v1 m"
RUN_TOOL = ToolSpec("run", "Run a command.", '{"type":"object","properties":{"input":{"type":"string"}}}')

MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "look_up", "arguments": "{}", "status": "completed"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_b", "name": "run", "input": "ls -l", "status": "completed"}
SEARCH = {
    "type": "tool_search_call", "id": "tsc_1", "call_id": "call_c", "execution": "client", "arguments": {"query": "rates"},
    "status": "completed",
}  # fmt: skip
PROGRAM = {"type": "program", "id": "prog_1", "call_id": "call_d", "code": "look_up()", "fingerprint": "gAAAA"}
BY_PROGRAM = {"type": "program", "caller_id": "call_d"}


def make_message_item(text: str, **members: Any) -> dict[str, Any]:
    """Return a message item of the model."""
    return {**MESSAGE, "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}], **members}


def decode_items(*output: dict[str, Any]) -> tuple[ReplyItem, ...]:
    """Decode a reply, whole and streamed, which must be the same."""
    body = {"id": "resp_1", "status": "completed", "output": list(output)}
    request = EncodedRequest(b"{}", {})
    decoder = ResponsesStreamDecoder(lambda text: None)
    for index, item in enumerate(output):
        decoder.feed(json.dumps({"type": "response.output_item.done", "output_index": index, "item": item}).encode())
    decoder.feed(json.dumps({"type": "response.completed", "response": {**body, "output": []}}).encode())
    streamed = decoder.build_reply(request, ORIGIN).items
    assert decode_reply(body, request, ORIGIN).items == streamed
    return streamed


def find_replayed_items(
    *output: dict[str, Any], outputs: tuple[Content, ...] = (), origin: str = ORIGIN, **options: Any
) -> list[dict[str, Any]]:
    """Return the items between the user's two messages in the next request."""
    return encode_next_request(*output, outputs=outputs, origin=origin, **options)["input"][1:-1]


def encode_next_request(*output: dict[str, Any], outputs: tuple[Content, ...] = (), origin: str = ORIGIN, **options: Any) -> dict[str, Any]:
    """Encode the request after a reply, and check that it breaks no rule."""
    talk = (
        ConversationBuilder().add_message("Hello").add_reply(*decode_items(*output), outputs=outputs, origin=origin).add_message("And now?")
    )
    request = encode_request(talk.build_request(tools=(LOOK_UP_TOOL, RUN_TOOL)), RequestOptions("m", **options), ORIGIN, stream=False)
    assert request.violations == ()
    body: dict[str, Any] = json.loads(request.body)
    assert check_request(body) == []
    return body


@pytest.mark.parametrize("phase", ["commentary", "final_answer"])
def test_phase_of_a_message_is_replayed(phase: str) -> None:
    assert decode_items(make_message_item("Yes.", phase=phase)) == (OutputText("Yes.", "msg_1", "", f'{{"phase":"{phase}"}}'),)
    assert find_replayed_items(make_message_item("Yes.", phase=phase)) == [{"role": "assistant", "content": "Yes.", "phase": phase}]
    assert find_replayed_items(make_message_item("Yes.", phase=phase), origin=OTHER_ORIGIN) == [{"role": "assistant", "content": "Yes."}]


def test_unknown_phase_is_not_replayed() -> None:
    assert find_replayed_items(make_message_item("Yes.", phase="afterthought")) == [{"role": "assistant", "content": "Yes."}]


def test_citations_are_replayed_to_their_provider() -> None:
    cited = {"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 3}
    content = [{"type": "output_text", "text": "Yes.", "annotations": [cited]}]
    assert find_replayed_items({**MESSAGE, "content": content}) == [{"role": "assistant", "content": content}]
    assert find_replayed_items({**MESSAGE, "content": content}, origin=OTHER_ORIGIN) == [{"role": "assistant", "content": "Yes."}]


def test_namespace_of_a_call_is_replayed() -> None:
    """The call still runs the agent's tool, by its name."""
    (recorded,) = decode_items({**CALL, "namespace": "orders"})
    assert recorded == Call("look_up", "{}", "call_a", "fc_1", '{"namespace":"orders"}')
    call, output = find_replayed_items({**CALL, "namespace": "orders"})
    assert call == {"type": "function_call", "call_id": "call_a", "name": "look_up", "arguments": "{}", "namespace": "orders"}
    assert output == {"type": "function_call_output", "call_id": "call_a", "output": "done"}
    assert "namespace" not in find_replayed_items({**CALL, "namespace": "orders"}, origin=OTHER_ORIGIN)[0]


@pytest.mark.parametrize(
    ("declared", "namespace"),
    [
        ({"type": "function", "name": "look_up", "defer_loading": True}, "look_up"),
        ({"type": "namespace", "name": "orders", "tools": [{"type": "function", "name": "look_up"}]}, "orders"),
        ({"type": "function", "name": "look_up"}, None),
    ],
    ids=["loaded later", "in a namespace", "at the top"],
)
def test_foreign_call_gets_the_declared_namespace(declared: dict[str, Any], namespace: str | None) -> None:
    """Without it the provider would refuse the call."""
    call, _ = find_replayed_items(CALL, origin=OTHER_ORIGIN, hosted=(declared,))
    assert call.get("namespace") == namespace


def test_members_of_the_wrong_type_are_not_recorded() -> None:
    assert decode_items({**CALL, "namespace": 7, "caller": "direct"}) == (Call("look_up", "{}", "call_a", "fc_1"),)
    assert decode_items(make_message_item("Yes.", phase=["final_answer"])) == (OutputText("Yes.", "msg_1"),)


def test_program_is_replayed_with_its_calls() -> None:
    """The fingerprint belongs to the program's id; the output of a call has the call's caller."""
    program, call, output = find_replayed_items(PROGRAM, {**CALL, "caller": BY_PROGRAM})
    assert program == PROGRAM
    assert call["caller"] == output["caller"] == BY_PROGRAM


def test_call_without_its_program_is_plain() -> None:
    """The program is missing: it was erased, or the agent's view does not have it. It can have no output either."""
    output = {"type": "program_output", "id": "po_1", "call_id": "call_d", "result": "7", "status": "completed"}
    call, answer = find_replayed_items({**CALL, "caller": BY_PROGRAM}, output)
    assert "caller" not in call
    assert "caller" not in answer
    assert answer["type"] == "function_call_output"


def test_program_continues_in_later_replies() -> None:
    output = {"type": "program_output", "id": "po_1", "call_id": "call_d", "result": "7", "status": "completed"}
    second = {**CALL, "call_id": "call_e", "caller": BY_PROGRAM}
    talk = ConversationBuilder().add_message("Hello").add_reply(*decode_items(PROGRAM, {**CALL, "caller": BY_PROGRAM}), origin=ORIGIN)
    talk.add_reply(*decode_items(second), origin=ORIGIN).add_reply(
        *decode_items(output, make_message_item("Seven.")), origin=ORIGIN
    ).add_message("And now?")
    items = json.loads(encode_request(talk.build_request(tools=(LOOK_UP_TOOL, RUN_TOOL)), RequestOptions("m"), ORIGIN, stream=False).body)[
        "input"
    ]
    assert [item.get("type") for item in items[1:-2]] == ["program", *["function_call", "function_call_output"] * 2, "program_output"]
    assert all(item["caller"] == BY_PROGRAM for item in items[2:6])


def test_custom_call_stays_a_custom_call() -> None:
    (recorded,) = decode_items(CUSTOM)
    assert recorded == Call("run", '{"input":"ls -l"}', "call_b", "ctc_1", '{"type":"custom_tool_call"}')
    call, output = find_replayed_items(CUSTOM, outputs=("a file",))
    assert call == {"type": "custom_tool_call", "call_id": "call_b", "name": "run", "input": "ls -l"}
    assert output == {"type": "custom_tool_call_output", "call_id": "call_b", "output": "a file"}


def test_other_providers_get_custom_calls_as_functions() -> None:
    call, output = find_replayed_items(CUSTOM, origin=OTHER_ORIGIN)
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
def test_tool_declared_by_options_is_declared_once(hosted: dict[str, Any], declared: str) -> None:
    body = encode_next_request(make_message_item("Yes."), hosted=(hosted,), tool_choice="run")
    assert [tool["name"] for tool in body["tools"]] == ["look_up", hosted["name"]]
    assert body["tool_choice"] == {"type": declared, "name": "run"}


def test_tool_search_of_the_client_is_a_call() -> None:
    (recorded,) = decode_items(SEARCH)
    assert isinstance(recorded, Call)
    assert (recorded.tool, recorded.arguments) == ("tool_search", '{"query":"rates"}')
    found = [{"type": "function", "name": "rates", "defer_loading": True}]
    call, output = find_replayed_items(SEARCH, outputs=(json.dumps(found),))
    assert call == {name: value for name, value in SEARCH.items() if name != "id"}
    assert output == {"type": "tool_search_output", "call_id": "call_c", "execution": "client", "status": "completed", "tools": found}


def test_empty_tool_search_is_answered_in_text() -> None:
    _, output = find_replayed_items(SEARCH, outputs=("there is no such tool",))
    assert output == {"type": "function_call_output", "call_id": "call_c", "output": "there is no such tool"}


@pytest.mark.parametrize(
    ("item", "replayed"),
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
def test_hosted_items_are_replayed_by_value(item: dict[str, Any], replayed: dict[str, Any] | None) -> None:
    assert isinstance(decode_items(item)[0], HostedToolUse)
    assert find_replayed_items(item, make_message_item("Yes."))[0] == ({"type": item["type"], **replayed} if replayed is not None else item)
    assert find_replayed_items(item, make_message_item("Yes."), origin=OTHER_ORIGIN) == [{"role": "assistant", "content": "Yes."}]


SHELL_CALL = {"type": "shell_call", "id": "sh_1", "call_id": "call_e", "action": {"commands": ["ls"]}, "status": "completed"}
SHELL_OUTPUT = {
    "type": "shell_call_output", "id": "sho_1", "call_id": "call_e", "status": "completed", "max_output_length": 100,
    "output": [{"stdout": "a file", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}  # fmt: skip


def test_commands_are_replayed_if_the_provider_ran_them() -> None:
    assert [item.get("type") for item in find_replayed_items(SHELL_CALL, SHELL_OUTPUT, make_message_item("Yes."))] == [
        "shell_call",
        "shell_call_output",
        None,
    ]
    assert [item.get("type") for item in find_replayed_items(SHELL_CALL, make_message_item("Yes."))] == [None]


def test_every_item_type_is_replayed_or_excused() -> None:
    """The tables name every type of item."""
    answers = {kind for kind in ITEM_SHAPES if kind.endswith("_output")} - REPLAYED_ITEM_ID_PREFIXES.keys()
    sent_by_callers = {"item_reference", "mcp_approval_response", "compaction_trigger", "additional_tools", "configuration_update"}
    undocumented = {"agent_message", "multi_agent_call"}
    request = ITEM_SHAPES.keys() - answers - sent_by_callers - undocumented | {"local_shell_call"}
    assert request == {*REPLAYED_MEMBERS, *REPLAYED_ITEM_ID_PREFIXES, *UNREPLAYABLE_ITEMS, "reasoning"}
    assert not REPLAYED_ITEM_ID_PREFIXES.keys() & UNREPLAYABLE_ITEMS.keys()
