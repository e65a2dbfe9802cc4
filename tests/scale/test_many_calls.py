"""What many tool calls in one reply cost is linear in their number: counted in lines of code that run, not in time."""

import asyncio
import json

import pytest

from legato import Agent, HandoffBuilder, Limits, tool
from legato.core.facts import Call
from legato.core.history_policies import Everything
from legato.core.turn_context import Frame
from legato.core.view import request_for, visible
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.providers.formats.chat.stream import StreamReader
from legato.server import telling
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel
from tests.scale.work import Lines

FEW, MANY = 500, 2_000
AT_MOST = 4.5
"""Four times as many calls may cost so many times as much."""

NOWHERE = {"api_key": "none", "base_url": "http://127.0.0.1:9"}


def desk(number, calls="look", most=None, **options):
    """An agent whose first reply has so many calls."""

    async def look(key: int) -> str:
        return f"found {key}"

    model = ScriptedModel([[Call(calls, f'{{"key": {key}}}', f"call_{key}") for key in range(number)], "done"])
    agents = [Agent("clerk", "You are a clerk.", model, [tool(**options)(look)])]
    return HandoffBuilder("desk", agents).with_limits(Limits(calls_per_reply=most)).build()


def lines_of(doing):
    """The lines that run for it."""

    async def counted():
        with Lines() as lines:
            await doing
        return lines.count

    return asyncio.run(counted())


async def nothing():
    """Have what is imported at its first use imported."""
    await desk(1).session().run("go")


def growth(play):
    """How many times as much it costs with many calls as with few. `play(number)` gives what is to be counted."""
    asyncio.run(nothing())
    few, many = lines_of(play(FEW)), lines_of(play(MANY))
    return many / few


async def in_memory(number, **options):
    session = desk(number, **options).session("s", store=MemoryStore())
    await session.run("go")
    assert session.status == "waiting"


KINDS = {
    "at once": {},
    "one by one": {"alone": True},
    "of an unknown tool": {"calls": "misspelled"},
    "beyond the limit": {"most": 1},
    "looked at first": {"needs_approval": lambda *given: False},
}


@pytest.mark.parametrize("kind", KINDS)
def test_running_many_calls_costs_in_proportion(kind):
    assert growth(lambda number: in_memory(number, **KINDS[kind])) < AT_MOST


def test_running_many_calls_in_a_file_costs_in_proportion(tmp_path):
    async def in_a_file(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await desk(number).session("s", store=store).run("go")

    assert growth(in_a_file) < AT_MOST


def test_opening_and_following_many_calls_costs_in_proportion(tmp_path):
    async def record(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await desk(number).session("s", store=store).run("go")

    async def opened(number):
        async with SQLiteStore(tmp_path / f"{number}.db") as store:
            session = await desk(number).session("s", store=store).refresh()
            assert session.status == "waiting"
            assert len([event async for event in session.follow(until_rest=True)]) > number

    for number in (FEW, MANY):
        asyncio.run(record(number))
    assert growth(opened) < AT_MOST


@pytest.mark.parametrize("kind", ["approval", "result"])
def test_deciding_many_calls_one_by_one_costs_in_proportion(kind):
    async def decided(number):
        options = {"needs_approval": True} if kind == "approval" else {"deferred": True}
        session = desk(number, **options).session("s", store=MemoryStore())
        await session.run("go")
        for request in reversed(session.pending):
            await (session.approve(request) if kind == "approval" else session.answer(request, "found"))
        result = await session.resume()
        assert result.text == "done"

    assert growth(decided) < AT_MOST


def test_running_calls_beside_many_that_wait_costs_in_proportion():
    async def mixed(number):
        def ask() -> str:
            return "done"

        def look() -> str:
            return "found"

        calls = [Call("ask" if place % 2 else "look", "{}") for place in range(number)]
        clerk = Agent("clerk", "You are a clerk.", ScriptedModel([calls]), [tool(needs_approval=True)(ask), tool(look)])
        session = HandoffBuilder("desk", [clerk]).with_limits(Limits(calls_per_reply=None)).build().session("s", store=MemoryStore())
        await session.run("go")
        assert len(session.pending) == number // 2

    assert growth(mixed) < AT_MOST


def test_calling_an_agent_many_times_costs_in_proportion():
    async def asked(number):
        child = Agent("child", "", ScriptedModel(lambda seen: "Looked."))
        calls = [Call("ask_child", f'{{"task": "{key}"}}') for key in range(number // 5)]
        boss = Agent("boss", "", ScriptedModel([calls, "done"]), [child.as_tool()])
        workflow = HandoffBuilder("office", [boss]).with_limits(Limits(turns=None, calls_per_reply=None)).build()
        assert (await workflow.run("go")).text == "done"

    assert growth(asked) < AT_MOST


@pytest.mark.parametrize("wire", [OpenAIResponses, OpenAIChat, Anthropic])
def test_a_request_with_many_outputs_costs_in_proportion(wire):
    async def compiled(number):
        session = desk(number, calls="misspelled").session("s", store=MemoryStore())
        await session.run("go")
        frame, groups = Frame(agent="clerk", instructions="You are a clerk."), visible(session.state, Everything(), "clerk")
        model = wire("gpt-5.1" if wire is not Anthropic else "claude-sonnet-5", **NOWHERE)
        await model.body(request_for(session.state, frame, "f" * 32, groups, "clerk"))

    assert growth(compiled) < AT_MOST


def test_many_calls_in_a_stream_cost_in_proportion():
    async def streamed(number):
        reader = StreamReader(lambda words: None)
        for place in range(number):
            call = {"index": place, "id": f"call_{place}", "function": {"name": "look", "arguments": "{"}}
            for piece in (call, {"index": place, "function": {"arguments": "}"}}):
                reader.take(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).encode())
        assert len(reader._calls.whole()) == number

    assert growth(streamed) < AT_MOST


def test_showing_many_calls_in_other_protocols_costs_in_proportion():
    async def shown(number):
        session = desk(number).session("s", store=MemoryStore())
        await session.run("go")
        ended = [moment for moment in await telling.recorded(session, 0, session.state.length) if isinstance(moment, telling.Ended)]
        assert len(ended) == number

    assert growth(shown) < AT_MOST
