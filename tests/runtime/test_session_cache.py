"""What was read of a session is kept for its next handle: who serves people request by request does not pay for the past again."""

import asyncio
import gc
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.state import fold
from legato.errors import BadInput
from legato.runtime.session_cache import SESSIONS, CachedState, SessionCache
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import FailingStore, ScriptedModel, call, handoff
from tests.core.meaning import meaning


class Counting(MemoryStore):
    """Counts the facts that are read, except for the last one of a cached state, by which it is recognised."""

    read_facts = 0

    async def read(self, ledger, start=0, *, born=""):
        facts = await super().read(ledger, start, born=born)
        self.read_facts += max(len(facts) - bool(start), 0)
        return facts


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "s.db")
    yield opened
    await opened.close()


def desk():
    """Two agents; one of them pays when a person has approved it."""

    @tool(needs_approval=True)
    async def pay(order: str) -> str:
        return f"paid {order}"

    def reply(seen):
        last = seen.messages[-1]
        if last.role == "tool" and "paid" in last.text:
            return "Done."
        return handoff("payer") if seen.agent == "clerk" else call("pay", order=last.text)

    model = ScriptedModel(reply)
    return HandoffBuilder("desk", [Agent("clerk", model=model), Agent("payer", model=model, tools=[pay])]).build()


async def cycle(workflow, store, number):
    """One message, answered by two handles, as two requests to a web server would be."""
    await workflow.session("s", store=store).run(f"order {number}")
    session = await workflow.session("s", store=store).refresh()
    for request in session.pending:
        await session.approve(request)
    return await session.resume()


async def test_a_new_handle_reads_only_what_the_last_one_had_not():
    store, workflow = Counting(), desk()
    for number in range(20):
        result = await cycle(workflow, store, number)
        assert result.text == "Done."
    assert store.read_facts == 0, "nobody else has appended anything, so nothing was new to anybody"


async def test_the_next_handle_need_not_read_again():
    store, workflow = Counting(), desk()
    await workflow.session("s", store=store).run("order 1")
    SESSIONS.clear(store)
    first = await workflow.session("s", store=store).refresh()
    assert store.read_facts == len(first.facts)
    second = await workflow.session("s", store=store).refresh()
    assert (store.read_facts, second.facts) == (len(first.facts), first.facts)


async def test_a_state_that_went_from_handle_to_handle_is_the_fold_of_the_ledger(store):
    workflow = desk()
    for number in range(5):
        await cycle(workflow, store, number)
    session = await workflow.session("s", store=store).refresh()
    assert meaning(session.state) == meaning(fold(await store.read("s"), "s"))


async def test_what_another_process_appended_since_is_read(tmp_path):
    workflow = desk()
    async with SQLiteStore(tmp_path / "s.db") as here, SQLiteStore(tmp_path / "s.db") as elsewhere:
        await cycle(workflow, here, 1)
        await cycle(workflow, elsewhere, 2)
        session = await workflow.session("s", store=here).refresh()
        assert session.facts == list(await elsewhere.read("s"))


async def test_one_handle_goes_on_without_the_other(store):
    workflow = desk()
    await cycle(workflow, store, 1)
    one = await workflow.session("s", store=store).refresh()
    two = await workflow.session("s", store=store).refresh()
    before = len(two.facts)
    await one.run("order 2")
    assert len(two.facts) == before, "what one handle has read, the other has not until it refreshes"
    await two.refresh()
    assert two.facts == one.facts


async def test_a_session_that_was_deleted_and_made_anew_is_not_taken_for_the_old_one(store):
    workflow = desk()
    await cycle(workflow, store, 1)
    await store.delete("s")
    assert (await workflow.session("s", store=store).refresh()).status == "new"
    await workflow.session("s", store=store).run("order 7")
    session = await workflow.session("s", store=store).refresh()
    assert [message.text for message in session.messages] == ["order 7"]


async def test_what_was_proposed_and_never_recorded_is_not_kept():
    base, workflow = MemoryStore(), desk()
    failing = FailingStore(base, lambda operation, when, number: OSError("gone") if operation == "append" and number > 3 else None)
    with pytest.raises(OSError, match="gone"):
        await workflow.session("s", store=failing).run("order 1")
    recorded = list(await base.read("s"))
    session = workflow.session("s", store=failing)
    assert (await session.refresh()).facts == recorded


async def test_what_was_used_longest_ago_makes_room(monkeypatch):
    monkeypatch.setattr(SESSIONS, "_max_bytes", 0)  # whatever other tests have left
    SESSIONS.put(MemoryStore(), "s", "kind", None, 0)
    monkeypatch.setattr(SESSIONS, "_max_bytes", 50_000)
    store, workflow = Counting(), desk()
    for name in ("a", "b", "c", "d"):
        await workflow.session(name, store=store).run("order " + "1" * 15_000)
    store.read_facts = 0
    for name in ("d", "c"):
        await workflow.session(name, store=store).refresh()
    assert store.read_facts == 0
    await workflow.session("a", store=store).refresh()
    assert store.read_facts > 0, "it had to make room"
    await workflow.session("e", store=store).run("order " + "1" * 100_000)
    assert SESSIONS.bytes <= 50_000
    assert SESSIONS.get(store, "e", CachedState) is None


