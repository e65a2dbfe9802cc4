"""No long ledger holds the event loop: counted is what is folded between two turns of another task, and what runs on the loop's thread."""

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
    """Another task of the loop, and how many facts were folded between two of its turns."""

    def __init__(self, monkeypatch):
        self.folded, self.longest = 0, 0
        self.observed = Counter()
        before = State.apply

        def apply(state, fact):
            self.folded += 1
            before(state, fact)

        monkeypatch.setattr(State, "apply", apply)

    async def run_beside_task(self, awaitable, look=lambda: None):
        """Do something beside the other task; `look` is called in each of its turns."""

        async def turn():
            while True:
                self.folded = 0
                await asyncio.sleep(0)
                self.longest = max(self.longest, self.folded)
                self.observed[look()] += 1

        other = asyncio.create_task(turn())
        await asyncio.sleep(0)
        try:
            return await awaitable
        finally:
            await asyncio.sleep(0)
            other.cancel()


@pytest.fixture
def turns(monkeypatch):
    return FoldCounter(monkeypatch)


@pytest.fixture
async def store():
    store = MemoryStore()
    await append_turns(store, TURN_COUNT)
    return store


def open_session(store):
    return build_desk().session("s", store=store)


async def test_long_ledger_is_opened_in_slices(store, turns):
    opened = await turns.run_beside_task(open_session(store).refresh())
    assert (opened.state.length, turns.longest) == (FACT_COUNT, FACTS_PER_SLICE)


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda session: session.seen(), id="the request behind a reply"),
        pytest.param(lambda session: session.explain(), id="why it is as it is"),
        pytest.param(lambda session: session.fork(FACT_COUNT - 2), id="a fork"),
        pytest.param(build_status_timeline, id="its course"),
    ],
)
async def test_looking_at_a_long_session_takes_slices(store, turns, look):
    opened = await open_session(store).refresh()
    await turns.run_beside_task(look(opened))
    assert turns.longest <= FACTS_PER_SLICE


async def test_handle_that_lags_shows_no_partial_state(store, turns):
    opened = await open_session(store).refresh()
    told = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACT_COUNT, told, ledger_id="l")
    await turns.run_beside_task(opened.refresh(), lambda: opened.state.length)
    assert set(turns.observed) == {FACT_COUNT, FACT_COUNT + len(told)}
    assert turns.longest <= FACTS_PER_SLICE


async def test_cancelled_refresh_leaves_the_handle_usable(store, turns):
    opened = await open_session(store).refresh()
    told = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACT_COUNT, told, ledger_id="l")
    reading = asyncio.create_task(opened.refresh())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert opened.state.length == FACT_COUNT
    assert (await opened.refresh()).state.length == FACT_COUNT + len(told)


async def test_lost_race_is_folded_again_in_slices(store, turns):
    ours, theirs = await open_session(store).refresh(), await open_session(store).refresh()
    await theirs.say("I was first.")
    await turns.run_beside_task(ours._ledger.append(lambda state: [MessageReceived(at=5, content="So was I.")]))
    assert (ours.state.length, turns.longest) == (FACT_COUNT + 2, FACTS_PER_SLICE + 1)  # and the one that was proposed


async def test_answer_given_twice_is_checked_in_slices(store, turns):
    @tool(needs_approval=True)
    def refund() -> str:
        return "refunded"

    asking = build_desk(Call("refund", "{}"), tools=[refund], at=TURN_COUNT).session("s", store=store)
    (request,) = (await asking.run("Refund it.")).pending
    await asking.approve(request, key="once")
    turns.longest = 0
    await turns.run_beside_task(asking.approve(request, key="once"))
    assert 0 < turns.longest <= FACTS_PER_SLICE


@pytest.mark.parametrize(
    ("module", "function", "look"),
    [
        pytest.param(transfer, "encode_rows", lambda session: session.to_string(), id="writing text"),
        pytest.param(past_requests, "explain_groups", lambda session: session.explain(), id="explaining a request"),
    ],
)
async def test_long_work_runs_in_a_thread(store, monkeypatch, module, function, look):
    opened, threads, before = await open_session(store).refresh(), set(), getattr(module, function)

    def noted(*given):
        threads.add(threading.get_ident())
        return before(*given)

    monkeypatch.setattr(module, function, noted)
    await look(opened)
    assert threads
    assert threading.get_ident() not in threads
