"""`legato serve` as a process: what it prints, and that nothing is lost however it ends."""

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

from tests.server.asking import Client

ADDRESS = re.compile(r"console  (http://127\.0\.0\.1:\d+)/#token=(\S+)")
LEGATO = [sys.executable, "-W", "error", "-m", "legato.cli"]


def eventually(look: Callable[[], Any], words: str) -> Any:
    until = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < until, words
        time.sleep(0.01)
    return found


class Place:
    """A folder with a desk in it, and the servers that were started there."""

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

    def served(self, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Client]:
        """A server that answers; the second time, where the first was, with its token."""
        before = ADDRESS.search(self.log)
        if before is None:
            process = self.start("--port", "0", *arguments, **environment)
            found = eventually(lambda: ADDRESS.search(self.log) or process.poll() is not None, "it never said where it is")
            assert not isinstance(found, bool), self.log
            return process, Client(found[1], found[2])
        client = Client(before[1], before[2])
        process = self.start("--port", str(client.port), *arguments, LEGATO_TOKEN=client.token, **environment)
        eventually(lambda: self._answers(client), "it never answered")
        return process, client

    def _answers(self, client: Client) -> bool:
        try:
            return client.ask("GET", "/api").status == 200
        except OSError:
            return False

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    @property
    def done(self) -> list[str]:
        path = self.folder / "done"
        return path.read_text().splitlines() if path.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    try:
        yield made
    finally:
        made.end()


def told(client: Client, id: str, last: str = "") -> list[dict[str, str]]:
    """The events that come from the ledger, after a cursor, until the session rests."""
    found: list[dict[str, str]] = []
    with client.events(id, last=last) as events:
        for event in events:
            if "id" in event:
                found.append(event)
            if event["event"] == "status" and json.loads(event["data"])["data"] in ("waiting", "pending"):
                return found
    raise AssertionError("the stream ended")


def test_it_says_where_it_is_and_with_which_token_once_and_nothing_of_what_is_asked(place: Place) -> None:
    process, client = place.served()
    client.begin("hello words-of-a-person", "s")
    client.ask("GET", "/api/nothing?search=words-of-a-person")
    assert client.ask("GET", "/api", headers={"authorization": "Bearer wrong-token-0123456789"}).status == 401
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = place.log.splitlines()
    assert [line.partition(" ")[0] for line in lines[:4]] == ["console", "API", "store", "Ctrl-C"]
    assert place.log.count(client.token) == 1
    assert lines[4:] == ["", "finishing what runs; Ctrl-C again ends at once"]


def test_a_server_that_was_killed_in_the_middle_of_a_stream_goes_on_and_so_does_the_page(place: Place) -> None:
    process, client = place.served()
    client.begin("hello", "s")
    seen = told(client, "s")
    with client.events("s", last=seen[-1]["id"]) as events:
        assert next(events)["event"] == "output_reset"  # from here on it is heard what is said
        client.post("/api/sessions/s/messages", {"message": "slowly"}, 202)
        for event in events:
            if "id" in event:
                seen.append(event)
            if event["event"] == "output" and json.loads(event["data"])["data"]["delta"]:
                break  # half of it was shown
        process.kill()
        process.wait(20)
    place.go()
    _, client = place.served()
    seen += told(client, "s", seen[-1]["id"])
    assert client.until("s", "waiting")["messages"] == 4
    assert recorded(seen) == recorded(everything(client, "s")), "no gap and no repeat"
    assert [kind for kind, _ in recorded(seen)] == ["said", "message", "said", "message"]


def recorded(events: list[dict[str, str]]) -> list[tuple[str, str]]:
    """What is of a fact. That a session rested is told to whoever was there then; words come whole to those who did not hear them."""
    return [(event["event"], event["id"]) for event in events if event["event"] not in ("output", "request_info", "status")]


def everything(client: Client, id: str) -> list[dict[str, str]]:
    """All events of a session that rests."""
    found: list[dict[str, str]] = []
    length = client.session(id)["facts"]
    with client.events(id) as events:
        for event in events:
            if "id" in event:
                found.append(event)
            if event["event"] == "status" and re.match(rf"[0-9a-f]+-{length}\b", event.get("id", "")):
                return found
    raise AssertionError("the stream ended")


