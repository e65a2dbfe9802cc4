"""The demo plays by itself, can be played at a terminal, can be left and taken up again, and proves itself with any provider."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from legato.demo.mind import reply_to
from legato.emulator import serve
from legato.emulator.minds import Prompt, Thought, Use, Words

SRC = Path(__file__).parents[2] / "src"
PATIENCE = 60.0


def environment() -> dict[str, str]:
    """That of this process, without the provider that its user may have a key for."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**ours, "PYTHONPATH": str(SRC), "PYTHONIOENCODING": "utf-8", "TERM": "xterm", "COLUMNS": "100"}


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "legato.demo", "--folder", str(folder), *more]


def played(folder: Path, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *more),
        env={**environment(), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_demo_plays_by_itself_and_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    showing = played(tmp_path, "--auto")
    assert showing.returncode == 0, showing.stdout + showing.stderr
    out = showing.stdout
    assert "a strict emulator of OpenAI's API, through the openai SDK" in out
    assert len(set(re.findall(r"process \d, pid (\d+)", out))) == 3
    assert len(re.findall(r"kill -9 \d+", out)) == 2
    assert "triage -> refunds (money back for order 7)" in out
    assert "refund had started, and its outcome is unknown." in out
    assert "2 messages from you: each is in the last request once, in order" in out
    assert "6 requests, 2 handoffs, 3 processes: each request begins with the one before it" in out
    assert "5 calls: each has exactly one output in every request" in out
    assert "the bytes sent over HTTP say what the ledger says: nothing missing, nothing twice" in out
    assert re.search(r"6 requests over HTTP, 0 refused, \d,\d{3} bytes: everything was sent once", out)
    assert "killed twice, once while the bank paid: the bank paid once" in out
    assert "Nothing was lost and nothing repeated." in out
    assert "\x1b[" not in out, "colours are for terminals"
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["R-001  order 7  24.00"]


def test_a_process_that_never_saw_the_conversation_goes_on_from_what_the_provider_holds(tmp_path: Path) -> None:
    rows = re.findall(r"^  \d (?:triage|refunds) +[\d,]+ bytes  (.*)$", played(tmp_path).stdout, re.MULTILINE)
    assert rows == ["| U", "U T | o", "U T o R | o", "U T o R o R | o o", "U T o R o R o o R | U", "U T o R o R o o R U R | o"]


def test_a_finished_demo_shown_again_only_shows_the_end(tmp_path: Path) -> None:
    played(tmp_path)
    again = played(tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "kill -9" not in again.stdout
    assert "killed twice, once while the bank paid: the bank paid once" in again.stdout


# -- another provider: the demo knows its address and a key, and nothing of what it will say ----------------------------------------


def hesitant(prompt: Prompt) -> Any:
    """A model with a style of its own: it asks back, and talks between its calls."""
    said = [each.text for each in prompt.heard if each.who == "user"]
    if not any(tool.name == "refund" for tool in prompt.tools):
        return Use("handoff_to_refunds", "{}") if len(said) < 3 else [Words("Gern geschehen."), Words("R-001.")]
    if len(said) == 1:
        return "Are you sure?"
    if any(each.tool == "refund" for each in prompt.heard):
        return Use("handoff_to_triage", '{"reason": "done"}') if len(said) > 2 else "All paid."
    order = '{"order_id":"7"}'
    return [Thought("hm"), Words("Well."), Use("refund", '{"order_id":"7","cents":100}'), Words("Wait."), Use("book_pickup", order)]


MINDS: dict[str, Callable[[Prompt], Any] | None] = {"the emulator's own desk": None, "a hesitant model": hesitant}


@pytest.mark.parametrize("mind", MINDS.values(), ids=MINDS)
def test_with_a_key_the_same_program_talks_to_another_provider_and_the_proof_holds(
    mind: Callable[[Prompt], Any] | None, tmp_path: Path
) -> None:
    with serve(mind=mind, keys=["a-real-key"]) as real:
        showing = played(tmp_path, "--model", "gpt-5.5", OPENAI_API_KEY="a-real-key", OPENAI_BASE_URL=real.openai_url)
        assert showing.returncode == 0, showing.stdout + showing.stderr
        assert f"{real.openai_url}, model gpt-5.5: OPENAI_API_KEY is set" in showing.stdout
        assert real.log.requests > 3
        assert not real.log.refusals
        assert all(exchange.request["model"] == "gpt-5.5" for exchange in real.exchanges)
    assert "killed twice, once while the bank paid: the bank paid once" in showing.stdout
    assert "Nothing was lost and nothing repeated." in showing.stdout
    assert not (tmp_path / "provider.sqlite").exists(), "no emulator of the demo's own"


def test_a_provider_that_is_busy_and_forgets_what_it_held_changes_nothing(tmp_path: Path) -> None:
    with serve(mind=reply_to, faults=["rate_limit retry_after=0.1@2", "expired@4", "cut event=6@6"]) as real:
        showing = played(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=real.openai_url)
        assert showing.returncode == 0, showing.stdout + showing.stderr
        assert set(real.log.faults) == {"rate_limit", "expired", "cut"}
    assert "9 requests over HTTP, 1 refused" in showing.stdout
    assert "everything was sent once" not in showing.stdout
    assert "Nothing was lost and nothing repeated." in showing.stdout


def test_a_key_that_is_refused_ends_the_showing_and_leaves_the_conversation(tmp_path: Path) -> None:
    with serve(mind=reply_to, keys=["another"]) as real:
        showing = played(tmp_path, OPENAI_API_KEY="wrong", OPENAI_BASE_URL=real.openai_url)
    assert showing.returncode == 1
    assert "The model did not answer: openai:gpt-5.1: 401" in showing.stdout
    assert "Traceback" not in showing.stdout + showing.stderr
    later = played(tmp_path, "--emulator", OPENAI_API_KEY="wrong")
    assert later.returncode == 0, later.stdout + later.stderr
    assert "Nothing was lost and nothing repeated." in later.stdout


# -- the proof can fail ---------------------------------------------------------------------------------------------------------------


def test_the_proof_notices_what_is_missing_twice_or_changed(tmp_path: Path) -> None:
    played(tmp_path)
    notes = tmp_path / "http.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    assert [item["type"] for line in lines if line.get("turn") == 3 for item in line["body"]["input"]] == ["function_call_output"] * 2

    def shown_with(change: Callable[[list[Any]], object]) -> subprocess.CompletedProcess[str]:
        spoiled = json.loads(json.dumps(lines))
        change(next(line["body"]["input"] for line in spoiled if line.get("turn") == 3))
        notes.write_text("".join(json.dumps(line) + "\n" for line in spoiled))
        return played(tmp_path)

    changes: list[Callable[[list[Any]], object]] = [
        lambda sent: sent.pop(),
        lambda sent: sent.append(sent[0]),
        lambda sent: sent.reverse(),
        lambda sent: sent[0].update(output="?"),
    ]
    for change in changes:
        showing = shown_with(change)
        assert showing.returncode == 1
        assert "✗        the bytes sent over HTTP say what the ledger says" in showing.stdout
        assert "Something is wrong: please report it." in showing.stdout
    assert shown_with(lambda sent: None).returncode == 0


def test_the_proof_notices_a_refund_that_nobody_asked_for(tmp_path: Path) -> None:
    played(tmp_path)
    with (tmp_path / "bank.txt").open("a") as book:
        book.write("R-002  order 7  24.00\n")
    showing = played(tmp_path)
    assert showing.returncode == 1
    assert "the bank paid 2 times" in showing.stdout


# -- at a terminal --------------------------------------------------------------------------------------------------------------------


class Terminal:
    """A person at a terminal."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.shown = ""
        self._read = 0
        self._main, other = pty.openpty()
        told, known = command(folder, "--pace", "0"), {**environment(), **environ}
        self.process = subprocess.Popen(told, env=known, stdin=other, stdout=other, stderr=other, start_new_session=True)
        os.close(other)

    def until(self, words: str) -> str:
        """Read on until these words are shown, after those that were waited for before, and return what came with them."""
        since, deadline = self._read, time.monotonic() + PATIENCE
        while words not in self.shown[since:]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._main], [], [], left)[0]:
                pytest.fail(f"{words!r} was never shown:\n{self.shown}")
            try:
                piece = os.read(self._main, 65536)
            except OSError:  # the other side has closed
                piece = b""
            if not piece:
                pytest.fail(f"the demo ended before it showed {words!r}:\n{self.shown}")
            self.shown += piece.decode("utf-8", "replace")
        self._read = self.shown.index(words, since) + len(words)
        return self.shown[since : self._read]

    def type(self, line: str = "") -> None:
        os.write(self._main, line.encode() + b"\n")

    def end(self) -> int:
        try:
            while os.read(self._main, 65536):
                pass
        except OSError:
            pass
        os.close(self._main)
        return self.process.wait(PATIENCE)


def test_at_a_terminal_one_types_edits_and_answers(tmp_path: Path) -> None:
    person = Terminal(tmp_path)
    person.until("/_emulator?token=")
    person.until("[enter: Order 7 arrived broken")
    person.type("My order 8 is broken, I want a refund")
    assert "\x1b[" in person.until("[enter: approve]")
    assert "36.00 for order 8" in person.shown
    person.type("what?")
    person.until("Please type approve")
    person.until("[enter: approve]")
    person.type("edit 12.00")
    person.until("[enter: it was: refunded 12.00, reference R-001]")
    person.type()
    person.until("[enter: Thank you!")
    assert "12.00 for order 8 is on its way" in person.shown
    person.type()
    person.until("[enter: see how it went]")
    person.type()
    person.until("Nothing was lost and nothing repeated.")
    assert person.end() == 0
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["R-001  order 8  12.00"]


def test_a_rejected_refund_pays_nothing_and_the_words_reach_the_customer(tmp_path: Path) -> None:
    person = Terminal(tmp_path, NO_COLOR="1")
    person.until("[enter: Order 7")
    person.type()
    person.until("[enter: approve]")
    person.type("reject the teapot was a gift")
    person.until("I could not pay order 7 back: the teapot was a gift.")
    person.until("[enter: Thank you!")
    os.write(person._main, b"\x04")  # end of input: enough said
    person.until("killed once, and the bank paid nothing: nothing was approved")
    assert person.end() == 0
    assert "\x1b[" not in person.shown
    assert not (tmp_path / "bank.txt").exists()


def test_a_person_who_asks_for_a_second_payment_gets_one_and_the_proof_says_so(tmp_path: Path) -> None:
    person = Terminal(tmp_path)
    person.until("[enter: Order 7")
    person.type("hello")
    person.until("I can look up an order for you")
    person.until("[enter: Order 7")
    person.type()
    person.until("[enter: approve]")
    person.type("approve")
    person.until("again (pays twice!)")
    person.type("again")
    person.until("reference R-002")
    person.until("[enter: Thank you!")
    person.type("Where is order 9?")
    person.until("a tea tray")
    person.until("[enter: Thank you!")
    os.write(person._main, b"\x04")
    person.until("the bank paid 2 times, as it was told")
    person.until("Nothing was lost and nothing repeated.")
    assert person.end() == 0


def test_ctrl_c_leaves_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    person = Terminal(tmp_path)
    person.until("[enter: Order 7")
    person.type()
    person.until("[enter: approve]")
    person.process.send_signal(signal.SIGINT)
    person.until(f"-m legato.demo --folder {tmp_path}")
    assert person.end() == 130
    assert "Traceback" not in person.shown

    back = Terminal(tmp_path)
    back.until("[enter: approve]")
    back.type()
    back.until("Done: 24.00 for order 7 is on its way, reference R-001.")
    back.until("[enter: Thank you!")
    os.write(back._main, b"\x04")
    back.until("0 refused")
    back.until("everything was sent once")  # the provider of the second showing is that of the first
    back.until("the bank paid once")
    assert back.end() == 0


def test_a_model_that_fails_can_be_asked_again(tmp_path: Path) -> None:
    with serve(mind=reply_to, faults=["quota@1"]) as real:
        person = Terminal(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=real.openai_url)
        person.until("[enter: Order 7")
        person.type()
        person.until("[enter: try again]")
        person.type()
        person.until("[enter: approve]")
        os.write(person._main, b"\x04")
        person.until(f"-m legato.demo --folder {tmp_path}")
        assert person.end() == 130
