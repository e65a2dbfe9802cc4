"""`Limits(seconds=)` stops model requests in progress, also in child sessions; tools may finish. Time is virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import CallPaused, CallReturned, ModelRequestFailed
from legato.core.view import ModelRequest
from legato.models import FallbackModel
from legato.runtime.session import Session
from legato.testing import ScriptedModel, call
from legato.testing.simulated_event_loop import SimulatedLoop, Timeline

T = TypeVar("T")


class SlowModel:
    """A model whose first replies take these seconds each, and begin with a delta at once."""

    name = "slow"

    def __init__(self, *seconds: float, reply: Any = "Done.") -> None:
        self._seconds = list(seconds)
        self._reply = ScriptedModel(lambda request: reply)
        self.request_count = 0

    async def reply(self, request: ModelRequest, emit: Any) -> Any:
        self.request_count += 1
        if self._seconds:
            emit("I begin ")
            await asyncio.sleep(self._seconds.pop(0))
        return await self._reply.reply(request, emit)


def simulate(test: Coroutine[Any, Any, T], seed: int = 1) -> T:
    return SimulatedLoop(Timeline(seed)).run_until_complete(test)


def make_workflow(model: Any, seconds: float, *tools: Any) -> Workflow:
    return HandoffBuilder("desk", [Agent("a", model=model, tools=tools)]).with_limits(Limits(seconds=seconds)).build()


def list_failed_attempts(session: Session) -> list[tuple[int, bool, str, int]]:
    return [(fact.attempt, fact.final, fact.limit, fact.duration_ms) for fact in session.facts if isinstance(fact, ModelRequestFailed)]


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
def test_seconds_limit_stops_a_model_request(stream: bool) -> None:
    async def test() -> None:
        session = make_workflow(SlowModel(3600), 5).session("s")
        events = [event async for event in session.run("Go", stream=stream)]
        assert (session.status, [request.limit for request in session.pending]) == ("pending", ["seconds"])
        assert list_failed_attempts(session) == [(1, False, "seconds", 5000)]
        assert [message.text for message in session.messages] == ["Go"]
        shown = [event.type for event in events if event.type.startswith("output")]
        assert shown == (["output", "output_reset"] if stream else [])
        await session.approve(session.pending[0])
        result = await session.resume(stream=stream)
        assert (result.status, result.text) == ("waiting", "Done.")

    simulate(test())


def test_stopped_requests_are_no_failed_attempts() -> None:
    """Time can be granted any number of times, without backoff, and for the same model of a fallback."""

    async def test() -> None:
        first, second = SlowModel(*[3600] * 6), SlowModel()
        session = make_workflow(FallbackModel(first, second), 5).session("s")
        result = await session.run("Go")
        for _ in range(5):
            assert result.status == "pending"
            await session.approve(result.pending[0])
            result = await session.resume()
        assert list_failed_attempts(session) == [(1, False, "seconds", 5000)] * 6
        assert (first.request_count, second.request_count) == (6, 0)
        assert 30 <= asyncio.get_running_loop().time() < 31

    simulate(test())


def test_tool_may_finish_past_seconds_limit() -> None:
    async def test() -> None:
        @tool
        async def pay() -> str:
            await asyncio.sleep(60)
            return "paid"

        session = make_workflow(SlowModel(reply=[call("pay")]), 5, pay).session("s")
        result = await session.run("Go")
        assert [request.limit for request in result.pending] == ["seconds"]
        assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["paid"]
        assert list_failed_attempts(session) == []

    simulate(test())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_parent_seconds_limit_stops_child_request(depth: int) -> None:
    """A request of a child session, at any depth, is stopped when its parent's time is up; when the parent gets more time, it continues."""

    async def test() -> None:
        slow = SlowModel(3600)
        agent = Agent("child", model=slow)
        for _ in range(depth):
            name = agent.name
            agent = Agent(f"over_{name}", model=ScriptedModel([call(name, task="Work"), f"{name} is done."]), tools=[agent.as_tool(name)])
        session = HandoffBuilder("desk", [agent]).with_limits(Limits(seconds=5)).build().session("s")
        result = await session.run("Go")
        assert (result.status, [request.limit for request in result.pending], slow.request_count) == ("pending", ["seconds"], 1)
        assert 5 <= asyncio.get_running_loop().time() < 6
        await session.approve(result.pending[0])
        result = await session.resume()
        assert (result.status, result.text, slow.request_count) == ("waiting", f"{name} is done.", 2)
        assert len([fact for fact in session.facts if isinstance(fact, CallPaused)]) == 1

    simulate(test())


def test_parallel_work_counts_once_for_a_child() -> None:
    """A tool works beside a child session for three of its ten seconds: the child's second request still has the other six."""

    async def test() -> None:
        @tool
        async def look(seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "seen"

        slow = SlowModel(4, 3600, reply=call("look", seconds=0))
        model = ScriptedModel([[call("look", seconds=3), call("child", task="Work")], "Done."])
        session = make_workflow(model, 10, look, Agent("child", model=slow, tools=[look]).as_tool("child")).session("s")
        result = await session.run("Go")
        assert ([request.limit for request in result.pending], slow.request_count) == (["seconds"], 2)
        assert 10 <= asyncio.get_running_loop().time() < 11
        assert len([fact for fact in session.facts if isinstance(fact, CallPaused)]) == 1

    simulate(test())
