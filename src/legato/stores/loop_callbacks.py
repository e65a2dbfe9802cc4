"""Callbacks into event loops, and the listeners that a forked child must not keep."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class ProcessListeners(Protocol):
    """Listeners that belong to one process."""

    def reset(self) -> None:
        """Forget all listeners."""
        ...


_process_listeners: weakref.WeakSet[ProcessListeners] = weakref.WeakSet()


def reset_after_fork(listeners: ProcessListeners) -> None:
    """Have `listeners.reset()` called in each forked child: listeners of the parent do not listen there."""
    _process_listeners.add(listeners)


def call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[T], None], argument: T) -> None:
    """Call `callback(argument)` in this event loop: at once if it is the running one, so that its socket need not wake it."""
    if asyncio._get_running_loop() is loop:
        callback(argument)
        return
    with suppress(RuntimeError):  # the loop is closed: nothing listens there any more
        loop.call_soon_threadsafe(callback, argument)


def _reset_in_child() -> None:
    for listeners in list(_process_listeners):
        listeners.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
