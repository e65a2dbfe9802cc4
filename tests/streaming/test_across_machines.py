"""Who drives and who follows are different processes."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing
from typing import Any

from tests.streaming.machines import ANSWER, chat, opened
from tests.streaming.page import Page


async def machine(where: str, message: str = "", pause: float = 0.01, stops_after: int = 0) -> asyncio.subprocess.Process:
    """A process that drives."""
    arguments = [where, message, str(pause), str(stops_after)]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.streaming.machines", *arguments)


class Watched:
    """A page that follows, and when what came."""

    def __init__(self, session: Any) -> None:
        self.page = Page()
        self.came: list[tuple[float, Any]] = []
        self.more = asyncio.Event()
        self.task = asyncio.ensure_future(self._follow(session))

    async def _follow(self, session: Any) -> None:
        async with aclosing(session.follow()) as events:
            async for event in events:
                self.page.see(event)
                self.came.append((time.time(), event))
                self.more.set()

    async def until(self, what: Any) -> None:
        async with asyncio.timeout(30):
            while not any(what(event) for _, event in self.came):
                self.more.clear()
                await self.more.wait()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def is_message(event: Any) -> bool:
    return event.type == "message"


async def test_facts_of_another_process_are_told_as_soon_as_they_are_recorded_and_its_words_whole(tmp_path):
    where = str(tmp_path / "s.db")
    async with opened(where) as store:
        watched = Watched(chat(store).session("s"))
        driving = await machine(where, "Hi")
        await watched.until(is_message)
        assert await driving.wait() == 0
        await watched.leave()
        session = await chat(store).session("s").refresh()
        late = [came - session.facts[event.position].at / 1000 for came, event in watched.came]
    assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
    assert watched.page.pieces == 0
    assert max(late) < 2, "seconds, on a machine that is busy with other things"


async def test_a_driver_that_is_killed_in_the_middle_of_a_reply_is_taken_over_from_and_the_reply_is_shown_once(tmp_path):
    where = str(tmp_path / "s.db")
    async with opened(where) as store:
        watched = Watched(chat(store).session("s"))
        killed = await machine(where, "Hi", stops_after=5)
        await watched.until(lambda event: event.type == "said")
        killed.kill()
        await killed.wait()
        taking_over = await machine(where)
        await watched.until(is_message)
        assert await taking_over.wait() == 0
        await watched.leave()
    assert watched.page.lines == [("user", "Hi"), ("a", "".join(ANSWER))]
