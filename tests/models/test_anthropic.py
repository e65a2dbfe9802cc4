"""Anthropic's models through Anthropic's SDK, against the strict emulator: nothing is refused, and nothing is lost that the law allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from legato import Agent, HandoffBuilder, ToolContext, file, history, image, tool
from legato.core.facts import Call, Reasoning
from legato.emulator import serve
from legato.emulator.minds.base import Use, Words
from legato.models.openai import OpenAIResponses
from tests.models.anthropics import (
    ROUND_TRIP,
    answers,
    desk,
    exchanges,
    model_at,
    refusals,
    saying,
    talking,
    thoughts,
    to,
)

MODELS = {
    "bound, adaptive": ("claude-opus-5-5", {"effort": "low"}),
    "bound, with a budget": ("claude-sonnet-5-5", {"thinking_tokens": 1024}),
    "not bound, with a budget": ("claude-sonnet-4-5", {"thinking_tokens": 1024}),
    "without thinking": ("claude-sonnet-5", {}),
}


@pytest.fixture(params=[False, True], ids=["whole", "streaming"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# -- handing over ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", MODELS)
async def test_agents_hand_over_and_back_and_nothing_is_refused(which: str, stream: bool) -> None:
    name, options = MODELS[which]
    async with serve(mind=saying(*ROUND_TRIP)) as emulator, talking(model_at(emulator, name, stream=stream, **options)) as model:
        session = desk(model).session("s")
        assert (await session.run("Where is A-17?")).text == "It is a teapot."
        assert (await session.run("And the other?")).text == "Yes?"
        assert await refusals(emulator) == []
        assert len(await exchanges(emulator)) == 6
        for exchange in await exchanges(emulator):
            roles = [message["role"] for message in exchange.request["messages"]]
            assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


async def test_bound_thinking_is_dropped_when_a_handoff_changes_the_frame_and_sent_again_on_the_way_back(stream: bool) -> None:
    async with serve(mind=saying(*ROUND_TRIP)) as emulator, talking(model_at(emulator, effort="low", stream=stream)) as model:
        session = desk(model).session("s")
        await session.run("Where is A-17?")
        await session.run("And the other?")
        assert [thoughts(exchange.request) for exchange in await exchanges(emulator)] == [
            [],
            [],
            ["back 1"],
            ["front 1"],
            ["front 1", "front 2"],
            ["back 1", "back 2"],
        ]
        assert await refusals(emulator) == []
        assert [loss.partition(":")[0] for loss in session.losses] == ["reasoning of front", "reasoning of back"]


async def test_a_budget_for_thinking_on_a_model_that_does_not_bind_survives_a_handoff(stream: bool) -> None:
    name, options = MODELS["not bound, with a budget"]
    async with serve(mind=saying(*ROUND_TRIP)) as emulator, talking(model_at(emulator, name, stream=stream, **options)) as model:
        session = desk(model).session("s")
        await session.run("Where is A-17?")
        await session.run("And the other?")
        assert thoughts((await exchanges(emulator))[-1].request) == ["front 1", "back 1", "back 2", "front 2", "front 3"]
        assert {exchange.request["thinking"]["type"] for exchange in await exchanges(emulator)} == {"enabled"}
        assert session.losses == []


@pytest.mark.parametrize("policy", ["dialogue", "since_handoff", "own_tools"])
async def test_a_policy_that_leaves_a_reply_first_or_last_makes_no_illegal_request(policy: str, stream: bool) -> None:
    replies = (
        [Words("Hello."), to("back")],
        [Words("I look."), Use("look_up", '{"order": "1"}')],
        [Words("Found."), to("front")],
        [Words("Done.")],
    )
    switches = {"anthropic.alternation": True, "anthropic.first_message_is_user": True}
    async with serve(mind=saying(*replies), switches=switches) as emulator, talking(model_at(emulator, stream=stream)) as model:
        result = await desk(model, history=getattr(history, policy)()).session("s").run("Go")
        assert result.text == "Done."
        assert await refusals(emulator) == []


async def test_agents_of_two_providers_work_together_and_what_was_lost_is_told(stream: bool) -> None:
    async with serve(mind=saying(*ROUND_TRIP)) as emulator:
        own = model_at(emulator, effort="low", stream=stream)
        other = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="sk-test", stream=stream, effort="low")
        async with talking(own, other):
            session = desk(own, other).session("s")
            await session.run("Where is A-17?")
            await session.run("And the other?")
            assert await refusals(emulator) == []
            assert [exchange.api for exchange in await exchanges(emulator)] == [
                "anthropic",
                "responses",
                "responses",
                "anthropic",
                "anthropic",
                "responses",
            ]
            assert [thoughts(exchange.request) for exchange in await exchanges(emulator) if exchange.api == "anthropic"] == [
                [],
                ["front 1"],
                ["front 1", "front 2"],
            ]
            assert "reasoning of back: only the model that made it can read it" in session.losses


async def test_a_desk_of_its_own_mind_is_served_without_refusals(stream: bool) -> None:
    for name, options in MODELS.values():
        async with serve(seed=3) as emulator, talking(model_at(emulator, name, stream=stream, **options)) as model:
            session = desk(model).session("s")
            for message in ("Please look up order A-17.", "Hand me to front.", "Look up B-2 and C-3.", "Thanks!"):
                result = await session.run(message)
                assert result.error == ""
                assert result.text
            assert await refusals(emulator) == []


# -- what is recorded --------------------------------------------------------------------------------------------------


async def test_a_reply_is_recorded_with_its_usage_and_the_providers_ids(stream: bool) -> None:
    async with serve(mind=saying(*ROUND_TRIP)) as emulator, talking(model_at(emulator, effort="low", stream=stream)) as model:
        session = desk(model).session("s")
        await session.run("Where is A-17?")
        bodies = [exchange.reply or {} for exchange in await exchanges(emulator)]
        facts = answers(session)
        assert [fact.response_id for fact in facts] == [body["id"] for body in bodies]
        assert all(fact.request_id.startswith("req_") for fact in facts)
        assert [fact.usage.input for fact in facts] == [body["usage"]["input_tokens"] for body in bodies]
        assert [fact.usage.output for fact in facts] == [body["usage"]["output_tokens"] for body in bodies]
        assert all(fact.usage.reasoning > 0 for fact in facts)
        assert {fact.model for fact in facts} == {"claude-opus-5-5"}
        assert not any(fact.stored for fact in facts)


async def test_streaming_and_not_record_the_same() -> None:
    recorded = []
    for stream in (False, True):
        async with serve(mind=saying(*ROUND_TRIP)) as emulator, talking(model_at(emulator, effort="low", stream=stream)) as model:
            session = desk(model).session("s")
            pieces: list[str] = []
            async for event in session.run("Where is A-17?", stream=True):
                if event.type == "output" and event.data.delta:
                    pieces.append(event.data.text)
            items = [[_plain(item) for item in fact.items] for fact in answers(session)]
            recorded.append((items, "".join(pieces), [fact.usage for fact in answers(session)]))
    assert recorded[0] == recorded[1]
    assert recorded[0][1] == "Let me see.It is a teapot."


def _plain(item: Any) -> Any:
    """An item without what the emulator makes anew each time."""
    if isinstance(item, Reasoning):
        return item.text
    return (item.tool, item.arguments) if isinstance(item, Call) else item


async def test_pictures_and_files_are_sent_in_messages_and_outputs(stream: bool) -> None:
    @tool
    async def snapshot(context: ToolContext[Any]) -> Any:
        """Take a picture."""
        return image(b"\x89PNG out")

    replies = [[Use("snapshot")], [Words("I see.")], [Words("Bye.")]]
    async with serve(mind=saying(*replies)) as emulator, talking(model_at(emulator, stream=stream)) as model:
        session = HandoffBuilder("eyes", [Agent("eye", model=model, tools=[snapshot])]).build().session("s")
        await session.run(["Look:", image(b"\x89PNG in"), file(b"%PDF", "a.pdf", "application/pdf"), file(b"Hi", "a.txt", "text/plain")])
        await session.run("Bye")
        assert await refusals(emulator) == []
        messages = (await exchanges(emulator))[-1].request["messages"]
        assert [block["type"] for block in messages[0]["content"]] == ["text", "image", "document", "document"]
        assert messages[0]["content"][3]["source"]["data"] == "Hi"


class Order(BaseModel):
    """What was ordered."""

    name: str
    count: int


async def test_a_typed_output_is_enforced_by_the_provider(stream: bool) -> None:
    async with serve() as emulator, talking(model_at(emulator, "claude-sonnet-5", stream=stream)) as model:
        session = HandoffBuilder("typed", [Agent("clerk", model=model, output_type=Order)]).build().session("s")
        result = await session.run("Two teapots, please.")
        assert isinstance(result.output, Order)
        format = (await exchanges(emulator))[0].request["output_config"]["format"]
        assert format["schema"]["additionalProperties"] is False
        assert await refusals(emulator) == []


async def test_instructions_tools_and_conversation_are_marked_for_caching_unless_unwanted() -> None:
    async with serve(mind=saying([Words("Hi.")], [Words("Hi.")])) as emulator:
        cached, plain = model_at(emulator), model_at(emulator, cache=False)
        async with talking(cached, plain):
            for name, model in (("cached", cached), ("plain", plain)):
                await desk(model).session(name).run("Hello")
        first, second = (exchange.request for exchange in await exchanges(emulator))
        assert first["cache_control"] == {"type": "ephemeral"}
        assert first["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in json.dumps(second)
