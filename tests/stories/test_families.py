"""A session and its child sessions are one unit: what they use, fail, keep and lose together."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, Limits, ToolContext, Workflow, guardrail, tool
from legato.core.child_session_ids import root_session_id
from legato.core.facts import CallPaused, CallReturned, CallStarted, Cancelled, ModelReplied, Usage
from legato.core.view import Request
from legato.errors import BadInput, DefinitionChanged, LedgerExists, ModelFailed
from legato.models.base import Emit, Reply
from legato.runtime.events import ToolData
from legato.runtime.session import Session
from legato.stores import MemoryStore, Store, copy, retire
from legato.testing import Died, FailingStore, ScriptedModel, call
from legato.testing.story import World
from tests.stories.test_nested import all_is_kept, lengths, office, waiting

LONG_AGO = 1e-9  # days: retire whatever is older than this


class Metered(ScriptedModel):
    """A script whose every reply has the same usage."""

    def __init__(self, agent: str, replies: list[Any], usage: Usage) -> None:
        super().__init__(by_agent={agent: replies})
        self._usage = usage

    async def reply(self, request: Request, emit: Emit) -> Reply:
        reply = await super().reply(request, emit)
        return Reply(items=reply.items, usage=self._usage)


def spender(replies: list[Any], **more: Any) -> Agent:
    """An agent whose every model request takes 100 tokens and 0.0001 dollars."""

    @tool
    async def look() -> str:
        return "seen"

    return Agent("spender", model=Metered("spender", replies, Usage(90, 10, cost=100_000)), tools=[look], **more)


def boss(*tools: Any, calls: Any, limits: Limits | None = None) -> Workflow:
    model = Metered("boss", [calls, "All done."], Usage(20, 2, cost=0))
    builder = HandoffBuilder("office", [Agent("boss", model=model, tools=tools)])
    return (builder.with_limits(limits) if limits else builder).build()


def looks(times: int) -> list[Any]:
    return [*[call("look") for _ in range(times)], "Found."]


# -- what they use -------------------------------------------------------------------------------------------------------


async def test_usage_contains_child_sessions(store: Store, stream: bool) -> None:
    session = boss(spender(looks(3)).as_tool(), calls=call("ask_spender", task="Look")).session("s", store=store)
    result = await session.run("Go", stream=stream)
    assert result.usage.total == session.usage.total == 2 * 22 + 4 * 100
    assert {agent: usage.total for agent, usage in session.usage_by_agent.items()} == {"boss": 44, "spender": 400}


async def test_usage_contains_grandchild_sessions() -> None:
    store = MemoryStore()
    model = Metered("middle", [call("ask_spender", task="Look"), "Passed on."], Usage(5))
    middle = Agent("middle", model=model, tools=[spender(looks(1)).as_tool()])
    session = boss(middle.as_tool(), calls=call("ask_middle", task="Look")).session("s", store=store)
    await session.run("Go")
    assert {agent: usage.total for agent, usage in session.usage_by_agent.items()} == {"boss": 44, "middle": 10, "spender": 200}


@pytest.mark.parametrize(
    ("limits", "requests"),
    [(Limits(tokens=500), 4), (Limits(turns=4), 3), (Limits(cost=0.0005), 4)],
    ids=["tokens", "turns", "cost"],
)
async def test_limit_binds_child_session_before_it_is_exceeded(store: Store, limits: Limits, requests: int) -> None:
    inner = spender(looks(120))
    workflow = boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=limits)
    session = workflow.session("s", store=store)
    result = await session.run("Go")
    (request,) = result.pending
    assert (request.kind, request.session) == ("limit", "s")
    assert getattr(limits, request.limit) is not None
    assert len(inner.model.requests) == requests  # type: ignore[attr-defined]
    assert session.usage_by_agent["spender"].total == requests * 100


async def test_granted_limit_goes_on_with_child_session(store: Store) -> None:
    inner = spender(looks(5))
    session = boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)).session("s", store=store)
    result = await session.run("Go")
    while result.status == "pending":
        await session.approve(result.pending[0])
        result = await session.resume()
    assert result.text == "All done."
    assert len(inner.model.requests) == 6  # type: ignore[attr-defined]


async def test_refused_limit_stops_child_session(store: Store) -> None:
    inner = spender(looks(50))
    session = boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    await session.reject(request, "too expensive")
    spent = len(inner.model.requests)  # type: ignore[attr-defined]
    assert (await session.resume()).status in ("waiting", "terminated")
    assert len(inner.model.requests) == spent  # type: ignore[attr-defined]


async def test_refused_limit_says_that_the_child_began(store: Store) -> None:
    """Otherwise the caller's model would take what the child has done for undone, and ask for it again."""
    session = boss(spender(looks(9)).as_tool(), calls=call("ask_spender", task="Look"), limits=Limits(tokens=400)).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    await session.reject(request)
    await session.resume()
    (output,) = [fact.output for fact in session.facts if isinstance(fact, CallReturned)]
    assert output.startswith("'ask_spender' had begun when a limit stopped this run, and did not finish. It may have taken effect")


