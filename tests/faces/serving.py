"""`legato serve`, as a process of its own: started, killed, started again at the same address, and asked as any program asks it."""

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

PATIENCE = 30.0
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)")


class Server:
    """A served workflow. `url` is what a person opens: the token is in it, as the server told it."""

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
        """All that it has said so far, of all its lives."""
        return self._log.read_text()

    def start(self) -> None:
        """Start it; after the first time, where it was and with the token that it had, as an operator would."""
        port = self.origin.rpartition(":")[2] or "0"
        given = {"LEGATO_TOKEN": self.token} if self.token else {}
        told = len(self.log) if self._log.exists() else 0
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*LEGATO, "serve", *self._arguments, "--port", port],
                cwd=self._folder,
                env={**self._environment, **given},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self.token:
            eventually(self._answers, "the server that was started again never answered")
            return
        found = eventually(lambda: ADDRESS.search(self.log[told:]) or self._ended(), "no address was told")
        self.origin, self.token = found[1], found[2]

    def kill(self) -> None:
        """`kill -9`, of it and all that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        """Ctrl-C, if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                pytest.fail(f"the server did not end after Ctrl-C:\n{self.log}")

    # -- the API, for what a test prepares and looks up ------------------------------------------------------------------

    def ask(self, path: str, body: Any = None, method: str = "", headers: Mapping[str, str] | None = None) -> Any:
        """One request: the answer's JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.origin}{path}", data, method=method or ("GET" if body is None else "POST"))
        for name, value in {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                pytest.fail(f"{request.method} {path}: {error.code} {error.read().decode()}")

    def begin(self, message: str, id: str, status: str = "waiting") -> dict[str, Any]:
        """A session in which something was said, once it has come to rest."""
        self.ask("/api/sessions", {"id": id, "message": message})
        return self.rested(id, status)

    def rested(self, id: str, status: str = "waiting") -> dict[str, Any]:
        """The session, once it stands like this."""

        def stands() -> dict[str, Any] | None:
            session = self.ask(f"/api/sessions/{quote(id, safe='')}")
            return session if session["status"] == status else None

        return eventually(stands, f"session {id} never was {status}")

    def _answers(self) -> bool:
        self._ended()
        try:
            return bool(self.ask("/api"))
        except OSError:
            return False

    def _ended(self) -> None:
        if self._process.poll() is not None:
            pytest.fail(f"the server ended with {self._process.returncode}:\n{self.log}")


def eventually(look: Callable[[], T], words: str) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(words)
        time.sleep(0.05)
    return found
