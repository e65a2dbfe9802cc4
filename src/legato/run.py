"""One run of a session, and its result. May know: drivers. Decides: what awaiting and iterating mean.

A run is lazy: nothing happens until it is awaited (for a result) or iterated (for events). Leaving the iteration stops the driving at the
next fact: what runs is finished and recorded in the background, nothing is lost, and `session.resume()` goes on.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from legato.core.facts import Usage
from legato.core.messages import Message
from legato.core.owed import Status
from legato.core.requests import Pending
from legato.drive.events import Event
from legato.errors import BadInput

if TYPE_CHECKING:
    from legato.drive.driver import Driver
    from legato.session import Session

Begin: TypeAlias = "Callable[[Callable[[Event], None] | None], Awaitable[tuple[Driver, int, Usage]]]"
"""Record what starts the run, and make the driver that will drive it; and say how many facts there were, and what had been spent."""

Finish: TypeAlias = "Callable[[int, Usage], Awaitable[Result]]"
"""What the run led to, given how many facts there were before it, and what had been spent."""

_left: set[asyncio.Task[None]] = set()  # drivers whose observers have left, until they have recorded what was running


class Result(Struct, frozen=True, kw_only=True):
    """What a run led to.

    `text` is the last thing said to the user in this run, `output` the same, validated, where the agent has an output type; `messages` are
    the new ones; `pending` is what blocks the conversation; `error` says why the run failed, if its status is "failed"; `usage` is that
    of this run. `finish`: how the last reply ended: by itself ("stop"), cut short by a token limit ("length"), stopped by a content
    filter ("filter"). `refusal`: the words in which the model declined, if the last reply is that; `output` is then no value of a format.
    """

    text: str
    output: Any
    messages: list[Message]
    pending: list[Pending]
    status: Status
    usage: Usage
    session: Session
    error: str = ""
    finish: Literal["stop", "length", "filter"] = "stop"
    refusal: str = ""

    def __repr__(self) -> str:
        pending = f", {len(self.pending)} pending" if self.pending else ""
        return f"<Result {self.status}{pending}: {self.error or self.text!r}>"


class Run:
    """`await run` gives a `Result`; `async for event in run` gives events, and awaiting it afterwards the result as well."""

    def __init__(self, session: Session, begin: Begin, finish: Finish) -> None:
        self.session = session
        self._begin = begin
        self._finish = finish
        self._used = False
        self._ended: tuple[int, Usage] | None = None  # the iteration came to its end, and what there was before it
        self._driver: Driver | None = None
        self._left = False
        self.since = 0

    def __await__(self) -> Generator[Any, None, Result]:
        return self._complete().__await__()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    def __repr__(self) -> str:
        return f"<Run of session {self.session.id!r}>"

    def __del__(self) -> None:
        if not self._used:  # as Python says of a coroutine that nobody awaited
            warnings.warn(f"{self!r} was never awaited or iterated: nothing was said and nothing happened", RuntimeWarning, stacklevel=2)

    def leave(self) -> None:
        """Start nothing new. What runs is finished and recorded; then the run ends, and `session.resume()` goes on, here or elsewhere."""
        self._left = True
        if self._driver is not None:
            self._driver.leave()

    async def _begun(self, show: Callable[[Event], None] | None) -> tuple[Driver, int, Usage]:
        self._driver, since, spent = await self._begin(show)
        self.since = since
        if self._left:
            self._driver.leave()
        return self._driver, since, spent

    def _use(self) -> None:
        if self._used:
            raise BadInput("this run was used before", do="call session.run(...) or session.resume() again for a new one")
        self._used = True

    def __getattr__(self, name: str) -> Any:
        if name in Result.__struct_fields__:
            raise AttributeError(f"a run has no {name!r} before it has run: write `result = await session.run(...)`, then `result.{name}`")
        raise AttributeError(f"a run has no {name!r}")

    async def _complete(self) -> Result:
        if self._ended is not None:
            return await self._finish(*self._ended)
        self._use()
        driver, since, spent = await self._begun(None)
        await driver.drive()
        return await self._finish(since, spent)

    async def _events(self) -> AsyncIterator[Event]:
        self._use()
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        driver, since, spent = await self._begun(queue.put_nowait)
        task = asyncio.get_running_loop().create_task(driver.drive())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
            self._ended = since, spent
        finally:
            if not task.done():
                driver.leave()
                _left.add(task)
                task.add_done_callback(_forget)


def _forget(task: asyncio.Task[None]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # nobody is there to hear of it; the ledger has what happened
