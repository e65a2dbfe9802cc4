"""Long ledgers do not stall the event loop: the tests count the facts that are folded between two turns of another task."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from legato import tool
from legato.core.facts import Call, MessageReceived
from legato.core.state import State
from legato.inspection.status_timeline import build_status_timeline
from legato.runtime import past_requests, transfer
from legato.runtime.ledger import FACTS_PER_SLICE
from legato.stores import MemoryStore
from tests.scale.hostile_inputs import append_turns, build_desk

TURN_COUNT = 3 * FACTS_PER_SLICE
FACT_COUNT = 2 * TURN_COUNT + 1


class FoldCounter:
    """A counter of the facts that are folded between two turns of another task of the loop."""

    def __init__(self, monkeypatch):
        self.fold_count, self.max_fold_count = 0, 0
        self.observed = Counter()
        before = State.apply

        def apply(state, fact):
            self.fold_count += 1
            before(state, fact)

        monkeypatch.setattr(State, "apply", apply)

    async def run_beside_task(self, awaitable, observe=lambda: None):
        """Await something beside the other task; `observe` is called in each of its turns."""

        async def take_turns():
            while True:
                self.fold_count = 0
                await asyncio.sleep(0)
                self.max_fold_count = max(self.max_fold_count, self.fold_count)
                self.observed[observe()] += 1

        other = asyncio.create_task(take_turns())
        await asyncio.sleep(0)
        try:
            return await awaitable
        finally:
            await asyncio.sleep(0)
            other.cancel()


@pytest.fixture
def counter(monkeypatch):
    return FoldCounter(monkeypatch)


@pytest.fixture
async def store():
    store = MemoryStore()
    await append_turns(store, TURN_COUNT)
    return store


def open_session(store):
    return build_desk().session("s", store=store)


async def test_long_ledger_is_opened_in_slices(store, counter):
    opened = await counter.run_beside_task(open_session(store).refresh())
    assert (opened.state.length, counter.max_fold_count) == (FACT_COUNT, FACTS_PER_SLICE)


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda session: session.seen(), id="the request behind a reply"),
        pytest.param(lambda session: session.explain(), id="an explanation"),
        pytest.param(lambda session: session.fork(FACT_COUNT - 2), id="a fork"),
        pytest.param(build_status_timeline, id="a status timeline"),
    ],
)
async def test_reading_long_session_folds_in_slices(store, counter, read):
    opened = await open_session(store).refresh()
    await counter.run_beside_task(read(opened))
    assert counter.max_fold_count <= FACTS_PER_SLICE


async def test_handle_that_lags_shows_no_partial_state(store, counter):
    opened = await open_session(store).refresh()
    messages = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACT_COUNT, messages, ledger_id="l")
    await counter.run_beside_task(opened.refresh(), lambda: opened.state.length)
    assert set(counter.observed) == {FACT_COUNT, FACT_COUNT + len(messages)}
    assert counter.max_fold_count <= FACTS_PER_SLICE


async def test_cancelled_refresh_leaves_the_handle_usable(store, counter):
    opened = await open_session(store).refresh()
    messages = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACT_COUNT, messages, ledger_id="l")
    reading = asyncio.create_task(opened.refresh())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert opened.state.length == FACT_COUNT
    assert (await opened.refresh()).state.length == FACT_COUNT + len(messages)


async def test_lost_race_is_folded_again_in_slices(store, counter):
    ours, theirs = await open_session(store).refresh(), await open_session(store).refresh()
    await theirs.say("I was first.")
    await counter.run_beside_task(ours._ledger.append(lambda state: [MessageReceived(at=5, content="So was I.")]))
    assert (ours.state.length, counter.max_fold_count) == (FACT_COUNT + 2, FACTS_PER_SLICE + 1)  # and the one that was proposed


async def test_answer_given_twice_is_checked_in_slices(store, counter):
    @tool(needs_approval=True)
    def refund() -> str:
        return "refunded"

    asking = build_desk(Call("refund", "{}"), tools=[refund], at=TURN_COUNT).session("s", store=store)
    (request,) = (await asking.run("Refund it.")).pending
    await asking.approve(request, key="once")
    counter.max_fold_count = 0
    await counter.run_beside_task(asking.approve(request, key="once"))
    assert 0 < counter.max_fold_count <= FACTS_PER_SLICE


@pytest.mark.parametrize(
    ("module", "function", "read"),
    [
        pytest.param(transfer, "encode_rows", lambda session: session.to_string(), id="writing text"),
        pytest.param(past_requests, "explain_groups", lambda session: session.explain(), id="explaining a request"),
    ],
)
async def test_long_work_runs_in_a_thread(store, monkeypatch, module, function, read):
    opened, threads, before = await open_session(store).refresh(), set(), getattr(module, function)

    def run_and_record_thread(*arguments):
        threads.add(threading.get_ident())
        return before(*arguments)

    monkeypatch.setattr(module, function, run_and_record_thread)
    await read(opened)
    assert threads
    assert threading.get_ident() not in threads
