"""An agent that works as a tool asks people: what a session shows of it, who may answer, and what stops, forks and travels with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from legato import Agent, HandoffBuilder, ToolContext, Workflow, tool
from legato.core.facts import CallPaused, CallReturned, CallStarted, Cancelled, Decided
from legato.core.pending_requests import Pending
from legato.errors import CodecError, NotPending, StoreFull
from legato.runtime.session import Session
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call
from legato.testing.story import World
from legato.testing.waiting import check_waiting
from tests.stories import checking
from tests.stories.nested import payer
from tests.stories.test_death import Dying


def office(world: World, *replies: Any, messages: str = "queue", tools: Any = ()) -> Workflow:
    """A boss, whose payer asks before it pays."""
    helper = payer(world, *(replies or (call("pay", to="ann", cents=5), "Ann is paid.")))
    batch = [call("ask_payer", task="Pay ann"), *(call(each.name) for each in tools)]
    model = ScriptedModel(by_agent={"boss": [batch, "All done.", "Yes?"]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool(), *tools])]).with_messages(messages).build()


async def waiting(store: Store, world: World, *replies: Any, **more: Any) -> Session:
    session = office(world, *replies, **more).session("s", store=store)
    assert (await session.run("Pay ann")).status == "pending"
    return session


async def lengths(store: Store) -> dict[str, int]:
    return {info.ledger: info.length for info in await store.list()}


async def all_is_kept(store: Store) -> None:
    assert list(check_waiting({info.ledger: await store.read(info.ledger) for info in await store.list()})) == []


# -- what is shown, and who may answer -----------------------------------------------------------------------------------


async def test_a_request_says_whose_it_is_and_is_told_by_an_event_streaming_and_not(store: Store, stream: bool) -> None:
    session = office(World()).session("s", store=store)
    events = [event async for event in session.run("Pay ann", stream=stream)]
    (request,) = session.pending
    assert (request.agent, request.tool, request.arguments) == ("payer", "pay", {"to": "ann", "cents": 5})
    assert request.session.startswith("s/")
    assert session.asking(request).id == request.session
    assert [event.type for event in events][-3:] == ["tool_paused", "request_info", "status"]
    assert events[-2].data == request
    assert events[-1].data == session.status == "pending"


async def test_resume_that_finds_no_answer_adds_nothing_to_any_ledger(store: Store, stream: bool) -> None:
    session = await waiting(store, World())
    before = await lengths(store)
    for _ in range(10):
        result = await session.resume(stream=stream)
        assert [request.tool for request in result.pending] == ["pay"]
    assert await lengths(store) == before


async def test_after_a_restart_the_request_is_pending_under_the_same_id_and_is_answered_by_it(tmp_path: Path, stream: bool) -> None:
    world = World()
    async with SQLiteStore(tmp_path / "s.db") as store:
        (request,) = (await waiting(store, world)).pending
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = office(world).session("s", store=store)
        assert [each.id for each in (await session.refresh()).pending] == [request.id]
        await session.approve(request.id)
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = office(world).session("s", store=store)
        assert (await session.refresh()).status == "running"
        assert (await session.resume(stream=stream)).text == "All done."
        assert world.times("paid 5 to ann") == 1
        assert checking.outputs((await checking.requests_of(session))[-1]) == ["Ann is paid."]


async def test_of_two_handles_that_answer_one_request_at_the_same_moment_one_wins_and_the_other_is_told(store: Store) -> None:
    world = World()
    session = await waiting(store, world)
    (request,) = session.pending
    others = [await office(world).session("s", store=store).refresh() for _ in range(3)]
    answers = [others[0].approve(request), others[1].reject(request, "no"), others[2].approve(request.id)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "NotPending", "NotPending"]
    await asyncio.gather(*(_text(each) for each in (session, *others)))
    assert world.times("paid 5 to ann") == (0 if outcomes[1] is None else 1)
    assert session.status == "waiting"
    assert sum(isinstance(fact, Decided) for fact in await store.read(request.session)) == 1
    await all_is_kept(store)


async def _text(session: Session) -> str:
    return (await session.resume()).text


async def test_answered_in_its_own_session_the_outer_one_goes_on_too(store: Store) -> None:
    world = World()
    session = await waiting(store, world)
    inner = session.asking(session.pending[0])
    await inner.approve(inner.pending[0])
    await inner.resume()
    assert world.times("paid 5 to ann") == 1
    assert (await session.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


async def test_a_result_a_limit_and_an_unknown_outcome_are_asked_and_answered_like_approvals(store: Store) -> None:
    world = World()
    session = await waiting(store, world, call("ask_bank", question="rate?"), "Nothing is paid, the bank said no.")
    (request,) = session.pending
    assert (request.kind, request.agent) == ("result", "payer")
    await session.answer(request, "no")
    assert (await session.resume()).text == "All done."

    class Sum(BaseModel):
        cents: int

    counting = ScriptedModel(lambda seen: "many" if seen.turn < 2 else '{"cents": 7}')
    counter = Agent("counter", model=counting, output_type=Sum, output_retries=0)
    model = ScriptedModel(by_agent={"boss": [call("ask_counter", task="Count"), "Counted."]})
    session = HandoffBuilder("count", [Agent("boss", model=model, tools=[counter.as_tool()])]).build().session("c", store=store)
    await session.run("Count")
    for _ in range(2):
        (limit,) = session.pending
        assert (limit.kind, limit.limit, limit.agent) == ("limit", "output", "counter")
        await session.approve(limit)
        result = await session.resume()
    assert result.text == "Counted."

    looking = (call("look_up", to="ann"), "Ann is there.")
    with pytest.raises(StoreFull):
        await office(world, *looking).session("o", store=Dying(store, CallReturned)).run("Look")
    session = office(world, *looking).session("o", store=store)
    await session.resume()
    (outcome,) = session.pending
    assert (outcome.kind, outcome.tool, outcome.agent) == ("outcome", "look_up", "payer")
    await session.answer(outcome, "looked up ann")
    assert (await session.resume()).text == "All done."
    assert world.times("looked up ann") == 1


async def test_one_answer_delivered_again_and_again_with_one_key_is_recorded_once(store: Store) -> None:
    world = World()
    session = await waiting(store, world)
    (request,) = session.pending
    for _ in range(2):
        await session.approve(request.id, key="webhook-1")
    assert (await session.resume()).text == "All done."
    await office(world).session("s", store=store).approve(request.id, key="webhook-1")  # long after
    assert sum(isinstance(fact, Decided) for fact in await store.read(request.session)) == 1
    with pytest.raises(NotPending):
        await session.approve(request.id, key="webhook-2")


async def test_approve_always_holds_in_that_conversation_and_can_be_revoked(store: Store) -> None:
    world = World()
    ann, bob, cyd = (call("pay", to=name, cents=1) for name in ("ann", "bob", "cyd"))
    session = await waiting(store, world, ann, bob, call("ask_bank", question="?"), cyd, "Paid.")
    await session.approve(session.pending[0], always=True)
    await session.resume()
    assert [request.kind for request in session.pending] == ["result"]
    await session.revoke("payer", "pay")
    await session.answer(session.pending[0], "fine")
    await session.resume()
    assert [request.arguments["to"] for request in session.pending] == ["cyd"]
    assert [told for _, told in world.deeds] == ["paid 1 to ann", "paid 1 to bob"]


async def test_requests_are_in_the_order_of_calls_one_s_own_among_them(store: Store) -> None:
    world = World()

    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "signed")
        return "signed"

    helper = payer(world, [call("pay", to="ann", cents=5), call("pay", to="bob", cents=6)], "Paid.")
    batch = [call("sign"), call("ask_payer", task="Pay"), call("sign")]
    model = ScriptedModel(by_agent={"boss": [batch, "All done."]})
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool(), sign])]).build().session("s", store=store)
    result = await session.run("Go")
    assert [request.tool for request in result.pending] == ["sign", "pay", "pay", "sign"]
    for request in result.pending[:2]:
        await session.approve(request)
    result = await session.resume()  # a part is answered: what can go on goes on
    assert [request.tool for request in result.pending] == ["pay", "sign"]
    assert sorted(what for _, what in world.deeds) == ["paid 5 to ann", "signed"]
    for request in result.pending:
        await session.approve(request)
    assert (await session.resume()).text == "All done."
    assert len(world.deeds) == 4


async def test_answered_while_another_driver_is_busy_with_a_sibling_it_goes_on_all_the_same(store: Store) -> None:
    world, go = World(), asyncio.Event()

    @tool
    async def slow() -> str:
        await go.wait()
        return "slow, but done"

    workflow = office(world, tools=[slow])
    driving = asyncio.ensure_future(_said(workflow.session("s", store=store)))
    other = workflow.session("s", store=store)
    async with asyncio.timeout(60):
        while not (await other.refresh()).pending:  # noqa: ASYNC110 - it looks at what was recorded so far
            await asyncio.sleep(0.005)
    await other.approve(other.pending[0])
    following = asyncio.ensure_future(_text(other))
    async with asyncio.timeout(60):
        while not world.deeds:  # noqa: ASYNC110 - it looks at what was done so far
            await asyncio.sleep(0.005)
    assert world.times("paid 5 to ann") == 1  # at once: nobody waits for the sibling
    go.set()
    assert await asyncio.gather(driving, following) == ["All done.", "All done."]
    assert world.times("paid 5 to ann") == 1


class Watched:
    """A store that calls back while a conversation is read that a call of session "s" waits for; once."""

    def __init__(self, store: Store, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, ledger: str, start: int = 0, *, born: str = "") -> Any:
        waits = any(isinstance(fact, CallPaused) for fact in await self._store.read("s"))
        if self._meanwhile is not None and waits and ledger != "s":
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return await self._store.read(ledger, start, born=born)


async def test_answered_while_the_driver_looks_whether_a_waiting_call_can_go_on_it_does_not_rest_before_that_is_done(store: Store) -> None:
    world = World()

    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        world.did(ctx, "signed")
        return "signed"

    async def approve() -> None:
        (own,) = [request for request in session.pending if request.tool == "sign"]
        await session.approve(own)

    session = office(world, tools=[sign]).session("s", store=Watched(store, approve))
    result = await session.run("Pay ann")
    assert (result.status, [request.tool for request in result.pending]) == ("pending", ["pay"])
    assert world.times("signed") == 1


async def _said(session: Session) -> str:
    return (await session.run("Pay ann")).text


# -- stopping ------------------------------------------------------------------------------------------------------------


async def test_cancel_stops_what_is_asked_there_and_it_can_never_be_approved_again(store: Store, stream: bool) -> None:
    world = World()
    session = await waiting(store, world)
    (request,) = session.pending
    inner = session.asking(request)
    await session.cancel()
    assert (session.status, session.pending) == ("cancelled", [])
    assert (await inner.refresh()).status == "cancelled"
    for handle in (session, inner):
        with pytest.raises(NotPending):
            await handle.approve(request)
        await handle.resume(stream=stream)
    assert (await session.run("Never mind", stream=stream)).text == "All done."
    assert world.deeds == []
    assert "cancelled" in checking.outputs((await checking.requests_of(session))[-1])[0]
    await all_is_kept(store)


class DyingOutside(Dying):
    """What would record such a fact in the outer conversation dies; in others it does not."""

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger != "s":
            return await self._store.append(ledger, expected, facts, **more)
        return await super().append(ledger, expected, facts, **more)


async def test_a_process_that_dies_in_the_middle_of_a_cancel_leaves_nothing_that_could_be_approved(store: Store) -> None:
    world = World()
    (request,) = (await waiting(store, world)).pending

    with pytest.raises(StoreFull):
        await office(world).session("s", store=DyingOutside(store, Cancelled)).cancel()
    session = await office(world).session("s", store=store).refresh()
    assert session.pending == []
    with pytest.raises(NotPending):
        await session.approve(request)
    await session.cancel()
    assert session.status == "cancelled"
    assert world.deeds == []
    await all_is_kept(store)


class SlowOutside:
    """A store in which whatever is to stop the outermost conversation takes its time, until those who drive it have come to rest."""

    def __init__(self, store: Store, rested: asyncio.Event) -> None:
        self._store, self._rested = store, rested

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger == "s" and any(isinstance(fact, Cancelled) for fact in facts):
            await self._rested.wait()
        return await self._store.append(ledger, expected, facts, **more)


def site(digging: asyncio.Event, depth: int) -> Workflow:
    """A boss, whose foremen have foremen, whose digger digs without end."""

    @tool(idempotent=True)
    async def dig() -> str:
        digging.set()
        await asyncio.Event().wait()
        return "dug"

    worker = Agent("digger", model=ScriptedModel(by_agent={"digger": [call("dig"), "Dug."]}), tools=[dig])
    for level in range(depth):
        asked = f"ask_{worker.name}"
        name = f"boss{level}"
        worker = Agent(name, model=ScriptedModel(by_agent={name: [call(asked, task="Dig"), "All done.", "Yes?"]}), tools=[worker.as_tool()])
    return HandoffBuilder("site", [worker]).build()


async def stops(store: Store) -> dict[str, int]:
    """How often each conversation was stopped."""
    found = {info.ledger: await store.read(info.ledger) for info in await store.list()}
    return {ledger: sum(isinstance(fact, Cancelled) for fact in facts) for ledger, facts in found.items()}


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_cancel_while_agents_work_stops_them_and_their_callers_whoever_is_first_to_say_so(store: Store, depth: int) -> None:
    """The agents are stopped first. A caller that hears of it before it is stopped itself does not go on without them."""
    digging, rested = asyncio.Event(), asyncio.Event()
    driving = asyncio.ensure_future(_said(site(digging, depth).session("s", store=store)))
    await digging.wait()
    session = site(digging, depth).session("s", store=SlowOutside(store, rested))  # type: ignore[arg-type]
    cancelling = asyncio.ensure_future(session.cancel("stop it"))
    await asyncio.wait_for(driving, 60)
    rested.set()
    await cancelling
    assert [*(await stops(store)).values()] == [1] * (depth + 1)
    assert (await session.refresh()).status == "cancelled"
    assert [fact.words for fact in session.facts if isinstance(fact, Cancelled)] == ["stop it"]
    assert (await session.run("Go on")).text == "All done."
    await all_is_kept(store)


async def test_a_cancel_of_a_call_that_waits_is_finished_by_whoever_drives_although_the_one_who_asked_died(store: Store) -> None:
    world = World()
    await waiting(store, world)
    with pytest.raises(StoreFull):
        await office(world).session("s", store=DyingOutside(store, Cancelled)).cancel("stop it")
    session = office(world).session("s", store=store)
    assert (await session.resume()).status == "cancelled"
    assert [*(await stops(store)).values()] == [1, 1]
    assert (await session.run("Never mind")).text == "All done."
    assert world.deeds == []
    await all_is_kept(store)


class DyingBeforeTheSecond(Dying):
    """Only one conversation is stopped, and then it dies."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Cancelled)
        self._first = ""

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if any(isinstance(fact, Cancelled) for fact in facts):
            self._first = self._first or ledger
        if ledger == self._first:
            return await self._store.append(ledger, expected, facts, **more)
        return await super().append(ledger, expected, facts, **more)


