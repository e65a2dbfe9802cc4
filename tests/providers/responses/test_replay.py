"""Whatever the API puts out it takes back, and the table of shapes knows every member that the official package knows."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import typing_extensions
from openai.types.responses import ResponseOutputItem
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from openai.types.responses.response_item import ResponseItem
from pydantic import TypeAdapter

from legato.providers.rules.responses.laws import judge
from legato.providers.rules.responses.shapes import ITEM_SHAPES
from tests.providers.responses.lawcase import AGAIN, USER, ask, output

REFUSED = {"local_shell_call", "local_shell_call_output"}  # listed by the server, and refused

EMITTED: dict[str, dict[str, Any]] = {
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
AFTER = {
    "function_call": output(),
    "custom_tool_call": {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
}


@pytest.mark.parametrize("name", EMITTED)
def test_what_was_put_out_is_taken_back_as_the_official_package_sends_it(name: str) -> None:
    item = TypeAdapter(ResponseOutputItem).validate_python(EMITTED[name])
    sent = item.model_dump(mode="json", exclude_unset=True)
    rest = [AFTER[name]] if name in AFTER else []
    assert judge(ask([USER, sent, *rest, AGAIN])) == []


def test_sealed_reasoning_is_taken_back_before_what_followed_it() -> None:
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA", "content": None}
    sent = TypeAdapter(ResponseOutputItem).validate_python(thought).model_dump(mode="json", exclude_unset=True)
    assert judge(ask([USER, sent, EMITTED["message"], AGAIN], store=False)) == []


def test_a_dump_that_spells_out_what_is_unset_is_refused_for_its_null_status() -> None:
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    sent = TypeAdapter(ResponseOutputItem).validate_python(thought).model_dump(mode="json")
    (complaint,) = judge(ask([USER, sent, EMITTED["message"], AGAIN], store=False))
    assert complaint.message == "Unknown parameter: 'input[1].status'."


def _published() -> dict[str, set[str]]:
    """Members by type of item, as the official package has them."""
    members: dict[str, set[str]] = {}
    for row in get_args(ResponseInputItemParam):
        hints = typing_extensions.get_type_hints(row)
        kinds = [kind for each in (hints["type"], *get_args(hints["type"])) for kind in get_args(each) if isinstance(kind, str)]
        members.setdefault(kinds[0], set()).update(hints)
    for model in (*get_args(get_args(ResponseOutputItem)[0]), *get_args(get_args(ResponseItem)[0])):
        (kind,) = get_args(model.model_fields["type"].annotation)
        members.setdefault(kind, set()).update(field.alias or name for name, field in model.model_fields.items())
    return members


@pytest.mark.parametrize(("kind", "members"), _published().items())
def test_every_published_member_of_an_item_is_known(kind: str, members: set[str]) -> None:
    if kind in REFUSED:
        assert kind not in ITEM_SHAPES
    else:
        assert members <= ITEM_SHAPES[kind].kinds.keys()


def test_an_item_without_a_type_is_a_message_or_a_reference() -> None:
    assert [complaint.clause.id for complaint in judge(ask([{"id": "msg_unknown"}]))] == ["I3"]
    assert judge(ask([{"role": "user", "content": "hello", "id": "msg_mine"}])) == []
