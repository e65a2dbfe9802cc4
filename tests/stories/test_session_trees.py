"""Session trees: a session and its child sessions share usage, limits, failures and deletion."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, ToolContext, Workflow, guardrail, tool
from legato.core.child_session_ids import find_root_session_id
from legato.core.facts import CallPaused, CallReturned, CallStarted, Cancelled, ModelReplied, Usage
from legato.core.view import ModelRequest
from legato.errors import BadInput, DefinitionChanged, LedgerExists, ModelFailed
from legato.models.model import Emit, ModelReply
from legato.runtime.events import ToolData
from legato.runtime.session import Session
from legato.stores import MemoryStore, Store, copy, retire
from legato.testing import Died, FailingStore, ScriptedModel, call
from legato.testing.story import World
from tests.stories.test_child_sessions import build_office, check_child_sessions_are_kept, list_lengths, start_pending_session

RETIREMENT_AGE_DAYS = 1e-9  # almost zero: everything is old enough to be retired


class MeteredModel(ScriptedModel):
    """A scripted model whose replies all have the same usage."""

    def __init__(self, agent: str, replies: list[Any], usage: Usage) -> None:
        super().__init__(by_agent={agent: replies})
        self._usage = usage

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        reply = await super().reply(request, emit)
        return ModelReply(items=reply.items, usage=self._usage)


def make_spender(replies: list[Any], **more: Any) -> Agent:
    """Return an agent whose model requests each take 100 tokens and 0.0001 dollars."""

    @tool
    async def look() -> str:
        return "seen"

    return Agent("spender", model=MeteredModel("spender", replies, Usage(90, 10, cost=100_000)), tools=[look], **more)


def build_boss(*tools: Any, calls: Any, limits: Limits | None = None) -> Workflow:
    model = MeteredModel("boss", [calls, "All done."], Usage(20, 2, cost=0))
    builder = HandoffBuilder("office", [Agent("boss", model=model, tools=tools)])
    return (builder.with_limits(limits) if limits else builder).build()


def make_lookups(times: int) -> list[Any]:
    return [*[call("look") for _ in range(times)], "Found."]


# -- usage and limits --------------------------------------------------------------------------------------------------


async def test_usage_contains_child_sessions(store: Store, stream: bool) -> None:
    session = build_boss(make_spender(make_lookups(3)).as_tool(), calls=call("ask_spender", task="Look")).session("s", store=store)
    result = await session.run("Go", stream=stream)
    assert result.usage.total == session.usage.total == 2 * 22 + 4 * 100
    assert {agent: usage.total for agent, usage in session.usage_by_agent.items()} == {"boss": 44, "spender": 400}


async def test_usage_contains_grandchild_sessions() -> None:
    store = MemoryStore()
    model = MeteredModel("middle", [call("ask_spender", task="Look"), "Passed on."], Usage(5))
    middle = Agent("middle", model=model, tools=[make_spender(make_lookups(1)).as_tool()])
    session = build_boss(middle.as_tool(), calls=call("ask_middle", task="Look")).session("s", store=store)
    await session.run("Go")
    assert {agent: usage.total for agent, usage in session.usage_by_agent.items()} == {"boss": 44, "middle": 10, "spender": 200}


@pytest.mark.parametrize(
    ("limits", "requests"),
    [(Limits(tokens=500), 4), (Limits(turns=4), 3), (Limits(cost=0.0005), 4)],
    ids=["tokens", "turns", "cost"],
)
async def test_limit_binds_child_session_before_it_is_exceeded(store: Store, limits: Limits, requests: int) -> None:
    inner = make_spender(make_lookups(120))
    workflow = build_boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=limits)
    session = workflow.session("s", store=store)
    result = await session.run("Go")
    (request,) = result.pending
    assert (request.kind, request.session) == ("limit", "s")
    assert getattr(limits, request.limit) is not None
    assert len(inner.model.requests) == requests  # type: ignore[attr-defined]
    assert session.usage_by_agent["spender"].total == requests * 100


async def test_granted_limit_continues_the_child_session(store: Store) -> None:
    inner = make_spender(make_lookups(5))
    session = build_boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)).session("s", store=store)
    result = await session.run("Go")
    while result.status == "pending":
        await session.approve(result.pending[0])
        result = await session.resume()
    assert result.text == "All done."
    assert len(inner.model.requests) == 6  # type: ignore[attr-defined]


async def test_refused_limit_stops_child_session(store: Store) -> None:
    inner = make_spender(make_lookups(50))
    session = build_boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    await session.reject(request, "too expensive")
    spent = len(inner.model.requests)  # type: ignore[attr-defined]
    assert (await session.resume()).status in ("waiting", "terminated")
    assert len(inner.model.requests) == spent  # type: ignore[attr-defined]


async def test_refused_limit_says_that_the_child_began(store: Store) -> None:
    """Otherwise the parent's model would assume that the child session did nothing, and call it again."""
    session = build_boss(
        make_spender(make_lookups(9)).as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)
    ).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    await session.reject(request)
    await session.resume()
    (output,) = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert output.startswith("'ask_spender' had begun when a limit stopped this run, and did not finish. It may have taken effect")


