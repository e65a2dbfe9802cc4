"""Many, long and dear (10, 45, 46, 47)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import pairwise
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Usage, Workflow, tool
from legato.core.facts import HandedOff, MessageReceived, ModelReplied, Opened, Words
from legato.core.view import Request
from legato.models import Reply
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from tests.stories import checking


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.appends: list[int] = []
        self.facts_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, ledger: str, expected: int, facts: Any, **more: Any) -> int:
        self.appends.append(len(facts))
        return await self._store.append(ledger, expected, facts, **more)

    async def read(self, ledger: str, start: int = 0, **more: Any) -> Any:
        found = await self._store.read(ledger, start, **more)
        self.facts_read += len(found)
        return found


def ping_pong(handoffs: int) -> tuple[Workflow, list[int]]:
    sizes: list[int] = []

    def play(seen: Request) -> Any:
        sizes.append(len(seen.groups))
        return "Enough." if seen.turn == handoffs else handoff("pong" if seen.agent == "ping" else "ping")

    class Cheap(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Reply:
            chosen = play(request)
            item = Words(chosen) if isinstance(chosen, str) else chosen
            return Reply(items=(item,), usage=Usage(input=1, output=1))

    model = Cheap(lambda seen: "")
    return HandoffBuilder("game", [Agent("ping", model=model), Agent("pong", model=model)]).build(), sizes


async def test_hand_back_and_forth_800_times_in_one_run(store: Store) -> None:
    workflow, sizes = ping_pong(800)
    counting = Counting(store)
    session = workflow.session("s", store=counting)
    result = await session.run("Play")
    assert result.text == "Enough."
    assert sum(isinstance(fact, HandedOff) for fact in session.facts) == 800
    assert sizes == [1 + turn for turn in range(801)]  # each request is one reply longer, no more
    assert len(counting.appends) == 1 + 801  # the message, and one append per reply
    assert max(counting.appends) <= 3
    assert counting.facts_read < 20  # nothing is read again
    first, last = await session.seen(0), await session.seen(800)
    checking.check_request(first, session.facts)
    checking.check_request(last, session.facts)


async def test_1000_conversations_at_once_none_sees_anothers_words() -> None:
    leaks: list[str] = []

    def play(seen: Request) -> Any:
        words = {message.text for message in seen.messages if message.role == "user"}
        if words != {f"I am {seen.session}"}:
            leaks.append(f"{seen.session} saw {words}")
        return f"Goodbye {seen.session}" if seen.turn == 10 else handoff("b" if seen.agent == "a" else "a", f"for {seen.session}")

    model = ScriptedModel(play)
    workflow = HandoffBuilder("crowd", [Agent("a", model=model), Agent("b", model=model)]).build()
    store = MemoryStore()
    sessions = [workflow.session(f"guest-{number}", store=store) for number in range(1000)]
    results = await asyncio.gather(*(session.run(f"I am {session.id}") for session in sessions))
    assert leaks == []
    assert [result.text for result in results] == [f"Goodbye {session.id}" for session in sessions]
    for session in sessions[::97]:
        requests = await checking.requests_of(session)
        assert len(requests) == 11
        assert f"for {session.id}" in str(requests[-1].messages[1].calls)
    # Nobody keeps a conversation but the store: with the handles gone, all they had folded is gone.
    handles = [weakref.ref(session) for session in sessions]
    del session, sessions, results, requests
    await asyncio.sleep(0)  # the event loop lets go of what it has just delivered
    gc.collect()
    assert sum(handle() is not None for handle in handles) == 0


async def test_100_conversations_at_once_in_one_file(store: Store) -> None:
    model = ScriptedModel(lambda seen: f"Goodbye {seen.session}" if seen.turn == 4 else handoff("b" if seen.agent == "a" else "a"))
    workflow = HandoffBuilder("crowd", [Agent("a", model=model), Agent("b", model=model)]).build()
    sessions = [workflow.session(f"guest-{number}", store=store) for number in range(100)]
    results = await asyncio.gather(*(session.run(f"I am {session.id}") for session in sessions))
    assert [result.text for result in results] == [f"Goodbye {session.id}" for session in sessions]
    for session in sessions[::9]:
        requests = await checking.requests_of(session)
        assert checking.said(requests[-1]) == [f"I am {session.id}"]


async def test_a_10000_fact_conversation_opens_fast_and_costs_one_append_per_step(store: Store) -> None:
    async def frame_of_a_first_reply() -> str:
        await workflow.session("model", store=store).run("Hello")
        (reply,) = [fact for fact in await store.read("model") if isinstance(fact, ModelReplied)]
        return reply.frame

    workflow = HandoffBuilder("long", [Agent("a", model=ScriptedModel(lambda seen: "Short."))]).build()
    frame = await frame_of_a_first_reply()
    facts: list[Any] = [Opened(at=1, ledger="long-ledger", workflow="long")]
    while len(facts) < 10_000:
        facts.append(MessageReceived(at=len(facts), content=f"Message {len(facts)}"))
        facts.append(ModelReplied(at=len(facts), agent="a", frame=frame, upto=len(facts) - 1, items=(Words(f"Reply {len(facts)}"),)))
    await store.append("long", 0, facts, contents={frame: await store.content("model", frame)})
    counting = Counting(store)
    session = workflow.session("long", store=counting)
    await session.refresh()
    assert session.status == "waiting"
    assert counting.facts_read == len(facts)
    await session.run("One more")
    assert counting.appends == [1, 1]  # what was said, and what was answered
    assert counting.facts_read == len(facts)  # not read again
    last = await session.seen(-1)
    assert len(last.messages) == len(facts)


async def test_usage_per_agent_per_handoff_and_in_all_adds_up_to_the_providers_numbers(store: Store, stream: bool) -> None:
    spent: list[tuple[str, Usage]] = []

    @tool
    async def look() -> str:
        return "seen"

    class Billing(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Reply:
            reply = await super().reply(request, emit)
            usage = Usage(input=100 + request.turn, output=10 + request.turn, cached=7, reasoning=3, cost=1_000_001 * (request.turn + 1))
            spent.append((request.agent, usage))
            return Reply(items=reply.items, usage=usage)

    model = Billing(by_agent={"a": [call("look"), handoff("b"), "Bye."], "b": ["Hm.", handoff("a")]})
    agents = [Agent("a", model=model, tools=[look]), Agent("b", model=model)]
    session = HandoffBuilder("bill", agents).build().session("s", store=store)
    results = [await session.run("One", stream=stream), await session.run("Two", stream=stream)]
    total = sum((usage for _, usage in spent), Usage())
    assert session.usage == total
    assert sum((result.usage for result in results), Usage()) == total
    assert session.usage_by_agent == {name: sum((usage for agent, usage in spent if agent == name), Usage()) for name in "ab"}
    first, second = session.usage_by_handoff
    assert first[:2] == ("a", "b")
    assert second[:2] == ("b", "a")
    before = sum((usage for _, usage in spent[:2]), Usage())  # before the first handoff
    assert before + first[2] + second[2] == total
    assert sum((fact.usage for fact in session.facts if isinstance(fact, ModelReplied)), Usage()) == total


async def test_a_budget_pauses_before_it_is_broken_and_goes_on_when_allowed(store: Store) -> None:
    class Dear(ScriptedModel):
        async def reply(self, request: Request, emit: Any) -> Reply:
            reply = await super().reply(request, emit)
            return Reply(items=reply.items, usage=Usage(input=90, output=10, cost=10_000_000))

    for number, limits in enumerate((Limits(tokens=450), Limits(cost=0.045))):
        workflow = HandoffBuilder("dear", [Agent("a", model=Dear(lambda seen: "So."))]).with_limits(limits).build()
        session = workflow.session(f"s{number}", store=store)
        for _ in range(10):
            result = await session.run("Go on")
            if result.status == "pending":
                break
        assert session.usage.total == 400  # a fifth call would have gone beyond 450
        (request,) = result.pending
        assert request.kind == "limit"
        assert "budget" in request.prompt
        await session.approve(request)
        assert (await session.resume()).text == "So."
        assert session.usage.total == 500


async def test_a_file_grows_by_what_was_said_and_not_by_the_conversation(tmp_path: Any) -> None:
    async with SQLiteStore(tmp_path / "grow.db") as store:
        workflow = HandoffBuilder("grow", [Agent("a", model=ScriptedModel(lambda seen: "Yes."))]).build()
        session = workflow.session("s", store=store)
        sizes = []
        for _ in range(6):
            for _ in range(10):
                await session.run("word " * 20)
            sizes.append(len(await session.to_string()))
        steps = [after - before for before, after in pairwise(sizes)]
        assert max(steps) - min(steps) < 200  # linear: positions and times grow a digit now and then
