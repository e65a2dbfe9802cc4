"""Pictures and files survive a handoff (story 14), and agents with any name can receive a handoff (story 15), in every format."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, file, image, tool
from legato.core.facts import CallReturned, HandedOff
from legato.emulator.fake_models.base import ModelPrompt, ReplyCall, ReplyText, ReplyThought
from legato.stores.contract import Store
from tests.providers.failures.emulator_harness import FORMATS, EmulatorHarness, find_replies, run_emulator

IN, OUT, PAGES = b"\x89PNG what the user sent", b"\x89PNG what the tool took", b"%PDF-1.7 a bill"
ADDRESS = "https://example.com/cat.png"


@tool
async def snapshot(context: ToolContext[Any]) -> Any:
    """Take a picture."""
    return ["Here it is:", image(OUT)]


SCRIPT: list[Any] = [
    [ReplyThought("A picture."), ReplyText("I take one, too."), ReplyCall("snapshot")],
    [ReplyThought("Over."), ReplyCall("handoff_to_eye")],
    [ReplyThought("I see."), ReplyText("A cat, and a bill.")],
    [ReplyText("As I said.")],
]


def make_workflow(first: Any, second: Any) -> Workflow:
    front = Agent("front", instructions="You take pictures.", model=first, tools=[snapshot])
    eye = Agent("eye", instructions="You look.", model=second)
    return HandoffBuilder("eyes", [front, eye]).add_handoff(front, [eye]).add_handoff(eye, []).build()


async def read_all_contents(harness: EmulatorHarness, response: str) -> str:
    """Return all contents for one reply: the request, and the stored history that it continues."""
    contents = ""
    replies = {exchange.reply_body["id"]: exchange for exchange in await harness.read_exchanges() if exchange.reply_body}
    while response:
        request = replies[response].request_body
        contents = json.dumps(request) + contents
        if "conversation" in request:
            others = [each for each in replies.values() if each.request_body.get("conversation") == request["conversation"]]
            return "".join(json.dumps(each.request_body) for each in others if each.number <= replies[response].number)
        response = request.get("previous_response_id", "")
    return contents


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


MESSAGE = ["Look:", image(IN), image(ADDRESS), file(PAGES, "bill.pdf", "application/pdf"), "What is it?"]


@pytest.mark.parametrize("name", FORMATS)
async def test_pictures_and_files_survive_a_handoff(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with run_emulator(stream, SCRIPT) as harness:
        model = harness.make_model(name)
        session = make_workflow(model, model).session("s", store=store)
        assert (await session.run(MESSAGE)).text == "A cat, and a bill."
        assert (await session.run("Sure?")).text == "As I said."
        assert await harness.find_refusals() == []
        for turn, fact in enumerate(find_replies(session)):
            contents = await read_all_contents(harness, fact.response_id)
            assert [contents.count(each) for each in (encode_base64(IN), ADDRESS, encode_base64(PAGES))] == [1, 1, 1]
            assert contents.count(encode_base64(OUT)) == (1 if turn else 0)
        lost = ["reasoning of front"] if name == "anthropic" else []  # bound to the other agent's turn context
        assert [loss.partition(":")[0] for loss in session.losses] == lost


@pytest.mark.parametrize(("first", "second"), [("chat", "anthropic"), ("anthropic", "responses chained"), ("responses inline", "chat")])
async def test_pictures_and_files_reach_another_provider(first: str, second: str, stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        session = make_workflow(harness.make_model(first), harness.make_model(second)).session("s")
        assert (await session.run(MESSAGE)).text == "A cat, and a bill."
        contents = await read_all_contents(harness, find_replies(session)[-1].response_id)
        assert [contents.count(each) for each in (encode_base64(IN), encode_base64(OUT), ADDRESS, encode_base64(PAGES))] == [1, 1, 1, 1]
        assert await harness.find_refusals() == []


# -- names -------------------------------------------------------------------------------------------------------------------

NAMES = ["Refunds and returns", "Größen & Maße", "退款", "a" * 80, "b" * 79 + "!", "🫖", "Größen + Maße"]
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def round_of_all(prompt: ModelPrompt) -> list[Any]:
    """Call the agent's own tool, then hand over; the last agent replies. Tools are found by description: their names are mapped."""
    own = next((each for each in prompt.tools if each.description.startswith("Count for")), None)
    onward = next((each for each in prompt.tools if "next" in each.description), None)
    if own is not None and (prompt.messages[-1].role != "tool" or "counted" not in prompt.messages[-1].text):
        return [ReplyThought("Mine."), ReplyCall(own.name, '{"what": "teapots"}')]
    return [ReplyThought("Onward."), ReplyCall(onward.name)] if onward is not None else [ReplyText("Done.")]


def circle(model: Any) -> Workflow:
    agents = []
    for number, name in enumerate(NAMES):

        @tool(name=f"count_{number}", description=f"Count for {name}.")
        def count(what: str, name: str = name) -> str:
            return f"{name} counted {what}"

        agents.append(Agent(name, instructions=f"You are {name}.", description=f"{name}, who comes next", model=model, tools=[count]))
    builder = HandoffBuilder("circle", agents).with_start_agent(agents[0])
    for source, target in pairwise(agents):
        builder = builder.add_handoff(source, [target])
    return builder.add_handoff(agents[-1], []).build()


def tools_of(request: dict[str, Any]) -> list[str]:
    return [each["function"]["name"] if "function" in each else each["name"] for each in request.get("tools", [])]


@pytest.mark.parametrize("name", FORMATS)
async def test_agents_with_odd_names_receive_handoffs(name: str, stream: bool) -> None:
    async with run_emulator(stream, round_of_all) as harness:
        session = circle(harness.make_model(name)).session("s")
        result = await session.run("Count")
        assert (result.error, result.text) == ("", "Done.")
        assert [fact.target for fact in session.facts if isinstance(fact, HandedOff)] == NAMES[1:]
        assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == [f"{each} counted teapots" for each in NAMES]
        for exchange in await harness.read_exchanges():
            names = tools_of(exchange.request_body)
            assert len(set(names)) == len(names)
            assert all(LEGAL.fullmatch(each) for each in names)
        await harness.check_sessions(session)
