"""The shutdown of an interpreter in which foreign threads run.

Temporal's SDK has threads that Python did not start. A thread that delivers a result wakes the event loop, and is for a moment still in
Python when the result has arrived. If the interpreter is finalized in that moment, the thread crashes within Rust, and the process with it
(`PyGILState_Release`, or a memory fault). So the process waits at its exit until no foreign thread is in Python.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from functools import cache

MAX_WAIT_S = 2.0
"""The longest wait in seconds: a thread of another library may stay in Python for good."""


@cache
def wait_for_foreign_threads_at_exit() -> None:
    """Make this process wait for foreign threads at its exit. Repeated calls have no effect."""
    atexit.register(_wait_for_foreign_threads)


def _wait_for_foreign_threads() -> None:
    until = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < until:
        time.sleep(0.001)  # releases the interpreter to the threads that hold or wait for it
        if not _find_foreign_threads():
            return


def _find_foreign_threads() -> set[int]:
    """Return the threads that are in Python now, and that Python did not start. Those that asked for their name have a dummy object."""
    known = {each.ident for each in threading.enumerate() if not isinstance(each, threading._DummyThread)}
    return sys._current_frames().keys() - known
