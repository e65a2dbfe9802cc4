"""Followers in other processes than the driver."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from random import Random
from typing import Any

import psycopg
import pytest

from legato.errors import StoreError
from legato.stores import PostgresStore
from legato.stores.postgres import listener
from legato.testing.postgres import postgres_server
from tests.runtime.driver_process import ANSWER, chat, open_store
from tests.runtime.event_page import EventPage


async def start_driver_process(location: str, message: str = "", pause: float = 0.01, stops_after: int = 0) -> asyncio.subprocess.Process:
    """Start a process that drives session "s"."""
    arguments = [location, message, str(pause), str(stops_after)]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.runtime.driver_process", *arguments)


class PageFollower:
    """A page that follows a session in a task, and its events."""

    def __init__(self, session: Any) -> None:
        self.page = EventPage()
        self.events: list[Any] = []
        self.new_event = asyncio.Event()
        self.task = asyncio.ensure_future(self._follow(session))

    async def _follow(self, session: Any) -> None:
        async with aclosing(session.follow()) as events:
            async for event in events:
                self.page.show_event(event)
                self.events.append(event)
                self.new_event.set()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not any(condition(event) for event in self.events):
                self.new_event.clear()
                await self.new_event.wait()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def is_message(event: Any) -> bool:
    return event.type == "message"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request, tmp_path):
    return request.getfixturevalue("database") if request.param == "postgres" else str(tmp_path / "s.db")


async def test_facts_of_other_process_arrive_immediately(location, monkeypatch):
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 600.0)  # facts arrive by notifications, not by polling
    async with open_store(location) as store:
        follower = PageFollower(chat(store).session("s"))
        driving = await start_driver_process(location, "Hi")
        await follower.until(is_message)
        assert await driving.wait() == 0
        await follower.stop()
    assert follower.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]


async def test_reply_of_killed_driver_is_shown_once(location):
    """A driver is killed during a reply, another takes over, and the reply is shown once."""
    async with open_store(location) as store:
        follower = PageFollower(chat(store).session("s"))
        killed = await start_driver_process(location, "Hi", stops_after=5)
        half = "" if location.endswith(".db") else "".join(ANSWER[:5])
        await follower.until(lambda event: event.type == "said" and follower.page.reply_text == half)
        killed.kill()
        await killed.wait()
        assert follower.page.reply_text == half
        taking_over = await start_driver_process(location)
        await follower.until(is_message)
        assert await taking_over.wait() == 0
        await follower.stop()
    assert follower.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
    if not location.endswith(".db"):
        types = [event.type for event in follower.events]
        assert "output" in types[: types.index("output_reset")], "the deltas of the killed driver are retracted"
        assert "output" in types[types.index("output_reset") :], "the deltas of the next driver come from the beginning"


async def test_deltas_cross_processes_from_the_beginning(database):
    """Deltas reach another process during the reply, and a late follower gets the reply from its beginning."""
    async with open_store(database) as one, open_store(database) as two:
        first = PageFollower(chat(one).session("s"))
        driving = await start_driver_process(database, "Hi", pause=0.03)
        await first.until(lambda event: event.type == "output")
        second = PageFollower(chat(two).session("s"))
        await second.until(lambda event: event.type == "output")
        for follower in (first, second):
            await follower.until(is_message)
            assert follower.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
            assert follower.page.delta_count > 5
            assert not any(event.type == "output_reset" for event in follower.events)
            await follower.stop()
        assert await driving.wait() == 0


async def test_session_without_followers_sends_one_query(database):
    """Of a session without followers nothing is sent but the query for subscribers."""
    received: list[str] = []
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("LISTEN legato_notes")
        async with open_store(database) as store:
            elsewhere = PageFollower(chat(store).session("another"))
            driving = await start_driver_process(database, "Hi")
            assert await driving.wait() == 0
            await elsewhere.stop()
        connection.execute("NOTIFY legato_notes, 'the last'")
        for notify in connection.notifies(timeout=60):
            if notify.payload == "the last":
                break
            received.append(notify.payload)
    assert [payload.split(" ", 1)[1] for payload in received] == ["?"]


async def test_deltas_stay_within_their_tenant(database):
    async with open_store(database) as store:
        workflow = chat(store)
        received: dict[str, list[bytes]] = {name: [] for name in ("acme", "other", "")}
        async with AsyncExitStack() as listening:
            for name, notes in received.items():
                whose = store.tenant(name) if name else store
                await listening.enter_async_context(whose.delta_channel.subscribe("s", notes.append))
            await workflow.session("s", store=store.tenant("acme")).run("Hi")
    assert received["acme"]
    assert received["other"] == received[""] == []


async def test_store_without_deltas_sends_none(database):
    async with PostgresStore(database, send_deltas=False) as store:
        assert store.delta_channel is None
        follower = PageFollower(chat(store).session("s"))
        await chat(store).session("s").run("Hi")
        await follower.until(is_message)
        await follower.stop()
    assert follower.page.delta_count == 0
    assert follower.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]


async def test_follower_continues_after_server_restart():
    """After a restart of Postgres, a follower continues from its last cursor, and deltas arrive again."""
    with postgres_server() as server:
        async with open_store(server.dsn) as store, open_store(server.dsn) as other:
            page = EventPage()

            async def follow() -> None:
                while ("a", "".join(ANSWER)) not in page.lines[3:]:
                    try:
                        async for event in chat(other).session("s").follow(after=page.cursor):
                            page.show_event(event)
                            if page.lines[3:]:
                                break
                    except StoreError:
                        page.disconnect()
                        await asyncio.sleep(0.05)

            following = asyncio.ensure_future(follow())
            session = chat(store).session("s")
            await session.run("first")
            await asyncio.to_thread(server.restart)
            page.delta_count = 0
            while True:
                try:
                    await session.run("second", key="second")
                    break
                except StoreError:
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(60):
                await following
    assert page.lines == [("user", "first"), ("a", "".join(ANSWER)), ("user", "second"), ("a", "".join(ANSWER))]
    assert len(set(page.cursors)) == len(page.cursors)
    assert page.delta_count > 1


async def test_random_kills_and_disconnects_show_everything_once(database):
    """Drivers are killed and connections lost at random moments; every client shows the conversation once."""
    dice, pages, over = Random(7), [EventPage(), EventPage(), EventPage()], [False]

    async def follow_until_over(page: EventPage) -> None:
        while not (last := over[0]):
            await follow(page, asyncio.timeout(dice.expovariate(2)), last)
            page.disconnect()
        await follow(page, asyncio.timeout(60), last)

    async def follow(page: EventPage, within: asyncio.Timeout, last: bool) -> None:
        try:
            async with within, aclosing(chat(store).session("s").follow(after=page.cursor, until_idle=last)) as events:
                async for event in events:
                    page.show_event(event)
        except TimeoutError:
            assert not last

    async with open_store(database) as store:
        following = [asyncio.ensure_future(follow_until_over(page)) for page in pages]
        for message in ("first", "second"):
            for seconds in (0.3 + dice.random(), 0.3 + dice.random(), 30):  # the third driver may finish
                driving = await start_driver_process(database, message)
                try:
                    async with asyncio.timeout(seconds):
                        assert await driving.wait() == 0
                    break
                except TimeoutError:
                    driving.kill()
                    await driving.wait()
        over[0] = True
        await asyncio.gather(*following)
        whole = [event async for event in chat(store).session("s").follow(until_idle=True)]
    assert [event.data.text for event in whole if event.type == "message"] == ["".join(ANSWER)] * 2
    for page in pages:
        page.check(whole)