async def test_parallel_children_share_one_budget() -> None:
    inner = make_spender([*[call("look") for _ in range(60)], "Found."])
    calls = [call("ask_spender", task=f"Look {number}") for number in range(4)]
    session = build_boss(inner.as_tool(), calls=calls, limits=Limits(tokens=1000)).session("s", store=MemoryStore())
    result = await session.run("Go")
    assert [request.kind for request in result.pending] == ["limit"]
    assert session.usage.total <= 1000


async def test_child_without_room_waits_for_sibling() -> None:
    """The last turn is reserved for one child session: the other does not restart repeatedly until that turn is taken."""
    go, store = asyncio.Event(), MemoryStore()

    class Slow(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
            reply = await super().reply(request, emit)
            await go.wait()
            return reply

    first = Agent("first", model=Slow(by_agent={"first": ["Done."]}))
    calls = [call("ask_first", task="Go"), call("ask_spender", task="Look")]
    session = build_boss(first.as_tool(), make_spender(make_lookups(1)).as_tool(), calls=calls, limits=Limits(turns=2)).session(
        "s", store=store
    )
    driving = asyncio.ensure_future(run_session(session))
    facts = await store.read("s")
    while not any(isinstance(fact, CallPaused) for fact in facts):
        await store.wait("s", len(facts), 5)
        facts = await store.read("s")
    for _ in range(200):
        await asyncio.sleep(0)
    go.set()
    await driving
    assert [request.kind for request in session.pending] == ["limit"]
    assert sum(isinstance(fact, CallStarted) for fact in session.facts) == 2


@pytest.mark.parametrize("turns", range(4, 16))
async def test_parallel_grandchildren_share_one_budget(turns: int) -> None:
    """Parallel sessions two levels below the outermost session do not exceed its limit."""
    store = MemoryStore()

    class Uneven(ScriptedModel):
        """Two of three replies take long, in steps of the event loop."""

        async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
            reply = await super().reply(request, emit)
            for _ in range(0 if len(self.requests) % 3 else 200):
                await asyncio.sleep(0)
            return reply

    @tool
    async def look() -> str:
        return "seen"

    inner = Agent("spender", model=Uneven(by_agent={"spender": make_lookups(4)}), tools=[look])

    def delegate(seen: Any) -> Any:
        return "Passed on." if seen.agent_reply_count else [call("ask_spender", task="Look"), call("ask_spender", task="Look there")]

    middle = Agent("middle", model=ScriptedModel(delegate), tools=[inner.as_tool()])
    calls = [call("ask_middle", task="One"), call("ask_middle", task="Two")]
    session = build_boss(middle.as_tool(), calls=calls, limits=Limits(turns=turns)).session("s", store=store)
    await session.run("Go")
    replies = [fact for name in await list_lengths(store) for fact in await store.read(name) if isinstance(fact, ModelReplied)]
    assert len(replies) <= turns


async def test_refused_limit_is_not_requested_again(store: Store) -> None:
    """An approved child session finishes after a limit was refused, and stops when it needs more."""
    world = World()

    @tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "paid")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(by_agent={"payer": [call("pay"), "Paid."]}), tools=[pay])
    calls = [call("ask_payer", task="Pay"), call("ask_spender", task="Look")]
    session = build_boss(payer.as_tool(), make_spender(make_lookups(9)).as_tool(), calls=calls, limits=Limits(turns=5)).session(
        "s", store=store
    )
    requests = {request.kind: request for request in (await session.run("Go")).pending}
    await session.approve(requests["approval"])
    await session.reject(requests["limit"])
    result = await session.resume()
    assert (result.status, result.pending, world.count("paid")) == ("waiting", [], 1)


