"""Files that only their owner can read."""

from __future__ import annotations

import os
from contextlib import suppress

PRIVATE_MODE = 0o600


def create_private_file(path: str | os.PathLike[str], mode: int = PRIVATE_MODE) -> None:
    """Create an empty file for its owner alone, unless it exists. SQLite gives the log beside a database the same permissions.

    An existing file is not opened: closing it would drop the locks that this process has on it. If the file cannot be created, the next
    process that opens it reports the error.
    """
    with suppress(OSError):
        path = os.path.realpath(path)  # a link may point to a file that does not exist yet
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_MODE))
        if mode != PRIVATE_MODE:
            os.chmod(path, mode)


def open_private_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, and create it for its owner alone if need be: an `opener` for `open()`."""
    return os.open(path, flags, PRIVATE_MODE)
