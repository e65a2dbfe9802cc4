"""Requests of child sessions: answers, cancels, forks and copies, seen from the parent session."""

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
from legato.testing.child_session_checks import check_child_sessions
from legato.testing.story import World
from tests.stories import conversation_checks
from tests.stories.child_sessions import make_payer
from tests.stories.test_crashes import FailOnFactStore


def build_office(world: World, *replies: Any, messages: str = "queue", tools: Any = ()) -> Workflow:
    """Return a workflow of a boss and a payer agent, whose payments need approval."""
    helper = make_payer(world, *(replies or (call("pay", to="ann", cents=5), "Ann is paid.")))
    batch = [call("ask_payer", task="Pay ann"), *(call(each.name) for each in tools)]
    model = ScriptedModel(by_agent={"boss": [batch, "All done.", "Yes?"]})
    return HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool(), *tools])]).with_messages(messages).build()


async def start_pending_session(store: Store, world: World, *replies: Any, **more: Any) -> Session:
    session = build_office(world, *replies, **more).session("s", store=store)
    assert (await session.run("Pay ann")).status == "pending"
    return session


async def list_lengths(store: Store) -> dict[str, int]:
    return {info.ledger: info.length for info in await store.list()}


async def check_child_sessions_are_kept(store: Store) -> None:
    assert list(check_child_sessions({info.ledger: await store.read(info.ledger) for info in await store.list()})) == []


# -- requests and answers ----------------------------------------------------------------------------------------------


async def test_request_names_its_child_session(store: Store, stream: bool) -> None:
    """A request of a child session names its agent and session, and is reported by an event."""
    session = build_office(World()).session("s", store=store)
    events = [event async for event in session.run("Pay ann", stream=stream)]
    (request,) = session.pending
    assert (request.agent, request.tool, request.arguments) == ("payer", "pay", {"to": "ann", "cents": 5})
    assert request.session.startswith("s/")
    assert session.find_session_of(request).id == request.session
    assert [event.type for event in events][-3:] == ["tool_paused", "request_info", "status"]
    assert events[-2].data == request
    assert events[-1].data == session.status == "pending"


async def test_resume_without_answers_records_nothing(store: Store, stream: bool) -> None:
    session = await start_pending_session(store, World())
    before = await list_lengths(store)
    for _ in range(10):
        result = await session.resume(stream=stream)
        assert [request.tool for request in result.pending] == ["pay"]
    assert await list_lengths(store) == before


async def test_request_keeps_its_id_after_a_restart(tmp_path: Path, stream: bool) -> None:
    world = World()
    async with SQLiteStore(tmp_path / "s.db") as store:
        (request,) = (await start_pending_session(store, world)).pending
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = build_office(world).session("s", store=store)
        assert [each.id for each in (await session.refresh()).pending] == [request.id]
        await session.approve(request.id)
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = build_office(world).session("s", store=store)
        assert (await session.refresh()).status == "running"
        assert (await session.resume(stream=stream)).text == "All done."
        assert world.count("paid 5 to ann") == 1
        assert conversation_checks.list_outputs((await conversation_checks.rebuild_requests(session))[-1]) == ["Ann is paid."]