def test_a_tool_that_was_running_when_the_server_was_killed_is_asked_about_and_not_run_again_unless_it_may_be(place: Place) -> None:
    process, client = place.served()
    for id, message in (("a", "pay Ann"), ("b", "look Bob")):
        client.post("/api/sessions", {"id": id, "message": message}, 201)
    eventually(lambda: len(place.done) == 2, "the tools were never started")
    process.kill()
    process.wait(20)
    place.go()
    _, client = place.served()
    assert client.until("b", "waiting")["last"]["text"] == "One two three."
    [request] = client.until("a", "pending")["pending"]
    assert (request["kind"], request["verdicts"]) == ("outcome", ["approve", "answer", "reject"])
    assert place.done.count("paying Ann") == 1
    assert place.done.count("looking at Bob") == 2
    given = {"request": request["id"], "digest": request["digest"], "verdict": "answer", "value": "Ann has the money"}
    client.post("/api/sessions/a/answers", given)
    assert client.until("a", "waiting")["last"]["text"] == "One two three."
    assert place.done.count("paying Ann") == 1


def test_a_signal_lets_what_runs_be_finished_and_recorded_and_the_next_server_goes_on(place: Place) -> None:
    process, client = place.served()
    client.post("/api/sessions", {"id": "s", "message": "pay Ann"}, 201)
    eventually(lambda: "paying Ann" in place.done, "the tool was never started")
    process.send_signal(signal.SIGINT)
    eventually(lambda: "finishing what runs" in place.log, "it was not told")
    with pytest.raises(OSError, match="refused"):
        eventually(lambda: client.ask("GET", "/api") and None, "no more is taken")
    place.go()
    assert process.wait(20) == 0
    assert place.done == ["paying Ann", "paid Ann"]
    _, client = place.served()
    assert client.until("s", "waiting")["last"]["text"] == "One two three."
    assert place.done.count("paying Ann") == 1


def test_a_second_signal_ends_it_at_once_and_the_next_server_asks(place: Place) -> None:
    process, client = place.served()
    client.post("/api/sessions", {"id": "s", "message": "pay Ann"}, 201)
    eventually(lambda: "paying Ann" in place.done, "the tool was never started")
    process.send_signal(signal.SIGINT)
    eventually(lambda: "finishing what runs" in place.log, "it was not told")
    eventually(lambda: process.poll() is not None or process.send_signal(signal.SIGINT), "it did not end")
    assert process.wait(20) == 130
    _, client = place.served()
    assert client.until("s", "pending")["pending"][0]["kind"] == "outcome"


def test_a_stream_ends_with_the_server_and_does_not_hold_it_up(place: Place) -> None:
    process, client = place.served()
    client.begin("hello", "s")
    with client.events("s") as events:
        next(events)
        process.send_signal(signal.SIGTERM)
        assert [event["event"] for event in events][-1] == "status"
    assert process.wait(20) == 0


REFUSED = {
    "a port that is taken": (["--port", "{taken}"], "the server cannot listen on 127.0.0.1:"),
    "others could connect, and no token was chosen": (["--host", "0.0.0.0"], "choose a token yourself"),
    "an engine that is none": (["--engine", "nothing://x"], "this is no address of an engine"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_it_refuses_to_start_and_says_why(place: Place, arguments: list[str], words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [each.replace("{taken}", str(taken.getsockname()[1])) for each in arguments]
        process = place.start(*given)
        assert process.wait(30) == 2
    assert place.log.startswith("error: ")
    assert words in place.log
    assert "Traceback" not in place.log


def test_the_console_is_opened_through_a_file_that_has_its_address_and_the_token_is_on_no_command_line(place: Place) -> None:
    opener = place.folder / "browser"
    opener.write_text(f'#!/bin/sh\necho "$@" > {place.folder}/opened\ncp "${{1#file://}}" {place.folder}/page\n')
    opener.chmod(0o755)
    process, client = place.served("--open", BROWSER=f"{opener} %s")
    page = eventually(lambda: (place.folder / "page").exists() and (place.folder / "page").read_text(), "no browser was opened")
    assert f"url={client.url}/#token={client.token}" in page
    opened = (place.folder / "opened").read_text().strip()
    assert client.token not in opened
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not Path(opened.removeprefix("file://")).exists()