async def test_parallel_children_share_one_budget() -> None:
    inner = spender([*[call("look") for _ in range(60)], "Found."])
    calls = [call("ask_spender", task=f"Look {number}") for number in range(4)]
    session = boss(inner.as_tool(), calls=calls, limits=Limits(tokens=1000)).session("s", store=MemoryStore())
    result = await session.run("Go")
    assert [request.kind for request in result.pending] == ["limit"]
    assert session.usage.total <= 1000


async def test_child_without_room_waits_for_sibling() -> None:
    """The last turn is reserved for one child: the other does not start again and again until that turn is taken."""
    go, store = asyncio.Event(), MemoryStore()

    class Slow(ScriptedModel):
        async def reply(self, request: Request, emit: Emit) -> Reply:
            reply = await super().reply(request, emit)
            await go.wait()
            return reply

    first = Agent("first", model=Slow(by_agent={"first": ["Done."]}))
    calls = [call("ask_first", task="Go"), call("ask_spender", task="Look")]
    session = boss(first.as_tool(), spender(looks(1)).as_tool(), calls=calls, limits=Limits(turns=2)).session("s", store=store)
    driving = asyncio.ensure_future(_run(session))
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
    """The limit of the outermost session is not passed by what runs two levels below it, in parallel."""
    store = MemoryStore()

    class Uneven(ScriptedModel):
        """Two of three replies take long, in steps of the event loop."""

        async def reply(self, request: Request, emit: Emit) -> Reply:
            reply = await super().reply(request, emit)
            for _ in range(0 if len(self.requests) % 3 else 200):
                await asyncio.sleep(0)
            return reply

    @tool
    async def look() -> str:
        return "seen"

    inner = Agent("spender", model=Uneven(by_agent={"spender": looks(4)}), tools=[look])

    def delegate(seen: Any) -> Any:
        return "Passed on." if seen.agent_turn else [call("ask_spender", task="Look"), call("ask_spender", task="Look there")]

    middle = Agent("middle", model=ScriptedModel(delegate), tools=[inner.as_tool()])
    calls = [call("ask_middle", task="One"), call("ask_middle", task="Two")]
    session = boss(middle.as_tool(), calls=calls, limits=Limits(turns=turns)).session("s", store=store)
    await session.run("Go")
    replies = [fact for name in await lengths(store) for fact in await store.read(name) if isinstance(fact, ModelReplied)]
    assert len(replies) <= turns


async def test_refused_limit_is_not_asked_again(store: Store) -> None:
    """A child that was approved comes to its end after a limit was refused, and stops where it needs more."""
    world = World()

    @tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "paid")
        return "paid"

    payer = Agent("payer", model=ScriptedModel(by_agent={"payer": [call("pay"), "Paid."]}), tools=[pay])
    calls = [call("ask_payer", task="Pay"), call("ask_spender", task="Look")]
    session = boss(payer.as_tool(), spender(looks(9)).as_tool(), calls=calls, limits=Limits(turns=5)).session("s", store=store)
    requests = {request.kind: request for request in (await session.run("Go")).pending}
    await session.approve(requests["approval"])
    await session.reject(requests["limit"])
    result = await session.resume()
    assert (result.status, result.pending, world.times("paid")) == ("waiting", [], 1)


async def test_failed_child_without_room_asks_for_limit(store: Store) -> None:
    broken = [True]

    def reply(seen: Any) -> Any:
        if broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Done."

    flaky = Agent("flaky", model=ScriptedModel(reply))
    model = Metered("boss", [[call("ask_flaky", task="Go"), call("ask_spender", task="Look")], "All done."], Usage(20, 2))
    agent = Agent("boss", model=model, tools=[flaky.as_tool(), spender(["Found."]).as_tool()])
    builder = HandoffBuilder("office", [agent]).with_limits(Limits(turns=2)).with_parallel_tools(1)  # first one fails, then one works
    session = builder.build().session("s", store=store)
    assert (await session.run("Go")).status == "failed"
    broken[0] = False
    (request,) = (await session.resume()).pending
    assert request.kind == "limit"
    await session.approve(request)
    assert (await session.resume()).text == "All done."


