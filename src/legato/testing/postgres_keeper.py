"""Keeps one Postgres server running for as long as somebody uses it. Run as a script, by `legato.testing.postgres`.

Whoever uses the server holds a shared lock on the file `users`. The kernel drops that when a process ends, however it ends; so when this
process gets the lock for itself, nobody is left, and it stops the server and removes the folder. Nothing has to be cleaned up by hand.
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

EVERY = 0.02  # seconds between looks at what is wanted


def keep(folder: Path, binaries: Path, user: int | None, settings: dict[str, str]) -> None:
    """Run the server while there are users; start it again when the file `wanted` is there and it is not."""
    with (folder / "users").open() as users, (folder / "log").open("ab") as log:
        server: subprocess.Popen[bytes] | None = None
        while not _have(users.fileno()):
            if (server is None or server.poll() is not None) and (folder / "wanted").exists():
                server = _start(folder, binaries, user, settings, log.fileno())
            time.sleep(EVERY)
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGQUIT)  # at once: nobody needs what is in it
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(10)
            if server.poll() is None:
                server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, binaries: Path, user: int | None, settings: dict[str, str], log: int) -> subprocess.Popen[bytes]:
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
    started = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **as_user(user))  # type: ignore[call-overload]
    (folder / "pid").write_text(str(started.pid))
    return started  # type: ignore[no-any-return]


def as_user(user: int | None) -> dict[str, object]:
    """Postgres refuses to run as root: what a process is started with to run as somebody else."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def _have(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        keep(Path(given["folder"]), Path(given["binaries"]), given["user"], given["settings"])
    os._exit(0)
