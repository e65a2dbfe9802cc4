"""`legato serve` as a process: its output, and that nothing is lost however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.api_client import ApiClient

CONSOLE_URL = re.compile(r"console  (http://127\.0\.0\.1:\d+)/#token=(\S+)")
LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]


def wait_until(find: Callable[[], Any], message: str) -> Any:
    until = time.monotonic() + 60
    while not (found := find()):
        assert time.monotonic() < until, message
        time.sleep(0.01)
    return found


class ServerFolder:
    """A folder with a workflow, and the servers started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "desk.py").write_text((Path(__file__).parent / "slow_desk.py").read_text())
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_KEY") and not name.startswith("LEGATO_")}
        source = str(Path(__file__).parents[2] / "src")
        self.environment = {**kept, "PYTHONPATH": source, "XDG_DATA_HOME": str(folder / "data"), "HOME": str(folder)}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str, desk: str = "desk:desk", **environment: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "log").open("ab")
        with log:
            process = subprocess.Popen(
                [*LEGATO, "serve", desk, *arguments],
                cwd=self.folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start_and_connect(self, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], ApiClient]:
        """Start a server and connect to it. A second start uses the port and token of the first one."""
        before = CONSOLE_URL.search(self.log)
        if before is None:
            process = self.start("--port", "0", *arguments, **environment)
            found = wait_until(lambda: CONSOLE_URL.search(self.log) or process.poll() is not None, "the server printed no address")
            assert not isinstance(found, bool), self.log
            return process, ApiClient(found[1], found[2])
        client = ApiClient(before[1], before[2])
        process = self.start("--port", str(client.port), *arguments, LEGATO_TOKEN=client.token, **environment)
        wait_until(lambda: self._responds(client), "the server never answered")
        return process, client

    def _responds(self, client: ApiClient) -> bool:
        try:
            return client.request("GET", "/api").status == 200
        except OSError:
            return False

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    @property
    def steps(self) -> list[str]:
        path = self.folder / "done"
        return path.read_text().splitlines() if path.exists() else []

    def release(self) -> None:
        (self.folder / "go").touch()

    def kill_all(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ServerFolder]:
    made = ServerFolder(tmp_path)
    try:
        yield made
    finally:
        made.kill_all()


def read_recorded_events(client: ApiClient, id: str, last: str = "") -> list[dict[str, str]]:
    """Read the events with cursors, after a cursor, until the session is idle."""
    found: list[dict[str, str]] = []
    with client.open_events(id, last=last) as events:
        for event in events:
            if "id" in event:
                found.append(event)
            if event["event"] == "status" and json.loads(event["data"])["data"] in ("waiting", "pending"):
                return found
    raise AssertionError("the stream ended")


def test_server_prints_token_once_and_no_requests(place: ServerFolder) -> None:
    process, client = place.start_and_connect()
    client.create_session("hello words-of-a-person", "s")
    client.request("GET", "/api/nothing?search=words-of-a-person")
    assert client.request("GET", "/api", headers={"authorization": "Bearer wrong-token-0123456789"}).status == 401
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = place.log.splitlines()
    assert [line.partition(" ")[0] for line in lines[:4]] == ["console", "API", "store", "Ctrl-C"]
    assert place.log.count(client.token) == 1
    assert lines[4:] == ["", "finishing what runs; Ctrl-C again ends at once"]


def test_killed_server_and_its_stream_resume(place: ServerFolder) -> None:
    process, client = place.start_and_connect()
    client.create_session("hello", "s")
    seen = read_recorded_events(client, "s")
    with client.open_events("s", last=seen[-1]["id"]) as events:
        assert next(events)["event"] == "output_reset"  # from here on it is heard what is said
        client.post("/api/sessions/s/messages", {"message": "slowly"}, 202)
        for event in events:
            if "id" in event:
                seen.append(event)
            if event["event"] == "output" and json.loads(event["data"])["data"]["delta"]:
                break  # half of it was shown
        process.kill()
        process.wait(20)
    place.release()
    _, client = place.start_and_connect()
    seen += read_recorded_events(client, "s", seen[-1]["id"])
    assert client.wait_for_status("s", "waiting")["messages"] == 4
    assert list_fact_events(seen) == list_fact_events(read_all_events(client, "s")), "no gap and no repeat"
    assert [kind for kind, _ in list_fact_events(seen)] == ["said", "message", "said", "message"]


