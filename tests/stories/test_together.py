"""Several handles, several processes, one conversation (22, 34, 34b)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, Run, ToolContext, Workflow, tool
from legato.core.facts import CallLost, CallStarted, Decided, MessageReceived, ModelReplied
from legato.core.view import Request
from legato.errors import NotPending
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.story import World
from tests.stories import approvals, checking, child, handoffs
from tests.stories.processes import begin, elsewhere, end


class Gate:
    """A tool that runs until it is let go, and a model that says what it heard."""

    def __init__(self) -> None:
        self.world = World()
        self.started = asyncio.Event()
        self.go = asyncio.Event()

    def desk(self) -> Workflow:
        @tool
        async def slow(ctx: ToolContext[Any]) -> str:
            self.world.did(ctx, "slow")
            self.started.set()
            await self.go.wait()
            return "slowly done"

        def reply(seen: Request) -> Any:
            if not any(message.role == "tool" for message in seen.messages):
                return call("slow")
            return f"I heard {sum(message.role == 'user' for message in seen.messages)} messages."

        return HandoffBuilder("slow", [Agent("snail", model=ScriptedModel(reply), tools=[slow])]).build()


async def test_one_approval_delivered_twice_at_the_same_moment_runs_the_tool_once_and_the_loser_is_told(store: Store) -> None:
    world = World()
    workflow = approvals.refund_desk(world, "queue")
    await workflow.session("s", store=store).run("Refund order 7")
    handles = [workflow.session("s", store=store) for _ in range(8)]
    for handle in handles:
        await handle.refresh()
    (request,) = handles[0].pending
    outcomes = await asyncio.gather(*(handle.approve(request) for handle in handles), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, NotPending) for outcome in outcomes) == 7
    await asyncio.gather(*(handle.resume() for handle in handles))
    assert world.times("refunded 7") == 1
    assert sum(isinstance(fact, Decided) for fact in handles[0].facts) == 1


async def test_one_approval_delivered_from_two_processes_runs_the_tool_once(place: str) -> None:
    async with child.opened(place) as store:
        session = approvals.refund_desk(World(), "queue").session("refund", store=store)
        await session.run("Refund order 7")
        (request,) = session.pending
        processes = [await begin("approve", place, request.id) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert (await process.stdout.readline()).strip() == b"ready"
        told = await asyncio.gather(*(end(process, "\n") for process in processes))
        assert sorted(each["outcome"] for each in told) == ["approved", "not_pending"]
        assert [deed for each in told for deed in each["deeds"]] == ["refunded 7"]
        await checking.requests_of(session)
        assert session.status == "waiting"
        assert session.messages[-1].text == "Understood."


async def test_a_message_that_arrives_while_a_tool_runs_costs_nobody_a_result(store: Store, stream: bool) -> None:
    gate = Gate()
    workflow = gate.desk()
    first, second = workflow.session("s", store=store), workflow.session("s", store=store)

    async def drive() -> list[str]:
        return [event.type async for event in first.run("Go", stream=stream)]

    driving = asyncio.create_task(drive())
    await gate.started.wait()
    said = asyncio.create_task(_text(second.run("And this")))
    await recorded(store, "s", "And this")
    assert not said.done()  # it follows whoever leads
    gate.go.set()
    await asyncio.gather(driving, said)
    await first.refresh()
    assert gate.world.times("slow") == 1
    assert sum(isinstance(fact, CallStarted) for fact in first.facts) == 1
    assert not any(isinstance(fact, CallLost) for fact in first.facts)
    assert said.result() == "I heard 2 messages."
    requests = await checking.requests_of(first)
    assert [message.text for message in requests[-1].messages] == ["Go", "", "slowly done", "And this"]


async def _text(run: Run) -> str:
    return str((await run).text)


async def recorded(store: Store, ledger: str, text: str) -> None:
    """Wait until somebody's message is part of a session."""
    async with asyncio.timeout(60):
        while text not in [fact.content for fact in await store.read(ledger) if isinstance(fact, MessageReceived)]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_two_handles_drive_at_once_one_leads_and_both_see_every_event(store: Store) -> None:
    gate = Gate()
    workflow = gate.desk()
    leader = asyncio.create_task(_events(workflow, store, "Go"))
    await gate.started.wait()
    follower = asyncio.create_task(_events(workflow, store, None))
    await asyncio.sleep(0.02)
    gate.go.set()
    led, followed = await asyncio.gather(leader, follower)
    assert gate.world.times("slow") == 1
    assert "tool_started" in led
    assert led[led.index("tool_started") + 1 :] == followed
    assert followed[-1] == "status"
    assert "output" in followed


async def _events(workflow: Workflow, store: Store, text: str | None) -> list[str]:
    session = workflow.session("s", store=store)
    return [event.type async for event in (session.run(text) if text else session.resume())]