async def test_failed_child_without_room_requests_limit(store: Store) -> None:
    broken = [True]

    def reply(seen: Any) -> Any:
        if broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Done."

    flaky = Agent("flaky", model=ScriptedModel(reply))
    model = MeteredModel("boss", [[call("ask_flaky", task="Go"), call("ask_spender", task="Look")], "All done."], Usage(20, 2))
    agent = Agent("boss", model=model, tools=[flaky.as_tool(), make_spender(["Found."]).as_tool()])
    builder = HandoffBuilder("office", [agent]).with_limits(Limits(turns=2)).with_parallel_tools(1)  # first one fails, then one works
    session = builder.build().session("s", store=store)
    assert (await session.run("Go")).status == "failed"
    broken[0] = False
    (request,) = (await session.resume()).pending
    assert request.kind == "limit"
    await session.approve(request)
    assert (await session.resume()).text == "All done."


async def test_child_limits_are_requested_in_parent_session(store: Store) -> None:
    inner = make_spender(make_lookups(3))
    session = build_boss(inner.as_tool(limits=Limits(turns=2)), calls=call("ask_spender", task="Look")).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    assert (request.kind, request.limit, request.agent) == ("limit", "turns", "spender")
    await session.approve(request)
    assert (await session.resume()).text == "All done."


async def test_child_with_refused_limit_is_no_answer(store: Store) -> None:
    inner = make_spender(make_lookups(9))
    session = build_boss(inner.as_tool(limits=Limits(turns=2)), calls=call("ask_spender", task="Look")).session("s", store=store)
    await session.reject((await session.run("Go")).pending[0], "enough")
    await session.resume()
    (output,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert output.status == "error"
    assert "stopped at its limit" in str(output.output)


# -- failed child sessions ---------------------------------------------------------------------------------------------


def make_pay_tool(world: World) -> Any:
    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "paid")
        return "paid"

    return pay


async def test_failed_child_pauses_its_parent(store: Store, stream: bool) -> None:
    """The child session has paid when its model fails: the parent continues with it, and nothing is paid twice."""
    world, broken = World(), [True]

    def reply(seen: Any) -> Any:
        if seen.agent_reply_count and broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Paid." if seen.agent_reply_count else call("pay")

    pay = make_pay_tool(world)
    inner = Agent("inner", model=ScriptedModel(reply), tools=[pay])
    session = build_boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    result = await session.run("Go", stream=stream)
    assert result.status == "failed"
    assert "overloaded" in result.error
    assert not any(isinstance(fact, CallReturned) for fact in session.facts)
    broken[0] = False
    result = await session.resume(stream=stream)
    assert result.text == "All done."
    assert world.count("paid") == 1
    assert sorted(await list_lengths(store))[0] == "s"
    assert len(await list_lengths(store)) == 2


async def test_guardrail_error_in_child_pauses_its_parent(store: Store) -> None:
    world, raises = World(), [True]
    pay = make_pay_tool(world)

    @guardrail("output")
    def once(context: Any, text: str) -> None:
        if raises.pop():
            raises.append(False)
            raise RuntimeError("the policy service is down")
        raises.append(False)

    inner = Agent("inner", model=ScriptedModel(by_agent={"inner": [call("pay"), "Paid."]}), tools=[pay], guardrails=[once])
    session = build_boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    result = await session.run("Go")
    assert result.status == "failed"
    assert "policy service" in result.error
    assert (await session.resume()).text == "All done."
    assert world.count("paid") == 1