async def test_child_limits_are_asked_in_callers_session(store: Store) -> None:
    inner = spender(looks(3))
    session = boss(inner.as_tool(limits=Limits(turns=2)), calls=call("ask_spender", task="Look")).session("s", store=store)
    (request,) = (await session.run("Go")).pending
    assert (request.kind, request.limit, request.agent) == ("limit", "turns", "spender")
    await session.approve(request)
    assert (await session.resume()).text == "All done."


async def test_child_with_refused_limit_is_no_answer(store: Store) -> None:
    inner = spender(looks(9))
    session = boss(inner.as_tool(limits=Limits(turns=2)), calls=call("ask_spender", task="Look")).session("s", store=store)
    await session.reject((await session.run("Go")).pending[0], "enough")
    await session.resume()
    (returned,) = [fact for fact in session.facts if isinstance(fact, CallReturned)]
    assert returned.status == "error"
    assert "stopped at its limit" in str(returned.output)


# -- a child session that fails --------------------------------------------------------------------------------------------


def paying(world: World) -> Any:
    @tool
    async def pay(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "paid")
        return "paid"

    return pay


async def test_failed_child_pauses_its_parent(store: Store, stream: bool) -> None:
    """The child has paid, then its model fails: the parent goes on with that child, and nothing is paid twice."""
    world, broken = World(), [True]

    def reply(seen: Any) -> Any:
        if seen.agent_turn and broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Paid." if seen.agent_turn else call("pay")

    pay = paying(world)
    inner = Agent("inner", model=ScriptedModel(reply), tools=[pay])
    session = boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    result = await session.run("Go", stream=stream)
    assert result.status == "failed"
    assert "overloaded" in result.error
    assert not any(isinstance(fact, CallReturned) for fact in session.facts)
    broken[0] = False
    result = await session.resume(stream=stream)
    assert result.text == "All done."
    assert world.times("paid") == 1
    assert sorted(await lengths(store))[0] == "s"
    assert len(await lengths(store)) == 2


async def test_guardrail_error_in_child_pauses_its_parent(store: Store) -> None:
    world, raises = World(), [True]
    pay = paying(world)

    @guardrail("output")
    def once(context: Any, text: str) -> None:
        if raises.pop():
            raises.append(False)
            raise RuntimeError("the policy service is down")
        raises.append(False)

    inner = Agent("inner", model=ScriptedModel(by_agent={"inner": [call("pay"), "Paid."]}), tools=[pay], guardrails=[once])
    session = boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    result = await session.run("Go")
    assert result.status == "failed"
    assert "policy service" in result.error
    assert (await session.resume()).text == "All done."
    assert world.times("paid") == 1


async def test_failed_child_of_a_child_is_resumed() -> None:
    world, broken, store = World(), [True], MemoryStore()

    def reply(seen: Any) -> Any:
        if seen.agent_turn and broken[0]:
            raise ModelFailed("the model is overloaded")
        return "Paid." if seen.agent_turn else call("pay")

    pay = paying(world)
    inner = Agent("inner", model=ScriptedModel(reply), tools=[pay])
    middle = Agent("middle", model=ScriptedModel(by_agent={"middle": [call("ask_inner", task="Pay"), "Passed."]}), tools=[inner.as_tool()])
    session = boss(middle.as_tool(), calls=call("ask_middle", task="Pay")).session("s", store=store)
    assert (await session.run("Go")).status == "failed"
    broken[0] = False
    assert (await session.resume()).text == "All done."
    assert world.times("paid") == 1
    assert len(await lengths(store)) == 3


# -- a child session that is missing ---------------------------------------------------------------------------------------