async def test_whoever_finishes_a_cancel_first_stops_what_the_other_calls_wait_for(store: Store) -> None:
    world = World()
    helper = payer(world, call("pay", to="ann", cents=5), "Ann is paid.")
    model = ScriptedModel(by_agent={"boss": [[call("ask_payer", task="Pay"), call("ask_payer", task="Pay")], "All done."]})
    workflow = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()
    session = workflow.session("s", store=store)
    asked = (await session.run("Pay twice")).pending
    handles = [session.asking(request) for request in asked]
    with pytest.raises(StoreFull):
        await workflow.session("s", store=DyingBeforeTheSecond(store)).cancel()  # type: ignore[arg-type]
    with pytest.raises(StoreFull):
        await workflow.session("s", store=DyingOutside(store, Cancelled)).resume()  # type: ignore[arg-type]
    for handle, request in zip(handles, asked, strict=True):
        with pytest.raises(NotPending):
            await handle.approve(request)
    assert (await session.resume()).status == "cancelled"
    assert [*(await stops(store)).values()] == [1, 1, 1]
    assert world.deeds == []
    await all_is_kept(store)


async def test_a_message_after_half_a_cancel_goes_on_and_is_not_stopped_by_it(store: Store) -> None:
    world = World()
    await waiting(store, world)
    with pytest.raises(StoreFull):
        await office(world).session("s", store=DyingOutside(store, Cancelled)).cancel()
    session = office(world).session("s", store=store)
    assert (await session.run("Are you there?")).text == "All done."
    assert "was cancelled" in checking.outputs((await checking.requests_of(session))[-1])[0]
    assert [*(await stops(store)).values()].count(1) == 1
    await all_is_kept(store)