async def test_two_processes_drive_one_session_the_other_learns_so_before_any_tool_starts(place: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    process = await begin("drive_slowly", place, flag)
    started = flag.with_suffix(".started")
    async with asyncio.timeout(60):
        while not started.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
    async with child.opened(place) as store:
        world = World()
        workflow = child.slow_desk(world, flag)
        following = asyncio.create_task(_text(workflow.session("slow", store=store).run("From elsewhere")))
        await recorded(store, "slow", "From elsewhere")
        assert not following.done()
        flag.touch()
        told, text = await asyncio.gather(end(process), following)
        assert told["deeds"] == ["slow"]
        assert world.deeds == []  # here nothing ran
        assert text == "I heard 2 messages."
        requests = await checking.requests_of(workflow.session("slow", store=store))
        assert [message.text for message in requests[-1].messages] == ["Go", "", "slowly done", "From elsewhere"]


async def test_one_message_delivered_three_times_with_one_key_is_in_the_conversation_once(store: Store, stream: bool) -> None:
    workflow = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: f"{len(seen.messages)} heard."))]).build()
    handles = [workflow.session("s", store=store) for _ in range(3)]
    results = await asyncio.gather(*(handle.run("Order 7", key="delivery-1") for handle in handles))
    again = await workflow.session("s", store=store).run("Order 7", stream=stream, key="delivery-1")
    (session, *_) = handles
    await session.refresh()
    assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 1
    assert sum(isinstance(fact, ModelReplied) for fact in session.facts) == 1
    assert {result.text for result in (*results, again)} == {"1 heard."}  # whoever asks again is told the same


async def test_a_message_queued_while_the_model_thinks_follows_its_reply(store: Store, stream: bool) -> None:
    thinking, go = asyncio.Event(), asyncio.Event()

    async def reply(seen: Request) -> str:
        if seen.turn == 0:
            thinking.set()
            await go.wait()
        return f"Reply {seen.turn} to {seen.messages[-1].text}."

    workflow = HandoffBuilder("think", [Agent("thinker", model=ScriptedModel(reply))]).build()
    session = workflow.session("s", store=store)
    driving = asyncio.create_task(_complete(session.run("first", stream=stream)))
    await thinking.wait()
    queued = asyncio.create_task(_complete(session.run("second", stream=stream)))  # on the same handle, even
    await recorded(store, "s", "second")
    go.set()
    await asyncio.gather(driving, queued)
    assert [message.text for message in session.messages] == ["first", "Reply 0 to first.", "second", "Reply 1 to second."]
    await checking.requests_of(session)


async def _complete(run: Any) -> None:
    async for _ in run:
        pass


async def test_an_answer_from_elsewhere_while_a_sibling_runs_is_acted_on_at_once(store: Store) -> None:
    gate = Gate()
    order: list[str] = []

    @tool
    async def slow() -> str:
        gate.started.set()
        await gate.go.wait()
        order.append("slow")
        return "slow"

    @tool(needs_approval=True)
    async def quick() -> str:
        order.append("quick")
        gate.go.set()
        return "quick"

    model = ScriptedModel(by_agent={"a": [[call("slow"), call("quick")], "Done."]})
    workflow = HandoffBuilder("two", [Agent("a", model=model, tools=[slow, quick])]).build()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    driving = asyncio.create_task(_complete(session.run("Go")))
    await gate.started.wait()
    await other.refresh()
    (request,) = other.pending
    await other.approve(request)
    await asyncio.wait_for(driving, 60)  # `slow` ends only when `quick` ran
    assert order == ["quick", "slow"]
    await session.refresh()
    assert session.messages[-1].text == "Done."


async def test_an_approval_from_the_driving_handle_itself_is_acted_on_at_once(store: Store) -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        gate.started.set()
        await gate.go.wait()
        return "slow"

    @tool(needs_approval=True)
    async def quick() -> str:
        gate.go.set()
        return "quick"

    model = ScriptedModel(by_agent={"a": [[call("slow"), call("quick")], "Done."]})
    session = HandoffBuilder("two", [Agent("a", model=model, tools=[slow, quick])]).build().session("s", store=store)
    driving = asyncio.create_task(_complete(session.run("Go")))
    await gate.started.wait()
    (request,) = session.pending
    await session.approve(request)
    await asyncio.wait_for(driving, 60)
    assert session.messages[-1].text == "Done."


async def test_processes_take_turns_on_one_session_and_every_message_is_there_once(place: str) -> None:
    turns = ["My order came broken", "Order 7", "Thanks"]
    for said in (1, 2, 3):
        await elsewhere("go_on", place, "s", *turns[:said])
    async with child.opened(place) as store:
        requests = await checking.requests_of(handoffs.three_turns(World()).session("s", store=store))
        assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
