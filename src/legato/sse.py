"""A session's events for browsers and other machines, over HTTP. May know: sessions, ASGI. Decides: what of an event leaves the process.

Server-sent events: each that comes from the ledger has its cursor as `id`, which a browser sends back as `Last-Event-ID` when it connects
again; so it goes on where it was. Pieces of words have none: a reply whose pieces were cut off comes whole. No web framework is needed, and
any that speaks ASGI will do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from legato.errors import BadInput, StoreError, UnknownLedger
from legato.inspection.event_data import event_data
from legato.runtime.event_cursor import cursor_after
from legato.runtime.events import Event, OutputData

if TYPE_CHECKING:
    from legato.runtime.session import Session

ASGIMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[ASGIMessage]]
Send: TypeAlias = Callable[[ASGIMessage], Awaitable[None]]
T = TypeVar("T")

KEEP_ALIVE = 15.0
"""Seconds after which a line on which nothing happens is used, so that nobody on the way takes it for dead."""

PULSE = b":\n\n"
"""A comment: nobody is told of it."""

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # proxies that gather what they pass on would gather the words
]


async def sse(
    session: Session, last_event_id: str = "", *, until_rest: bool = False, keep_alive: float = KEEP_ALIVE
) -> AsyncGenerator[bytes, None]:
    """The events of a session as server-sent events, after the one with this id; see `session.follow`.

    Whoever connects again may have been shown pieces of a reply when the line was lost. They are withdrawn first.
    """
    async with aclosing(session.follow(last_event_id or None, until_rest)) as events:
        yield _written(Event("output_reset", OutputData("", "", True, 0)), session) if last_event_id else PULSE
        async with aclosing(with_pauses(events, keep_alive)) as told:
            async for event in told:
                yield PULSE if event is None else _written(event, session)


async def with_pauses(things: AsyncGenerator[T, None], seconds: float) -> AsyncGenerator[T | None, None]:
    """The things, as they come; and None whenever none has come for so long."""
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(things))
            await asyncio.wait([coming], timeout=seconds)
            if not coming.done():
                yield None
                continue
            try:
                thing = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield thing
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])


def _written(event: Event, session: Session) -> bytes:
    data = msgspec.json.encode(event_data(event, session))  # one line: JSON escapes line breaks
    named = f"id: {event.cursor}\n" if event.cursor else ""
    return b"%sevent: %s\ndata: %s\n\n" % (named.encode(), event.type.encode(), data)


class EventStream:
    """An ASGI application that answers one request with a session's events; a response, for frameworks that return one.

        async def events(request):  # Starlette; FastAPI is the same
            return EventStream(desk.session(request.path_params["id"]))

    `Last-Event-ID` is read from the request; `last_event_id` is for a client that has another way to say it. A cursor of a conversation
    that is no longer there is answered with 204, after which browsers cease to ask; with 400 what is no cursor, and with 503 if the store
    cannot be read. Who may see the session is for whoever calls this to decide.
    """

    def __init__(self, session: Session, last_event_id: str = "", *, until_rest: bool = False, keep_alive: float = KEEP_ALIVE) -> None:
        self._session = session
        self._last_event_id = last_event_id
        self._until_rest = until_rest
        self._keep_alive = keep_alive

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        sent = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == b"last-event-id"]
        last = sent[-1] if sent and sent[-1] else self._last_event_id
        await while_there(self._answer(last, send), receive)

    async def _answer(self, last: str, send: Send) -> None:
        refused = await self._refused(last)
        await send({"type": "http.response.start", "status": refused or 200, "headers": [] if refused else HEADERS})
        if not refused:
            with suppress(StoreError):  # the line ends; whoever connects again goes on where it was, when the store can be read
                async with aclosing(sse(self._session, last, until_rest=self._until_rest, keep_alive=self._keep_alive)) as events:
                    async for written in events:
                        await send({"type": "http.response.body", "body": written, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _refused(self, last: str) -> int:
        """The status of an answer without events; 0 if there are some."""
        try:
            cursor = cursor_after(last or None)
        except BadInput:
            return 400
        try:
            state = (await self._session.refresh()).state
        except UnknownLedger:
            return 204  # it was deleted while this handle was open
        except StoreError:
            return 503
        return 0 if cursor.fits(state) else 204


async def while_there(answer: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Answer, for as long as whoever asked is there."""
    await run_until(answer, _gone(receive))


async def run_until(answer: Awaitable[None], ending: Awaitable[object]) -> bool:
    """Answer until something else has come to its end. Tell whether the answer came to its own."""
    answering, until = asyncio.ensure_future(answer), asyncio.ensure_future(ending)
    try:
        await asyncio.wait([answering, until], return_when=asyncio.FIRST_COMPLETED)
        is_whole = answering.done()
    finally:
        for task in (answering, until):
            task.cancel()
        await asyncio.wait([answering, until])
    if not answering.cancelled():
        answering.result()
    return is_whole


async def _gone(receive: Receive) -> None:
    """Wait until whoever asked has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