@pytest.mark.parametrize("looked_at", [lambda state: state, lambda state: state.groups, lambda state: state.facts])
async def test_what_is_looked_at_does_not_move(store, looked_at):
    workflow = desk()
    await cycle(workflow, store, 1)
    held = looked_at((await workflow.session("s", store=store).refresh()).state)
    before = len(held.facts if hasattr(held, "facts") else held)
    await cycle(workflow, store, 2)
    assert len(held.facts if hasattr(held, "facts") else held) == before


async def test_handles_in_other_threads_go_on_alone(tmp_path):
    workflow, problems = desk(), []
    async with SQLiteStore(tmp_path / "s.db") as store:
        await cycle(workflow, store, 1)
        session = await workflow.session("s", store=store).refresh()
        before, length = meaning(session.state), session.state.length

        def elsewhere():
            try:
                asyncio.run(cycle(workflow, store, 2))
            except BaseException as error:
                problems.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert (problems, meaning(session.state)) == ([], before)
        assert (await session.refresh()).state.length > length


@pytest.mark.parametrize("since", ["nothing", "another message"])
async def test_a_store_that_was_restored_from_an_older_copy_is_believed(tmp_path, since):
    workflow = desk()
    async with SQLiteStore(tmp_path / "s.db") as store:
        await cycle(workflow, store, 1)
        with closing(sqlite3.connect(tmp_path / "s.db")) as file, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            file.backup(copy)
            await cycle(workflow, store, 2)
            copy.backup(file)
        if since == "another message":
            async with SQLiteStore(tmp_path / "s.db") as elsewhere:
                await cycle(workflow, elsewhere, 3)
                await cycle(workflow, elsewhere, 4)
        assert (await workflow.session("s", store=store).refresh()).facts == list(await store.read("s"))
        result = await cycle(workflow, store, 5)
        assert result.status == "waiting"
        said = [message.text for message in result.session.messages if message.role == "user"]
        assert said == ["order 1", *(["order 3", "order 4"] if since == "another message" else []), "order 5"]


async def test_a_run_takes_a_state_that_is_its_own(store):
    workflow = desk()
    session = workflow.session("s", store=store)
    await session.run("order 1")
    mine = session.state
    await session.refresh()
    await session.run("order 2")
    assert session.state is mine
    other = await workflow.session("s", store=store).refresh()
    assert other.state is mine
    length = mine.length
    await session.run("order 3")
    assert (other.state.length, session.state is mine) == (length, False)


async def test_what_is_loaded_is_cached_with_its_calls_filed():
    """Another thread may look at it before the handle that loaded it does."""
    workflow, changed = desk(), []

    class Watched(MemoryStore):
        async def read(self, ledger, start=0, *, born=""):
            if (cached := SESSIONS.get(self, ledger, CachedState)) is not None:
                changed.append(len(cached.state.open.changed))
            return await super().read(ledger, start, born=born)

    session = workflow.session("s", store=MemoryStore())
    assert (await session.run("order 1")).pending
    await workflow.load(await session.to_string(), id="t", store=Watched()).refresh()
    assert changed == [0]


def test_a_forked_child_begins_with_an_empty_cache():
    store = MemoryStore()
    SESSIONS.put(store, "s", "kind", "value", 1)
    with SESSIONS._lock:  # as another thread may have it at that moment
        child = os.fork()
        if not child:
            SESSIONS.put(store, "t", "kind", "value", 1)
            os._exit(0 if SESSIONS.get(store, "s", "kind") is None and SESSIONS.get(store, "t", "kind") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert SESSIONS.get(store, "s", "kind")


def test_a_store_that_is_gone_keeps_nothing():
    cache, here, gone = SessionCache(1_000), MemoryStore(), MemoryStore()
    for name in "abc":
        cache.put(gone, name, "kind", name, 100)
    cache.put(here, "a", "kind", "other", 100)
    del gone
    gc.collect()
    cache.put(here, "b", "kind", "more", 100)
    assert (cache.bytes, cache.get(here, "a", "kind")) == (200, "other")


def test_values_are_kept_by_kind_and_replaced():
    cache, store = SessionCache(1_000), MemoryStore()
    cache.put(store, "s", "one", "first", 400)
    cache.put(store, "s", "one", "second", 300)
    cache.put(store, "s", "two", "other", 300)
    assert (cache.bytes, cache.get(store, "s", "one")) == (600, "second")
    cache.drop(store, "s", "one")
    assert (cache.bytes, cache.get(store, "s", "one"), cache.get(store, "s", "two")) == (300, None, "other")


def test_stores_without_a_hash_are_not_cached():
    class Nameless(MemoryStore):
        __hash__ = None

    cache, store = SessionCache(1_000), Nameless()
    cache.put(store, "s", "kind", "value", 1)
    cache.clear(store)
    assert cache.get(store, "s", "kind") is None


def test_the_environment_sets_the_budget(monkeypatch):
    monkeypatch.setenv("LEGATO_CACHE_BYTES", "12345")
    assert SessionCache().max_bytes == 12_345
    monkeypatch.setenv("LEGATO_CACHE_BYTES", "64 MB")
    with pytest.raises(BadInput, match="LEGATO_CACHE_BYTES is a number of bytes"):
        _ = SessionCache().max_bytes
