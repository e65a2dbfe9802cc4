"""`legato serve` as a separate process, which can be killed and restarted at the same address."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.cli.conftest import LEGATO

T = TypeVar("T")

TIMEOUT_S = 30.0
CONSOLE_URL = re.compile(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)")


class ServerProcess:
    """A process of `legato serve`. `url` is the address that it printed, with the token."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self._folder, self._environment, self._arguments = folder, dict(environment), arguments
        self._log = folder / "serve.log"
        self.origin, self.token = "", ""
        self.start()

    @property
    def url(self) -> str:
        return f"{self.origin}/#token={self.token}"

    @property
    def log(self) -> str:
        """The output so far, of all starts."""
        return self._log.read_text()

    def start(self) -> None:
        """Start the process; a restart uses the same port and token."""
        port = self.origin.rpartition(":")[2] or "0"
        token = {"LEGATO_TOKEN": self.token} if self.token else {}
        old_length = len(self.log) if self._log.exists() else 0
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*LEGATO, "serve", *self._arguments, "--port", port],
                cwd=self._folder,
                env={**self._environment, **token},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self.token:
            wait_until(self._responds, "the restarted server never answered")
            return
        found = wait_until(lambda: CONSOLE_URL.search(self.log[old_length:]) or self._fail_if_ended(), "the server printed no address")
        self.origin, self.token = found[1], found[2]

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(TIMEOUT_S)

    def stop(self) -> None:
        """Stop the process with SIGINT, if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                pytest.fail(f"the server did not end after Ctrl-C:\n{self.log}")

    # -- requests to the API --------------------------------------------------------------------------------------------

    def request(self, path: str, body: Any = None, method: str = "", headers: Mapping[str, str] | None = None) -> Any:
        """Send a request, and return the JSON of the response."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.origin}{path}", data, method=method or ("GET" if body is None else "POST"))
        for name, value in {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                pytest.fail(f"{request.method} {path}: {error.code} {error.read().decode()}")

    def create_session(self, message: str, id: str, status: str = "waiting") -> dict[str, Any]:
        """Create a session with a message, and wait until it has this status."""
        self.request("/api/sessions", {"id": id, "message": message})
        return self.wait_for_status(id, status)

    def wait_for_status(self, id: str, status: str = "waiting") -> dict[str, Any]:
        """Wait until the session has this status, and return it."""

        def find_session() -> dict[str, Any] | None:
            session = self.request(f"/api/sessions/{quote(id, safe='')}")
            return session if session["status"] == status else None

        return wait_until(find_session, f"session {id} never was {status}")

    def _responds(self) -> bool:
        self._fail_if_ended()
        try:
            return bool(self.request("/api"))
        except OSError:
            return False

    def _fail_if_ended(self) -> None:
        if self._process.poll() is not None:
            pytest.fail(f"the server ended with {self._process.returncode}:\n{self.log}")


def wait_until(find: Callable[[], T], message: str) -> T:
    """Return the first true result of `find`; fail after the timeout."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := find()):
        if time.monotonic() > deadline:
            pytest.fail(message)
        time.sleep(0.05)
    return found
