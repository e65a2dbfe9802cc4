"""The driver notices what others do while it waits, whoever they are."""

import asyncio

import pytest
from msgspec.structs import replace

from legato import Agent, HandoffBuilder, Limits, Workflow, tool
from legato.core.facts import CallRef, CallReturned, CallStarted, Decided, MessageReceived, ModelReplied
from legato.errors import ModelFailed, StoreFull
from legato.runtime.outcomes import Outcome, record_later
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import ScriptedModel, call, handoff
from tests.runtime.holding import recorded


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


class Desk:
    """An agent with a gated tool and one that runs until it is let go."""

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
async def test_an_approval_given_while_a_sibling_runs_is_acted_on_at_once(store, other):
    desk = Desk(store, [[call("pay"), call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(_result(session.run("go")))
    await desk.running.wait()
    hand = desk.workflow.session("s") if other else session
    await hand.refresh()
    await hand.approve(hand.pending[0])
    async with asyncio.timeout(60):
        await desk.paid_once.wait()
    assert not desk.go.is_set(), "the sibling is still running"
    desk.go.set()
    assert (await running).text == "done"


async def test_a_message_from_another_handle_while_a_tool_runs_costs_nobody_a_result(store):
    desk = Desk(store, [[call("wait")], "to the first", "to the second"])
    running = asyncio.ensure_future(_result(desk.workflow.session("s").run("first")))
    await desk.running.wait()
    second = asyncio.ensure_future(_result(desk.workflow.session("s").run("second")))
    await recorded(store, MessageReceived, 2)
    desk.go.set()
    await asyncio.gather(running, second)
    seen = [message.text for message in desk.model.requests[-1].messages]
    assert seen[0] == "first"
    assert seen.count("second") == seen.count("waited") == 1
    assert seen.index("waited") < seen.index("second")


async def test_a_cancel_from_another_handle_stops_a_running_tool(store):
    desk = Desk(store, [[call("wait")], "after all"])
    running = asyncio.ensure_future(_result(desk.workflow.session("s").run("go")))
    await desk.running.wait()
    await desk.workflow.session("s").cancel()
    async with asyncio.timeout(60):
        assert (await running).status == "cancelled"
    result = await desk.workflow.session("s").run("and now?")
    assert result.text == "after all"
    assert "was cancelled while it ran" in desk.model.requests[-1].messages[2].text


class Slow(MemoryStore):
    """Says that a ledger has grown only when it has slept a little, as one that asks a server now and then."""

    def watch(self, ledger, position, moved):
        return super().watch(ledger, position, lambda length: asyncio.get_running_loop().call_later(0.03, moved, length))


async def test_a_cancel_is_heard_also_if_the_store_is_slow_to_tell_what_the_driver_appended_itself():
    asked_first, asked_again = asyncio.Event(), asyncio.Event()

    async def think(context):
        if asked_first.is_set():
            asked_again.set()
            await asyncio.sleep(30)
        asked_first.set()
        await asyncio.sleep(0.012)  # over before the store has said anything
        return "Help."

    model = ScriptedModel(lambda seen: handoff("b") if seen.agent == "a" else "done")
    store = Slow()
    agents = [Agent("a", model=model, instructions=think), Agent("b", model=model, instructions=think)]
    workflow = HandoffBuilder("w", agents).with_checkpointing(store).build()
    running = asyncio.ensure_future(_result(workflow.session("s").run("go")))
    await asked_again.wait()
    await asyncio.sleep(0.1)
    await workflow.session("s").cancel()
    async with asyncio.timeout(60):
        assert (await running).status == "cancelled"


class Refusing(MemoryStore):
    """Thinks about the first decision for a while, and then does not take it."""

    refused = False

    async def append(self, ledger, expected, facts, **more):
        if not self.refused and any(isinstance(fact, Decided) for fact in facts):
            self.refused = True
            await asyncio.sleep(0.05)
            raise StoreFull("the disk is full")
        return await super().append(ledger, expected, facts, **more)


async def test_what_a_store_did_not_take_hides_nothing_of_what_others_append():
    desk = Desk(Refusing(), [[call("pay"), call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(_result(session.run("go")))
    await desk.running.wait()
    with pytest.raises(StoreFull):
        await session.approve(session.pending[0])  # the driver begins to look out for others while it is being refused
    other = await desk.workflow.session("s").refresh()
    await other.approve(other.pending[0])
    async with asyncio.timeout(60):
        await desk.paid_once.wait()
    desk.go.set()
    assert (await running).text == "done"


async def test_leaving_the_events_stops_at_the_next_fact_and_resume_goes_on(store):
    desk = Desk(store, [[call("wait")], "done"])
    session = desk.workflow.session("s")
    async for event in session.run("go", stream=True):
        if event.type == "tool_started":
            break
    desk.go.set()
    result = await session.resume()
    assert result.text == "done"
    starts = [fact for fact in session.facts if isinstance(fact, CallStarted)]
    assert len(starts) == 1, "the tool that ran when its observer left was finished and recorded, not started again"


async def test_two_runs_at_once_on_one_handle_are_one_conversation(store):
    desk = Desk(store, ["one", "two"])
    session = desk.workflow.session("s")
    await asyncio.gather(_result(session.run("first")), _result(session.run("second")))
    await session.refresh()
    assert session.status == "waiting"
    last = [message.text for message in desk.model.requests[-1].messages]
    assert {"first", "second"} <= set(last)


async def test_a_model_that_fails_is_asked_again_then_the_session_pauses_and_can_go_on(store):
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


async def test_pieces_of_a_broken_reply_are_withdrawn_before_it_comes_again_whole(store):
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


async def test_a_budget_pauses_before_it_is_broken(store):
    model = ScriptedModel(lambda seen: call("look"))

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


async def _result(run):
    return await run


async def test_what_is_recorded_of_a_model_is_how_it_is_asked_now(store):
    model = ScriptedModel(lambda seen: "Hello.")
    model.options_text = '{"temperature": 0}'
    workflow = HandoffBuilder("w", [Agent("a", model=model)]).with_checkpointing(store).build()
    await workflow.session("s").run("one")
    model.options_text = '{"temperature": 1}'
    await workflow.session("s").run("two")
    session = workflow.session("s")
    assert [(await session.seen(call)).frame.options for call in (0, 1)] == ['{"temperature": 0}', '{"temperature": 1}']


async def test_a_definition_made_from_another_makes_frames_of_its_own(store):
    workflow = HandoffBuilder("w", [Agent("a", "Be kind.", ScriptedModel(lambda seen: "Hello."))]).with_checkpointing(store).build()
    before = workflow.definition
    after = replace(before, agents={"a": replace(before.agents["a"], instructions="Be brief.")})
    await workflow.session("s").run("one")
    await Workflow(after, store, "", ()).session("t").run("one")
    told = [(await workflow.session(id).seen()).frame.instructions for id in ("s", "t")]
    assert told == ["Be kind.", "Be brief."]


async def test_of_what_is_recorded_later_one_thing_that_cannot_be_costs_no_other_its_record(store):
    desk = Desk(store, [[call("wait")], "done"])
    session = desk.workflow.session("s")
    running = asyncio.ensure_future(_result(session.run("go")))
    await desk.running.wait()
    (started,) = [fact for fact in session.facts if isinstance(fact, CallStarted)]
    nowhere = CallRef(started.call.position + 7, 0)
    facts = [CallReturned(at=1, call=ref, attempt=1, status="ok", output="by another") for ref in (nowhere, started.call)]
    record_later(session._ledger, [Outcome(decide=lambda state, fact=fact: iter([fact])) for fact in facts])
    async with asyncio.timeout(60):
        await running
    assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["by another"]
