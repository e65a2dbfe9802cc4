"""`Limits(seconds=)` binds a request to a model while it runs, also in child sessions; tools are let finish. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import CallPaused, CallReturned, ModelRequestFailed
from legato.core.view import Request
from legato.models import FallbackModel
from legato.runtime.session import Session
from legato.testing import ScriptedModel, call
from legato.testing.loop import SimulatedLoop, Timeline

T = TypeVar("T")


class Slow:
    """A model whose first replies take so many seconds each, of which it says the beginning at once."""

    name = "slow"

    def __init__(self, *seconds: float, reply: Any = "Done.") -> None:
        self._seconds = list(seconds)
        self._reply = ScriptedModel(lambda seen: reply)
        self.asked = 0

    async def reply(self, request: Request, emit: Any) -> Any:
        self.asked += 1
        if self._seconds:
            emit("I begin ")
            await asyncio.sleep(self._seconds.pop(0))
        return await self._reply.reply(request, emit)


def simulate(test: Coroutine[Any, Any, T], seed: int = 1) -> T:
    return SimulatedLoop(Timeline(seed)).run_until_complete(test)


def desk(model: Any, seconds: float, *tools: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("a", model=model, tools=tools)]).with_limits(Limits(seconds=seconds)).build()


def attempts(session: Session) -> list[tuple[int, bool, str, int]]:
    return [(fact.number, fact.final, fact.limit, fact.took) for fact in session.facts if isinstance(fact, ModelRequestFailed)]


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
def test_seconds_limit_stops_a_model_request(stream: bool) -> None:
    async def test() -> None:
        session = desk(Slow(3600), 5).session("s")
        events = [event async for event in session.run("Go", stream=stream)]
        assert (session.status, [request.limit for request in session.pending]) == ("pending", ["seconds"])
        assert attempts(session) == [(1, False, "seconds", 5000)]
        assert [message.text for message in session.messages] == ["Go"]
        shown = [event.type for event in events if event.type.startswith("output")]
        assert shown == (["output", "output_reset"] if stream else [])
        await session.approve(session.pending[0])
        result = await session.resume(stream=stream)
        assert (result.status, result.text) == ("waiting", "Done.")

    simulate(test())


def test_stopped_requests_are_no_failed_attempts() -> None:
    """Whoever grants more time again and again is asked again and again; no back-off, and the same model of a fallback."""

    async def test() -> None:
        first, second = Slow(*[3600] * 6), Slow()
        session = desk(FallbackModel(first, second), 5).session("s")
        result = await session.run("Go")
        for _ in range(5):
            assert result.status == "pending"
            await session.approve(result.pending[0])
            result = await session.resume()
        assert attempts(session) == [(1, False, "seconds", 5000)] * 6
        assert (first.asked, second.asked) == (6, 0)
        assert 30 <= asyncio.get_running_loop().time() < 31

    simulate(test())


def test_tool_is_let_finish_past_the_seconds_limit() -> None:
    async def test() -> None:
        @tool
        async def pay() -> str:
            await asyncio.sleep(60)
            return "paid"

        session = desk(Slow(reply=[call("pay")]), 5, pay).session("s")
        result = await session.run("Go")
        assert [request.limit for request in result.pending] == ["seconds"]
        assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["paid"]
        assert attempts(session) == []

    simulate(test())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_callers_seconds_limit_stops_a_child_request(depth: int) -> None:
    """A request of a child session, at any depth, is stopped when its caller's time is up; the caller asks, and the child goes on."""

    async def test() -> None:
        slow = Slow(3600)
        agent = Agent("child", model=slow)
        for _ in range(depth):
            name = agent.name
            agent = Agent(f"over_{name}", model=ScriptedModel([call(name, task="Work"), f"{name} is done."]), tools=[agent.as_tool(name)])
        session = HandoffBuilder("desk", [agent]).with_limits(Limits(seconds=5)).build().session("s")
        result = await session.run("Go")
        assert (result.status, [request.limit for request in result.pending], slow.asked) == ("pending", ["seconds"], 1)
        assert 5 <= asyncio.get_running_loop().time() < 6
        await session.approve(result.pending[0])
        result = await session.resume()
        assert (result.status, result.text, slow.asked) == ("waiting", f"{name} is done.", 2)
        assert len([fact for fact in session.facts if isinstance(fact, CallPaused)]) == 1

    simulate(test())


def test_parallel_work_counts_once_for_a_child() -> None:
    """A tool works beside a child session for three of its ten seconds: the child's second request has the other six all the same."""

    async def test() -> None:
        @tool
        async def look(seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "seen"

        slow = Slow(4, 3600, reply=call("look", seconds=0))
        model = ScriptedModel([[call("look", seconds=3), call("child", task="Work")], "Done."])
        session = desk(model, 10, look, Agent("child", model=slow, tools=[look]).as_tool("child")).session("s")
        result = await session.run("Go")
        assert ([request.limit for request in result.pending], slow.asked) == (["seconds"], 2)
        assert 10 <= asyncio.get_running_loop().time() < 11
        assert len([fact for fact in session.facts if isinstance(fact, CallPaused)]) == 1

    simulate(test())
