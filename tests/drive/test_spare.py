"""A handle that is let go of leaves its state to the next one: who serves people request by request does not pay for the past again."""

import gc
import os
import sqlite3
from contextlib import closing

import pytest

from legato import Agent, HandoffBuilder, tool
from legato.core.groups import CallState, Group, OpenCalls
from legato.core.state import fold
from legato.core.sums import Spent
from legato.drive import spare
from legato.stores import MemoryStore, SQLiteStore
from legato.testing import FailingStore, ScriptedModel, call, handoff


class Counting(MemoryStore):
    """Counts the facts that are read, except for the last one of a spare state, by which it is recognised."""

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


def meaning(state):
    """All that a state says, without what wires have cached in it."""

    def told(value):
        if isinstance(value, dict):
            return {str(key): told(each) for key, each in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [told(each) for each in (sorted(value, key=str) if isinstance(value, set) else value)]
        names = getattr(value, "__struct_fields__", ()) or getattr(value, "__slots__", ())
        if not names or (hasattr(value, "__struct_config__") and value.__struct_config__.frozen):
            return repr(value)
        has_caches = isinstance(value, (Group, Spent, OpenCalls, CallState))
        cached = [name for name in names if name.startswith("_") or name in ("filed", "changed")] if has_caches else ()
        return {name: told(getattr(value, name)) for name in names if name not in cached}

    return told(state)


async def test_a_new_handle_reads_only_what_the_last_one_had_not():
    store, workflow = Counting(), desk()
    for number in range(20):
        result = await cycle(workflow, store, number)
        assert result.text == "Done."
        del result
    assert store.read_facts == 0, "nobody else has appended anything, so nothing was new to anybody"


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


async def test_two_handles_at_once_have_a_state_each(store):
    workflow = desk()
    await cycle(workflow, store, 1)
    one = await workflow.session("s", store=store).refresh()
    two = await workflow.session("s", store=store).refresh()
    assert one.state is not two.state
    before = len(two.facts)
    await one.run("order 2")
    assert len(two.facts) == before, "what one handle has read, the other has not until it refreshes"


async def test_a_session_that_was_deleted_and_made_anew_is_not_taken_for_the_old_one(store):
    workflow = desk()
    await cycle(workflow, store, 1)
    await store.delete("s")
    assert (await workflow.session("s", store=store).refresh()).status == "new"
    await workflow.session("s", store=store).run("order 7")
    session = await workflow.session("s", store=store).refresh()
    assert [message.text for message in session.messages] == ["order 7"]


async def test_what_was_proposed_and_never_recorded_is_left_to_nobody():
    base, workflow = MemoryStore(), desk()
    failing = FailingStore(base, lambda operation, when, number: OSError("gone") if operation == "append" and number > 3 else None)
    with pytest.raises(OSError, match="gone"):
        await workflow.session("s", store=failing).run("order 1")
    recorded = list(await base.read("s"))
    session = workflow.session("s", store=failing)
    assert (await session.refresh()).facts == recorded


async def test_a_store_keeps_spare_states_of_so_many_facts_and_the_longest_unused_makes_room(monkeypatch):
    monkeypatch.setattr(spare, "MOST_FACTS", 15)
    store, workflow = Counting(), desk()
    for name in ("a", "b", "c"):
        await workflow.session(name, store=store).run("order 1")
    length = len((await workflow.session("c", store=store).refresh()).facts)
    kept = 15 // length
    assert kept == 2
    store.read_facts = 0
    for name in ("c", "b", "a")[:kept]:
        await workflow.session(name, store=store).refresh()
    assert store.read_facts == 0
    for name in ("c", "b", "a")[kept:]:
        await workflow.session(name, store=store).refresh()
    assert store.read_facts == length * (3 - kept)


async def test_a_handle_that_the_collector_lets_go_of_while_another_is_leaving_its_state_blocks_nobody(monkeypatch):
    class Collecting(spare._Shelf):
        def __init__(self):
            super().__init__()
            gc.collect()

    monkeypatch.setattr(spare, "_Shelf", Collecting)
    store, workflow = MemoryStore(), desk()
    forgotten, dropped = workflow.session("a", store=store), workflow.session("b", store=store)
    await forgotten.run("order 1")
    await dropped.run("order 2")
    forgotten.cycle = forgotten  # only the collector lets go of it
    gc.disable()
    try:
        del forgotten, dropped
    finally:
        gc.enable()
    assert (await workflow.session("a", store=store).refresh()).status == "pending"


async def test_a_store_keeps_spare_states_of_so_many_bytes(monkeypatch):
    monkeypatch.setattr(spare, "MOST_BYTES", 40_000)
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
    assert sum(each.weight for each in spare._shelves[store].spares.values()) == spare._shelves[store].weight <= 40_000
    assert "e" not in spare._shelves[store].spares


@pytest.mark.parametrize("looked_at", [lambda state: state, lambda state: state.groups, lambda state: state.facts])
async def test_what_somebody_still_looks_at_does_not_move_when_the_conversation_goes_on_elsewhere(store, looked_at):
    workflow = desk()
    await cycle(workflow, store, 1)
    held = looked_at((await workflow.session("s", store=store).refresh()).state)
    before = len(held.facts if hasattr(held, "facts") else held)
    await cycle(workflow, store, 2)
    assert len(held.facts if hasattr(held, "facts") else held) == before


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


def test_a_forked_child_begins_without_spare_states_and_can_leave_its_own():
    store = MemoryStore()
    spare.leave(store, "s", spare.Spare("born", fold((), "s")))
    with spare._lock:  # as another thread may have it at that moment
        child = os.fork()
        if not child:
            spare.leave(store, "t", spare.Spare("born", fold((), "t")))
            os._exit(0 if spare.take(store, "s") is None and spare.take(store, "t") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert spare.take(store, "s")