async def test_failed_child_of_a_child_is_resumed() -> None:
    world, broken, store = World(), [True], MemoryStore()

    def reply(seen: Any) -> Any:
        if seen.agent_reply_count and broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Paid." if seen.agent_reply_count else call("pay")

    pay = make_pay_tool(world)
    inner = Agent("inner", model=ScriptedModel(reply), tools=[pay])
    middle = Agent("middle", model=ScriptedModel(by_agent={"middle": [call("ask_inner", task="Pay"), "Passed."]}), tools=[inner.as_tool()])
    session = build_boss(middle.as_tool(), calls=call("ask_middle", task="Pay")).session("s", store=store)
    assert (await session.run("Go")).status == "failed"
    broken[0] = False
    assert (await session.resume()).text == "All done."
    assert world.count("paid") == 1
    assert len(await list_lengths(store)) == 3


# -- missing child sessions --------------------------------------------------------------------------------------------


async def test_long_session_id_finds_its_child(store: Store) -> None:
    world, id = World(), "x" * 400
    session = build_office(world).session(id, store=store)
    await session.run("Pay ann")
    again = await build_office(world).session(id, store=store).refresh()
    await again.approve(again.pending[0])
    assert (await again.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


@pytest.mark.parametrize("number", range(1, 13))
async def test_interrupted_retirement_pays_nothing_twice(number: int, tmp_path: Path) -> None:
    """Retirement is killed at its Nth operation: the session exists with its child session, or neither does."""
    world, store = World(), MemoryStore()
    session = await start_pending_session(store, world)
    await session.approve(session.pending[0])
    failing = FailingStore(store, make_death_at(number))
    time.sleep(0.002)  # facts recorded in the present millisecond are not old enough
    try:
        await retire(failing, RETIREMENT_AGE_DAYS, archive=tmp_path)
    except Died:
        await failing.release_leases()
    names = {find_root_session_id(name) for name in await list_lengths(store)}
    if names:
        assert len(await list_lengths(store)) == 2
        session = await build_office(world).session("s", store=store).refresh()
        assert (await session.resume()).text == "All done."
        assert world.count("paid 5 to ann") == 1


def make_death_at(number: int) -> Any:
    return lambda operation, when, count: Died("killed") if (when, count) == ("before", number) else None


async def test_retirement_keeps_child_that_was_just_answered() -> None:
    """A person answers after the sessions were listed: the session tree has grown, and stays."""
    world, store = World(), MemoryStore()
    session = await start_pending_session(store, world)
    (request,) = session.pending

    class AnsweringStore(FailingStore):
        async def lease(self, ledger: str) -> Any:  # type: ignore[override]
            await session.approve(request)
            return await self.store.lease(ledger)

    time.sleep(0.002)
    done = await retire(AnsweringStore(store), RETIREMENT_AGE_DAYS)
    assert (done.retired, done.busy) == ((), ("s",))
    assert (await session.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


@pytest.mark.parametrize("to_archive", [True, False], ids=["there", "back"])
async def test_copied_session_brings_its_child(to_archive: bool, store: Store) -> None:
    world, other = World(), MemoryStore()
    source, target = (store, other) if to_archive else (other, store)
    session = await start_pending_session(source, world)
    await session.approve(session.pending[0])
    await copy(source, target, sessions="s")
    assert await list_lengths(target) == await list_lengths(source)
    assert (await build_office(world).session("s", store=target).resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


async def test_branch_before_child_began_requests_outcome(store: Store) -> None:
    """A fork after the start of a child session, whose length then is unknown, requests the outcome."""
    world = World()
    session = await start_pending_session(store, world)
    await session.approve(session.pending[0])
    await session.resume()
    started = next(position for position, fact in enumerate(session.facts) if isinstance(fact, CallStarted))
    branch = await session.fork(at=started + 1)
    result = await branch.resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "ask_payer")]
    assert world.count("paid 5 to ann") == 1


# -- deletion, forks and copies ----------------------------------------------------------------------------------------


async def test_deleting_a_session_deletes_its_children(store: Store) -> None:
    session = await start_pending_session(store, World())
    assert len(await list_lengths(store)) == 2
    assert await store.delete(session.id)
    assert await list_lengths(store) == {}


async def test_deleted_session_leaves_no_child_that_pays(store: Store) -> None:
    """The session is deleted while its child session works: the child does not pay afterwards."""
    world, go, began = World(), asyncio.Event(), asyncio.Event()

    @tool
    async def prepare() -> str:
        began.set()
        await go.wait()
        return "prepared"

    pay = make_pay_tool(world)
    inner = Agent("inner", model=ScriptedModel(by_agent={"inner": [call("prepare"), call("pay"), "Paid."]}), tools=[prepare, pay])
    session = build_boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    driving = asyncio.ensure_future(run_session(session))
    await began.wait()
    await store.delete("s")
    go.set()
    await asyncio.gather(driving, return_exceptions=True)
    assert world.count("paid") == 0
    assert await list_lengths(store) == {}


async def test_child_that_begins_after_deletion_is_deleted() -> None:
    """The session is deleted when its child session is about to begin: nothing remains in the store."""
    store = MemoryStore()

    class DeletingStore(FailingStore):
        async def append(self, ledger: str, *arguments: Any, **options: Any) -> int:  # type: ignore[override]
            if "/" in ledger:
                await self.store.delete("s")
            return await self.store.append(ledger, *arguments, **options)

    session = build_boss(make_spender(["Found."]).as_tool(), calls=call("ask_spender", task="Look")).session(
        "s", store=DeletingStore(store)
    )
    await asyncio.gather(run_session(session), return_exceptions=True)
    assert await list_lengths(store) == {}


async def run_session(session: Session) -> None:
    await session.run("Go")


async def test_interrupted_fork_leaves_no_partial_tree() -> None:
    """A fork is killed at its Nth operation: there is no branch, or one with its child session."""
    for number in range(1, 30):
        world, store = World(), MemoryStore()
        session = await start_pending_session(store, world)
        failing = FailingStore(store, make_death_at(number))
        try:
            await build_office(world).session("s", store=failing).fork(id="branch")
        except Died:
            finished = False
        else:
            finished = True
        await failing.release_leases()
        if await store.read("branch"):
            branch = await build_office(world).session("branch", store=store).refresh()
            assert [request.tool for request in branch.pending] == ["pay"]
        else:
            branch = await session.fork(id="branch")
            assert [request.tool for request in branch.pending] == ["pay"]
        if finished:
            return
    raise AssertionError("the fork never finished")


async def test_string_of_working_child_pays_nothing_twice(store: Store) -> None:
    """After `to_string()` during a child's tool, the loaded session requests the outcome of that tool."""
    world, go, began = World(), asyncio.Event(), asyncio.Event()
    pay = make_pay_tool(world)

    @tool
    async def wait() -> str:
        began.set()
        await go.wait()
        return "waited"

    def workflow() -> Workflow:
        model = ScriptedModel(by_agent={"inner": [call("pay"), call("wait"), "Paid."]})
        return build_boss(Agent("inner", model=model, tools=[pay, wait]).as_tool(), calls=call("ask_inner", task="Pay"))

    session = workflow().session("s", store=store)
    driving = asyncio.ensure_future(run_session(session))
    await began.wait()
    text = await (await workflow().session("s", store=store).refresh()).to_string()
    go.set()
    await driving
    copied = workflow().load(text, store=MemoryStore())
    result = await copied.resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "wait")]
    assert world.count("paid") == 1


