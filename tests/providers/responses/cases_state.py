"""Cases about what the server holds: previous responses, conversations, items by their ids, and the window."""

from __future__ import annotations

from legato.emulator.minds.base import Use, Words
from tests.providers.lawcase import Step
from tests.providers.responses.lawcase import AGAIN, PLAIN, TOOL, USER, allowed, ask, call, output, reference, refused, said

SAID = Step.respond(ask(), Words("good day"), save_as="r1")
CALLED = Step.respond(ask(tools=[TOOL]), Use("look_up", "{}"), save_as="r1")
TALK = Step.conversation(USER, said(), save_as="c1")
WENT_ON = ask([AGAIN], previous_response_id="{r1.id}")
ZERO = {"zero_data_retention": True}

NOT_FOUND = "Previous response with id '{r1.id}' not found."
UNSTORED = " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
UNKEPT = " Items are not persisted for Zero Data Retention organizations. Remove this item from your input and try again."

CASES = [
    refused(
        "S1",
        WENT_ON,
        ask([USER, said("good day"), AGAIN]),
        NOT_FOUND,
        "previous_response_id",
        "previous_response_not_found",
        setup=(SAID, Step.delete("r1")),
    ),
    refused(
        "S2",
        WENT_ON,
        ask([USER, said("good day"), AGAIN]),
        NOT_FOUND,
        "previous_response_id",
        "previous_response_not_found",
        setup=(SAID, Step.expire("r1")),
    ),
    refused(
        "S5",
        ask([AGAIN], previous_response_id="resp_1"),
        ask([USER, said(), AGAIN]),
        "Previous response cannot be used for this organization due to Zero Data Retention.",
        "previous_response_id",
        "unsupported_parameter",
        profile=ZERO,
    ),
    refused(
        "S6",
        ask([AGAIN], conversation="conv_1"),
        ask([USER, said(), AGAIN]),
        "Conversation ID cannot be used for this organization due to Zero Data Retention.",
        "conversation",
        "unsupported_parameter",
        profile=ZERO,
    ),
    refused(
        "S7",
        ask([AGAIN], previous_response_id="{r1.id}", conversation="{c1.id}"),
        ask([AGAIN], conversation="{c1.id}"),
        "Mutually exclusive parameters: ''. Ensure you are only providing one of: 'pre..._id' or 'conversation'.",
        None,
        "mutually_exclusive_parameters",
        setup=(SAID, TALK),
    ),
    refused(
        "S8",
        ask([AGAIN], conversation="conv_unknown"),
        ask([AGAIN], conversation={"id": "{c1.id}"}),
        "Conversation with id 'conv_unknown' not found.",
        status=404,
        setup=(TALK,),
    ),
    refused(
        "S9",
        ask([AGAIN], conversation="{c1.id}"),
        ask([AGAIN], conversation="{c2.id}"),
        "Another process is currently operating on this conversation. Please retry in a few seconds.",
        "conversation",
        "conversation_locked",
        setup=(TALK, Step.conversation(USER, save_as="c2"), Step.lock("c1")),
    ),
    refused("S10", ask(prompt={"id": "pmpt_unknown"}), ask(), "Prompt with id 'pmpt_unknown' not found.", status=404),
    allowed(
        "S11",
        ask([AGAIN], previous_response_id="{r1.id}", instructions="be loud", tools=[TOOL]),
        Step.respond(ask(instructions="be quiet"), Words("good day"), save_as="r1"),
    ),
    allowed("S12", ask([output("{r1.output[0].call_id}")], previous_response_id="{r1.id}", tools=[TOOL]), CALLED),
    allowed("S13", WENT_ON, SAID),
    allowed("S14", {**WENT_ON, "store": False}, SAID),
    refused(
        "N22",
        ask([]),
        ask([USER]),
        "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
        None,
        "missing_required_parameter",
    ),
    refused(
        "I1",
        ask([USER, reference("rs_unknown"), AGAIN], store=False),
        ask([USER, AGAIN], store=False),
        f"Item with id 'rs_unknown' not found.{UNSTORED}",
        "input",
        status=404,
    ),
    refused(
        "I2",
        ask([USER, reference("fc_unknown"), output()]),
        ask([USER, call(), output()]),
        f"Item with id 'fc_unknown' not found.{UNKEPT}",
        "input",
        status=404,
        profile=ZERO,
    ),
    refused(
        "I3",
        ask([USER, {"type": "reasoning", "id": "rs_unknown", "summary": []}, said(), AGAIN]),
        ask([USER, said(), AGAIN]),
        "Item with id 'rs_unknown' not found.",
        "input",
        status=404,
    ),
    allowed(
        "I5",
        ask(
            [
                USER,
                {"type": "message", "id": "msg_probe", "status": "completed", **said()},
                {"type": "web_search_call", "id": "ws_probe", "status": "completed", "action": {"type": "search", "query": "a"}},
                {"type": "mcp_call", "id": "mcp_probe", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
                call(id="fc_probe"),
                output(),
            ]
        ),
    ),
    allowed("I7", ask([USER, reference("{r1.output[0].id}"), output("{r1.output[0].call_id}")], tools=[TOOL]), CALLED),
    refused(
        "I8",
        ask(["{r1.output[0]}", AGAIN], previous_response_id="{r1.id}"),
        WENT_ON,
        "Duplicate item found with id {r1.output[0].id}. Remove duplicate items from your input and try again.",
        "input",
        setup=(SAID,),
    ),
    refused(
        "F1",
        ask("hello " * 140_000, model=PLAIN),
        ask("hello " * 140_000, model=PLAIN, truncation="auto"),
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "input",
        "context_length_exceeded",
    ),
]
