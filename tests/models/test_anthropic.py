"""Anthropic's models through Anthropic's SDK, against the strict emulator: nothing is refused, and nothing replayable is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from legato import Agent, HandoffBuilder, ToolContext, file, history, image, tool
from legato.core.facts import Call, Reasoning
from legato.emulator import serve
from legato.emulator.fake_models.base import ReplyCall, ReplyText
from legato.models.openai import OpenAIResponses
from tests.models.anthropic_fixtures import (
    ROUND_TRIP,
    close_models,
    find_refusals,
    find_replies,
    find_sent_thinking,
    handoff_call,
    make_anthropic,
    make_desk,
    read_exchanges,
    script_replies,
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
async def test_handing_over_and_back_is_never_refused(which: str, stream: bool) -> None:
    name, options = MODELS[which]
    async with (
        serve(fake_model=script_replies(*ROUND_TRIP)) as emulator,
        close_models(make_anthropic(emulator, name, stream=stream, **options)) as model,
    ):
        session = make_desk(model).session("s")
        assert (await session.run("Where is A-17?")).text == "It is a teapot."
        assert (await session.run("And the other?")).text == "Yes?"
        assert await find_refusals(emulator) == []
        assert len(await read_exchanges(emulator)) == 6
        for exchange in await read_exchanges(emulator):
            roles = [message["role"] for message in exchange.request_body["messages"]]
            assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


async def test_bound_thinking_returns_with_its_turn_context(stream: bool) -> None:
    """Bound thinking is left out when a handoff changes the turn context, and replayed when control returns."""
    async with (
        serve(fake_model=script_replies(*ROUND_TRIP)) as emulator,
        close_models(make_anthropic(emulator, effort="low", stream=stream)) as model,
    ):
        session = make_desk(model).session("s")
        await session.run("Where is A-17?")
        await session.run("And the other?")
        assert [find_sent_thinking(exchange.request_body) for exchange in await read_exchanges(emulator)] == [
            [],
            [],
            ["back 1"],
            ["front 1"],
            ["front 1", "front 2"],
            ["back 1", "back 2"],
        ]
        assert await find_refusals(emulator) == []
        assert [loss.partition(":")[0] for loss in session.losses] == ["reasoning of front", "reasoning of back"]


async def test_unbound_thinking_with_a_budget_survives_handoffs(stream: bool) -> None:
    name, options = MODELS["not bound, with a budget"]
    async with (
        serve(fake_model=script_replies(*ROUND_TRIP)) as emulator,
        close_models(make_anthropic(emulator, name, stream=stream, **options)) as model,
    ):
        session = make_desk(model).session("s")
        await session.run("Where is A-17?")
        await session.run("And the other?")
        assert find_sent_thinking((await read_exchanges(emulator))[-1].request_body) == [
            "front 1",
            "back 1",
            "back 2",
            "front 2",
            "front 3",
        ]
        assert {exchange.request_body["thinking"]["type"] for exchange in await read_exchanges(emulator)} == {"enabled"}
        assert session.losses == []


@pytest.mark.parametrize("policy", ["dialogue", "since_handoff", "own_tools"])
async def test_history_policies_make_no_illegal_requests(policy: str, stream: bool) -> None:
    """A policy may leave a reply as the first or the last message of the view."""
    replies = (
        [ReplyText("Hello."), handoff_call("back")],
        [ReplyText("I look."), ReplyCall("look_up", '{"order": "1"}')],
        [ReplyText("Found."), handoff_call("front")],
        [ReplyText("Done.")],
    )
    switches = {"anthropic.alternation": True, "anthropic.first_message_is_user": True}
    async with (
        serve(fake_model=script_replies(*replies), switches=switches) as emulator,
        close_models(make_anthropic(emulator, stream=stream)) as model,
    ):
        result = await make_desk(model, history=getattr(history, policy)()).session("s").run("Go")
        assert result.text == "Done."
        assert await find_refusals(emulator) == []


async def test_losses_between_two_providers_are_reported(stream: bool) -> None:
    async with serve(fake_model=script_replies(*ROUND_TRIP)) as emulator:
        own = make_anthropic(emulator, effort="low", stream=stream)
        other = OpenAIResponses("gpt-5", base_url=emulator.openai_url, api_key="sk-test", stream=stream, effort="low")
        async with close_models(own, other):
            session = make_desk(own, other).session("s")
            await session.run("Where is A-17?")
            await session.run("And the other?")
            assert await find_refusals(emulator) == []
            assert [exchange.api for exchange in await read_exchanges(emulator)] == [
                "anthropic",
                "responses",
                "responses",
                "anthropic",
                "anthropic",
                "responses",
            ]
            assert [
                find_sent_thinking(exchange.request_body) for exchange in await read_exchanges(emulator) if exchange.api == "anthropic"
            ] == [
                [],
                ["front 1"],
                ["front 1", "front 2"],
            ]
            assert "reasoning of back: only the model that made it can read it" in session.losses


async def test_default_fake_model_is_served_without_refusals(stream: bool) -> None:
    for name, options in MODELS.values():
        async with serve(seed=3) as emulator, close_models(make_anthropic(emulator, name, stream=stream, **options)) as model:
            session = make_desk(model).session("s")
            for message in ("Please look up order A-17.", "Hand me to front.", "Look up B-2 and C-3.", "Thanks!"):
                result = await session.run(message)
                assert result.error == ""
                assert result.text
            assert await find_refusals(emulator) == []


# -- what is recorded --------------------------------------------------------------------------------------------------


async def test_reply_is_recorded_with_usage_and_ids(stream: bool) -> None:
    async with (
        serve(fake_model=script_replies(*ROUND_TRIP)) as emulator,
        close_models(make_anthropic(emulator, effort="low", stream=stream)) as model,
    ):
        session = make_desk(model).session("s")
        await session.run("Where is A-17?")
        bodies = [exchange.reply_body or {} for exchange in await read_exchanges(emulator)]
        facts = find_replies(session)
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
        async with (
            serve(fake_model=script_replies(*ROUND_TRIP)) as emulator,
            close_models(make_anthropic(emulator, effort="low", stream=stream)) as model,
        ):
            session = make_desk(model).session("s")
            pieces: list[str] = []
            async for event in session.run("Where is A-17?", stream=True):
                if event.type == "output" and event.data.delta:
                    pieces.append(event.data.text)
            items = [[_plain(item) for item in fact.items] for fact in find_replies(session)]
            recorded.append((items, "".join(pieces), [fact.usage for fact in find_replies(session)]))
    assert recorded[0] == recorded[1]
    assert recorded[0][1] == "Let me see.It is a teapot."


def _plain(item: Any) -> Any:
    """Return an item without the parts that differ in each run of the emulator."""
    if isinstance(item, Reasoning):
        return item.text
    return (item.tool, item.arguments) if isinstance(item, Call) else item


async def test_messages_and_outputs_carry_pictures_and_files(stream: bool) -> None:
    @tool
    async def snapshot(context: ToolContext[Any]) -> Any:
        """Take a picture."""
        return image(b"\x89PNG out")

    replies = [[ReplyCall("snapshot")], [ReplyText("I see.")], [ReplyText("Bye.")]]
    async with serve(fake_model=script_replies(*replies)) as emulator, close_models(make_anthropic(emulator, stream=stream)) as model:
        session = HandoffBuilder("eyes", [Agent("eye", model=model, tools=[snapshot])]).build().session("s")
        await session.run(["Look:", image(b"\x89PNG in"), file(b"%PDF", "a.pdf", "application/pdf"), file(b"Hi", "a.txt", "text/plain")])
        await session.run("Bye")
        assert await find_refusals(emulator) == []
        messages = (await read_exchanges(emulator))[-1].request_body["messages"]
        assert [block["type"] for block in messages[0]["content"]] == ["text", "image", "document", "document"]
        assert messages[0]["content"][3]["source"]["data"] == "Hi"


class Order(BaseModel):
    """What was ordered."""

    name: str
    count: int


async def test_a_typed_output_is_enforced_by_the_provider(stream: bool) -> None:
    async with serve() as emulator, close_models(make_anthropic(emulator, "claude-sonnet-5", stream=stream)) as model:
        session = HandoffBuilder("typed", [Agent("clerk", model=model, output_type=Order)]).build().session("s")
        result = await session.run("Two teapots, please.")
        assert isinstance(result.output, Order)
        format = (await read_exchanges(emulator))[0].request_body["output_config"]["format"]
        assert format["schema"]["additionalProperties"] is False
        assert await find_refusals(emulator) == []


async def test_cache_marks_are_sent_unless_disabled() -> None:
    async with serve(fake_model=script_replies([ReplyText("Hi.")], [ReplyText("Hi.")])) as emulator:
        cached, plain = make_anthropic(emulator), make_anthropic(emulator, cache=False)
        async with close_models(cached, plain):
            for name, model in (("cached", cached), ("plain", plain)):
                await make_desk(model).session(name).run("Hello")
        first, second = (exchange.request_body for exchange in await read_exchanges(emulator))
        assert first["cache_control"] == {"type": "ephemeral"}
        assert first["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in json.dumps(second)
