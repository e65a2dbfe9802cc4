"""Server-sent events: the events of a session over HTTP, for browsers and other machines.

Each event that comes from the ledger has its cursor as `id`. A browser sends it back as `Last-Event-ID` when it reconnects, and continues
where it was. Deltas have no id: after an interruption the whole reply is sent. No web framework is needed, and any ASGI framework works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, MutableMapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from legato.errors import BadInput, StoreError, UnknownLedger
from legato.inspection.event_json import event_to_json
from legato.runtime.event_cursor import parse_cursor
from legato.runtime.events import Event, OutputData

if TYPE_CHECKING:
    from legato.runtime.session import Session

ASGIMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[ASGIMessage]]
Send: TypeAlias = Callable[[ASGIMessage], Awaitable[None]]
T = TypeVar("T")

KEEP_ALIVE_INTERVAL_S = 15.0
"""The interval of keep-alive comments on an idle connection, so that no proxy closes it."""

KEEP_ALIVE_COMMENT = b":\n\n"
"""A comment in the event stream, which clients ignore."""

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # proxies would buffer the deltas otherwise
]


async def sse(
    session: Session, last_event_id: str = "", *, until_idle: bool = False, keep_alive: float = KEEP_ALIVE_INTERVAL_S
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a session as server-sent events, after the event with this id; see `session.follow`.

    A client that reconnects may show deltas from before the interruption. They are retracted first.
    """
    async with aclosing(session.follow(last_event_id or None, until_idle)) as events:
        yield _encode_event(Event("output_reset", OutputData("", "", True, 0)), session) if last_event_id else KEEP_ALIVE_COMMENT
        async with aclosing(with_keep_alives(events, keep_alive)) as events_and_pauses:
            async for event in events_and_pauses:
                yield KEEP_ALIVE_COMMENT if event is None else _encode_event(event, session)


async def with_keep_alives(items: AsyncGenerator[T, None], interval_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the items as they come, and None whenever none has come for an interval."""
    next_item: asyncio.Future[T] | None = None
    try:
        while True:
            next_item = next_item or asyncio.ensure_future(anext(items))
            await asyncio.wait([next_item], timeout=interval_s)
            if not next_item.done():
                yield None
                continue
            try:
                item = next_item.result()
            except StopAsyncIteration:
                return
            next_item = None
            yield item
    finally:
        if next_item is not None:
            next_item.cancel()
            await asyncio.wait([next_item])


def _encode_event(event: Event, session: Session) -> bytes:
    data = msgspec.json.encode(event_to_json(event, session))  # one line: JSON escapes line breaks
    id_line = f"id: {event.cursor}\n" if event.cursor else ""
    return b"%sevent: %s\ndata: %s\n\n" % (id_line.encode(), event.type.encode(), data)


class EventStream:
    """An ASGI application that answers one request with the events of a session. In frameworks it serves as a response object:

        async def events(request):  # Starlette; FastAPI is the same
            return EventStream(desk.session(request.path_params["id"]))

    `Last-Event-ID` is read from the request; `last_event_id` is for clients that send it in another way. A cursor of a conversation that
    does not exist any more is answered with 204, after which browsers do not reconnect; an invalid cursor with 400; a store that cannot be
    read with 503. The application that uses this class has to check who may see the session.
    """

    def __init__(
        self, session: Session, last_event_id: str = "", *, until_idle: bool = False, keep_alive: float = KEEP_ALIVE_INTERVAL_S
    ) -> None:
        self._session = session
        self._last_event_id = last_event_id
        self._until_idle = until_idle
        self._keep_alive = keep_alive

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        ids = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name.lower() == b"last-event-id"]
        last_id = ids[-1] if ids and ids[-1] else self._last_event_id
        await answer_until_disconnect(self._respond(last_id, send), receive)

    async def _respond(self, last_id: str, send: Send) -> None:
        refusal = await self._find_refusal_status(last_id)
        await send({"type": "http.response.start", "status": refusal or 200, "headers": [] if refusal else HEADERS})
        if not refusal:
            with suppress(StoreError):  # the response ends, and the client reconnects where it was
                async with aclosing(sse(self._session, last_id, until_idle=self._until_idle, keep_alive=self._keep_alive)) as events:
                    async for encoded in events:
                        await send({"type": "http.response.body", "body": encoded, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _find_refusal_status(self, last_id: str) -> int:
        """Return the HTTP status of a response without events; 0 if events can be sent."""
        try:
            cursor = parse_cursor(last_id or None)
        except BadInput:
            return 400
        try:
            state = (await self._session.refresh()).state
        except UnknownLedger:
            return 204  # the session was deleted while this handle was open
        except StoreError:
            return 503
        return 0 if cursor.belongs_to(state) else 204


async def answer_until_disconnect(response: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run a response until it ends, or the client disconnects."""
    await run_until(response, _wait_for_disconnect(receive))


async def run_until(response: Awaitable[None], ending: Awaitable[object]) -> bool:
    """Run a response until it ends, or something else does. Return True if the response has ended itself."""
    response_task, ending_task = asyncio.ensure_future(response), asyncio.ensure_future(ending)
    try:
        await asyncio.wait([response_task, ending_task], return_when=asyncio.FIRST_COMPLETED)
        is_complete = response_task.done()
    finally:
        for task in (response_task, ending_task):
            task.cancel()
        await asyncio.wait([response_task, ending_task])
    if not response_task.cancelled():
        response_task.result()
    return is_complete


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