async def test_string_leaves_out_child_that_began_later() -> None:
    """The session continues during the export: the string has the earlier state, without the child of a later call."""
    store = MemoryStore()

    def workflow() -> Workflow:
        inner = Agent("inner", model=ScriptedModel(by_agent={"inner": ["Paid."]}))
        model = ScriptedModel(by_agent={"boss": ["Hello.", call("ask_inner", task="Pay"), "All done."]})
        return HandoffBuilder("office", [Agent("boss", model=model, tools=[inner.as_tool()])]).build()

    session = workflow().session("s", store=store)
    await session.run("Hi")

    class BusyStore(FailingStore):
        async def children(self, ledger: str) -> Any:  # type: ignore[override]
            await session.run("Pay")
            return await self.store.children(ledger)

    text = await workflow().session("s", store=BusyStore(store)).to_string()
    assert len(await store.children("s")) == 1
    copied = await workflow().load(text, store=MemoryStore()).refresh()
    assert [message.text for message in copied.messages] == ["Hi", "Hello."]


async def test_independent_sessions_stay_independent_in_a_copy(store: Store) -> None:
    """A session loaded from another's string owns its facts: a redaction in one does not affect the other."""
    workflow = build_boss(calls="Hello.")
    first = workflow.session("first", store=store)
    await first.run("My name is Ann")
    await workflow.load(await first.to_string(), id="second", store=store).refresh()
    target = MemoryStore()
    await copy(store, target)
    assert {info.ledger: info.parent for info in await target.list()} == {"first": "", "second": ""}
    await workflow.session("first", store=target).redact(1, reason="asked for")
    assert "Ann" in (await workflow.session("second", store=target).refresh()).messages[0].text


