"""Sync functions beside the event loop. May know: threads. Decides: that a tool which hangs holds up nobody.

Not the loop's own executor: a program cannot end before every thread of that one has, and a tool that never returns would keep it
for ever. These threads are daemons: they end with the process, and the ledger then says that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads:
    """Calls each function in a daemon thread of its own, as an `Executor`.

    No subclass of it: Temporal's sandbox, where workflows are imported, has none of a class of `concurrent.futures`.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        threading.Thread(target=work, name="legato-tool", daemon=True).start()
        return future


DAEMON_THREADS = cast("Executor", DaemonThreads())


async def in_thread(function: Callable[[], T]) -> T:
    """Call the function in a thread of its own, with the caller's contextvars."""
    call: Callable[[], T] = partial(contextvars.copy_context().run, function)
    return await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)
