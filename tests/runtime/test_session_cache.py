"""The session cache: a state is kept for the next handle on its session, so that servers do not read it again for each request."""

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
from legato.runtime.session_cache import SESSION_CACHE, CachedState, SessionCache
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import FailingStore, ScriptedModel, call, handoff
from tests.core.plain_state import to_plain_values


class CountingStore(MemoryStore):
    """A store that counts the facts that are read, except for the last fact of a cached state, which is always read."""

    read_facts = 0

    async def read(self, ledger, start=0, *, ledger_id=""):
        facts = await super().read(ledger, start, ledger_id=ledger_id)
        self.read_facts += max(len(facts) - bool(start), 0)
        return facts


def make_workflow():
    """Return a workflow of two agents, one of which pays when a person has approved it."""

    @tool(needs_approval=True)
    async def pay(order: str) -> str:
        return f"paid {order}"

    def reply(request):
        last = request.messages[-1]
        if last.role == "tool" and "paid" in last.text:
            return "Done."
        return handoff("payer") if request.agent == "clerk" else call("pay", order=last.text)

    model = ScriptedModel(reply)
    return HandoffBuilder("desk", [Agent("clerk", model=model), Agent("payer", model=model, tools=[pay])]).build()


async def run_and_approve(workflow, store, number):
    """Send a message and approve its call, with two handles, like two requests to a web server."""
    await workflow.session("s", store=store).run(f"order {number}")
    session = await workflow.session("s", store=store).refresh()
    for request in session.pending:
        await session.approve(request)
    return await session.resume()


async def test_new_handle_reads_only_new_facts():
    store, workflow = CountingStore(), make_workflow()
    for number in range(20):
        result = await run_and_approve(workflow, store, number)
        assert result.text == "Done."
    assert store.read_facts == 0, "no facts were new to any handle"


async def test_next_handle_uses_cached_state():
    store, workflow = CountingStore(), make_workflow()
    await workflow.session("s", store=store).run("order 1")
    SESSION_CACHE.remove_store(store)
    first = await workflow.session("s", store=store).refresh()
    assert store.read_facts == len(first.facts)
    second = await workflow.session("s", store=store).refresh()
    assert (store.read_facts, second.facts) == (len(first.facts), first.facts)


async def test_cached_state_equals_fold_of_ledger(store):
    workflow = make_workflow()
    for number in range(5):
        await run_and_approve(workflow, store, number)
    session = await workflow.session("s", store=store).refresh()
    assert to_plain_values(session.state) == to_plain_values(fold(await store.read("s"), "s"))


async def test_facts_of_other_process_are_read(tmp_path):
    workflow = make_workflow()
    async with SQLiteStore(tmp_path / "s.db") as here, SQLiteStore(tmp_path / "s.db") as other_store:
        await run_and_approve(workflow, here, 1)
        await run_and_approve(workflow, other_store, 2)
        session = await workflow.session("s", store=here).refresh()
        assert session.facts == list(await other_store.read("s"))


async def test_two_handles_advance_independently(store):
    workflow = make_workflow()
    await run_and_approve(workflow, store, 1)
    one = await workflow.session("s", store=store).refresh()
    two = await workflow.session("s", store=store).refresh()
    before = len(two.facts)
    await one.run("order 2")
    assert len(two.facts) == before, "a handle does not change before it refreshes"
    await two.refresh()
    assert two.facts == one.facts


async def test_recreated_session_is_not_mistaken_for_old_one(store):
    workflow = make_workflow()
    await run_and_approve(workflow, store, 1)
    await store.delete("s")
    assert (await workflow.session("s", store=store).refresh()).status == "new"
    await workflow.session("s", store=store).run("order 7")
    session = await workflow.session("s", store=store).refresh()
    assert [message.text for message in session.messages] == ["order 7"]


async def test_unrecorded_facts_are_not_cached():
    base, workflow = MemoryStore(), make_workflow()
    failing = FailingStore(base, lambda operation, when, number: OSError("gone") if operation == "append" and number > 3 else None)
    with pytest.raises(OSError, match="gone"):
        await workflow.session("s", store=failing).run("order 1")
    recorded = list(await base.read("s"))
    session = workflow.session("s", store=failing)
    assert (await session.refresh()).facts == recorded


