"""The driver: it notices while it waits what other handles and processes do."""

import asyncio

import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import CallRef, CallReturned, CallStarted, Decided, MessageReceived, ModelReplied
from legato.errors import ModelFailed, StoreFull
from legato.runtime.ledger import EffectOutcome, record_later
from legato.stores import MemoryStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.blocking import complete, wait_for_facts


class Desk:
    """A workflow with a tool that needs approval, and a tool that runs until `go` is set."""

    def __init__(self, store, replies):
        self.go = asyncio.Event()
        self.running = asyncio.Event()
        self.paid_once = asyncio.Event()

        @tool(needs_approval=True)
        async def pay() -> str:
            self.paid_once.set()
            return "paid"

        @tool(idempotent=True)
        async def wait() -> str:
            self.running.set()
            await self.go.wait()
            return "waited"

        self.model = ScriptedModel(by_agent={"a": replies})
        self.workflow = HandoffBuilder("w", [Agent("a", model=self.model, tools=[pay, wait])]).with_checkpointing(store).build()


@pytest.mark.parametrize("other", [False, True], ids=["by the same handle", "by another handle"])
async def test_approval_during_sibling_call_takes_effect_immediately(store, other):
    desk = Desk(store, [[call("pay"), call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(complete(session.run("go")))
    await desk.running.wait()
    handle = desk.workflow.session("s") if other else session
    await handle.refresh()
    await handle.approve(handle.pending[0])
    async with asyncio.timeout(60):
        await desk.paid_once.wait()
    assert not desk.go.is_set(), "the sibling is still running"
    desk.go.set()
    assert (await running).text == "done"


async def test_message_during_tool_run_loses_no_result(store):
    desk = Desk(store, [[call("wait")], "to the first", "to the second"])
    running = asyncio.ensure_future(complete(desk.workflow.session("s").run("first")))
    await desk.running.wait()
    second = asyncio.ensure_future(complete(desk.workflow.session("s").run("second")))
    await wait_for_facts(store, MessageReceived, 2)
    desk.go.set()
    await asyncio.gather(running, second)
    texts = [message.text for message in desk.model.requests[-1].messages]
    assert texts[0] == "first"
    assert texts.count("second") == texts.count("waited") == 1
    assert texts.index("waited") < texts.index("second")


async def test_cancel_by_other_handle_stops_running_tool(store):
    desk = Desk(store, [[call("wait")], "after all"])
    running = asyncio.ensure_future(complete(desk.workflow.session("s").run("go")))
    await desk.running.wait()
    await desk.workflow.session("s").cancel()
    async with asyncio.timeout(60):
        assert (await running).status == "cancelled"
    result = await desk.workflow.session("s").run("and now?")
    assert result.text == "after all"
    assert "was cancelled while it ran" in desk.model.requests[-1].messages[2].text


class SlowNotifyingStore(MemoryStore):
    """A store that notifies late, like a store that polls a server."""

    def watch(self, ledger, position, moved):
        return super().watch(ledger, position, lambda length: asyncio.get_running_loop().call_later(0.03, moved, length))


async def test_cancel_is_noticed_despite_late_notifications():
    """The store notifies late of what the driver has appended itself."""
    first_call, second_call = asyncio.Event(), asyncio.Event()

    async def think(context):
        if first_call.is_set():
            second_call.set()
            await asyncio.sleep(30)
        first_call.set()
        await asyncio.sleep(0.012)  # ends before the store notifies
        return "Help."

    model = ScriptedModel(lambda request: handoff("b") if request.agent == "a" else "done")
    store = SlowNotifyingStore()
    agents = [Agent("a", model=model, instructions=think), Agent("b", model=model, instructions=think)]
    workflow = HandoffBuilder("w", agents).with_checkpointing(store).build()
    running = asyncio.ensure_future(complete(workflow.session("s").run("go")))
    await second_call.wait()
    await asyncio.sleep(0.1)
    await workflow.session("s").cancel()
    async with asyncio.timeout(60):
        assert (await running).status == "cancelled"


class RefusingStore(MemoryStore):
    """A store that refuses the append of the first decision after a while."""

    has_refused = False

    async def append(self, ledger, expected, facts, **more):
        if not self.has_refused and any(isinstance(fact, Decided) for fact in facts):
            self.has_refused = True
            await asyncio.sleep(0.05)
            raise StoreFull("the disk is full")
        return await super().append(ledger, expected, facts, **more)


async def test_refused_append_hides_no_foreign_append():
    desk = Desk(RefusingStore(), [[call("pay"), call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(complete(session.run("go")))
    await desk.running.wait()
    with pytest.raises(StoreFull):
        await session.approve(session.pending[0])  # the driver starts to watch the store meanwhile
    other = await desk.workflow.session("s").refresh()
    await other.approve(other.pending[0])
    async with asyncio.timeout(60):
        await desk.paid_once.wait()
    desk.go.set()
    assert (await running).text == "done"


async def test_resume_continues_after_leaving_event_iteration(store):
    """Leaving the event iteration ends the run at the next fact; the tool in progress is finished and recorded."""
    desk = Desk(store, [[call("wait")], "done"])
    session = desk.workflow.session("s")
    async for event in session.run("go", stream=True):
        if event.type == "tool_started":
            break
    desk.go.set()
    result = await session.resume()
    assert result.text == "done"
    starts = [fact for fact in session.facts if isinstance(fact, CallStarted)]
    assert len(starts) == 1, "the tool that ran when the iteration was left is finished and recorded, and not started again"


async def test_concurrent_runs_share_one_conversation(store):
    desk = Desk(store, ["one", "two"])
    session = desk.workflow.session("s")
    await asyncio.gather(complete(session.run("first")), complete(session.run("second")))
    await session.refresh()
    assert session.status == "waiting"
    last = [message.text for message in desk.model.requests[-1].messages]
    assert {"first", "second"} <= set(last)


async def test_failing_model_is_retried_then_pauses_session(store):
    failing = [ModelFailed("503", retryable=True, retry_after=0)] * 3
    model = ScriptedModel([*failing, "at last"])
    workflow = HandoffBuilder("w", [Agent("a", model=model)]).with_checkpointing(store).with_model_attempts(2).build()
    session = workflow.session("s")
    result = await session.run("hello")
    assert (result.status, session.error) == ("failed", "503")
    assert len(model.requests) == 2
    result = await session.resume()
    assert (result.status, result.text) == ("waiting", "at last")
    assert len([fact for fact in session.facts if isinstance(fact, ModelReplied)]) == 1


async def test_deltas_of_interrupted_reply_are_retracted(store):
    class Breaking(ScriptedModel):
        async def reply(self, request, emit):
            if not self.requests:
                self.requests.append(request)
                emit("half a sen")
                raise ModelFailed("connection lost", retryable=True, retry_after=0)
            return await super().reply(request, emit)

    workflow = HandoffBuilder("w", [Agent("a", model=Breaking(["half a sentence"]))]).with_checkpointing(store).build()
    shown = ""
    async for event in workflow.session("s").run("hello", stream=True):
        if event.type == "output":
            shown += event.data.text
        elif event.type == "output_reset":
            shown = ""
    assert shown == "half a sentence"


async def test_token_limit_pauses_before_it_is_exceeded(store):
    model = ScriptedModel(lambda request: call("look"))

    @tool
    async def look() -> str:
        return "x" * 400

    builder = HandoffBuilder("w", [Agent("a", model=model, tools=[look])])
    workflow = builder.with_checkpointing(store).with_limits(Limits(tokens=1000)).build()
    session = workflow.session("s")
    result = await session.run("go")
    assert [request.kind for request in result.pending] == ["limit"]
    assert session.usage.total < 1000
    before = session.usage.total
    await session.approve(session.pending[0])
    await session.resume()
    assert before < session.usage.total < 2000


async def test_recorded_model_options_are_the_current_ones(store):
    model = ScriptedModel(lambda request: "Hello.")
    model.options_text = '{"temperature": 0}'
    workflow = HandoffBuilder("w", [Agent("a", model=model)]).with_checkpointing(store).build()
    await workflow.session("s").run("one")
    model.options_text = '{"temperature": 1}'
    await workflow.session("s").run("two")
    session = workflow.session("s")
    assert [(await session.seen(call)).turn_context.options for call in (0, 1)] == ['{"temperature": 0}', '{"temperature": 1}']


async def test_replaced_definition_makes_its_own_turn_contexts(store):
    workflow = HandoffBuilder("w", [Agent("a", "Be kind.", ScriptedModel(lambda request: "Hello."))]).with_checkpointing(store).build()
    before = workflow.definition
    after = replace(before, agents={"a": replace(before.agents["a"], instructions="Be brief.")})
    await workflow.session("s").run("one")
    await Workflow(after, store, "", ()).session("t").run("one")
    instructions = [(await workflow.session(id).seen()).turn_context.instructions for id in ("s", "t")]
    assert instructions == ["Be kind.", "Be brief."]


async def test_illegal_late_outcome_does_not_block_others(store):
    desk = Desk(store, [[call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(complete(session.run("go")))
    await desk.running.wait()
    (started,) = [fact for fact in session.facts if isinstance(fact, CallStarted)]
    nowhere = CallRef(started.call.position + 7, 0)
    facts = [CallReturned(at=1, call=ref, attempt=1, status="ok", output="by another") for ref in (nowhere, started.call)]
    record_later(session._ledger, [EffectOutcome(decide=lambda state, fact=fact: iter([fact])) for fact in facts])
    async with asyncio.timeout(60):
        await running
    assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["by another"]