async def test_forks_share_their_beginning_in_a_copy(store: Store) -> None:
    """Two forks of a deleted session still share facts, so a redaction affects both."""
    workflow = build_boss(calls="Hello.")
    first = workflow.session("first", store=store)
    await first.run("My name is Ann")
    for name in ("second", "third"):
        await first.fork(id=name)
    await store.delete("first")
    target = MemoryStore()
    await copy(store, target)
    await workflow.session("second", store=target).redact(1, reason="asked for")
    assert "Ann" not in (await workflow.session("third", store=target).refresh()).messages[0].text


async def test_child_session_cannot_be_copied_alone(store: Store) -> None:
    session = await start_pending_session(store, World())
    child = session.pending[0].session
    with pytest.raises(BadInput, match="is a child session of 's'"):
        await copy(store, MemoryStore(), sessions=child)


async def test_fork_onto_a_taken_id_names_it(store: Store) -> None:
    session = await start_pending_session(store, World())
    with pytest.raises(LedgerExists, match="there already is a session 's' in this store"):
        await session.fork(id="s")


async def test_wrong_workflow_names_the_parent_session(store: Store) -> None:
    session = await start_pending_session(store, World())
    other = build_boss(calls="Hello").session(session.pending[0].session, store=store)
    with pytest.raises(DefinitionChanged, match="open 's', the session that it works for"):
        await other.refresh()


def make_failing_once() -> Agent:
    return Agent("spender", model=ScriptedModel([ModelFailed("overloaded"), "Found."]))


@pytest.mark.parametrize(
    ("inner", "limits", "status"),
    [
        (make_failing_once(), None, "failed, goes on with resume()"),
        (make_spender(make_lookups(9)), Limits(tokens=300), "waits for a limit of its caller"),
    ],
    ids=["failed", "limit"],
)
async def test_paused_event_says_why(inner: Agent, limits: Limits | None, status: str) -> None:
    events = [
        event async for event in build_boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=limits).session().run("Go")
    ]
    (paused,) = [event.data for event in events if event.type == "tool_paused"]
    assert isinstance(paused, ToolData)
    assert paused.status == status


async def test_cancelled_session_tree_is_complete(store: Store) -> None:
    session = await start_pending_session(store, World())
    await session.cancel("enough")
    facts = [await store.read(name) for name in await list_lengths(store)]
    assert all(any(isinstance(fact, Cancelled) for fact in each) for each in facts)
    assert sum(isinstance(fact, CallPaused) for each in facts for fact in each) == 1
    await check_child_sessions_are_kept(store)