async def test_one_of_several_simultaneous_answers_wins(store: Store) -> None:
    """Of several handles that answer one request at the same time, one wins and the others get NotPending."""
    world = World()
    session = await start_pending_session(store, world)
    (request,) = session.pending
    others = [await build_office(world).session("s", store=store).refresh() for _ in range(3)]
    answers = [others[0].approve(request), others[1].reject(request, "no"), others[2].approve(request.id)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["NoneType", "NotPending", "NotPending"]
    await asyncio.gather(*(resume_and_get_text(each) for each in (session, *others)))
    assert world.count("paid 5 to ann") == (0 if outcomes[1] is None else 1)
    assert session.status == "waiting"
    assert sum(isinstance(fact, Decided) for fact in await store.read(request.session)) == 1
    await check_child_sessions_are_kept(store)


async def resume_and_get_text(session: Session) -> str:
    return (await session.resume()).text


async def test_parent_continues_after_answer_in_child(store: Store) -> None:
    world = World()
    session = await start_pending_session(store, world)
    inner = session.find_session_of(session.pending[0])
    await inner.approve(inner.pending[0])
    await inner.resume()
    assert world.count("paid 5 to ann") == 1
    assert (await session.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


async def test_results_limits_and_outcomes_are_requested_too(store: Store) -> None:
    """Results, limits and unknown outcomes of a child session are requested and answered like approvals."""
    world = World()
    session = await start_pending_session(store, world, call("ask_bank", question="rate?"), "Nothing is paid, the bank said no.")
    (request,) = session.pending
    assert (request.kind, request.agent) == ("result", "payer")
    await session.answer(request, "no")
    assert (await session.resume()).text == "All done."

    class Sum(BaseModel):
        cents: int

    counting = ScriptedModel(lambda seen: "many" if seen.reply_count < 2 else '{"cents": 7}')
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
        await build_office(world, *looking).session("o", store=FailOnFactStore(store, CallReturned)).run("Look")
    session = build_office(world, *looking).session("o", store=store)
    await session.resume()
    (outcome,) = session.pending
    assert (outcome.kind, outcome.tool, outcome.agent) == ("outcome", "look_up", "payer")
    await session.answer(outcome, "looked up ann")
    assert (await session.resume()).text == "All done."
    assert world.count("looked up ann") == 1


async def test_answer_with_one_key_is_recorded_once(store: Store) -> None:
    world = World()
    session = await start_pending_session(store, world)
    (request,) = session.pending
    for _ in range(2):
        await session.approve(request.id, key="webhook-1")
    assert (await session.resume()).text == "All done."
    await build_office(world).session("s", store=store).approve(request.id, key="webhook-1")  # long after
    assert sum(isinstance(fact, Decided) for fact in await store.read(request.session)) == 1
    with pytest.raises(NotPending):
        await session.approve(request.id, key="webhook-2")


async def test_standing_approval_applies_in_the_child_session(store: Store) -> None:
    """A standing approval applies in the child session, and can be revoked."""
    world = World()
    ann, bob, cyd = (call("pay", to=name, cents=1) for name in ("ann", "bob", "cyd"))
    session = await start_pending_session(store, world, ann, bob, call("ask_bank", question="?"), cyd, "Paid.")
    await session.approve(session.pending[0], always=True)
    await session.resume()
    assert [request.kind for request in session.pending] == ["result"]
    await session.revoke("payer", "pay")
    await session.answer(session.pending[0], "fine")
    await session.resume()
    assert [request.arguments["to"] for request in session.pending] == ["cyd"]
    assert [deed for _, deed in world.effects] == ["paid 1 to ann", "paid 1 to bob"]


async def test_requests_are_in_call_order(store: Store) -> None:
    """Requests of a session and of its child sessions are in call order."""
    world = World()

    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "signed")
        return "signed"

    helper = make_payer(world, [call("pay", to="ann", cents=5), call("pay", to="bob", cents=6)], "Paid.")
    batch = [call("sign"), call("ask_payer", task="Pay"), call("sign")]
    model = ScriptedModel(by_agent={"boss": [batch, "All done."]})
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool(), sign])]).build().session("s", store=store)
    result = await session.run("Go")
    assert [request.tool for request in result.pending] == ["sign", "pay", "pay", "sign"]
    for request in result.pending[:2]:
        await session.approve(request)
    result = await session.resume()  # answered calls continue, the others wait
    assert [request.tool for request in result.pending] == ["pay", "sign"]
    assert sorted(deed for _, deed in world.effects) == ["paid 5 to ann", "signed"]
    for request in result.pending:
        await session.approve(request)
    assert (await session.resume()).text == "All done."
    assert len(world.effects) == 4


