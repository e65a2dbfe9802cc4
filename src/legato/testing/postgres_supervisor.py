"""The supervisor of one Postgres server: a script that keeps it running while processes use it. `legato.testing.postgres` starts it.

Each process that uses the server holds a shared lock on the file `users`. The kernel releases the lock when the process ends, however it
ends. So when the supervisor gets the lock exclusively, no user is left; it stops the server and removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_INTERVAL_S = 0.02


def supervise(folder: Path, binaries: Path, user: int | None, settings: dict[str, str]) -> None:
    """Run the server while there are users. If it does not run, start it as soon as the file `wanted` exists."""
    with (folder / "users").open() as users, (folder / "log").open("ab") as log:
        server: subprocess.Popen[bytes] | None = None
        while not _try_lock(users.fileno()):
            if (server is None or server.poll() is not None) and (folder / "wanted").exists():
                server = _start_server(folder, binaries, user, settings, log.fileno())
            time.sleep(POLL_INTERVAL_S)
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGQUIT)  # an immediate shutdown: its data are deleted anyway
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            if server.poll() is None:
                server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _start_server(folder: Path, binaries: Path, user: int | None, settings: dict[str, str], log: int) -> subprocess.Popen[bytes]:
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
    started = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **make_user_options(user))  # type: ignore[call-overload]
    (folder / "pid").write_text(str(started.pid))
    return started  # type: ignore[no-any-return]


def make_user_options(user: int | None) -> dict[str, object]:
    """Return the arguments of `subprocess.Popen` that run a program as this user; None: as the current user."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    if os.fork() == 0:
        os.setsid()
        null_device = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null_device, descriptor)
        supervise(Path(order["folder"]), Path(order["binaries"]), order["user"], order["settings"])
    os._exit(0)
