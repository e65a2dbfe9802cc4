"""Sync functions beside the event loop. May know: threads. Decides: that a tool which hangs holds up nobody.

Not the loop's own executor: a program cannot end before every thread of that one has, and a tool that never returns would keep it
for ever. These threads are daemons: they end with the process, and the ledger then says that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress


async def in_thread(function: Callable[[], object]) -> object:
    """Call the function in a thread of its own, with the caller's contextvars."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: object, error: BaseException | None) -> None:
        if future.done():
            return  # whoever waited has left
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop may be closed, and with it went whoever waited
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="legato-tool", daemon=True).start()
    return await future