async def test_answered_child_continues_beside_a_running_sibling(store: Store) -> None:
    world, go = World(), asyncio.Event()

    @tool
    async def slow() -> str:
        await go.wait()
        return "slow, but done"

    workflow = build_office(world, tools=[slow])
    driving = asyncio.ensure_future(run_and_get_text(workflow.session("s", store=store)))
    other = workflow.session("s", store=store)
    async with asyncio.timeout(60):
        while not (await other.refresh()).pending:  # noqa: ASYNC110 - it polls the ledger
            await asyncio.sleep(0.005)
    await other.approve(other.pending[0])
    following = asyncio.ensure_future(resume_and_get_text(other))
    async with asyncio.timeout(60):
        while not world.effects:  # noqa: ASYNC110 - it polls the deeds
            await asyncio.sleep(0.005)
    assert world.count("paid 5 to ann") == 1  # at once, without waiting for the sibling
    go.set()
    assert await asyncio.gather(driving, following) == ["All done.", "All done."]
    assert world.count("paid 5 to ann") == 1


class CallbackStore:
    """A store that calls a function once, while the child session of a paused call of session "s" is read."""

    def __init__(self, store: Store, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._meanwhile: Callable[[], Awaitable[None]] | None = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, ledger: str, start: int = 0, *, ledger_id: str = "") -> Any:
        waits = any(isinstance(fact, CallPaused) for fact in await self._store.read("s"))
        if self._meanwhile is not None and waits and ledger != "s":
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return await self._store.read(ledger, start, ledger_id=ledger_id)


async def test_answer_during_the_resumability_check_is_used(store: Store) -> None:
    """An answer that arrives while the driver checks if a child session can continue is acted on before it becomes idle."""
    world = World()

    @tool(needs_approval=True)
    async def sign(ctx: ToolContext[Any]) -> str:
        world.record_effect(ctx, "signed")
        return "signed"

    async def approve() -> None:
        (request,) = [request for request in session.pending if request.tool == "sign"]
        await session.approve(request)

    session = build_office(world, tools=[sign]).session("s", store=CallbackStore(store, approve))
    result = await session.run("Pay ann")
    assert (result.status, [request.tool for request in result.pending]) == ("pending", ["pay"])
    assert world.count("signed") == 1


async def run_and_get_text(session: Session) -> str:
    return (await session.run("Pay ann")).text


# -- cancels -----------------------------------------------------------------------------------------------------------


async def test_cancel_withdraws_requests_of_child_sessions(store: Store, stream: bool) -> None:
    """A cancel stops the child session, and its request can never be approved again."""
    world = World()
    session = await start_pending_session(store, world)
    (request,) = session.pending
    inner = session.find_session_of(request)
    await session.cancel()
    assert (session.status, session.pending) == ("cancelled", [])
    assert (await inner.refresh()).status == "cancelled"
    for handle in (session, inner):
        with pytest.raises(NotPending):
            await handle.approve(request)
        await handle.resume(stream=stream)
    assert (await session.run("Never mind", stream=stream)).text == "All done."
    assert world.effects == []
    assert "cancelled" in conversation_checks.list_outputs((await conversation_checks.rebuild_requests(session))[-1])[0]
    await check_child_sessions_are_kept(store)


class DyingParentStore(FailOnFactStore):
    """A store that fails to record such a fact in the parent session only."""

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger != "s":
            return await self._store.append(ledger, expected, facts, **more)
        return await super().append(ledger, expected, facts, **more)


async def test_interrupted_cancel_leaves_nothing_to_approve(store: Store) -> None:
    world = World()
    (request,) = (await start_pending_session(store, world)).pending

    with pytest.raises(StoreFull):
        await build_office(world).session("s", store=DyingParentStore(store, Cancelled)).cancel()
    session = await build_office(world).session("s", store=store).refresh()
    assert session.pending == []
    with pytest.raises(NotPending):
        await session.approve(request)
    await session.cancel()
    assert session.status == "cancelled"
    assert world.effects == []
    await check_child_sessions_are_kept(store)


class SlowCancelStore:
    """A store that delays the cancel of the outermost session until its driver is idle."""

    def __init__(self, store: Store, is_idle: asyncio.Event) -> None:
        self._store, self._is_idle = store, is_idle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger == "s" and any(isinstance(fact, Cancelled) for fact in facts):
            await self._is_idle.wait()
        return await self._store.append(ledger, expected, facts, **more)


