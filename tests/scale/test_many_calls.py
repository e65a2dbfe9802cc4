"""What many tool calls in one reply cost is linear in their number: counted in lines of code that run, not in time."""

import asyncio
import json

import pytest

from legato import Agent, HandoffBuilder, Limits, tool
from legato.core.facts import Call
from legato.core.history_policies import Everything
from legato.core.turn_context import TurnContext
from legato.core.view import build_request, select_groups
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.providers.formats.chat.stream import ChatStreamDecoder
from legato.server import telling
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel
from tests.scale.work_counters import LineCounter

FEW_CALLS, MANY_CALLS = 500, 2_000
MAX_GROWTH = 4.5
"""Four times as many calls may cost so many times as much."""

UNREACHABLE_PROVIDER = {"api_key": "none", "base_url": "http://127.0.0.1:9"}


def build_desk(number, tool_name="look", max_calls=None, **options):
    """An agent whose first reply has so many calls."""

    async def look(key: int) -> str:
        return f"found {key}"

    model = ScriptedModel([[Call(tool_name, f'{{"key": {key}}}', f"call_{key}") for key in range(number)], "done"])
    agents = [Agent("clerk", "You are a clerk.", model, [tool(**options)(look)])]
    return HandoffBuilder("desk", agents).with_limits(Limits(calls_per_reply=max_calls)).build()


def count_lines(doing):
    """The lines that run for it."""

    async def counted():
        with LineCounter() as lines:
            await doing
        return lines.count

    return asyncio.run(counted())


async def run_warmup():
    """Have what is imported at its first use imported."""
    await build_desk(1).session().run("go")


def measure_growth(run):
    """How many times as much it costs with many calls as with few. `play(number)` gives what is to be counted."""
    asyncio.run(run_warmup())
    few, many = count_lines(run(FEW_CALLS)), count_lines(run(MANY_CALLS))
    return many / few


async def run_in_memory(number, **options):
    session = build_desk(number, **options).session("s", store=MemoryStore())
    await session.run("go")
    assert session.status == "waiting"


CALL_KINDS = {
    "at once": {},
    "one by one": {"alone": True},
    "of an unknown tool": {"tool_name": "misspelled"},
    "beyond the limit": {"max_calls": 1},
    "looked at first": {"needs_approval": lambda *given: False},
}


@pytest.mark.parametrize("kind", CALL_KINDS)
def test_running_many_calls_costs_in_proportion(kind):
    assert measure_growth(lambda number: run_in_memory(number, **CALL_KINDS[kind])) < MAX_GROWTH


def test_running_many_calls_in_a_file_costs_in_proportion(tmp_path):
    async def in_a_file(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await build_desk(number).session("s", store=store).run("go")

    assert measure_growth(in_a_file) < MAX_GROWTH


def test_opening_and_following_calls_costs_in_proportion(tmp_path):
    async def record(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await build_desk(number).session("s", store=store).run("go")

    async def opened(number):
        async with SQLiteStore(tmp_path / f"{number}.db") as store:
            session = await build_desk(number).session("s", store=store).refresh()
            assert session.status == "waiting"
            assert len([event async for event in session.follow(until_idle=True)]) > number

    for number in (FEW_CALLS, MANY_CALLS):
        asyncio.run(record(number))
    assert measure_growth(opened) < MAX_GROWTH


@pytest.mark.parametrize("kind", ["approval", "result"])
def test_deciding_many_calls_costs_in_proportion(kind):
    async def decided(number):
        options = {"needs_approval": True} if kind == "approval" else {"deferred": True}
        session = build_desk(number, **options).session("s", store=MemoryStore())
        await session.run("go")
        for request in reversed(session.pending):
            await (session.approve(request) if kind == "approval" else session.answer(request, "found"))
        result = await session.resume()
        assert result.text == "done"

    assert measure_growth(decided) < MAX_GROWTH


def test_calls_beside_waiting_ones_cost_in_proportion():
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

    assert measure_growth(mixed) < MAX_GROWTH


def test_calling_an_agent_many_times_costs_in_proportion():
    async def asked(number):
        child = Agent("child", "", ScriptedModel(lambda seen: "Looked."))
        calls = [Call("ask_child", f'{{"task": "{key}"}}') for key in range(number // 5)]
        boss = Agent("boss", "", ScriptedModel([calls, "done"]), [child.as_tool()])
        workflow = HandoffBuilder("office", [boss]).with_limits(Limits(turns=None, calls_per_reply=None)).build()
        assert (await workflow.run("go")).text == "done"

    assert measure_growth(asked) < MAX_GROWTH


@pytest.mark.parametrize("wire", [OpenAIResponses, OpenAIChat, Anthropic])
def test_request_with_many_outputs_costs_in_proportion(wire):
    async def compiled(number):
        session = build_desk(number, tool_name="misspelled").session("s", store=MemoryStore())
        await session.run("go")
        frame, groups = TurnContext(agent="clerk", instructions="You are a clerk."), select_groups(session.state, Everything(), "clerk")
        model = wire("gpt-5.1" if wire is not Anthropic else "claude-sonnet-5", **UNREACHABLE_PROVIDER)
        await model.body(build_request(session.state, frame, "f" * 32, groups, "clerk"))

    assert measure_growth(compiled) < MAX_GROWTH


def test_streamed_calls_cost_in_proportion():
    async def streamed(number):
        reader = ChatStreamDecoder(lambda words: None)
        for place in range(number):
            call = {"index": place, "id": f"call_{place}", "function": {"name": "look", "arguments": "{"}}
            for piece in (call, {"index": place, "function": {"arguments": "}"}}):
                reader.feed(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).encode())
        assert len(reader._calls.build_calls()) == number

    assert measure_growth(streamed) < MAX_GROWTH


def test_other_protocols_cost_in_proportion():
    async def shown(number):
        session = build_desk(number).session("s", store=MemoryStore())
        await session.run("go")
        ended = [moment for moment in await telling.recorded(session, 0, session.state.length) if isinstance(moment, telling.Ended)]
        assert len(ended) == number

    assert measure_growth(shown) < MAX_GROWTH