async def test_least_recently_used_entry_is_evicted(monkeypatch):
    monkeypatch.setattr(SESSION_CACHE, "_max_bytes", 0)  # empties the cache of other tests
    SESSION_CACHE.put(MemoryStore(), "s", "kind", None, 0)
    monkeypatch.setattr(SESSION_CACHE, "_max_bytes", 50_000)
    store, workflow = CountingStore(), make_workflow()
    for name in ("a", "b", "c", "d"):
        await workflow.session(name, store=store).run("order " + "1" * 15_000)
    store.read_facts = 0
    for name in ("d", "c"):
        await workflow.session(name, store=store).refresh()
    assert store.read_facts == 0
    await workflow.session("a", store=store).refresh()
    assert store.read_facts > 0, "its entry was evicted"
    await workflow.session("e", store=store).run("order " + "1" * 100_000)
    assert SESSION_CACHE.bytes <= 50_000
    assert SESSION_CACHE.get(store, "e", CachedState) is None


@pytest.mark.parametrize("read", [lambda state: state, lambda state: state.groups, lambda state: state.facts])
async def test_state_in_use_does_not_change(store, read):
    workflow = make_workflow()
    await run_and_approve(workflow, store, 1)
    value = read((await workflow.session("s", store=store).refresh()).state)
    before = len(value.facts if hasattr(value, "facts") else value)
    await run_and_approve(workflow, store, 2)
    assert len(value.facts if hasattr(value, "facts") else value) == before


async def test_handles_in_threads_advance_independently(tmp_path):
    workflow, problems = make_workflow(), []
    async with SQLiteStore(tmp_path / "s.db") as store:
        await run_and_approve(workflow, store, 1)
        session = await workflow.session("s", store=store).refresh()
        before, length = to_plain_values(session.state), session.state.length

        def other_store():
            try:
                asyncio.run(run_and_approve(workflow, store, 2))
            except BaseException as error:
                problems.append(error)

        thread = threading.Thread(target=other_store)
        thread.start()
        thread.join()
        assert (problems, to_plain_values(session.state)) == ([], before)
        assert (await session.refresh()).state.length > length


@pytest.mark.parametrize("since", ["nothing", "another message"])
async def test_restored_older_database_is_read_again(tmp_path, since):
    workflow = make_workflow()
    async with SQLiteStore(tmp_path / "s.db") as store:
        await run_and_approve(workflow, store, 1)
        with closing(sqlite3.connect(tmp_path / "s.db")) as file, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            file.backup(copy)
            await run_and_approve(workflow, store, 2)
            copy.backup(file)
        if since == "another message":
            async with SQLiteStore(tmp_path / "s.db") as other_store:
                await run_and_approve(workflow, other_store, 3)
                await run_and_approve(workflow, other_store, 4)
        assert (await workflow.session("s", store=store).refresh()).facts == list(await store.read("s"))
        result = await run_and_approve(workflow, store, 5)
        assert result.status == "waiting"
        said = [message.text for message in result.session.messages if message.role == "user"]
        assert said == ["order 1", *(["order 3", "order 4"] if since == "another message" else []), "order 5"]


async def test_run_takes_unshared_state_from_cache(store):
    workflow = make_workflow()
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


async def test_imported_state_is_cached_with_indexed_calls():
    """Another thread may read the state before the handle that loaded it."""
    workflow, changed = make_workflow(), []

    class Watched(MemoryStore):
        async def read(self, ledger, start=0, *, ledger_id=""):
            if (cached := SESSION_CACHE.get(self, ledger, CachedState)) is not None:
                changed.append(len(cached.state.open_calls.changed_calls))
            return await super().read(ledger, start, ledger_id=ledger_id)

    session = workflow.session("s", store=MemoryStore())
    assert (await session.run("order 1")).pending
    await workflow.load(await session.to_string(), id="t", store=Watched()).refresh()
    assert changed == [0]


def test_forked_process_begins_with_empty_cache():
    store = MemoryStore()
    SESSION_CACHE.put(store, "s", "kind", "value", 1)
    with SESSION_CACHE._lock:  # like another thread at that moment
        child = os.fork()
        if not child:
            SESSION_CACHE.put(store, "t", "kind", "value", 1)
            os._exit(0 if SESSION_CACHE.get(store, "s", "kind") is None and SESSION_CACHE.get(store, "t", "kind") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert SESSION_CACHE.get(store, "s", "kind")


def test_collected_store_frees_its_entries():
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
    cache.remove_store(store)
    assert cache.get(store, "s", "kind") is None


def test_the_environment_sets_the_budget(monkeypatch):
    monkeypatch.setenv("LEGATO_CACHE_BYTES", "12345")
    assert SessionCache().max_bytes == 12_345
    monkeypatch.setenv("LEGATO_CACHE_BYTES", "64 MB")
    with pytest.raises(BadInput, match="LEGATO_CACHE_BYTES is a number of bytes"):
        _ = SessionCache().max_bytes
