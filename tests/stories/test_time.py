"""Tools that take too long, people who stop things, observers who leave (25, 29)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import AgentPrompted, CallReturned, CallStarted, Cancelled, ModelReplied, ModelRequestFailed
from legato.core.view import Request
from legato.errors import ModelFailed, NotPending
from legato.runtime.session import Session
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from legato.testing.story import World
from tests.stories import approvals, autonomous, checking


def one_agent(tools: list[Any], script: Any, **more: Any) -> Workflow:
    model = ScriptedModel(script) if callable(script) else ScriptedModel(by_agent={"a": script})
    return HandoffBuilder("one", [Agent("a", model=model, tools=tools, **more)]).build()


async def drive(session: Session, text: str | None, stream: bool = False) -> list[Any]:
    return [event async for event in (session.run(text, stream=stream) if text else session.resume(stream=stream))]


async def until(session: Session, condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition(await session.refresh()):  # noqa: ASYNC110 - it looks at what was recorded so far
            await asyncio.sleep(0.005)


async def test_a_tool_that_hangs_past_its_timeout_is_answered_and_its_late_outcome_is_kept_for_people(store: Store, stream: bool) -> None:
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

    session = one_agent([pay, look, quick], [[call("pay"), call("look"), call("quick")], "I see."]).session("s", store=store)
    await drive(session, "Go", stream)
    requests = await checking.requests_of(session)
    paid, looked, quickly = checking.outputs(requests[1])
    assert "may have taken effect" in paid
    assert "did not finish" in looked
    assert "may have taken effect" not in looked
    assert quickly == "quick"
    assert session.late_outcomes == []
    go.set()
    await until(session, lambda session: session.late_outcomes)
    (late,) = session.late_outcomes  # what may be repeated was stopped; the payment was not cut off
    assert late.output == "paid after all"
    requests = await checking.requests_of(session)
    assert "paid after all" not in str([request.messages for request in requests])
    assert (await session.run("And?")).status == "failed"  # the script is at its end; what was asked is what matters
    assert "paid after all" not in str(session.messages)


async def test_a_sync_tool_past_its_timeout_cannot_be_stopped_and_its_outcome_is_kept(store: Store) -> None:
    go = threading.Event()

    @tool(timeout=0.02, idempotent=True)
    def look() -> str:
        go.wait(60)
        return "seen after all"

    session = one_agent([look], [call("look"), "I see."]).session("s", store=store)
    await session.run("Go")
    assert session.status == "waiting"
    go.set()
    await until(session, lambda session: session.late_outcomes)


async def test_cancel_while_tools_run_finished_ones_keep_their_outputs_and_running_ones_are_answered(store: Store, stream: bool) -> None:
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
    async def gated() -> str:
        return "never"

    script = [[call("quick"), call("slow"), call("gated")], "We went on."]
    workflow = one_agent([quick, slow, gated], script)
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    driving = asyncio.create_task(drive(session, "Go", stream))
    await stuck.wait()
    await until(other, lambda session: any(isinstance(fact, CallReturned) for fact in session.facts))
    await other.cancel("enough")
    events = await asyncio.wait_for(driving, 60)
    assert events[-1].data == "cancelled"
    await session.refresh()
    assert session.status == "cancelled"
    assert session.pending == []
    await drive(session, "Go on", stream)
    requests = await checking.requests_of(session)
    quickly, slowly, never = checking.outputs(requests[-1])
    assert quickly == "quickly done"
    assert "cancelled while it ran" in slowly
    assert "may have taken effect" in slowly
    assert "cancelled before it started" in never
    assert session.messages[-1].text == "We went on."
    assert session.status == "waiting"


async def test_cancel_on_the_driving_handle_itself_stops_what_runs(store: Store) -> None:
    stuck = asyncio.Event()

    @tool
    async def slow() -> str:
        stuck.set()
        await asyncio.Event().wait()
        return "never"

    session = one_agent([slow], [call("slow"), "On."]).session("s", store=store)
    driving = asyncio.create_task(drive(session, "Go"))
    await stuck.wait()
    await session.cancel()
    await asyncio.wait_for(driving, 60)
    assert session.status == "cancelled"


async def test_cancel_while_an_approval_is_pending_answers_the_call_and_it_can_never_be_approved_again(store: Store, stream: bool) -> None:
    world = World()
    session = approvals.refund_desk(world, "queue").session("s", store=store)
    await drive(session, "Refund order 7", stream)
    (request,) = session.pending
    await session.cancel()
    assert session.status == "cancelled"  # nobody had to drive for it
    assert session.pending == []
    try:
        await session.approve(request)
        raise AssertionError("a cancelled call was approved")
    except NotPending:
        pass
    await drive(session, "Good morning", stream)
    assert session.pending == []
    assert world.deeds == []
    requests = await checking.requests_of(session)
    assert "cancelled before it started" in checking.outputs(requests[-1])[0]
    assert session.status == "waiting"


async def test_cancel_where_nothing_happens_changes_nothing(store: Store) -> None:
    session = one_agent([], ["Hello."]).session("s", store=store)
    await session.cancel()
    await session.refresh()
    assert session.facts == []
    await session.run("Hi")
    await session.cancel()
    assert not any(isinstance(fact, Cancelled) for fact in session.facts)
    assert session.status == "waiting"


async def test_cancel_while_the_model_thinks_withdraws_what_it_had_said_so_far(store: Store) -> None:
    thinking = asyncio.Event()

    class Pondering(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Any:
            if request.messages[-1].text == "Go":
                emit("I think ")
                thinking.set()
                await asyncio.Event().wait()
            return await super().reply(request, emit)

    workflow = HandoffBuilder("one", [Agent("a", model=Pondering(lambda seen: "Hello."))]).build()
    session, other = workflow.session("s", store=store), workflow.session("s", store=store)
    driving = asyncio.create_task(drive(session, "Go", True))
    await thinking.wait()
    await other.cancel()
    events = await asyncio.wait_for(driving, 60)
    kinds = [event.type for event in events]
    assert kinds.index("output") < kinds.index("output_reset")
    assert session.status == "cancelled"
    assert [message.text for message in session.messages] == ["Go"]
    await drive(session, "Again", True)
    assert [message.text for message in session.messages] == ["Go", "Again", "Hello."]


async def test_a_limit_rejected_and_a_message_sent_at_once_what_was_stopped_stays_stopped(store: Store) -> None:
    world = World()
    session = approvals.capped_desk(world).session("s", store=store)
    await session.run("Walk")
    (request,) = session.pending
    assert request.kind == "limit"
    await session.reject(request)
    await session.run("Never mind")  # nobody drove in between
    assert [deed for _, deed in world.deeds] == ["step 0", "step 1"]
    requests = await checking.requests_of(session)
    assert [("limit stopped" in output) for output in checking.outputs(requests[-1])] == [False, False, True, True, True]


async def test_a_limit_rejected_gives_the_turn_back(store: Store) -> None:
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


async def test_leaving_the_iterator_in_the_middle_loses_nothing_and_resume_goes_on(store: Store, stream: bool) -> None:
    done: list[str] = []

    @tool
    async def work() -> str:
        await asyncio.sleep(0.01)
        done.append("work")
        return "worked"

    session = one_agent([work], [call("work"), call("work"), "Done."]).session("s", store=store)
    async for event in session.run("Go", stream=stream):
        if event.type == "tool_started":
            break
    await until(session, lambda session: any(isinstance(fact, CallReturned) for fact in session.facts))
    await asyncio.sleep(0.03)
    await session.refresh()
    assert done == ["work"]  # what ran was finished and recorded; nothing new was begun
    assert session.status == "running"
    result = await session.resume(stream=stream)
    assert result.text == "Done."
    assert done == ["work", "work"]
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 2
    await checking.requests_of(session)


async def test_a_broken_stream_is_withdrawn_before_the_message_comes_again_whole(store: Store) -> None:
    class Stumbling(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Any:
            if len(self.requests) < 2:
                self.requests.append(request)
                emit("The answer ")
                raise ModelFailed("the line broke", retryable=True, retry_after=0.0)
            return await super().reply(request, emit)

    workflow = HandoffBuilder("line", [Agent("a", model=Stumbling(lambda seen: "The answer is 42."))]).build()
    session = workflow.session("s", store=store)
    shown = ""
    resets = 0
    for event in await drive(session, "What?", True):
        if event.type == "output":
            shown += event.data.text
        elif event.type == "output_reset":
            assert shown
            shown, resets = "", resets + 1
    assert (shown, resets) == ("The answer is 42.", 2)
    assert [fact.number for fact in session.facts if isinstance(fact, ModelRequestFailed)] == [1, 2]
    assert [message.text for message in session.messages] == ["What?", "The answer is 42."]


async def test_a_model_that_fails_for_good_pauses_the_session_and_resume_goes_on(store: Store, stream: bool) -> None:
    broken = [True]

    def reply(seen: Request) -> Any:
        return ModelFailed("the account is closed") if broken else "Here I am again."

    session = one_agent([], reply).session("s", store=store)
    result = await session.run("Hello?", stream=stream)
    assert result.status == "failed"
    assert "account is closed" in session.error
    assert (await session.resume(stream=stream)).status == "failed"  # still
    broken.clear()
    result = await session.resume(stream=stream)
    assert (result.status, result.text) == ("waiting", "Here I am again.")
    assert session.error == ""
    (request,) = await checking.requests_of(session)
    assert checking.said(request) == ["Hello?"]


async def test_a_message_to_a_failed_session_goes_on_with_both_messages(store: Store) -> None:
    def reply(seen: Request) -> Any:
        users = [message.text for message in seen.messages if message.role == "user"]
        return ModelFailed("no") if users == ["one"] else f"Heard {users}."

    session = one_agent([], reply).session("s", store=store)
    assert (await session.run("one")).status == "failed"
    assert (await session.run("two")).text == "Heard ['one', 'two']."
    await checking.requests_of(session)


async def test_an_approval_function_that_raises_ends_the_drive_and_costs_its_siblings_nothing(store: Store) -> None:
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

    session = one_agent([slow, ruled], [[call("slow"), call("ruled")], "Done."]).session("s", store=store)
    try:
        await session.run("Go")
        raise AssertionError("the error of user code was swallowed")
    except LookupError:
        pass
    broken.clear()
    result = await session.resume()
    assert result.text == "Done."
    assert done == ["slow"]
    (_, request) = await checking.requests_of(session)
    assert checking.outputs(request) == ["slow", "ruled"]


async def test_a_needs_approval_function_is_asked_once_and_not_again_on_resume(store: Store) -> None:
    asked: list[dict[str, Any]] = []

    async def rule(ctx: Any, arguments: dict[str, Any], call: Any) -> bool:
        assert ctx.context == {"who": "ada"}
        asked.append(arguments)
        return True

    @tool(needs_approval=rule)
    async def pay(cents: int) -> str:
        return f"paid {cents}"

    workflow = one_agent([pay], [[call("pay", cents=1), call("pay", cents=2)], "Paid."])
    session = workflow.session("s", store=store, context={"who": "ada"})
    await session.run("Pay")
    for _ in range(3):
        again = workflow.session("s", store=store, context={"who": "ada"})
        await again.resume()
        assert len(again.pending) == 2
    for request in again.pending:
        await again.approve(request)
    assert (await again.resume()).text == "Paid."
    assert asked == [{"cents": 1}, {"cents": 2}]


async def test_an_autonomous_limit_survives_a_restart_and_every_turn_is_recorded_by_itself(store: Store, stream: bool) -> None:
    for left_after in (1, 2, 3):
        id = f"book-{left_after}"
        messages = 0
        async for event in autonomous.writer(World(), 3).session(id, store=store).run("Write a book", stream=stream):
            messages += event.type == "message"
            if messages == left_after:
                break
        again = autonomous.writer(World(), 3).session(id, store=store)
        await until(again, lambda session: sum(isinstance(fact, ModelReplied) for fact in session.facts) >= left_after)  # noqa: B023
        await again.resume(stream=stream)
        assert sum(isinstance(fact, AgentPrompted) for fact in again.facts) == 3
        assert [message.text for message in again.messages[1:]] == [f"Chapter {number}." for number in (1, 2, 3, 4)]
        assert again.status == "waiting"
        await checking.requests_of(again)


async def test_a_tool_that_returns_10_mb_is_cut_for_the_model_and_kept_whole(store: Store) -> None:
    @tool
    async def flood() -> str:
        return "x" * 10_000_000

    @tool
    async def quick() -> str:
        return "quick"

    session = one_agent([flood, quick], [[call("flood"), call("quick")], "Too much."]).session("s", store=store)
    assert (await session.run("Go")).text == "Too much."
    requests = await checking.requests_of(session)
    flooded, quickly = checking.outputs(requests[-1])
    assert len(flooded) < 100_000
    assert "10000000" in flooded
    assert quickly == "quick"
    (whole,) = [fact for fact in session.facts if isinstance(fact, CallReturned) and fact.full]
    assert len(await store.content("s", whole.full)) == 10_000_000
