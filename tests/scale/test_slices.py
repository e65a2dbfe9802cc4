"""No long ledger holds the event loop: counted is what is folded between two turns of another task, and what runs on the loop's thread."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from legato import tool
from legato.core.facts import Call, MessageReceived
from legato.core.state import State
from legato.inspection.course import course_of
from legato.runtime import past_requests, transfer
from legato.runtime.ledger import FACTS_PER_SLICE
from legato.stores import MemoryStore
from tests.scale.hostile import desk, long_ledger

TURNS = 3 * FACTS_PER_SLICE
FACTS = 2 * TURNS + 1


class Turns:
    """Another task of the loop, and how many facts were folded between two of its turns."""

    def __init__(self, monkeypatch):
        self.folded, self.longest = 0, 0
        self.seen = Counter()
        before = State.apply

        def apply(state, fact):
            self.folded += 1
            before(state, fact)

        monkeypatch.setattr(State, "apply", apply)

    async def during(self, doing, look=lambda: None):
        """Do something beside the other task; `look` is called in each of its turns."""

        async def turn():
            while True:
                self.folded = 0
                await asyncio.sleep(0)
                self.longest = max(self.longest, self.folded)
                self.seen[look()] += 1

        other = asyncio.create_task(turn())
        await asyncio.sleep(0)
        try:
            return await doing
        finally:
            await asyncio.sleep(0)
            other.cancel()


@pytest.fixture
def turns(monkeypatch):
    return Turns(monkeypatch)


@pytest.fixture
async def store():
    store = MemoryStore()
    await long_ledger(store, TURNS)
    return store


def session(store):
    return desk().session("s", store=store)


async def test_long_ledger_is_opened_in_slices(store, turns):
    opened = await turns.during(session(store).refresh())
    assert (opened.state.length, turns.longest) == (FACTS, FACTS_PER_SLICE)


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda session: session.seen(), id="the request behind a reply"),
        pytest.param(lambda session: session.explained(), id="why it is as it is"),
        pytest.param(lambda session: session.fork(FACTS - 2), id="a fork"),
        pytest.param(course_of, id="its course"),
    ],
)
async def test_looking_at_a_long_session_takes_slices(store, turns, look):
    opened = await session(store).refresh()
    await turns.during(look(opened))
    assert turns.longest <= FACTS_PER_SLICE


async def test_handle_that_lags_shows_no_partial_state(store, turns):
    opened = await session(store).refresh()
    told = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACTS, told, born="l")
    await turns.during(opened.refresh(), lambda: opened.state.length)
    assert set(turns.seen) == {FACTS, FACTS + len(told)}
    assert turns.longest <= FACTS_PER_SLICE


async def test_cancelled_refresh_leaves_the_handle_usable(store, turns):
    opened = await session(store).refresh()
    told = [MessageReceived(at=4, content="Hello?") for _ in range(FACTS_PER_SLICE + 1)]
    await store.append("s", FACTS, told, born="l")
    reading = asyncio.create_task(opened.refresh())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert opened.state.length == FACTS
    assert (await opened.refresh()).state.length == FACTS + len(told)


async def test_lost_race_is_folded_again_in_slices(store, turns):
    ours, theirs = await session(store).refresh(), await session(store).refresh()
    await theirs.say("I was first.")
    await turns.during(ours._ledger.append(lambda state: [MessageReceived(at=5, content="So was I.")]))
    assert (ours.state.length, turns.longest) == (FACTS + 2, FACTS_PER_SLICE + 1)  # and the one that was proposed


async def test_answer_given_twice_is_checked_in_slices(store, turns):
    @tool(needs_approval=True)
    def refund() -> str:
        return "refunded"

    asking = desk(Call("refund", "{}"), tools=[refund], at=TURNS).session("s", store=store)
    (request,) = (await asking.run("Refund it.")).pending
    await asking.approve(request, key="once")
    turns.longest = 0
    await turns.during(asking.approve(request, key="once"))
    assert 0 < turns.longest <= FACTS_PER_SLICE


@pytest.mark.parametrize(
    ("module", "function", "look"),
    [
        pytest.param(transfer, "to_rows", lambda session: session.to_string(), id="writing text"),
        pytest.param(past_requests, "explained", lambda session: session.explained(), id="explaining a request"),
    ],
)
async def test_long_work_runs_in_a_thread(store, monkeypatch, module, function, look):
    opened, threads, before = await session(store).refresh(), set(), getattr(module, function)

    def noted(*given):
        threads.add(threading.get_ident())
        return before(*given)

    monkeypatch.setattr(module, function, noted)
    await look(opened)
    assert threads
    assert threading.get_ident() not in threads