async def test_long_session_id_finds_its_child(store: Store) -> None:
    world, id = World(), "x" * 400
    session = office(world).session(id, store=store)
    await session.run("Pay ann")
    again = await office(world).session(id, store=store).refresh()
    await again.approve(again.pending[0])
    assert (await again.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


@pytest.mark.parametrize("number", range(1, 13))
async def test_interrupted_retirement_pays_nothing_twice(number: int, tmp_path: Path) -> None:
    """Retirement is killed at its Nth operation; the session is there with its child, or neither is."""
    world, store = World(), MemoryStore()
    session = await waiting(store, world)
    await session.approve(session.pending[0])
    failing = FailingStore(store, _dies(number))
    time.sleep(0.002)  # times are whole milliseconds: what was recorded in this one is not old yet
    try:
        await retire(failing, LONG_AGO, archive=tmp_path)
    except Died:
        await failing.bury()
    names = {root_session_id(name) for name in await lengths(store)}
    if names:
        assert len(await lengths(store)) == 2
        session = await office(world).session("s", store=store).refresh()
        assert (await session.resume()).text == "All done."
        assert world.times("paid 5 to ann") == 1


def _dies(number: int) -> Any:
    return lambda operation, when, count: Died("killed") if (when, count) == ("before", number) else None


async def test_retirement_keeps_child_that_was_just_answered() -> None:
    """A person answers after the sessions were listed: the family has grown, and stays."""
    world, store = World(), MemoryStore()
    session = await waiting(store, world)
    (request,) = session.pending

    class Answered(FailingStore):
        async def lease(self, ledger: str) -> Any:  # type: ignore[override]
            await session.approve(request)
            return await self.store.lease(ledger)

    time.sleep(0.002)
    done = await retire(Answered(store), LONG_AGO)
    assert (done.retired, done.busy) == ((), ("s",))
    assert (await session.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


@pytest.mark.parametrize("to_archive", [True, False], ids=["there", "back"])
async def test_copied_session_brings_its_child(to_archive: bool, store: Store) -> None:
    world, other = World(), MemoryStore()
    source, target = (store, other) if to_archive else (other, store)
    session = await waiting(source, world)
    await session.approve(session.pending[0])
    await copy(source, target, sessions="s")
    assert await lengths(target) == await lengths(source)
    assert (await office(world).session("s", store=target).resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


async def test_branch_before_child_began_asks_for_outcome(store: Store) -> None:
    """A fork at a moment when the child had begun and its length is unknown cannot go on with it: it asks."""
    world = World()
    session = await waiting(store, world)
    await session.approve(session.pending[0])
    await session.resume()
    started = next(position for position, fact in enumerate(session.facts) if isinstance(fact, CallStarted))
    branch = await session.fork(at=started + 1)
    result = await branch.resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "ask_payer")]
    assert world.times("paid 5 to ann") == 1


# -- one unit ------------------------------------------------------------------------------------------------------------


async def test_deleting_a_session_deletes_its_children(store: Store) -> None:
    session = await waiting(store, World())
    assert len(await lengths(store)) == 2
    assert await store.delete(session.id)
    assert await lengths(store) == {}


async def test_deleted_session_leaves_no_child_that_pays(store: Store) -> None:
    """The session is deleted while its child works: the child does not pay afterwards."""
    world, go, began = World(), asyncio.Event(), asyncio.Event()

    @tool
    async def prepare() -> str:
        began.set()
        await go.wait()
        return "prepared"

    pay = paying(world)
    inner = Agent("inner", model=ScriptedModel(by_agent={"inner": [call("prepare"), call("pay"), "Paid."]}), tools=[prepare, pay])
    session = boss(inner.as_tool(), calls=call("ask_inner", task="Pay")).session("s", store=store)
    driving = asyncio.ensure_future(_run(session))
    await began.wait()
    await store.delete("s")
    go.set()
    await asyncio.gather(driving, return_exceptions=True)
    assert world.times("paid") == 0
    assert await lengths(store) == {}


async def test_child_that_begins_after_deletion_is_deleted() -> None:
    """The session is deleted when its child is about to begin: nothing is left in the store."""
    store = MemoryStore()

    class Deleting(FailingStore):
        async def append(self, ledger: str, *given: Any, **more: Any) -> int:  # type: ignore[override]
            if "/" in ledger:
                await self.store.delete("s")
            return await self.store.append(ledger, *given, **more)

    session = boss(spender(["Found."]).as_tool(), calls=call("ask_spender", task="Look")).session("s", store=Deleting(store))
    await asyncio.gather(_run(session), return_exceptions=True)
    assert await lengths(store) == {}


async def _run(session: Session) -> None:
    await session.run("Go")


async def test_interrupted_fork_leaves_no_half_family() -> None:
    """A fork dies at its Nth operation: there is no branch, or one that has its child."""
    for number in range(1, 30):
        world, store = World(), MemoryStore()
        session = await waiting(store, world)
        failing = FailingStore(store, _dies(number))
        try:
            await office(world).session("s", store=failing).fork(id="branch")
        except Died:
            finished = False
        else:
            finished = True
        await failing.bury()
        if await store.read("branch"):
            branch = await office(world).session("branch", store=store).refresh()
            assert [request.tool for request in branch.pending] == ["pay"]
        else:
            branch = await session.fork(id="branch")
            assert [request.tool for request in branch.pending] == ["pay"]
        if finished:
            return
    raise AssertionError("the fork never finished")


async def test_string_of_working_child_pays_nothing_twice(store: Store) -> None:
    """`to_string()` while the child works: what is loaded asks for what the child had under way."""
    world, go, began = World(), asyncio.Event(), asyncio.Event()
    pay = paying(world)

    @tool
    async def wait() -> str:
        began.set()
        await go.wait()
        return "waited"

    def workflow() -> Workflow:
        model = ScriptedModel(by_agent={"inner": [call("pay"), call("wait"), "Paid."]})
        return boss(Agent("inner", model=model, tools=[pay, wait]).as_tool(), calls=call("ask_inner", task="Pay"))

    session = workflow().session("s", store=store)
    driving = asyncio.ensure_future(_run(session))
    await began.wait()
    text = await (await workflow().session("s", store=store).refresh()).to_string()
    go.set()
    await driving
    copied = workflow().load(text, store=MemoryStore())
    result = await copied.resume()
    assert [(request.kind, request.tool) for request in result.pending] == [("outcome", "wait")]
    assert world.times("paid") == 1


async def test_string_leaves_out_child_that_began_later() -> None:
    """The session goes on while it is written down: the string has what it was before, with no child of a call that is not in it."""
    store = MemoryStore()

    def workflow() -> Workflow:
        inner = Agent("inner", model=ScriptedModel(by_agent={"inner": ["Paid."]}))
        model = ScriptedModel(by_agent={"boss": ["Hello.", call("ask_inner", task="Pay"), "All done."]})
        return HandoffBuilder("office", [Agent("boss", model=model, tools=[inner.as_tool()])]).build()

    session = workflow().session("s", store=store)
    await session.run("Hi")

    class Busy(FailingStore):
        async def children(self, ledger: str) -> Any:  # type: ignore[override]
            await session.run("Pay")
            return await self.store.children(ledger)

    text = await workflow().session("s", store=Busy(store)).to_string()
    assert len(await store.children("s")) == 1
    copied = await workflow().load(text, store=MemoryStore()).refresh()
    assert [message.text for message in copied.messages] == ["Hi", "Hello."]


async def test_independent_sessions_stay_independent_in_a_copy(store: Store) -> None:
    """A session loaded from another's string owns its words: erasing them there erases nothing here."""
    workflow = boss(calls="Hello.")
    first = workflow.session("first", store=store)
    await first.run("My name is Ann")
    await workflow.load(await first.to_string(), id="second", store=store).refresh()
    target = MemoryStore()
    await copy(store, target)
    assert {info.ledger: info.parent for info in await target.list()} == {"first": "", "second": ""}
    await workflow.session("first", store=target).redact(1, reason="asked for")
    assert "Ann" in (await workflow.session("second", store=target).refresh()).messages[0].text


async def test_forks_share_their_beginning_in_a_copy(store: Store) -> None:
    """Two forks whose original is gone still share what they share, so words are erased in both."""
    workflow = boss(calls="Hello.")
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
    session = await waiting(store, World())
    child = session.pending[0].session
    with pytest.raises(BadInput, match="is a child session of 's'"):
        await copy(store, MemoryStore(), sessions=child)


async def test_fork_onto_a_taken_id_names_it(store: Store) -> None:
    session = await waiting(store, World())
    with pytest.raises(LedgerExists, match="there already is a session 's' in this store"):
        await session.fork(id="s")


async def test_wrong_workflow_names_the_parent_session(store: Store) -> None:
    session = await waiting(store, World())
    other = boss(calls="Hello").session(session.pending[0].session, store=store)
    with pytest.raises(DefinitionChanged, match="open 's', the session that it works for"):
        await other.refresh()


def fails_once() -> Agent:
    return Agent("spender", model=ScriptedModel([ModelFailed("overloaded"), "Found."]))


@pytest.mark.parametrize(
    ("inner", "limits", "status"),
    [(fails_once(), None, "failed, goes on with resume()"), (spender(looks(9)), Limits(tokens=300), "waits for a limit of its caller")],
    ids=["failed", "limit"],
)
async def test_paused_event_says_why(inner: Agent, limits: Limits | None, status: str) -> None:
    events = [event async for event in boss(inner.as_tool(), calls=call("ask_spender", task="Look"), limits=limits).session().run("Go")]
    (paused,) = [event.data for event in events if event.type == "tool_paused"]
    assert isinstance(paused, ToolData)
    assert paused.status == status


async def test_cancelled_family_stays_whole(store: Store) -> None:
    session = await waiting(store, World())
    await session.cancel("enough")
    facts = [await store.read(name) for name in await lengths(store)]
    assert all(any(isinstance(fact, Cancelled) for fact in each) for each in facts)
    assert sum(isinstance(fact, CallPaused) for each in facts for fact in each) == 1
    await all_is_kept(store)
