"""The cost of many tool calls in one reply is linear in their number: counted in lines of code that run, not in time."""

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
from legato.server import moments
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel
from tests.scale.work_counters import LineCounter

FEW_CALLS, MANY_CALLS = 500, 2_000
MAX_GROWTH = 4.5
"""The allowed growth of the cost for four times as many calls."""

UNREACHABLE_PROVIDER = {"api_key": "none", "base_url": "http://127.0.0.1:9"}


def build_desk(number, tool_name="look", max_calls=None, **options):
    """Build a desk with an agent whose first reply has this many calls."""

    async def look(key: int) -> str:
        return f"found {key}"

    model = ScriptedModel([[Call(tool_name, f'{{"key": {key}}}', f"call_{key}") for key in range(number)], "done"])
    agents = [Agent("clerk", "You are a clerk.", model, [tool(**options)(look)])]
    return HandoffBuilder("desk", agents).with_limits(Limits(calls_per_reply=max_calls)).build()


def count_lines(awaitable):
    """Return the number of lines that run."""

    async def run():
        with LineCounter() as lines:
            await awaitable
        return lines.count

    return asyncio.run(run())


async def run_warmup():
    """Run once, so that imports of the first use are not counted."""
    await build_desk(1).session().run("go")


def measure_growth(run):
    """Return the cost of many calls divided by that of few. `run(number)` returns the awaitable to count."""
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
    "after an approval check": {"needs_approval": lambda *arguments: False},
}


@pytest.mark.parametrize("kind", CALL_KINDS)
def test_running_many_calls_costs_in_proportion(kind):
    assert measure_growth(lambda number: run_in_memory(number, **CALL_KINDS[kind])) < MAX_GROWTH


def test_many_calls_in_file_cost_in_proportion(tmp_path):
    async def run_in_file(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await build_desk(number).session("s", store=store).run("go")

    assert measure_growth(run_in_file) < MAX_GROWTH


def test_opening_and_following_calls_costs_in_proportion(tmp_path):
    async def record(number):
        async with SQLiteStore(tmp_path / f"{number}.db", "process") as store:
            await build_desk(number).session("s", store=store).run("go")

    async def open_and_follow(number):
        async with SQLiteStore(tmp_path / f"{number}.db") as store:
            session = await build_desk(number).session("s", store=store).refresh()
            assert session.status == "waiting"
            assert len([event async for event in session.follow(until_idle=True)]) > number

    for number in (FEW_CALLS, MANY_CALLS):
        asyncio.run(record(number))
    assert measure_growth(open_and_follow) < MAX_GROWTH


@pytest.mark.parametrize("kind", ["approval", "result"])
def test_deciding_many_calls_costs_in_proportion(kind):
    async def decide_all(number):
        options = {"needs_approval": True} if kind == "approval" else {"deferred": True}
        session = build_desk(number, **options).session("s", store=MemoryStore())
        await session.run("go")
        for request in reversed(session.pending):
            await (session.approve(request) if kind == "approval" else session.answer(request, "found"))
        result = await session.resume()
        assert result.text == "done"

    assert measure_growth(decide_all) < MAX_GROWTH


def test_calls_beside_waiting_ones_cost_in_proportion():
    async def run_mixed(number):
        def ask() -> str:
            return "done"

        def look() -> str:
            return "found"

        calls = [Call("ask" if place % 2 else "look", "{}") for place in range(number)]
        clerk = Agent("clerk", "You are a clerk.", ScriptedModel([calls]), [tool(needs_approval=True)(ask), tool(look)])
        session = HandoffBuilder("desk", [clerk]).with_limits(Limits(calls_per_reply=None)).build().session("s", store=MemoryStore())
        await session.run("go")
        assert len(session.pending) == number // 2

    assert measure_growth(run_mixed) < MAX_GROWTH


def test_calling_an_agent_many_times_costs_in_proportion():
    async def call_agents(number):
        child = Agent("child", "", ScriptedModel(lambda request: "Looked."))
        calls = [Call("ask_child", f'{{"task": "{key}"}}') for key in range(number // 5)]
        boss = Agent("boss", "", ScriptedModel([calls, "done"]), [child.as_tool()])
        workflow = HandoffBuilder("office", [boss]).with_limits(Limits(turns=None, calls_per_reply=None)).build()
        assert (await workflow.run("go")).text == "done"

    assert measure_growth(call_agents) < MAX_GROWTH


@pytest.mark.parametrize("model_class", [OpenAIResponses, OpenAIChat, Anthropic])
def test_request_with_many_outputs_costs_in_proportion(model_class):
    async def encode(number):
        session = build_desk(number, tool_name="misspelled").session("s", store=MemoryStore())
        await session.run("go")
        turn_context, groups = (
            TurnContext(agent="clerk", instructions="You are a clerk."),
            select_groups(session.state, Everything(), "clerk"),
        )
        model = model_class("gpt-5.1" if model_class is not Anthropic else "claude-sonnet-5", **UNREACHABLE_PROVIDER)
        await model.body(build_request(session.state, turn_context, "f" * 32, groups, "clerk"))

    assert measure_growth(encode) < MAX_GROWTH


def test_streamed_calls_cost_in_proportion():
    async def decode_stream(number):
        decoder = ChatStreamDecoder(lambda words: None)
        for place in range(number):
            call = {"index": place, "id": f"call_{place}", "function": {"name": "look", "arguments": "{"}}
            for piece in (call, {"index": place, "function": {"arguments": "}"}}):
                decoder.feed(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).encode())
        assert len(decoder._calls.build_calls()) == number

    assert measure_growth(decode_stream) < MAX_GROWTH


def test_other_protocols_cost_in_proportion():
    async def project_events(number):
        session = build_desk(number).session("s", store=MemoryStore())
        await session.run("go")
        ended = [event for event in await moments.recorded(session, 0, session.state.length) if isinstance(event, moments.Ended)]
        assert len(ended) == number

    assert measure_growth(project_events) < MAX_GROWTH
