"""Timeouts, cancels, failures, and consumers that stop reading events (25, 29)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import AgentPrompted, CallReturned, CallStarted, Cancelled, ModelReplied, ModelRequestFailed
from legato.core.view import ModelRequest
from legato.errors import ModelFailed, NotPending
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import World
from tests.stories import approvals, autonomous, conversation_checks


def build_one_agent(tools: list[Any], script: Any, **more: Any) -> Workflow:
    model = ScriptedModel(script) if callable(script) else ScriptedModel(by_agent={"a": script})
    return HandoffBuilder("one", [Agent("a", model=model, tools=tools, **more)]).build()


async def list_events(session: Session, text: str | None, stream: bool = False) -> list[Any]:
    return [event async for event in (session.run(text, stream=stream) if text else session.resume(stream=stream))]


async def wait_until(session: Session, condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition(await session.refresh()):  # noqa: ASYNC110 - it polls the ledger
            await asyncio.sleep(0.005)


async def test_timed_out_tool_keeps_its_late_outcome(store: Store, stream: bool) -> None:
    """A tool that exceeds its timeout gets an output for the model, and its late outcome is kept for people."""
    go = asyncio.Event()

    @tool(timeout=0.02)
    async def pay() -> str:
        await go.wait()
        return "paid after all"

    @tool(timeout=0.02, idempotent=True)
    async def look() -> str:
        await go.wait()
        return "seen after all"

    @tool
    async def quick() -> str:
        return "quick"

    session = build_one_agent([pay, look, quick], [[call("pay"), call("look"), call("quick")], "I see."]).session("s", store=store)
    await list_events(session, "Go", stream)
    requests = await conversation_checks.rebuild_requests(session)
    paid, looked, quickly = conversation_checks.list_outputs(requests[1])
    assert "may have taken effect" in paid
    assert "did not finish" in looked
    assert "may have taken effect" not in looked
    assert quickly == "quick"
    assert session.late_outcomes == []
    go.set()
    await wait_until(session, lambda session: session.late_outcomes)
    (late,) = session.late_outcomes  # the idempotent tool was stopped; the payment was allowed to finish
    assert late.output == "paid after all"
    requests = await conversation_checks.rebuild_requests(session)
    assert "paid after all" not in str([request.messages for request in requests])
    assert (await session.run("And?")).status == "failed"  # the script is at its end; only the request matters
    assert "paid after all" not in str(session.messages)


async def test_timed_out_sync_tool_keeps_its_outcome(store: Store) -> None:
    go = threading.Event()

    @tool(timeout=0.02, idempotent=True)
    def look() -> str:
        go.wait(60)
        return "seen after all"

    session = build_one_agent([look], [call("look"), "I see."]).session("s", store=store)
    await session.run("Go")
    assert session.status == "waiting"
    go.set()
    await wait_until(session, lambda session: session.late_outcomes)


async def test_cancel_keeps_outputs_of_finished_tools(store: Store, stream: bool) -> None:
    """Finished tools keep their outputs, and running ones are answered as cancelled."""
    stuck = asyncio.Event()

    @tool
    async def quick() -> str:
        return "quickly done"

    @tool
    async def slow() -> str:
        stuck.set()
        await asyncio.Event().wait()
        return "never"

    @tool(needs_approval=True)
    async def risky() -> str:
        return "never"

    script = [[call("quick"), call("slow"), call("risky")], "We went on."]
    workflow = build_one_agent([quick, slow, risky], script)
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    driving = asyncio.create_task(list_events(session, "Go", stream))
    await stuck.wait()
    await wait_until(other, lambda session: any(isinstance(fact, CallReturned) for fact in session.facts))
    await other.cancel("enough")
    events = await asyncio.wait_for(driving, 60)
    assert events[-1].data == "cancelled"
    await session.refresh()
    assert session.status == "cancelled"
    assert session.pending == []
    await list_events(session, "Go on", stream)
    requests = await conversation_checks.rebuild_requests(session)
    quickly, slowly, never = conversation_checks.list_outputs(requests[-1])
    assert quickly == "quickly done"
    assert "cancelled while it ran" in slowly
    assert "may have taken effect" in slowly
    assert "cancelled before it started" in never
    assert session.messages[-1].text == "We went on."
    assert session.status == "waiting"


async def test_cancel_on_the_driving_handle_stops_tools(store: Store) -> None:
    stuck = asyncio.Event()

    @tool
    async def slow() -> str:
        stuck.set()
        await asyncio.Event().wait()
        return "never"

    session = build_one_agent([slow], [call("slow"), "On."]).session("s", store=store)
    driving = asyncio.create_task(list_events(session, "Go"))
    await stuck.wait()
    await session.cancel()
    await asyncio.wait_for(driving, 60)
    assert session.status == "cancelled"


async def test_cancel_withdraws_a_pending_approval(store: Store, stream: bool) -> None:
    """The call is answered, and can never be approved again."""
    world = World()
    session = approvals.build_refund_desk(world, "queue").session("s", store=store)
    await list_events(session, "Refund order 7", stream)
    (request,) = session.pending
    await session.cancel()
    assert session.status == "cancelled"  # without a driver
    assert session.pending == []
    try:
        await session.approve(request)
        raise AssertionError("a cancelled call was approved")
    except NotPending:
        pass
    await list_events(session, "Good morning", stream)
    assert session.pending == []
    assert world.effects == []
    requests = await conversation_checks.rebuild_requests(session)
    assert "cancelled before it started" in conversation_checks.list_outputs(requests[-1])[0]
    assert session.status == "waiting"


async def test_cancel_of_an_idle_session_records_nothing(store: Store) -> None:
    session = build_one_agent([], ["Hello."]).session("s", store=store)
    await session.cancel()
    await session.refresh()
    assert session.facts == []
    await session.run("Hi")
    await session.cancel()
    assert not any(isinstance(fact, Cancelled) for fact in session.facts)
    assert session.status == "waiting"


async def test_cancel_during_a_request_resets_streamed_output(store: Store) -> None:
    thinking = asyncio.Event()

    class Pondering(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> Any:
            if request.messages[-1].text == "Go":
                emit("I think ")
                thinking.set()
                await asyncio.Event().wait()
            return await super().reply(request, emit)

    workflow = HandoffBuilder("one", [Agent("a", model=Pondering(lambda seen: "Hello."))]).build()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    driving = asyncio.create_task(list_events(session, "Go", True))
    await thinking.wait()
    await other.cancel()
    events = await asyncio.wait_for(driving, 60)
    kinds = [event.type for event in events]
    assert kinds.index("output") < kinds.index("output_reset")
    assert session.status == "cancelled"
    assert [message.text for message in session.messages] == ["Go"]
    await list_events(session, "Again", True)
    assert [message.text for message in session.messages] == ["Go", "Again", "Hello."]


async def test_calls_stopped_by_a_limit_stay_stopped(store: Store) -> None:
    """Calls that a refused limit stopped stay stopped, even if a message follows at once."""
    world = World()
    session = approvals.build_capped_desk(world).session("s", store=store)
    await session.run("Walk")
    (request,) = session.pending
    assert request.kind == "limit"
    await session.reject(request)
    await session.run("Never mind")  # without a drive in between
    assert [deed for _, deed in world.effects] == ["step 0", "step 1"]
    requests = await conversation_checks.rebuild_requests(session)
    assert [("limit stopped" in output) for output in conversation_checks.list_outputs(requests[-1])] == [False, False, True, True, True]


async def test_refused_limit_returns_the_turn(store: Store) -> None:
    model = ScriptedModel(lambda seen: handoff("b" if seen.agent == "a" else "a"))
    workflow = HandoffBuilder("loop", [Agent("a", model=model), Agent("b", model=model)]).with_limits(Limits(handoffs=3)).build()
    session = workflow.session("s", store=store)
    result = await session.run("Go")
    assert result.status == "pending"
    await session.reject(result.pending[0])
    assert session.status == "waiting"
    assert session.pending == []
    result = await session.run("Again")
    assert result.status == "pending"
    assert len(result.pending) == 1


async def test_leaving_the_event_iterator_loses_nothing(store: Store, stream: bool) -> None:
    done: list[str] = []

    @tool
    async def work() -> str:
        await asyncio.sleep(0.01)
        done.append("work")
        return "worked"

    session = build_one_agent([work], [call("work"), call("work"), "Done."]).session("s", store=store)
    async for event in session.run("Go", stream=stream):
        if event.type == "tool_started":
            break
    await wait_until(session, lambda session: any(isinstance(fact, CallReturned) for fact in session.facts))
    await asyncio.sleep(0.03)
    await session.refresh()
    assert done == ["work"]  # the running call finished and was recorded; no other one started
    assert session.status == "running"
    result = await session.resume(stream=stream)
    assert result.text == "Done."
    assert done == ["work", "work"]
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 2
    await conversation_checks.rebuild_requests(session)


async def test_broken_stream_is_reset_before_the_retry(store: Store) -> None:
    class Stumbling(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> Any:
            if len(self.requests) < 2:
                self.requests.append(request)
                emit("The answer ")
                raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
            return await super().reply(request, emit)

    workflow = HandoffBuilder("line", [Agent("a", model=Stumbling(lambda seen: "The answer is 42."))]).build()
    session = workflow.session("s", store=store)
    streamed = ""
    resets = 0
    for event in await list_events(session, "What?", True):
        if event.type == "output":
            streamed += event.data.text
        elif event.type == "output_reset":
            assert streamed
            streamed, resets = "", resets + 1
    assert (streamed, resets) == ("The answer is 42.", 2)
    assert [fact.attempt for fact in session.facts if isinstance(fact, ModelRequestFailed)] == [1, 2]
    assert [message.text for message in session.messages] == ["What?", "The answer is 42."]


async def test_failed_model_pauses_the_session_until_resume(store: Store, stream: bool) -> None:
    broken = [True]

    def reply(seen: ModelRequest) -> Any:
        return ModelFailed("the account is closed") if broken else "Here I am again."

    session = build_one_agent([], reply).session("s", store=store)
    result = await session.run("Hello?", stream=stream)
    assert result.status == "failed"
    assert "account is closed" in session.error
    assert (await session.resume(stream=stream)).status == "failed"
    broken.clear()
    result = await session.resume(stream=stream)
    assert (result.status, result.text) == ("waiting", "Here I am again.")
    assert session.error == ""
    (request,) = await conversation_checks.rebuild_requests(session)
    assert conversation_checks.list_texts(request) == ["Hello?"]


async def test_message_to_a_failed_session_retries_both(store: Store) -> None:
    def reply(seen: ModelRequest) -> Any:
        users = [message.text for message in seen.messages if message.role == "user"]
        return ModelFailed("no") if users == ["one"] else f"Heard {users}."

    session = build_one_agent([], reply).session("s", store=store)
    assert (await session.run("one")).status == "failed"
    assert (await session.run("two")).text == "Heard ['one', 'two']."
    await conversation_checks.rebuild_requests(session)


async def test_raising_approval_function_loses_no_sibling_output(store: Store) -> None:
    """An approval function that raises ends the drive; its siblings keep their outputs."""
    broken, started, done = [True], asyncio.Event(), []

    async def rule(ctx: Any, arguments: Any, call: Any) -> bool:
        if broken:
            await started.wait()
            raise LookupError("no rule today")
        return False

    @tool(needs_approval=rule)
    async def ruled() -> str:
        return "ruled"

    @tool
    async def slow() -> str:
        started.set()
        await asyncio.sleep(0.02)
        done.append("slow")
        return "slow"

    session = build_one_agent([slow, ruled], [[call("slow"), call("ruled")], "Done."]).session("s", store=store)
    try:
        await session.run("Go")
        raise AssertionError("the error of user code was swallowed")
    except LookupError:
        pass
    broken.clear()
    result = await session.resume()
    assert result.text == "Done."
    assert done == ["slow"]
    (_, request) = await conversation_checks.rebuild_requests(session)
    assert conversation_checks.list_outputs(request) == ["slow", "ruled"]


async def test_approval_function_is_called_once_per_call(store: Store) -> None:
    checked: list[dict[str, Any]] = []

    async def rule(ctx: Any, arguments: dict[str, Any], call: Any) -> bool:
        assert ctx.context == {"who": "ada"}
        checked.append(arguments)
        return True

    @tool(needs_approval=rule)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    workflow = build_one_agent([pay], [[call("pay", cents=1), call("pay", cents=2)], "Paid."])
    session = workflow.session("s", store=store, context={"who": "ada"})
    await session.run("Pay")
    for _ in range(3):
        again = workflow.session("s", store=store, context={"who": "ada"})
        await again.resume()
        assert len(again.pending) == 2
    for request in again.pending:
        await again.approve(request)
    assert (await again.resume()).text == "Paid."
    assert checked == [{"cents": 1}, {"cents": 2}]


async def test_autonomous_limit_survives_a_restart(store: Store, stream: bool) -> None:
    for message_count in (1, 2, 3):
        id = f"book-{message_count}"
        messages = 0
        async for event in autonomous.build_writer(World(), 3).session(id, store=store).run("Write a book", stream=stream):
            messages += event.type == "message"
            if messages == message_count:
                break
        again = autonomous.build_writer(World(), 3).session(id, store=store)
        await wait_until(again, lambda session: sum(isinstance(fact, ModelReplied) for fact in session.facts) >= message_count)  # noqa: B023
        await again.resume(stream=stream)
        assert sum(isinstance(fact, AgentPrompted) for fact in again.facts) == 3
        assert [message.text for message in again.messages[1:]] == [f"Chapter {number}." for number in (1, 2, 3, 4)]
        assert again.status == "waiting"
        await conversation_checks.rebuild_requests(again)


async def test_large_output_is_cut_and_kept_whole(store: Store) -> None:
    """An output of 10 MB is cut for the model, and stored whole."""

    @tool
    async def flood() -> str:
        return "x" * 10_000_000

    @tool
    async def quick() -> str:
        return "quick"

    session = build_one_agent([flood, quick], [[call("flood"), call("quick")], "Too much."]).session("s", store=store)
    assert (await session.run("Go")).text == "Too much."
    requests = await conversation_checks.rebuild_requests(session)
    flooded, quickly = conversation_checks.list_outputs(requests[-1])
    assert len(flooded) < 100_000
    assert "10000000" in flooded
    assert quickly == "quick"
    (whole,) = [fact for fact in session.facts if isinstance(fact, CallReturned) and fact.full_output_digest]
    assert len(await store.content("s", whole.full_output_digest)) == 10_000_000
