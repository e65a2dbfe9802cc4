"""Usage, cost, many sessions and long ones (10, 45, 46, 47)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import pairwise
from typing import Any

from legato import Agent, HandoffBuilder, Limits, Usage, Workflow, tool
from legato.core.facts import HandedOff, MessageReceived, ModelReplied, Opened, OutputText
from legato.core.view import ModelRequest
from legato.models import ModelReply
from legato.stores import MemoryStore, SQLiteStore
from legato.stores.contract import Store
from legato.testing import ScriptedModel, call, handoff
from tests.stories import conversation_checks


class CountingStore:
    """A store that counts appends and the facts that are read."""

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
        facts = await self._store.read(ledger, start, **more)
        self.facts_read += len(facts)
        return facts


def build_ping_pong(handoffs: int) -> tuple[Workflow, list[int]]:
    sizes: list[int] = []

    def play(seen: ModelRequest) -> Any:
        sizes.append(len(seen.groups))
        return "Enough." if seen.reply_count == handoffs else handoff("pong" if seen.agent == "ping" else "ping")

    class CheapModel(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> ModelReply:
            chosen = play(request)
            item = OutputText(chosen) if isinstance(chosen, str) else chosen
            return ModelReply(items=(item,), usage=Usage(input=1, output=1))

    model = CheapModel(lambda seen: "")
    return HandoffBuilder("game", [Agent("ping", model=model), Agent("pong", model=model)]).build(), sizes


async def test_run_of_800_handoffs_costs_linear_work(store: Store) -> None:
    workflow, sizes = build_ping_pong(800)
    counting = CountingStore(store)
    session = workflow.session("s", store=counting)
    result = await session.run("Play")
    assert result.text == "Enough."
    assert sum(isinstance(fact, HandedOff) for fact in session.facts) == 800
    assert sizes == [1 + turn for turn in range(801)]  # each request is one reply longer, no more
    assert len(counting.appends) == 1 + 801  # the message, and one append per reply
    assert max(counting.appends) <= 3
    assert counting.facts_read < 20  # nothing is read again
    first, last = await session.seen(0), await session.seen(800)
    conversation_checks.check_request(first, session.facts)
    conversation_checks.check_request(last, session.facts)


async def test_parallel_sessions_share_no_messages() -> None:
    """Of 1,000 sessions at once, none sees the messages of another."""
    leaks: list[str] = []

    def play(seen: ModelRequest) -> Any:
        texts = {message.text for message in seen.messages if message.role == "user"}
        if texts != {f"I am {seen.session_id}"}:
            leaks.append(f"{seen.session_id} saw {texts}")
        return (
            f"Goodbye {seen.session_id}" if seen.reply_count == 10 else handoff("b" if seen.agent == "a" else "a", f"for {seen.session_id}")
        )

    model = ScriptedModel(play)
    workflow = HandoffBuilder("crowd", [Agent("a", model=model), Agent("b", model=model)]).build()
    store = MemoryStore()
    sessions = [workflow.session(f"guest-{number}", store=store) for number in range(1000)]
    results = await asyncio.gather(*(session.run(f"I am {session.id}") for session in sessions))
    assert leaks == []
    assert [result.text for result in results] == [f"Goodbye {session.id}" for session in sessions]
    for session in sessions[::97]:
        requests = await conversation_checks.rebuild_requests(session)
        assert len(requests) == 11
        assert f"for {session.id}" in str(requests[-1].messages[1].calls)
    # Only the store keeps a conversation: without handles, no folded state remains in memory.
    handles = [weakref.ref(session) for session in sessions]
    del session, sessions, results, requests
    await asyncio.sleep(0)  # the event loop drops its last references
    gc.collect()
    assert sum(handle() is not None for handle in handles) == 0


async def test_one_store_serves_100_parallel_sessions(store: Store) -> None:
    model = ScriptedModel(
        lambda seen: f"Goodbye {seen.session_id}" if seen.reply_count == 4 else handoff("b" if seen.agent == "a" else "a")
    )
    workflow = HandoffBuilder("crowd", [Agent("a", model=model), Agent("b", model=model)]).build()
    sessions = [workflow.session(f"guest-{number}", store=store) for number in range(100)]
    results = await asyncio.gather(*(session.run(f"I am {session.id}") for session in sessions))
    assert [result.text for result in results] == [f"Goodbye {session.id}" for session in sessions]
    for session in sessions[::9]:
        requests = await conversation_checks.rebuild_requests(session)
        assert conversation_checks.list_texts(requests[-1]) == [f"I am {session.id}"]


async def test_long_session_costs_one_append_per_step(store: Store) -> None:
    """A session of 10,000 facts is read once, and costs one append per step."""

    async def read_context_digest() -> str:
        await workflow.session("model", store=store).run("Hello")
        (reply,) = [fact for fact in await store.read("model") if isinstance(fact, ModelReplied)]
        return reply.context_digest

    workflow = HandoffBuilder("long", [Agent("a", model=ScriptedModel(lambda seen: "Short."))]).build()
    context_digest = await read_context_digest()
    facts: list[Any] = [Opened(at=1, ledger_id="long-ledger", workflow="long")]
    while len(facts) < 10_000:
        facts.append(MessageReceived(at=len(facts), content=f"Message {len(facts)}"))
        facts.append(
            ModelReplied(
                at=len(facts), agent="a", context_digest=context_digest, upto=len(facts) - 1, items=(OutputText(f"Reply {len(facts)}"),)
            )
        )
    await store.append("long", 0, facts, contents={context_digest: await store.content("model", context_digest)})
    counting = CountingStore(store)
    session = workflow.session("long", store=counting)
    await session.refresh()
    assert session.status == "waiting"
    assert counting.facts_read == len(facts)
    await session.run("One more")
    assert counting.appends == [1, 1]  # the message, and the reply
    assert counting.facts_read == len(facts)  # not read again
    last = await session.seen(-1)
    assert len(last.messages) == len(facts)


async def test_usage_sums_equal_the_providers_numbers(store: Store, stream: bool) -> None:
    usages: list[tuple[str, Usage]] = []

    @tool
    async def look() -> str:
        return "seen"

    class BillingModel(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> ModelReply:
            reply = await super().reply(request, emit)
            usage = Usage(
                input=100 + request.reply_count,
                output=10 + request.reply_count,
                cached=7,
                reasoning=3,
                cost=1_000_001 * (request.reply_count + 1),
            )
            usages.append((request.agent, usage))
            return ModelReply(items=reply.items, usage=usage)

    model = BillingModel(by_agent={"a": [call("look"), handoff("b"), "Bye."], "b": ["Hm.", handoff("a")]})
    agents = [Agent("a", model=model, tools=[look]), Agent("b", model=model)]
    session = HandoffBuilder("bill", agents).build().session("s", store=store)
    results = [await session.run("One", stream=stream), await session.run("Two", stream=stream)]
    total = sum((usage for _, usage in usages), Usage())
    assert session.usage == total
    assert sum((result.usage for result in results), Usage()) == total
    assert session.usage_by_agent == {name: sum((usage for agent, usage in usages if agent == name), Usage()) for name in "ab"}
    first, second = session.usage_by_handoff
    assert first[:2] == ("a", "b")
    assert second[:2] == ("b", "a")
    before = sum((usage for _, usage in usages[:2]), Usage())  # before the first handoff
    assert before + first[2] + second[2] == total
    assert sum((fact.usage for fact in session.facts if isinstance(fact, ModelReplied)), Usage()) == total


async def test_budget_pauses_before_it_is_exceeded(store: Store) -> None:
    class ExpensiveModel(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Any) -> ModelReply:
            reply = await super().reply(request, emit)
            return ModelReply(items=reply.items, usage=Usage(input=90, output=10, cost=10_000_000))

    for number, limits in enumerate((Limits(tokens=450), Limits(cost=0.045))):
        workflow = HandoffBuilder("dear", [Agent("a", model=ExpensiveModel(lambda seen: "So."))]).with_limits(limits).build()
        session = workflow.session(f"s{number}", store=store)
        for _ in range(10):
            result = await session.run("Go on")
            if result.status == "pending":
                break
        assert session.usage.total == 400  # a fifth request would exceed 450
        (request,) = result.pending
        assert request.kind == "limit"
        assert "budget" in request.prompt
        await session.approve(request)
        assert (await session.resume()).text == "So."
        assert session.usage.total == 500


async def test_export_grows_linearly_with_messages(tmp_path: Any) -> None:
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