def list_fact_events(events: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Return the events that every follower gets: not statuses, which are sent only to followers of that time, and not deltas."""
    return [(event["event"], event["id"]) for event in events if event["event"] not in ("output", "request_info", "status")]


def read_all_events(client: ApiClient, id: str) -> list[dict[str, str]]:
    """Read all events of an idle session."""
    found: list[dict[str, str]] = []
    length = client.get_session(id)["facts"]
    with client.open_events(id) as events:
        for event in events:
            if "id" in event:
                found.append(event)
            if event["event"] == "status" and re.match(rf"[0-9a-f]+-{length}\b", event.get("id", "")):
                return found
    raise AssertionError("the stream ended")


def test_interrupted_tool_is_rerun_only_if_idempotent(place: ServerFolder) -> None:
    """Otherwise a request about its outcome is pending."""
    process, client = place.start_and_connect()
    for id, message in (("a", "pay Ann"), ("b", "look Bob")):
        client.post("/api/sessions", {"id": id, "message": message}, 201)
    wait_until(lambda: len(place.steps) == 2, "the tools were never started")
    process.kill()
    process.wait(20)
    place.release()
    _, client = place.start_and_connect()
    assert client.wait_for_status("b", "waiting")["last"]["text"] == "One two three."
    [request] = client.wait_for_status("a", "pending")["pending"]
    assert (request["kind"], request["verdicts"]) == ("outcome", ["approve", "answer", "reject"])
    assert place.steps.count("paying Ann") == 1
    assert place.steps.count("looking at Bob") == 2
    given = {"request": request["id"], "digest": request["digest"], "verdict": "answer", "value": "Ann has the money"}
    client.post("/api/sessions/a/answers", given)
    assert client.wait_for_status("a", "waiting")["last"]["text"] == "One two three."
    assert place.steps.count("paying Ann") == 1


def test_signal_finishes_and_records_running_steps(place: ServerFolder) -> None:
    process, client = place.start_and_connect()
    client.post("/api/sessions", {"id": "s", "message": "pay Ann"}, 201)
    wait_until(lambda: "paying Ann" in place.steps, "the tool was never started")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "finishing what runs" in place.log, "it was not told")
    with pytest.raises(OSError, match="refused"):
        wait_until(lambda: client.request("GET", "/api") and None, "no more is taken")
    place.release()
    assert process.wait(20) == 0
    assert place.steps == ["paying Ann", "paid Ann"]
    _, client = place.start_and_connect()
    assert client.wait_for_status("s", "waiting")["last"]["text"] == "One two three."
    assert place.steps.count("paying Ann") == 1


def test_second_signal_stops_server_at_once(place: ServerFolder) -> None:
    """The next server asks about the tool's outcome."""
    process, client = place.start_and_connect()
    client.post("/api/sessions", {"id": "s", "message": "pay Ann"}, 201)
    wait_until(lambda: "paying Ann" in place.steps, "the tool was never started")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "finishing what runs" in place.log, "it was not told")
    wait_until(lambda: process.poll() is not None or process.send_signal(signal.SIGINT), "it did not end")
    assert process.wait(20) == 130
    _, client = place.start_and_connect()
    assert client.wait_for_status("s", "pending")["pending"][0]["kind"] == "outcome"


def test_open_stream_does_not_delay_shutdown(place: ServerFolder) -> None:
    process, client = place.start_and_connect()
    client.create_session("hello", "s")
    with client.open_events("s") as events:
        next(events)
        process.send_signal(signal.SIGTERM)
        assert [event["event"] for event in events][-1] == "status"
    assert process.wait(20) == 0


INVALID_OPTIONS = {
    "a port that is taken": (["--port", "{taken}"], "the server cannot listen on 127.0.0.1:"),
    "others could connect, and no token was chosen": (["--host", "0.0.0.0"], "choose a token yourself"),
    "an invalid engine": (["--engine", "nothing://x"], "this is not the URL of an engine"),
}


@pytest.mark.parametrize(("arguments", "words"), INVALID_OPTIONS.values(), ids=INVALID_OPTIONS)
def test_invalid_options_prevent_start_with_reason(place: ServerFolder, arguments: list[str], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [each.replace("{taken}", str(taken.getsockname()[1])) for each in arguments]
        process = place.start(*given)
        assert process.wait(30) == 2
    assert place.log.startswith("error: ")
    assert words in place.log
    assert "Traceback" not in place.log


def test_open_option_keeps_token_off_command_lines(place: ServerFolder) -> None:
    """The console is opened through a private file that has its address."""
    opener = place.folder / "browser"
    opener.write_text(f'#!/bin/sh\necho "$@" > {place.folder}/opened\ncp "${{1#file://}}" {place.folder}/page\n')
    opener.chmod(0o755)
    process, client = place.start_and_connect("--open", BROWSER=f"{opener} %s")
    page = wait_until(lambda: (place.folder / "page").exists() and (place.folder / "page").read_text(), "no browser was opened")
    assert f"url={client.url}/#token={client.token}" in page
    opened = (place.folder / "opened").read_text().strip()
    assert client.token not in opened
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not Path(opened.removeprefix("file://")).exists()
