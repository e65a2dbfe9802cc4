"""The demo plays by itself, can be played at a terminal, and can be left and taken up again."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
PATIENCE = 60.0


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SRC), "PYTHONIOENCODING": "utf-8", "TERM": "xterm", "COLUMNS": "100"}


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "legato.demo", "--folder", str(folder), *more]


def played(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *more), env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_demo_plays_by_itself_and_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    begun = time.monotonic()
    showing = played(tmp_path, "--auto")
    assert showing.returncode == 0, showing.stdout + showing.stderr
    assert time.monotonic() - begun < 20
    out = showing.stdout
    assert len(set(re.findall(r"process \d, pid (\d+)", out))) == 3
    assert len(re.findall(r"kill -9 \d+", out)) == 2
    assert "triage -> refunds (money back for order 7)" in out
    assert "refund had started, and its outcome is unknown." in out
    assert "2 messages from you: each is in the last request once, in order" in out
    assert "6 requests, 2 handoffs, 3 processes: each request begins with the one before it" in out
    assert "5 calls: each has exactly one output in every request" in out
    assert "the bank paid once, although the process died while it paid" in out
    assert "Nothing was lost and nothing repeated." in out
    assert "\x1b[" not in out, "colours are for terminals"
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["R-001  order 7  24.00"]


def test_a_finished_demo_shown_again_only_shows_the_end(tmp_path: Path) -> None:
    played(tmp_path)
    again = played(tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "kill -9" not in again.stdout
    assert "the bank paid once" in again.stdout


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
    person.until("the bank paid 0 times: nothing was approved")
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
    person.until("the bank paid 2 times: a person asked for each of them")
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
    back.until("the bank paid once")
    assert back.end() == 0
