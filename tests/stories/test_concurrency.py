"""Several handles and processes on one session (22, 34, 34b)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from legato import Agent, HandoffBuilder, Run, ToolContext, Workflow, tool
from legato.core.facts import CallLost, CallStarted, Decided, MessageReceived, ModelReplied
from legato.core.view import ModelRequest
from legato.errors import NotPending
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.story import World
from tests.stories import approvals, child_process, conversation_checks, handoffs
from tests.stories.processes import finish_process, run_in_process, start_process


class GatedTool:
    """A tool that runs until an event is set, and a model that counts the messages it receives."""

    def __init__(self) -> None:
        self.world = World()
        self.started = asyncio.Event()
        self.go = asyncio.Event()

    def build_desk(self) -> Workflow:
        @tool
        async def slow(ctx: ToolContext[Any]) -> str:
            self.world.record_effect(ctx, "slow")
            self.started.set()
            await self.go.wait()
            return "slowly done"

        def reply(seen: ModelRequest) -> Any:
            if not any(message.role == "tool" for message in seen.messages):
                return call("slow")
            return f"I heard {sum(message.role == 'user' for message in seen.messages)} messages."

        return HandoffBuilder("slow", [Agent("snail", model=ScriptedModel(reply), tools=[slow])]).build()


async def test_one_of_simultaneous_approvals_wins(store: Store) -> None:
    """Of eight simultaneous approvals of one request, one wins, and the tool runs once."""
    world = World()
    workflow = approvals.build_refund_desk(world, "queue")
    await workflow.session("s", store=store).run("Refund order 7")
    handles = [workflow.session("s", store=store) for _ in range(8)]
    for handle in handles:
        await handle.refresh()
    (request,) = handles[0].pending
    outcomes = await asyncio.gather(*(handle.approve(request) for handle in handles), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, NotPending) for outcome in outcomes) == 7
    await asyncio.gather(*(handle.resume() for handle in handles))
    assert world.count("refunded 7") == 1
    assert sum(isinstance(fact, Decided) for fact in handles[0].facts) == 1


async def test_approval_from_two_processes_runs_tool_once(place: str) -> None:
    async with child_process.open_store(place) as store:
        session = approvals.build_refund_desk(World(), "queue").session("refund", store=store)
        await session.run("Refund order 7")
        (request,) = session.pending
        processes = [await start_process("approve_on_signal", place, request.id) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert (await process.stdout.readline()).strip() == b"ready"
        results = await asyncio.gather(*(finish_process(process, "\n") for process in processes))
        assert sorted(each["outcome"] for each in results) == ["approved", "not_pending"]
        assert [deed for each in results for deed in each["deeds"]] == ["refunded 7"]
        await conversation_checks.rebuild_requests(session)
        assert session.status == "waiting"
        assert session.messages[-1].text == "Understood."


async def test_message_during_a_tool_loses_no_result(store: Store, stream: bool) -> None:
    gate = GatedTool()
    workflow = gate.build_desk()
    first, second = workflow.session("s", store=store), workflow.session("s", store=store)

    async def drive() -> list[str]:
        return [event.type async for event in first.run("Go", stream=stream)]

    driving = asyncio.create_task(drive())
    await gate.started.wait()
    second_run = asyncio.create_task(run_and_get_text(second.run("And this")))
    await wait_for_message(store, "s", "And this")
    assert not second_run.done()  # it follows the leader
    gate.go.set()
    await asyncio.gather(driving, second_run)
    await first.refresh()
    assert gate.world.count("slow") == 1
    assert sum(isinstance(fact, CallStarted) for fact in first.facts) == 1
    assert not any(isinstance(fact, CallLost) for fact in first.facts)
    assert second_run.result() == "I heard 2 messages."
    requests = await conversation_checks.rebuild_requests(first)
    assert [message.text for message in requests[-1].messages] == ["Go", "", "slowly done", "And this"]


async def run_and_get_text(run: Run) -> str:
    return str((await run).text)


async def wait_for_message(store: Store, ledger: str, text: str) -> None:
    """Wait until a message is recorded."""
    async with asyncio.timeout(60):
        while text not in [fact.content for fact in await store.read(ledger) if isinstance(fact, MessageReceived)]:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_second_handle_follows_all_events(store: Store) -> None:
    gate = GatedTool()
    workflow = gate.build_desk()
    leader = asyncio.create_task(list_events(workflow, store, "Go"))
    await gate.started.wait()
    follower = asyncio.create_task(list_events(workflow, store, None))
    await asyncio.sleep(0.02)
    gate.go.set()
    led, followed = await asyncio.gather(leader, follower)
    assert gate.world.count("slow") == 1
    assert "tool_started" in led
    assert led[led.index("tool_started") + 1 :] == followed
    assert followed[-1] == "status"
    assert "output" in followed


async def list_events(workflow: Workflow, store: Store, text: str | None) -> list[str]:
    session = workflow.session("s", store=store)
    return [event.type async for event in (session.run(text) if text else session.resume())]


async def test_second_process_follows_and_runs_no_tool(place: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    process = await start_process("drive_slowly", place, flag)
    started = flag.with_suffix(".started")
    async with asyncio.timeout(60):
        while not started.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
    async with child_process.open_store(place) as store:
        world = World()
        workflow = child_process.build_slow_desk(world, flag)
        following = asyncio.create_task(run_and_get_text(workflow.session("slow", store=store).run("From elsewhere")))
        await wait_for_message(store, "slow", "From elsewhere")
        assert not following.done()
        flag.touch()
        result, text = await asyncio.gather(finish_process(process), following)
        assert result["deeds"] == ["slow"]
        assert world.effects == []  # nothing ran in this process
        assert text == "I heard 2 messages."
        requests = await conversation_checks.rebuild_requests(workflow.session("slow", store=store))
        assert [message.text for message in requests[-1].messages] == ["Go", "", "slowly done", "From elsewhere"]


async def test_message_with_one_key_is_recorded_once(store: Store, stream: bool) -> None:
    workflow = HandoffBuilder("echo", [Agent("echo", model=ScriptedModel(lambda seen: f"{len(seen.messages)} heard."))]).build()
    handles = [workflow.session("s", store=store) for _ in range(3)]
    results = await asyncio.gather(*(handle.run("Order 7", key="delivery-1") for handle in handles))
    again = await workflow.session("s", store=store).run("Order 7", stream=stream, key="delivery-1")
    (session, *_) = handles
    await session.refresh()
    assert sum(isinstance(fact, MessageReceived) for fact in session.facts) == 1
    assert sum(isinstance(fact, ModelReplied) for fact in session.facts) == 1
    assert {result.text for result in (*results, again)} == {"1 heard."}  # a repeated run returns the same


async def test_message_during_a_request_follows_its_reply(store: Store, stream: bool) -> None:
    thinking, go = asyncio.Event(), asyncio.Event()

    async def reply(seen: ModelRequest) -> str:
        if seen.reply_count == 0:
            thinking.set()
            await go.wait()
        return f"Reply {seen.reply_count} to {seen.messages[-1].text}."

    workflow = HandoffBuilder("think", [Agent("thinker", model=ScriptedModel(reply))]).build()
    session = workflow.session("s", store=store)
    driving = asyncio.create_task(complete(session.run("first", stream=stream)))
    await thinking.wait()
    queued = asyncio.create_task(complete(session.run("second", stream=stream)))  # on the same handle
    await wait_for_message(store, "s", "second")
    go.set()
    await asyncio.gather(driving, queued)
    assert [message.text for message in session.messages] == ["first", "Reply 0 to first.", "second", "Reply 1 to second."]
    await conversation_checks.rebuild_requests(session)


async def complete(run: Any) -> None:
    async for _ in run:
        pass


async def test_answer_takes_effect_while_a_sibling_runs(store: Store) -> None:
    gate = GatedTool()
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
    driving = asyncio.create_task(complete(session.run("Go")))
    await gate.started.wait()
    await other.refresh()
    (request,) = other.pending
    await other.approve(request)
    await asyncio.wait_for(driving, 60)  # `slow` ends only after `quick`
    assert order == ["quick", "slow"]
    await session.refresh()
    assert session.messages[-1].text == "Done."


async def test_approval_on_the_driving_handle_takes_effect(store: Store) -> None:
    gate = GatedTool()

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
    driving = asyncio.create_task(complete(session.run("Go")))
    await gate.started.wait()
    (request,) = session.pending
    await session.approve(request)
    await asyncio.wait_for(driving, 60)
    assert session.messages[-1].text == "Done."


async def test_processes_taking_turns_record_messages_once(place: str) -> None:
    turns = ["My order came broken", "Order 7", "Thanks"]
    for count in (1, 2, 3):
        await run_in_process("continue_session", place, "s", *turns[:count])
    async with child_process.open_store(place) as store:
        requests = await conversation_checks.rebuild_requests(handoffs.build_three_turns(World()).session("s", store=store))
        assert [len(request.messages) for request in requests] == [1, 3, 5, 7, 9, 11]
