"""Test cases of the rules about stored state: previous responses, conversations, item ids, and the context window."""

from __future__ import annotations

from legato.emulator.fake_models.base import ReplyCall, ReplyText
from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    NON_REASONING_MODEL,
    TOOL,
    USER_MESSAGE,
    make_call,
    make_case,
    make_output,
    make_permission_case,
    make_reference,
    make_reply,
    make_request,
)
from tests.providers.rules.rule_cases import SetupStep

REPLY_STEP = SetupStep.respond(make_request(), ReplyText("good day"), save_as="r1")
CALL_STEP = SetupStep.respond(make_request(tools=[TOOL]), ReplyCall("look_up", "{}"), save_as="r1")
CONVERSATION_STEP = SetupStep.conversation(USER_MESSAGE, make_reply(), save_as="c1")
CONTINUING_REQUEST = make_request([FOLLOW_UP], previous_response_id="{r1.id}")
ZERO_RETENTION = {"zero_data_retention": True}

NOT_FOUND_MESSAGE = "Previous response with id '{r1.id}' not found."
UNSTORED_EXPLANATION = (
    " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
)
ZERO_RETENTION_EXPLANATION = (
    " Items are not persisted for Zero Data Retention organizations. Remove this item from your input and try again."
)

CASES = [
    make_case(
        "S1",
        CONTINUING_REQUEST,
        make_request([USER_MESSAGE, make_reply("good day"), FOLLOW_UP]),
        NOT_FOUND_MESSAGE,
        "previous_response_id",
        "previous_response_not_found",
        setup=(REPLY_STEP, SetupStep.delete("r1")),
    ),
    make_case(
        "S2",
        CONTINUING_REQUEST,
        make_request([USER_MESSAGE, make_reply("good day"), FOLLOW_UP]),
        NOT_FOUND_MESSAGE,
        "previous_response_id",
        "previous_response_not_found",
        setup=(REPLY_STEP, SetupStep.expire("r1")),
    ),
    make_case(
        "S5",
        make_request([FOLLOW_UP], previous_response_id="resp_1"),
        make_request([USER_MESSAGE, make_reply(), FOLLOW_UP]),
        "Previous response cannot be used for this organization due to Zero Data Retention.",
        "previous_response_id",
        "unsupported_parameter",
        switches=ZERO_RETENTION,
    ),
    make_case(
        "S6",
        make_request([FOLLOW_UP], conversation="conv_1"),
        make_request([USER_MESSAGE, make_reply(), FOLLOW_UP]),
        "Conversation ID cannot be used for this organization due to Zero Data Retention.",
        "conversation",
        "unsupported_parameter",
        switches=ZERO_RETENTION,
    ),
    make_case(
        "S7",
        make_request([FOLLOW_UP], previous_response_id="{r1.id}", conversation="{c1.id}"),
        make_request([FOLLOW_UP], conversation="{c1.id}"),
        "Mutually exclusive parameters: ''. Ensure you are only providing one of: 'pre..._id' or 'conversation'.",
        None,
        "mutually_exclusive_parameters",
        setup=(REPLY_STEP, CONVERSATION_STEP),
    ),
    make_case(
        "S8",
        make_request([FOLLOW_UP], conversation="conv_unknown"),
        make_request([FOLLOW_UP], conversation={"id": "{c1.id}"}),
        "Conversation with id 'conv_unknown' not found.",
        status=404,
        setup=(CONVERSATION_STEP,),
    ),
    make_case(
        "S9",
        make_request([FOLLOW_UP], conversation="{c1.id}"),
        make_request([FOLLOW_UP], conversation="{c2.id}"),
        "Another process is currently operating on this conversation. Please retry in a few seconds.",
        "conversation",
        "conversation_locked",
        setup=(CONVERSATION_STEP, SetupStep.conversation(USER_MESSAGE, save_as="c2"), SetupStep.lock("c1")),
    ),
    make_case("S10", make_request(prompt={"id": "pmpt_unknown"}), make_request(), "Prompt with id 'pmpt_unknown' not found.", status=404),
    make_permission_case(
        "S11",
        make_request([FOLLOW_UP], previous_response_id="{r1.id}", instructions="be loud", tools=[TOOL]),
        SetupStep.respond(make_request(instructions="be quiet"), ReplyText("good day"), save_as="r1"),
    ),
    make_permission_case(
        "S12", make_request([make_output("{r1.output[0].call_id}")], previous_response_id="{r1.id}", tools=[TOOL]), CALL_STEP
    ),
    make_permission_case("S13", CONTINUING_REQUEST, REPLY_STEP),
    make_permission_case("S14", {**CONTINUING_REQUEST, "store": False}, REPLY_STEP),
    make_case(
        "N22",
        make_request([]),
        make_request([USER_MESSAGE]),
        "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
        None,
        "missing_required_parameter",
    ),
    make_case(
        "I1",
        make_request([USER_MESSAGE, make_reference("rs_unknown"), FOLLOW_UP], store=False),
        make_request([USER_MESSAGE, FOLLOW_UP], store=False),
        f"Item with id 'rs_unknown' not found.{UNSTORED_EXPLANATION}",
        "input",
        status=404,
    ),
    make_case(
        "I2",
        make_request([USER_MESSAGE, make_reference("fc_unknown"), make_output()]),
        make_request([USER_MESSAGE, make_call(), make_output()]),
        f"Item with id 'fc_unknown' not found.{ZERO_RETENTION_EXPLANATION}",
        "input",
        status=404,
        switches=ZERO_RETENTION,
    ),
    make_case(
        "I3",
        make_request([USER_MESSAGE, {"type": "reasoning", "id": "rs_unknown", "summary": []}, make_reply(), FOLLOW_UP]),
        make_request([USER_MESSAGE, make_reply(), FOLLOW_UP]),
        "Item with id 'rs_unknown' not found.",
        "input",
        status=404,
    ),
    make_permission_case(
        "I5",
        make_request(
            [
                USER_MESSAGE,
                {"type": "message", "id": "msg_probe", "status": "completed", **make_reply()},
                {"type": "web_search_call", "id": "ws_probe", "status": "completed", "action": {"type": "search", "query": "a"}},
                {"type": "mcp_call", "id": "mcp_probe", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
                make_call(id="fc_probe"),
                make_output(),
            ]
        ),
    ),
    make_permission_case(
        "I7",
        make_request([USER_MESSAGE, make_reference("{r1.output[0].id}"), make_output("{r1.output[0].call_id}")], tools=[TOOL]),
        CALL_STEP,
    ),
    make_case(
        "I8",
        make_request(["{r1.output[0]}", FOLLOW_UP], previous_response_id="{r1.id}"),
        CONTINUING_REQUEST,
        "Duplicate item found with id {r1.output[0].id}. Remove duplicate items from your input and try again.",
        "input",
        setup=(REPLY_STEP,),
    ),
    make_case(
        "F1",
        make_request("hello " * 140_000, model=NON_REASONING_MODEL),
        make_request("hello " * 140_000, model=NON_REASONING_MODEL, truncation="auto"),
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "input",
        "context_length_exceeded",
    ),
]
