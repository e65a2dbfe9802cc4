"""How a process ends that Rust's threads have worked for. May know: the interpreter. Decides: when it may be torn down.

Temporal's SDK has threads that are not Python's. One that brings an answer wakes the event loop, and is for a moment still in Python when
the answer has arrived. If the interpreter is torn down in that moment, the thread dies within Rust, which takes the process with it
(`PyGILState_Release`, or a fault of memory). So whoever ends waits until such threads have left; until there are no such threads any more.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from functools import cache

PATIENCE = 2.0
"""Seconds at most: a thread of somebody else's may be in Python for good, and that is not our business."""


@cache
def leave_in_order() -> None:
    """Have this process end so. Saying it twice is saying it once."""
    atexit.register(_until_they_left)


def _until_they_left() -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(0.001)  # which lets those go on who are in, and those in who wait at the door
        if not _strangers():
            return


def _strangers() -> set[int]:
    """The threads that are in Python now, and that Python did not start. Who has only asked for its name is known by a dummy."""
    known = {each.ident for each in threading.enumerate() if not isinstance(each, threading._DummyThread)}
    return sys._current_frames().keys() - known
