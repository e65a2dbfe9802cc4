"""Test cases of the rules about reasoning: encrypted content, and the next item."""

from __future__ import annotations

from typing import Any

from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.providers.rules.responses.sample_requests import (
    FOLLOW_UP,
    NON_REASONING_MODEL,
    OTHER_REASONING_MODEL,
    REASONING_MODEL,
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

MODEL_OUTPUT = (ReplyThought("let me see"), ReplyText("good day"))
STORED_STEP = SetupStep.respond(make_request(model=REASONING_MODEL), *MODEL_OUTPUT, save_as="r1")
ENCRYPTED_STEP = SetupStep.respond(
    make_request(model=REASONING_MODEL, store=False, include=["reasoning.encrypted_content"]), *MODEL_OUTPUT, save_as="r1"
)
OTHER_ACCOUNT_STEP = SetupStep.respond(make_request(model=REASONING_MODEL, store=False), *MODEL_OUTPUT, save_as="r1", account="other")
CALL_STEP = SetupStep.respond(
    make_request(model=REASONING_MODEL, tools=[TOOL]), ReplyThought("a tool"), ReplyCall("look_up", "{}"), save_as="r1"
)

REASONING_ID = "{r1.output[0].id}"
ENCRYPTED_CONTENT = "{r1.output[0].encrypted_content}"
INVALID_CONTENT_CODE = "invalid_encrypted_content"
UNVERIFIED_MESSAGE = f"The encrypted content for item {REASONING_ID} could not be verified. Reason: Encrypted content"
MISSING_NEXT_ITEM_MESSAGE = f"Item '{REASONING_ID}' of type 'reasoning' was provided without its required following item."
MISSING_REASONING_MESSAGE = (
    f"Item '{{r1.output[1].id}}' of type 'message' was provided without its required 'reasoning' item: '{REASONING_ID}'."
)


def make_follow_up_request(*items: Any, model: str = REASONING_MODEL, **fields: Any) -> dict[str, Any]:
    """Return a request with items between two user messages."""
    return make_request([USER_MESSAGE, *items, FOLLOW_UP], model=model, **fields)


def make_reasoning(encrypted_content: str, **members: Any) -> dict[str, Any]:
    """Return a reasoning item with encrypted content."""
    return {"type": "reasoning", "summary": [], "encrypted_content": encrypted_content, **members}


REPLAYED_REQUEST = make_follow_up_request("{r1.output[0]}", "{r1.output[1]}")
UNSTORED_REQUEST = {**REPLAYED_REQUEST, "store": False}
REQUEST_WITHOUT_REASONING = make_follow_up_request(make_reply("good day"))

CASES = [
    make_case(
        "R1",
        make_follow_up_request("{r1.output[0]}", make_reply("something else")),
        REPLAYED_REQUEST,
        MISSING_NEXT_ITEM_MESSAGE,
        "input",
        setup=(STORED_STEP,),
    ),
    make_case("R2", make_follow_up_request("{r1.output[1]}"), REPLAYED_REQUEST, MISSING_REASONING_MESSAGE, "input", setup=(STORED_STEP,)),
    make_case(
        "R3",
        make_follow_up_request("{r1.output[0]}", make_reply("wait"), "{r1.output[1]}"),
        REPLAYED_REQUEST,
        MISSING_REASONING_MESSAGE,
        "input",
        setup=(STORED_STEP,),
    ),
    make_permission_case(
        "R4",
        make_request(
            [USER_MESSAGE, make_reference(REASONING_ID), make_call("{r1.output[1].call_id}"), make_output("{r1.output[1].call_id}")],
            model=REASONING_MODEL,
            tools=[TOOL],
        ),
        CALL_STEP,
    ),
    make_permission_case(
        "R5",
        make_request(
            [USER_MESSAGE, make_call("{r1.output[1].call_id}"), make_output("{r1.output[1].call_id}")], model=REASONING_MODEL, tools=[TOOL]
        ),
        CALL_STEP,
    ),
    make_permission_case(
        "R6",
        make_request([USER_MESSAGE, "{r1.output[0]}", make_output("{r1.output[0].call_id}")], model=REASONING_MODEL, tools=[TOOL]),
        SetupStep.respond(make_request(model=NON_REASONING_MODEL, tools=[TOOL]), ReplyCall("look_up", "{}"), save_as="r1"),
    ),
    make_permission_case(
        "R7",
        make_request(
            [USER_MESSAGE, "{r1.output[0]}", "{r1.output[1]}", "{r1.output[2]}", make_output("{r1.output[2].call_id}")],
            model=REASONING_MODEL,
            tools=[TOOL],
        ),
        SetupStep.respond(
            make_request(model=REASONING_MODEL, tools=[TOOL]),
            ReplyThought("hm"),
            ReplyText("one moment"),
            ReplyCall("look_up", "{}"),
            save_as="r1",
        ),
    ),
    make_case(
        "R8",
        make_follow_up_request("{r1.output[0]}"),
        make_follow_up_request(),
        MISSING_NEXT_ITEM_MESSAGE,
        "input",
        setup=(SetupStep.respond(make_request(model=REASONING_MODEL), ReplyThought("let me see"), save_as="r1", finish_reason="length"),),
    ),
    make_case(
        "R9",
        UNSTORED_REQUEST,
        REQUEST_WITHOUT_REASONING,
        f"{UNVERIFIED_MESSAGE} organization_id did not match the target organization.",
        None,
        INVALID_CONTENT_CODE,
        setup=(OTHER_ACCOUNT_STEP,),
    ),
    make_case(
        "R10",
        make_follow_up_request(make_reasoning("{r2.output[0].encrypted_content}", id=REASONING_ID), "{r1.output[1]}", store=False),
        UNSTORED_REQUEST,
        f"{UNVERIFIED_MESSAGE} item_id did not match the target item id.",
        None,
        INVALID_CONTENT_CODE,
        setup=(ENCRYPTED_STEP, SetupStep.respond(make_request(model=REASONING_MODEL, store=False), *MODEL_OUTPUT, save_as="r2")),
    ),
    make_case(
        "R11",
        make_follow_up_request(make_reasoning("not encrypted", id=REASONING_ID), "{r1.output[1]}", store=False),
        UNSTORED_REQUEST,
        f"{UNVERIFIED_MESSAGE} could not be decrypted or parsed.",
        None,
        INVALID_CONTENT_CODE,
        setup=(ENCRYPTED_STEP,),
    ),
    make_case(
        "R12",
        make_follow_up_request(make_reasoning("gAAAnotours=="), make_reply("good day"), store=False),
        make_follow_up_request(make_reasoning(ENCRYPTED_CONTENT), make_reply("good day"), store=False),
        "The encrypted content gAAA...rs== could not be verified.",
        None,
        INVALID_CONTENT_CODE,
        setup=(ENCRYPTED_STEP,),
    ),
    make_case(
        "R13",
        {**UNSTORED_REQUEST, "model": OTHER_REASONING_MODEL},
        UNSTORED_REQUEST,
        f"{UNVERIFIED_MESSAGE} could not be decrypted or parsed.",
        None,
        INVALID_CONTENT_CODE,
        switches={"same_model_blobs": True},
        setup=(ENCRYPTED_STEP,),
    ),
    make_case(
        "R15",
        make_follow_up_request(make_reasoning(ENCRYPTED_CONTENT), make_reply("good day"), store=False),
        UNSTORED_REQUEST,
        "The encrypted content {r1.output[0].encrypted_content[:4]}...{r1.output[0].encrypted_content[-4:]} could not be verified.",
        None,
        INVALID_CONTENT_CODE,
        switches={"blobs_need_ids": True},
        setup=(ENCRYPTED_STEP,),
    ),
    make_permission_case("I6", UNSTORED_REQUEST, ENCRYPTED_STEP),
]
