"""The type shapes accept everything that the API sends, and know every member that the official package knows."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import typing_extensions
from openai.types.responses import ResponseOutputItem
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.response_item import ResponseItem
from pydantic import TypeAdapter

from legato.providers.rules.responses.rules import check_request
from legato.providers.rules.responses.type_shapes import ITEM_SHAPES
from tests.providers.rules.responses.sample_requests import FOLLOW_UP, USER_MESSAGE, make_output, make_request

REFUSED_TYPES = {"local_shell_call", "local_shell_call_output"}  # the server lists them in its errors, and refuses them

OUTPUT_ITEMS: dict[str, dict[str, Any]] = {
    "message": {
        "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "final_answer",
        "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "good day"}],
    },
    "refusal": {
        "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "refusal", "refusal": "no"}],
    },
    "function_call": {
        "id": "fc_1", "type": "function_call", "status": "completed", "arguments": "{}", "call_id": "call_1", "name": "look_up",
        "namespace": "n",
    },
    "web_search_call": {
        "id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "a"},
    },
    "code_interpreter_call": {
        "id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "1", "container_id": "cntr_1", "outputs": None,
    },
    "mcp_list_tools": {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "s", "tools": [], "error": None},
    "mcp_call": {
        "id": "mcp_1", "type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": "o", "error": None,
        "approval_request_id": None, "status": "completed",
    },
    "mcp_approval_request": {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "s", "name": "n", "arguments": "{}"},
    "computer_call": {
        "id": "cu_1", "type": "computer_call", "call_id": "call_2", "status": "completed", "pending_safety_checks": [],
        "action": {"type": "screenshot"},
    },
    "custom_tool_call": {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "n", "input": "i"},
    "shell_call": {
        "id": "sh_1", "type": "shell_call", "call_id": "call_2", "status": "completed", "environment": None,
        "action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
    },
    "tool_search_call": {
        "id": "tsc_1", "type": "tool_search_call", "arguments": {}, "call_id": None, "execution": "server", "status": "completed",
    },
    "compaction": {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA"},
}  # fmt: skip
OUTPUTS = {
    "function_call": make_output(),
    "custom_tool_call": {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
}


@pytest.mark.parametrize("name", OUTPUT_ITEMS)
def test_output_items_of_the_sdk_are_accepted(name: str) -> None:
    """As the official package sends them back."""
    item = TypeAdapter(ResponseOutputItem).validate_python(OUTPUT_ITEMS[name])
    dumped = item.model_dump(mode="json", exclude_unset=True)
    outputs = [OUTPUTS[name]] if name in OUTPUTS else []
    assert check_request(make_request([USER_MESSAGE, dumped, *outputs, FOLLOW_UP])) == []


def test_encrypted_reasoning_is_accepted_with_its_reply() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA", "content": None}
    dumped = TypeAdapter(ResponseOutputItem).validate_python(reasoning).model_dump(mode="json", exclude_unset=True)
    assert check_request(make_request([USER_MESSAGE, dumped, OUTPUT_ITEMS["message"], FOLLOW_UP], store=False)) == []


def test_dumped_reasoning_with_null_status_is_refused() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    dumped = TypeAdapter(ResponseOutputItem).validate_python(reasoning).model_dump(mode="json")
    (violation,) = check_request(make_request([USER_MESSAGE, dumped, OUTPUT_ITEMS["message"], FOLLOW_UP], store=False))
    assert violation.message == "Unknown parameter: 'input[1].status'."


def _list_published_members() -> dict[str, set[str]]:
    """List the members of each type of item in the official package."""
    members: dict[str, set[str]] = {}
    for row in get_args(ResponseInputItemParam):
        hints = typing_extensions.get_type_hints(row)
        types = [type for each in (hints["type"], *get_args(hints["type"])) for type in get_args(each) if isinstance(type, str)]
        members.setdefault(types[0], set()).update(hints)
    for model in (*get_args(get_args(ResponseOutputItem)[0]), *get_args(get_args(ResponseItem)[0])):
        (type,) = get_args(model.model_fields["type"].annotation)
        members.setdefault(type, set()).update(field.alias or name for name, field in model.model_fields.items())
    return members


@pytest.mark.parametrize(("type", "members"), _list_published_members().items())
def test_published_members_of_items_are_known(type: str, members: set[str]) -> None:
    if type in REFUSED_TYPES:
        assert type not in ITEM_SHAPES
    else:
        assert members <= ITEM_SHAPES[type].member_types.keys()


def test_item_type_is_inferred() -> None:
    assert [violation.rule.id for violation in check_request(make_request([{"id": "msg_unknown"}]))] == ["I3"]
    assert check_request(make_request([{"role": "user", "content": "hello", "id": "msg_mine"}])) == []
