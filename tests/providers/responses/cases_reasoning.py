"""Cases about reasoning: its encrypted content, and what belongs to it."""

from __future__ import annotations

from typing import Any

from legato.emulator.minds.base import Thought, Use, Words
from tests.providers.lawcase import Step
from tests.providers.responses.lawcase import (
    AGAIN,
    PLAIN,
    THINKS,
    THINKS_TOO,
    TOOL,
    USER,
    allowed,
    ask,
    call,
    output,
    reference,
    refused,
    said,
)

ANSWERED = (Thought("let me see"), Words("good day"))
STORED = Step.respond(ask(model=THINKS), *ANSWERED, save_as="r1")
SEALED = Step.respond(ask(model=THINKS, store=False, include=["reasoning.encrypted_content"]), *ANSWERED, save_as="r1")
FOREIGN = Step.respond(ask(model=THINKS, store=False), *ANSWERED, save_as="r1", account="other")
CALLED = Step.respond(ask(model=THINKS, tools=[TOOL]), Thought("a tool"), Use("look_up", "{}"), save_as="r1")

ID = "{r1.output[0].id}"
SEAL = "{r1.output[0].encrypted_content}"
CODE = "invalid_encrypted_content"
UNVERIFIED = f"The encrypted content for item {ID} could not be verified. Reason: Encrypted content"
ALONE = f"Item '{ID}' of type 'reasoning' was provided without its required following item."
BEREFT = f"Item '{{r1.output[1].id}}' of type 'message' was provided without its required 'reasoning' item: '{ID}'."


def told(*items: Any, model: str = THINKS, **fields: Any) -> dict[str, Any]:
    return ask([USER, *items, AGAIN], model=model, **fields)


def thought(seal: str, **members: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "encrypted_content": seal, **members}


REPLAYED = told("{r1.output[0]}", "{r1.output[1]}")
UNSTORED = {**REPLAYED, "store": False}
FORGOTTEN = told(said("good day"))

CASES = [
    refused("R1", told("{r1.output[0]}", said("something else")), REPLAYED, ALONE, "input", setup=(STORED,)),
    refused("R2", told("{r1.output[1]}"), REPLAYED, BEREFT, "input", setup=(STORED,)),
    refused("R3", told("{r1.output[0]}", said("wait"), "{r1.output[1]}"), REPLAYED, BEREFT, "input", setup=(STORED,)),
    allowed(
        "R4",
        ask(
            [USER, reference(ID), call("{r1.output[1].call_id}"), output("{r1.output[1].call_id}")],
            model=THINKS,
            tools=[TOOL],
        ),
        CALLED,
    ),
    allowed("R5", ask([USER, call("{r1.output[1].call_id}"), output("{r1.output[1].call_id}")], model=THINKS, tools=[TOOL]), CALLED),
    allowed(
        "R6",
        ask([USER, "{r1.output[0]}", output("{r1.output[0].call_id}")], model=THINKS, tools=[TOOL]),
        Step.respond(ask(model=PLAIN, tools=[TOOL]), Use("look_up", "{}"), save_as="r1"),
    ),
    allowed(
        "R7",
        ask(
            [USER, "{r1.output[0]}", "{r1.output[1]}", "{r1.output[2]}", output("{r1.output[2].call_id}")],
            model=THINKS,
            tools=[TOOL],
        ),
        Step.respond(ask(model=THINKS, tools=[TOOL]), Thought("hm"), Words("one moment"), Use("look_up", "{}"), save_as="r1"),
    ),
    refused(
        "R8",
        told("{r1.output[0]}"),
        told(),
        ALONE,
        "input",
        setup=(Step.respond(ask(model=THINKS), Thought("let me see"), save_as="r1", finish="length"),),
    ),
    refused(
        "R9", UNSTORED, FORGOTTEN, f"{UNVERIFIED} organization_id did not match the target organization.", None, CODE, setup=(FOREIGN,)
    ),
    refused(
        "R10",
        told(thought("{r2.output[0].encrypted_content}", id=ID), "{r1.output[1]}", store=False),
        UNSTORED,
        f"{UNVERIFIED} item_id did not match the target item id.",
        None,
        CODE,
        setup=(SEALED, Step.respond(ask(model=THINKS, store=False), *ANSWERED, save_as="r2")),
    ),
    refused(
        "R11",
        told(thought("this is no seal", id=ID), "{r1.output[1]}", store=False),
        UNSTORED,
        f"{UNVERIFIED} could not be decrypted or parsed.",
        None,
        CODE,
        setup=(SEALED,),
    ),
    refused(
        "R12",
        told(thought("gAAAnotours=="), said("good day"), store=False),
        told(thought(SEAL), said("good day"), store=False),
        "The encrypted content gAAA...rs== could not be verified.",
        None,
        CODE,
        setup=(SEALED,),
    ),
    refused(
        "R13",
        {**UNSTORED, "model": THINKS_TOO},
        UNSTORED,
        f"{UNVERIFIED} could not be decrypted or parsed.",
        None,
        CODE,
        profile={"same_model_blobs": True},
        setup=(SEALED,),
    ),
    refused(
        "R15",
        told(thought(SEAL), said("good day"), store=False),
        UNSTORED,
        "The encrypted content {r1.output[0].encrypted_content[:4]}...{r1.output[0].encrypted_content[-4:]} could not be verified.",
        None,
        CODE,
        profile={"blobs_need_ids": True},
        setup=(SEALED,),
    ),
    allowed("I6", UNSTORED, SEALED),
]
