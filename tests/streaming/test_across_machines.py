"""Who drives and who follows are different processes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from random import Random
from typing import Any

import psycopg
import pytest

from legato.errors import StoreError
from legato.stores import PostgresStore, postgres_line
from legato.testing.postgres import postgres_server
from tests.streaming.machines import ANSWER, chat, opened
from tests.streaming.page import Page


async def machine(where: str, message: str = "", pause: float = 0.01, stops_after: int = 0) -> asyncio.subprocess.Process:
    """A process that drives."""
    arguments = [where, message, str(pause), str(stops_after)]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.streaming.machines", *arguments)


class Watched:
    """A page that follows, and what came."""

    def __init__(self, session: Any) -> None:
        self.page = Page()
        self.came: list[Any] = []
        self.more = asyncio.Event()
        self.task = asyncio.ensure_future(self._follow(session))

    async def _follow(self, session: Any) -> None:
        async with aclosing(session.follow()) as events:
            async for event in events:
                self.page.see(event)
                self.came.append(event)
                self.more.set()

    async def until(self, what: Any) -> None:
        async with asyncio.timeout(60):
            while not any(what(event) for event in self.came):
                self.more.clear()
                await self.more.wait()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def is_message(event: Any) -> bool:
    return event.type == "message"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    return request.getfixturevalue("database") if request.param == "postgres" else str(tmp_path / "s.db")


async def test_facts_of_another_process_are_told_as_soon_as_they_are_recorded(where, monkeypatch):
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 600.0)  # they are told by notifications
    async with opened(where) as store:
        watched = Watched(chat(store).session("s"))
        driving = await machine(where, "Hi")
        await watched.until(is_message)
        assert await driving.wait() == 0
        await watched.leave()
    assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]


async def test_a_driver_that_is_killed_in_the_middle_of_a_reply_is_taken_over_from_and_the_reply_is_shown_once(where):
    async with opened(where) as store:
        watched = Watched(chat(store).session("s"))
        killed = await machine(where, "Hi", stops_after=5)
        half = "" if where.endswith(".db") else "".join(ANSWER[:5])
        await watched.until(lambda event: event.type == "said" and watched.page.said == half)
        killed.kill()
        await killed.wait()
        assert watched.page.said == half
        taking_over = await machine(where)
        await watched.until(is_message)
        assert await taking_over.wait() == 0
        await watched.leave()
    assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
    if not where.endswith(".db"):
        types = [event.type for event in watched.came]
        assert "output" in types[: types.index("output_reset")], "what the dead one said is withdrawn"
        assert "output" in types[types.index("output_reset") :], "and what the other says comes from its beginning"


async def test_words_reach_another_machine_while_they_are_said_and_who_comes_late_is_told_from_the_beginning(database):
    async with opened(database) as one, opened(database) as two:
        first = Watched(chat(one).session("s"))
        driving = await machine(database, "Hi", pause=0.03)
        await first.until(lambda event: event.type == "output")
        second = Watched(chat(two).session("s"))
        await second.until(lambda event: event.type == "output")
        for watched in (first, second):
            await watched.until(is_message)
            assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
            assert watched.page.pieces > 5
            assert not any(event.type == "output_reset" for event in watched.came)
            await watched.leave()
        assert await driving.wait() == 0


async def test_of_a_conversation_that_nobody_follows_nothing_is_sent_but_the_question_whether_anybody_does(database):
    heard: list[str] = []
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("LISTEN legato_notes")
        async with opened(database) as store:
            elsewhere = Watched(chat(store).session("another"))
            driving = await machine(database, "Hi")
            assert await driving.wait() == 0
            await elsewhere.leave()
        connection.execute("NOTIFY legato_notes, 'the last'")
        for notify in connection.notifies(timeout=60):
            if notify.payload == "the last":
                break
            heard.append(notify.payload)
    assert [payload.split(" ", 1)[1] for payload in heard] == ["?"]


async def test_words_of_one_tenant_are_not_heard_by_another(database):
    async with opened(database) as store:
        workflow = chat(store)
        heard: dict[str, list[bytes]] = {name: [] for name in ("acme", "other", "")}
        async with AsyncExitStack() as listening:
            for name, notes in heard.items():
                whose = store.tenant(name) if name else store
                await listening.enter_async_context(whose.live.hear("s", notes.append))
            await workflow.session("s", store=store.tenant("acme")).run("Hi")
    assert heard["acme"]
    assert heard["other"] == heard[""] == []


async def test_a_store_that_is_not_to_send_words_sends_none(database):
    async with PostgresStore(database, live=False) as store:
        assert store.live is None
        watched = Watched(chat(store).session("s"))
        await chat(store).session("s").run("Hi")
        await watched.until(is_message)
        await watched.leave()
    assert watched.page.pieces == 0
    assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]


async def test_after_the_server_was_killed_who_follows_goes_on_from_the_last_cursor_and_words_are_heard_again():
    with postgres_server() as server:
        async with opened(server.dsn) as store, opened(server.dsn) as other:
            page = Page()

            async def follow() -> None:
                while ("a", "".join(ANSWER)) not in page.lines[3:]:
                    try:
                        async for event in chat(other).session("s").follow(after=page.cursor):
                            page.see(event)
                            if page.lines[3:]:
                                break
                    except StoreError:
                        page.lose_the_line()
                        await asyncio.sleep(0.05)

            following = asyncio.ensure_future(follow())
            session = chat(store).session("s")
            await session.run("first")
            await asyncio.to_thread(server.restart)
            page.pieces = 0
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
    assert page.pieces > 1


async def test_drivers_are_killed_and_lines_are_lost_at_random_moments_and_every_page_shows_the_conversation_once(database):
    dice, pages, over = Random(7), [Page(), Page(), Page()], [False]

    async def look_on(page: Page) -> None:
        while not (last := over[0]):
            await follow(page, asyncio.timeout(dice.expovariate(2)), last)
            page.lose_the_line()
        await follow(page, asyncio.timeout(60), last)

    async def follow(page: Page, within: asyncio.Timeout, last: bool) -> None:
        try:
            async with within, aclosing(chat(store).session("s").follow(after=page.cursor, until_rest=last)) as events:
                async for event in events:
                    page.see(event)
        except TimeoutError:
            assert not last

    async with opened(database) as store:
        looking = [asyncio.ensure_future(look_on(page)) for page in pages]
        for message in ("first", "second"):
            for patience in (0.3 + dice.random(), 0.3 + dice.random(), 30):  # the third may go on to the end
                driving = await machine(database, message)
                try:
                    async with asyncio.timeout(patience):
                        assert await driving.wait() == 0
                    break
                except TimeoutError:
                    driving.kill()
                    await driving.wait()
        over[0] = True
        await asyncio.gather(*looking)
        whole = [event async for event in chat(store).session("s").follow(until_rest=True)]
    assert [event.data.text for event in whole if event.type == "message"] == ["".join(ANSWER)] * 2
    for page in pages:
        page.check(whole)