async def test_a_message_that_follows_a_cancel_at_once_is_not_stopped_by_whoever_says_it_later(store: Store) -> None:
    digging, rested = asyncio.Event(), asyncio.Event()
    driving = asyncio.ensure_future(_said(site(digging, 1).session("s", store=store)))
    await digging.wait()
    cancelling = asyncio.ensure_future(site(digging, 1).session("s", store=SlowOutside(store, rested)).cancel())  # type: ignore[arg-type]
    await asyncio.wait_for(driving, 60)
    session = site(digging, 1).session("s", store=store)
    await session.say("Go on")
    rested.set()
    await cancelling
    assert (await session.resume()).text == "All done."
    assert [*(await stops(store)).values()] == [1, 1]


class Behind:
    """The store of a driver far away: it hears of what happens in the outer conversation when it is told, and begins the other one then."""

    def __init__(self, store: Store) -> None:
        self._store, self.asked, self.begin = store, asyncio.Event(), asyncio.Event()
        self._heard: list[Callable[[int], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger != "s" and expected == 0:
            self.asked.set()
            await self.begin.wait()
        return await self._store.append(ledger, expected, facts, **more)

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        if ledger != "s":
            return self._store.watch(ledger, position, moved)
        self._heard.append(moved)
        return lambda: self._heard.remove(moved)

    async def hear(self) -> None:
        length = len(await self._store.read("s"))
        for moved in [*self._heard]:
            moved(length)


async def stopped_inside(store: Store) -> None:
    """Wait until the conversation that is held for the outer one was stopped."""
    (inner,) = {*await lengths(store)} - {"s"}
    async with asyncio.timeout(60):
        while Cancelled not in map(type, facts := await store.read(inner)):
            await store.wait(inner, len(facts), 60)


async def test_an_agent_that_begins_just_after_its_caller_was_cancelled_is_stopped_by_whoever_began_it(store: Store) -> None:
    digging, behind = asyncio.Event(), Behind(store)
    driving = asyncio.ensure_future(_said(site(digging, 1).session("s", store=behind)))  # type: ignore[arg-type]
    await behind.asked.wait()
    session = site(digging, 1).session("s", store=store)
    await session.cancel("stop it")
    assert [*(await stops(store)).values()] == [1], "there was nothing else to be stopped"
    behind.begin.set()
    await digging.wait()
    await behind.hear()
    await asyncio.wait_for(driving, 60)
    await stopped_inside(store)
    assert (await session.run("Go on")).text == "All done."
    assert [*(await stops(store)).values()] == [1, 1]
    assert await store.unrested() == []
    await all_is_kept(store)


async def test_an_agent_that_begins_while_its_caller_is_being_cancelled_is_stopped_before_that_is_done(store: Store) -> None:
    digging, behind = asyncio.Event(), Behind(store)

    class Slow(SlowOutside):
        async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
            if ledger == "s":
                behind.begin.set()
                await digging.wait()
            return await super().append(ledger, expected, facts, **more)

    driving = asyncio.ensure_future(_said(site(digging, 1).session("s", store=behind)))  # type: ignore[arg-type]
    await behind.asked.wait()
    await site(digging, 1).session("s", store=Slow(store, digging)).cancel("stop it")  # type: ignore[arg-type]
    assert [*(await stops(store)).values()] == [1, 1]
    await behind.hear()
    await asyncio.wait_for(driving, 60)
    await all_is_kept(store)


async def test_an_agent_whose_driver_died_when_its_caller_was_cancelled_is_stopped_by_whoever_drives_next(store: Store) -> None:
    session = await waiting(store, World())
    inner = session.asking(session.pending[0])
    await session.cancel()
    await inner.say("Pay bob too")  # as if it had begun only then
    assert (await inner.refresh()).status == "running"
    assert (await session.run("Never mind")).text == "All done."
    assert (await inner.refresh()).status == "cancelled"
    assert await store.unrested() == []


async def test_what_was_stopped_superseded_or_forked_with_its_caller_rests_when_that_does(store: Store) -> None:
    session = await waiting(store, World())
    branch = await session.fork(id="branch")
    assert {info.ledger for info in await store.unrested()} == {"branch", branch.asking(branch.pending[0]).id}
    assert (await branch.resume()).status == "pending"
    assert await store.unrested() == []
    await session.cancel()
    await session.resume()
    assert await store.unrested() == []
    other = office(World(), messages="supersede").session("other", store=store)
    await other.run("Pay ann")
    assert (await other.run("Never mind")).text == "All done."
    assert await store.unrested() == []


async def test_an_agent_that_was_stopped_for_itself_alone_leaves_its_caller_to_go_on(store: Store) -> None:
    session = await waiting(store, World())
    await session.asking(session.pending[0]).cancel()
    assert (await session.resume()).text == "All done."
    assert (await stops(store))["s"] == 0


# -- branches ------------------------------------------------------------------------------------------------------------


async def test_an_approval_in_one_branch_approves_nothing_in_the_other(store: Store) -> None:
    world = World()
    trunk = await waiting(store, world)
    branch = await trunk.fork(id="branch")
    (here,), (there,) = trunk.pending, branch.pending
    assert here.id != there.id
    assert here.session != there.session
    with pytest.raises(NotPending):
        await branch.approve(here)
    with pytest.raises(NotPending):
        await trunk.approve(there.id)
    await trunk.approve(here)
    assert (await trunk.resume()).text == "All done."
    assert (await branch.resume()).pending == [there]
    await branch.reject(there, "not here")
    assert (await branch.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1
    await all_is_kept(store)


async def test_a_fork_at_every_position_asks_for_itself_and_does_nothing_twice_unasked(store: Store) -> None:
    world = World()
    looking = [call("look_up", to="ann"), call("pay", to="ann", cents=5)]
    trunk = await waiting(store, world, looking, "Ann is paid.")
    await trunk.approve(trunk.pending[0])
    await trunk.resume()
    facts = trunk.facts
    (paused,) = [position for position, fact in enumerate(facts) if isinstance(fact, CallPaused)]
    for at in range(paused + 1, len(facts) + 1):
        branch = await trunk.fork(at, f"branch-{at}")
        result = await branch.resume()
        if result.status == "pending":
            waits = branch.state.batch[0].paused is not None
            # The trunk's approval is the trunk's; and what the child has done since it was given is unknown here.
            assert [request.tool for request in result.pending] == ["pay" if waits else "ask_payer"]
            await branch.reject(result.pending[0], "not here")
            result = await branch.resume()
        assert result.status == "waiting"
        await checking.requests_of(branch)
    assert world.times("looked up ann") == world.times("paid 5 to ann") == 1
    assert (await trunk.refresh()).facts == facts
    await all_is_kept(store)


async def test_branches_whose_long_ids_begin_alike_do_not_share_a_conversation(store: Store) -> None:
    world = World()
    trunk = office(world).session("x" * 399 + "1", store=store)
    await trunk.run("Pay ann")
    branch = await trunk.fork(id="x" * 399 + "2")
    assert trunk.pending[0].session != branch.pending[0].session
    await trunk.approve(trunk.pending[0])
    await trunk.resume()
    assert len((await branch.refresh()).pending) == 1


# -- travelling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
@pytest.mark.parametrize("answered", [False, True], ids=["asked", "answered"])
async def test_loaded_child_asks_again_unless_moved(store: Store, answered: bool, move: bool) -> None:
    world = World()
    session = await waiting(store, world)
    asked = session.pending[0]
    if answered:
        await session.approve(asked)
    text = await session.to_string(sign_with=b"k" * 32)
    copy = await office(world).load(text, store=MemoryStore(), verify_with=b"k" * 32, move=move).refresh()
    assert [request.tool for request in copy.pending] == ([] if answered and move else ["pay"])
    for request in copy.pending:
        assert request.id != asked.id
        await copy.approve(request)
    assert (await copy.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1
    again = await office(world).load(text, store=store, verify_with=b"k" * 32).refresh()
    assert again.facts == session.facts  # where it comes from, it is the same conversation
    assert again.pending == session.pending


async def test_a_string_with_a_conversation_that_no_call_waits_for_is_refused(store: Store) -> None:
    session = await waiting(store, World())
    text = await session.to_string()
    key = session.pending[0].session.partition("/")[2]
    with pytest.raises(CodecError, match="child session of no call"):
        office(World()).load(text.replace(f'"{key}"', '"other"'))


# -- definitions that change ---------------------------------------------------------------------------------------------


async def test_a_tool_that_is_gone_is_answered_so_and_the_session_goes_on(store: Store) -> None:
    world = World()
    await waiting(store, world)
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay ann"), "I cannot pay any more."]})
    session = HandoffBuilder("office", [Agent("boss", model=model)]).build().session("s", store=store)
    assert (await session.resume()).text == "I cannot pay any more."
    assert "no longer there" in checking.outputs((await checking.requests_of(session))[-1])[0]


async def test_renamed_agent_pauses_the_caller_of_its_child(store: Store) -> None:
    """What the child has done is not to be done again: the session fails, and goes on when the agent has its name again."""
    world = World()
    await waiting(store, world)
    other = Agent("lender", model=ScriptedModel(["I lend."])).as_tool(name="ask_payer")
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay ann"), "So be it."]})
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[other])]).build().session("s", store=store)
    result = await session.resume()
    assert result.status == "failed"
    assert "belongs to workflow 'payer'" in result.error
    session = office(world).session("s", store=store)
    (request,) = (await session.resume()).pending
    await session.approve(request)
    assert (await session.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


async def test_missing_child_session_asks_for_its_outcome(store: Store) -> None:
    """The child may have paid: its parent does not know, so it begins again only when a person says so."""
    world = World()
    session = await waiting(store, world)
    (request,) = session.pending
    await store.delete(request.session)
    result = await session.resume()
    (asked,) = result.pending
    assert (asked.kind, asked.tool, asked.session) == ("outcome", "ask_payer", session.id)
    assert not await store.read(request.session)
    await session.approve(asked)
    (again,) = (await session.resume()).pending
    assert (again.kind, again.tool, again.session) == ("approval", "pay", request.session)
    assert again.id != request.id
    await session.approve(again)
    assert (await session.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 1


async def test_missing_grandchild_session_asks_for_its_outcome(store: Store) -> None:
    """Only its own parent can record that it is lost, so that one is driven although it waits."""
    world = World()
    helper = payer(world, call("pay", to="ann", cents=5), "Ann is paid.")
    middle = Agent("middle", model=ScriptedModel([call("ask_payer", task="Pay ann"), "Passed on."]), tools=[helper.as_tool()])
    model = ScriptedModel([call("ask_middle", task="Pay ann"), "All done."])
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[middle.as_tool()])]).build().session("s", store=store)
    (request,) = (await session.run("Pay ann")).pending
    await store.delete(request.session)
    (asked,) = (await session.resume()).pending
    assert (asked.kind, asked.tool) == ("outcome", "ask_payer")
    await session.answer(asked, "Ann was paid in cash.")
    assert (await session.resume()).text == "All done."
    assert world.times("paid 5 to ann") == 0


async def test_waiting_costs_no_tool_call_of_the_limit_and_one_attempt_for_each_answer(store: Store) -> None:
    world = World()
    batch = [call("pay", to=name, cents=1) for name in ("ann", "bob", "cyd")]
    session = await waiting(store, world, batch, "Paid.")
    while session.pending:
        await session.approve(session.pending[0])
        await session.resume()
    assert session.state.tally.tool_calls == 1
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallStarted)] == [1, 2, 3, 4]
    assert all(isinstance(request, Pending) for request in session.pending)
    assert len(world.deeds) == 3
