"""Creates files that only their owner can read. May know: the file system."""

from __future__ import annotations

import os
from contextlib import suppress

PRIVATE = 0o600


def create_private(path: str | os.PathLike[str], mode: int = PRIVATE) -> None:
    """Create an empty file for its owner alone, if there is none. SQLite gives the log beside a database the same permissions.

    A file that exists is not opened: closing it would drop the locks that this process has on it. A file that cannot be created is
    reported by whoever opens it next.
    """
    with suppress(OSError):
        path = os.path.realpath(path)  # a link may point to a file that does not exist yet
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        if mode != PRIVATE:
            os.chmod(path, mode)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """An `opener` for `open()`: a file that it creates is for its owner alone."""
    return os.open(path, flags, PRIVATE)