def build_site(digging: asyncio.Event, depth: int) -> Workflow:
    """Return a workflow of nested agents, the innermost of which runs a tool that never ends."""

    @tool(idempotent=True)
    async def dig() -> str:
        digging.set()
        await asyncio.Event().wait()
        return "dug"

    worker = Agent("digger", model=ScriptedModel(by_agent={"digger": [call("dig"), "Dug."]}), tools=[dig])
    for level in range(depth):
        tool_name = f"ask_{worker.name}"
        name = f"boss{level}"
        worker = Agent(
            name, model=ScriptedModel(by_agent={name: [call(tool_name, task="Dig"), "All done.", "Yes?"]}), tools=[worker.as_tool()]
        )
    return HandoffBuilder("site", [worker]).build()


async def count_cancels(store: Store) -> dict[str, int]:
    """Return the number of cancels in each ledger."""
    ledgers = {info.ledger: await store.read(info.ledger) for info in await store.list()}
    return {ledger: sum(isinstance(fact, Cancelled) for fact in facts) for ledger, facts in ledgers.items()}


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_cancel_stops_working_agents_at_any_depth(store: Store, depth: int) -> None:
    """Child sessions are cancelled first. A parent that notices before it is cancelled itself does not continue without them."""
    digging, is_idle = asyncio.Event(), asyncio.Event()
    driving = asyncio.ensure_future(run_and_get_text(build_site(digging, depth).session("s", store=store)))
    await digging.wait()
    session = build_site(digging, depth).session("s", store=SlowCancelStore(store, is_idle))  # type: ignore[arg-type]
    cancelling = asyncio.ensure_future(session.cancel("stop it"))
    await asyncio.wait_for(driving, 60)
    is_idle.set()
    await cancelling
    assert [*(await count_cancels(store)).values()] == [1] * (depth + 1)
    assert (await session.refresh()).status == "cancelled"
    assert [fact.reason for fact in session.facts if isinstance(fact, Cancelled)] == ["stop it"]
    assert (await session.run("Go on")).text == "All done."
    await check_child_sessions_are_kept(store)


async def test_next_driver_finishes_an_interrupted_cancel(store: Store) -> None:
    world = World()
    await start_pending_session(store, world)
    with pytest.raises(StoreFull):
        await build_office(world).session("s", store=DyingParentStore(store, Cancelled)).cancel("stop it")
    session = build_office(world).session("s", store=store)
    assert (await session.resume()).status == "cancelled"
    assert [*(await count_cancels(store)).values()] == [1, 1]
    assert (await session.run("Never mind")).text == "All done."
    assert world.effects == []
    await check_child_sessions_are_kept(store)


