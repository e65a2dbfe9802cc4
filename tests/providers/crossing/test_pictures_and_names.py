"""Pictures and files survive a handoff (story 14), and agents of any name can be handed over to (story 15), on every wire."""

from __future__ import annotations

import base64
import json
import re
from itertools import pairwise
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, ToolContext, Workflow, file, image, tool
from legato.core.facts import CallReturned, HandedOff
from legato.emulator.minds.base import Prompt, Thought, Use, Words
from legato.stores.contract import Store
from tests.providers.failures.wires import WIRES, Line, answers, line

IN, OUT, PAGES = b"\x89PNG what the user sent", b"\x89PNG what the tool took", b"%PDF-1.7 a bill"
ADDRESS = "https://example.com/cat.png"


@tool
async def snapshot(context: ToolContext[Any]) -> Any:
    """Take a picture."""
    return ["Here it is:", image(OUT)]


LOOKING: list[Any] = [
    [Thought("A picture."), Words("I take one, too."), Use("snapshot")],
    [Thought("Over."), Use("handoff_to_eye")],
    [Thought("I see."), Words("A cat, and a bill.")],
    [Words("As I said.")],
]


def eyes(first: Any, second: Any) -> Workflow:
    front = Agent("front", instructions="You take pictures.", model=first, tools=[snapshot])
    eye = Agent("eye", instructions="You look.", model=second)
    return HandoffBuilder("eyes", [front, eye]).add_handoff(front, [eye]).add_handoff(eye, []).build()


async def held_or_sent(wire: Line, response: str) -> str:
    """All that the provider was told for one reply: the request, and what it went on from."""
    told = ""
    replies = {exchange.reply["id"]: exchange for exchange in await wire.exchanges() if exchange.reply}
    while response:
        request = replies[response].request
        told = json.dumps(request) + told
        if "conversation" in request:
            others = [each for each in replies.values() if each.request.get("conversation") == request["conversation"]]
            return "".join(json.dumps(each.request) for each in others if each.number <= replies[response].number)
        response = request.get("previous_response_id", "")
    return told


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


MESSAGE = ["Look:", image(IN), image(ADDRESS), file(PAGES, "bill.pdf", "application/pdf"), "What is it?"]


@pytest.mark.parametrize("name", WIRES)
async def test_pictures_and_files_are_in_every_request_after_a_handoff_as_they_were(name: str, place: tuple[bool, Store]) -> None:
    stream, store = place
    async with line(stream, LOOKING) as wire:
        model = wire.model(name)
        session = eyes(model, model).session("s", store=store)
        assert (await session.run(MESSAGE)).text == "A cat, and a bill."
        assert (await session.run("Sure?")).text == "As I said."
        assert await wire.refused() == []
        for turn, fact in enumerate(answers(session)):
            told = await held_or_sent(wire, fact.response_id)
            assert [told.count(each) for each in (base64_of(IN), ADDRESS, base64_of(PAGES))] == [1, 1, 1]
            assert told.count(base64_of(OUT)) == (1 if turn else 0)
        lost = ["reasoning of front"] if name == "anthropic" else []  # bound to what the other agent is told
        assert [loss.partition(":")[0] for loss in session.losses] == lost


@pytest.mark.parametrize(("first", "second"), [("chat", "anthropic"), ("anthropic", "responses chained"), ("responses inline", "chat")])
async def test_pictures_and_files_go_over_to_another_provider(first: str, second: str, stream: bool) -> None:
    async with line(stream, LOOKING) as wire:
        session = eyes(wire.model(first), wire.model(second)).session("s")
        assert (await session.run(MESSAGE)).text == "A cat, and a bill."
        told = await held_or_sent(wire, answers(session)[-1].response_id)
        assert [told.count(each) for each in (base64_of(IN), base64_of(OUT), ADDRESS, base64_of(PAGES))] == [1, 1, 1, 1]
        assert await wire.refused() == []


# -- names -------------------------------------------------------------------------------------------------------------------

NAMES = ["Refunds and returns", "Größen & Maße", "退款", "a" * 80, "b" * 79 + "!", "🫖", "Größen + Maße"]
LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def round_of_all(prompt: Prompt) -> list[Any]:
    """Uses its own tool, then hands to the next; the last one speaks. Tools are known by their descriptions: names were mapped."""
    own = next((each for each in prompt.tools if each.description.startswith("Count for")), None)
    onward = next((each for each in prompt.tools if "next" in each.description), None)
    if own is not None and (prompt.heard[-1].who != "tool" or "counted" not in prompt.heard[-1].text):
        return [Thought("Mine."), Use(own.name, '{"what": "teapots"}')]
    return [Thought("Onward."), Use(onward.name)] if onward is not None else [Words("Done.")]


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


@pytest.mark.parametrize("name", WIRES)
async def test_agents_of_any_name_are_handed_to_and_use_their_own_tools(name: str, stream: bool) -> None:
    async with line(stream, round_of_all) as wire:
        session = circle(wire.model(name)).session("s")
        result = await session.run("Count")
        assert (result.error, result.text) == ("", "Done.")
        assert [fact.target for fact in session.facts if isinstance(fact, HandedOff)] == NAMES[1:]
        assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == [f"{each} counted teapots" for each in NAMES]
        for exchange in await wire.exchanges():
            names = tools_of(exchange.request)
            assert len(set(names)) == len(names)
            assert all(LEGAL.fullmatch(each) for each in names)
        await wire.check(session)