class DyingAfterFirstCancelStore(FailOnFactStore):
    """A store that fails after the cancel of one session."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Cancelled)
        self._first = ""

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if any(isinstance(fact, Cancelled) for fact in facts):
            self._first = self._first or ledger
        if ledger == self._first:
            return await self._store.append(ledger, expected, facts, **more)
        return await super().append(ledger, expected, facts, **more)


async def test_finishing_a_cancel_stops_all_child_sessions(store: Store) -> None:
    world = World()
    helper = make_payer(world, call("pay", to="ann", cents=5), "Ann is paid.")
    model = ScriptedModel(by_agent={"boss": [[call("ask_payer", task="Pay"), call("ask_payer", task="Pay")], "All done."]})
    workflow = HandoffBuilder("office", [Agent("boss", model=model, tools=[helper.as_tool()])]).build()
    session = workflow.session("s", store=store)
    requests = (await session.run("Pay twice")).pending
    handles = [session.find_session_of(request) for request in requests]
    with pytest.raises(StoreFull):
        await workflow.session("s", store=DyingAfterFirstCancelStore(store)).cancel()  # type: ignore[arg-type]
    with pytest.raises(StoreFull):
        await workflow.session("s", store=DyingParentStore(store, Cancelled)).resume()  # type: ignore[arg-type]
    for handle, request in zip(handles, requests, strict=True):
        with pytest.raises(NotPending):
            await handle.approve(request)
    assert (await session.resume()).status == "cancelled"
    assert [*(await count_cancels(store)).values()] == [1, 1, 1]
    assert world.effects == []
    await check_child_sessions_are_kept(store)


async def test_message_after_interrupted_cancel_is_answered(store: Store) -> None:
    world = World()
    await start_pending_session(store, world)
    with pytest.raises(StoreFull):
        await build_office(world).session("s", store=DyingParentStore(store, Cancelled)).cancel()
    session = build_office(world).session("s", store=store)
    assert (await session.run("Are you there?")).text == "All done."
    assert "was cancelled" in conversation_checks.list_outputs((await conversation_checks.rebuild_requests(session))[-1])[0]
    assert [*(await count_cancels(store)).values()].count(1) == 1
    await check_child_sessions_are_kept(store)


async def test_message_right_after_a_cancel_is_answered(store: Store) -> None:
    """A message that follows a cancel at once is not stopped by a cancel that is recorded later."""
    digging, is_idle = asyncio.Event(), asyncio.Event()
    driving = asyncio.ensure_future(run_and_get_text(build_site(digging, 1).session("s", store=store)))
    await digging.wait()
    cancelling = asyncio.ensure_future(build_site(digging, 1).session("s", store=SlowCancelStore(store, is_idle)).cancel())  # type: ignore[arg-type]
    await asyncio.wait_for(driving, 60)
    session = build_site(digging, 1).session("s", store=store)
    await session.say("Go on")
    is_idle.set()
    await cancelling
    assert (await session.resume()).text == "All done."
    assert [*(await count_cancels(store)).values()] == [1, 1]


class DelayedStore:
    """A store that delays the notifications of the parent session and the start of the child session."""

    def __init__(self, store: Store) -> None:
        self._store, self.child_requested, self.allow_child = store, asyncio.Event(), asyncio.Event()
        self._listeners: list[Callable[[int], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        if ledger != "s" and expected == 0:
            self.child_requested.set()
            await self.allow_child.wait()
        return await self._store.append(ledger, expected, facts, **more)

    def watch(self, ledger: str, position: int, moved: Callable[[int], None]) -> Callable[[], None]:
        if ledger != "s":
            return self._store.watch(ledger, position, moved)
        self._listeners.append(moved)
        return lambda: self._listeners.remove(moved)

    async def notify(self) -> None:
        length = len(await self._store.read("s"))
        for moved in [*self._listeners]:
            moved(length)


async def wait_until_child_is_cancelled(store: Store) -> None:
    """Wait until the child session is cancelled."""
    (inner,) = {*await list_lengths(store)} - {"s"}
    async with asyncio.timeout(60):
        while Cancelled not in map(type, facts := await store.read(inner)):
            await store.wait(inner, len(facts), 60)


async def test_child_started_after_a_cancel_is_stopped(store: Store) -> None:
    digging, behind = asyncio.Event(), DelayedStore(store)
    driving = asyncio.ensure_future(run_and_get_text(build_site(digging, 1).session("s", store=behind)))  # type: ignore[arg-type]
    await behind.child_requested.wait()
    session = build_site(digging, 1).session("s", store=store)
    await session.cancel("stop it")
    assert [*(await count_cancels(store)).values()] == [1], "there is no child session yet"
    behind.allow_child.set()
    await digging.wait()
    await behind.notify()
    await asyncio.wait_for(driving, 60)
    await wait_until_child_is_cancelled(store)
    assert (await session.run("Go on")).text == "All done."
    assert [*(await count_cancels(store)).values()] == [1, 1]
    assert await store.list_runnable() == []
    await check_child_sessions_are_kept(store)


async def test_child_started_during_a_cancel_is_stopped(store: Store) -> None:
    digging, behind = asyncio.Event(), DelayedStore(store)

    class Slow(SlowCancelStore):
        async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
            if ledger == "s":
                behind.allow_child.set()
                await digging.wait()
            return await super().append(ledger, expected, facts, **more)

    driving = asyncio.ensure_future(run_and_get_text(build_site(digging, 1).session("s", store=behind)))  # type: ignore[arg-type]
    await behind.child_requested.wait()
    await build_site(digging, 1).session("s", store=Slow(store, digging)).cancel("stop it")  # type: ignore[arg-type]
    assert [*(await count_cancels(store)).values()] == [1, 1]
    await behind.notify()
    await asyncio.wait_for(driving, 60)
    await check_child_sessions_are_kept(store)


async def test_next_driver_stops_an_orphaned_child(store: Store) -> None:
    """A child session whose driver died at the cancel of its parent is stopped by the next driver."""
    session = await start_pending_session(store, World())
    inner = session.find_session_of(session.pending[0])
    await session.cancel()
    await inner.say("Pay bob too")  # as if it had started only then
    assert (await inner.refresh()).status == "running"
    assert (await session.run("Never mind")).text == "All done."
    assert (await inner.refresh()).status == "cancelled"
    assert await store.list_runnable() == []


async def test_child_is_not_runnable_when_parent_is_idle(store: Store) -> None:
    """A child that was stopped, superseded or forked with its parent becomes idle with it."""
    session = await start_pending_session(store, World())
    branch = await session.fork(id="branch")
    assert {info.ledger for info in await store.list_runnable()} == {"branch", branch.find_session_of(branch.pending[0]).id}
    assert (await branch.resume()).status == "pending"
    assert await store.list_runnable() == []
    await session.cancel()
    await session.resume()
    assert await store.list_runnable() == []
    other = build_office(World(), messages="supersede").session("other", store=store)
    await other.run("Pay ann")
    assert (await other.run("Never mind")).text == "All done."
    assert await store.list_runnable() == []


async def test_cancelled_child_lets_its_parent_continue(store: Store) -> None:
    session = await start_pending_session(store, World())
    await session.find_session_of(session.pending[0]).cancel()
    assert (await session.resume()).text == "All done."
    assert (await count_cancels(store))["s"] == 0


# -- branches ----------------------------------------------------------------------------------------------------------


async def test_approval_in_one_branch_is_not_shared(store: Store) -> None:
    world = World()
    trunk = await start_pending_session(store, world)
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
    assert world.count("paid 5 to ann") == 1
    await check_child_sessions_are_kept(store)


async def test_fork_at_every_position_repeats_no_deed(store: Store) -> None:
    """A fork at every position has requests of its own, and repeats no deed without a decision."""
    world = World()
    looking = [call("look_up", to="ann"), call("pay", to="ann", cents=5)]
    trunk = await start_pending_session(store, world, looking, "Ann is paid.")
    await trunk.approve(trunk.pending[0])
    await trunk.resume()
    facts = trunk.facts
    (paused,) = [position for position, fact in enumerate(facts) if isinstance(fact, CallPaused)]
    for at in range(paused + 1, len(facts) + 1):
        branch = await trunk.fork(at, f"branch-{at}")
        result = await branch.resume()
        if result.status == "pending":
            waits = branch.state.batch[0].pause is not None
            # The approval belongs to the trunk, and what the child session did after it is unknown in the branch.
            assert [request.tool for request in result.pending] == ["pay" if waits else "ask_payer"]
            await branch.reject(result.pending[0], "not here")
            result = await branch.resume()
        assert result.status == "waiting"
        await conversation_checks.rebuild_requests(branch)
    assert world.count("looked up ann") == world.count("paid 5 to ann") == 1
    assert (await trunk.refresh()).facts == facts
    await check_child_sessions_are_kept(store)


async def test_branches_with_similar_ids_stay_separate(store: Store) -> None:
    world = World()
    trunk = build_office(world).session("x" * 399 + "1", store=store)
    await trunk.run("Pay ann")
    branch = await trunk.fork(id="x" * 399 + "2")
    assert trunk.pending[0].session != branch.pending[0].session
    await trunk.approve(trunk.pending[0])
    await trunk.resume()
    assert len((await branch.refresh()).pending) == 1


# -- copies and moves --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [False, True], ids=["copied", "moved"])
@pytest.mark.parametrize("answered", [False, True], ids=["pending", "answered"])
async def test_loaded_child_asks_again_unless_moved(store: Store, answered: bool, move: bool) -> None:
    world = World()
    session = await start_pending_session(store, world)
    original = session.pending[0]
    if answered:
        await session.approve(original)
    text = await session.to_string(sign_with=b"k" * 32)
    copy = await build_office(world).load(text, store=MemoryStore(), verify_with=b"k" * 32, move=move).refresh()
    assert [request.tool for request in copy.pending] == ([] if answered and move else ["pay"])
    for request in copy.pending:
        assert request.id != original.id
        await copy.approve(request)
    assert (await copy.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1
    again = await build_office(world).load(text, store=store, verify_with=b"k" * 32).refresh()
    assert again.facts == session.facts  # in the store it comes from, it is the same conversation
    assert again.pending == session.pending


async def test_string_with_an_unused_child_session_is_refused(store: Store) -> None:
    session = await start_pending_session(store, World())
    text = await session.to_string()
    key = session.pending[0].session.partition("/")[2]
    with pytest.raises(CodecError, match="child session of no call"):
        build_office(World()).load(text.replace(f'"{key}"', '"other"'))


# -- changed definitions -----------------------------------------------------------------------------------------------


async def test_call_of_a_removed_tool_is_answered(store: Store) -> None:
    world = World()
    await start_pending_session(store, world)
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay ann"), "I cannot pay any more."]})
    session = HandoffBuilder("office", [Agent("boss", model=model)]).build().session("s", store=store)
    assert (await session.resume()).text == "I cannot pay any more."
    assert "no longer there" in conversation_checks.list_outputs((await conversation_checks.rebuild_requests(session))[-1])[0]


async def test_renamed_agent_pauses_the_caller_of_its_child(store: Store) -> None:
    """The work of the child session must not be repeated: the session fails, and continues when the agent has its name again."""
    world = World()
    await start_pending_session(store, world)
    other = Agent("lender", model=ScriptedModel(["I lend."])).as_tool(name="ask_payer")
    model = ScriptedModel(by_agent={"boss": [call("ask_payer", task="Pay ann"), "So be it."]})
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[other])]).build().session("s", store=store)
    result = await session.resume()
    assert result.status == "failed"
    assert "belongs to workflow 'payer'" in result.error
    session = build_office(world).session("s", store=store)
    (request,) = (await session.resume()).pending
    await session.approve(request)
    assert (await session.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


async def test_missing_child_session_asks_for_its_outcome(store: Store) -> None:
    """The child session may have paid, so it starts again only if a person approves."""
    world = World()
    session = await start_pending_session(store, world)
    (request,) = session.pending
    await store.delete(request.session)
    result = await session.resume()
    (outcome,) = result.pending
    assert (outcome.kind, outcome.tool, outcome.session) == ("outcome", "ask_payer", session.id)
    assert not await store.read(request.session)
    await session.approve(outcome)
    (again,) = (await session.resume()).pending
    assert (again.kind, again.tool, again.session) == ("approval", "pay", request.session)
    assert again.id != request.id
    await session.approve(again)
    assert (await session.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 1


async def test_missing_grandchild_session_asks_for_its_outcome(store: Store) -> None:
    """Only its own parent session can record the loss, so that session is driven although it waits."""
    world = World()
    helper = make_payer(world, call("pay", to="ann", cents=5), "Ann is paid.")
    middle = Agent("middle", model=ScriptedModel([call("ask_payer", task="Pay ann"), "Passed on."]), tools=[helper.as_tool()])
    model = ScriptedModel([call("ask_middle", task="Pay ann"), "All done."])
    session = HandoffBuilder("office", [Agent("boss", model=model, tools=[middle.as_tool()])]).build().session("s", store=store)
    (request,) = (await session.run("Pay ann")).pending
    await store.delete(request.session)
    (outcome,) = (await session.resume()).pending
    assert (outcome.kind, outcome.tool) == ("outcome", "ask_payer")
    await session.answer(outcome, "Ann was paid in cash.")
    assert (await session.resume()).text == "All done."
    assert world.count("paid 5 to ann") == 0


async def test_waiting_does_not_count_as_tool_calls(store: Store) -> None:
    """Waiting does not count against the limit of tool calls, and costs one attempt per answer."""
    world = World()
    batch = [call("pay", to=name, cents=1) for name in ("ann", "bob", "cyd")]
    session = await start_pending_session(store, world, batch, "Paid.")
    while session.pending:
        await session.approve(session.pending[0])
        await session.resume()
    assert session.state.run_counters.tool_calls == 1
    assert [fact.attempt for fact in session.facts if isinstance(fact, CallStarted)] == [1, 2, 3, 4]
    assert all(isinstance(request, Pending) for request in session.pending)
    assert len(world.effects) == 3
