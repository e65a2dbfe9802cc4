"""The support desk of `make demo` dies twice, goes on, proves itself with any provider, and notices when something is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from legato.emulator import serve
from legato.emulator.minds import Prompt, Thought, Use, Words

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "demo" / "support_desk.py"
PATIENCE = 60.0


def environment() -> dict[str, str]:
    """That of this process, without the provider that its user may have a key for."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**ours, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}


def play(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def emulated_reply() -> Any:
    """What the program has its emulator say."""
    spec = importlib.util.spec_from_file_location("support_desk", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.emulated_reply


def test_the_demo_proves_that_nothing_was_lost(tmp_path: Path) -> None:
    showing = play(tmp_path)
    assert showing.returncode == 0, showing.stdout + showing.stderr
    out = showing.stdout
    assert len(set(re.findall(r"process \d +pid (\d+)", out))) == 3
    assert len(re.findall(r"kill -9 \d+", out)) == 2
    assert "triage -> refunds (money back)" in out
    assert "nobody knows how it ended" in out
    assert "ok             2 messages of the customer: each is in the last request once, in order" in out
    assert "ok             6 requests, 2 handoffs, 3 processes: each request begins with the one before it" in out
    assert "ok             5 calls: each has exactly one output in every request" in out
    assert "ok             the bytes sent over HTTP say what the ledger says: nothing missing, nothing twice" in out
    assert "ok             6 requests over HTTP, 0 refused" in out
    assert "ok             killed 2 times, the bank was asked 1 times to pay and paid 1 times" in out
    assert "Nothing was lost and nothing repeated." in out
    assert "the emulator was asked for 6 replies and refused none" in showing.stderr
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["R-001  order 7  24.00"]


def test_each_process_sends_the_whole_conversation(tmp_path: Path) -> None:
    rows = re.findall(r"^\d (?:triage|refunds) +[\d,]+ bytes  (.*)$", play(tmp_path).stdout, re.MULTILINE)
    assert rows == ["u", "u a c o", "u a c o c o", "u a c o c o a c c o o", "u a c o c o a c c o o a u", "u a c o c o a c c o o a u c o"]


def test_a_finished_conversation_is_only_proved_again(tmp_path: Path) -> None:
    play(tmp_path)
    again = play(tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "kill -9" not in again.stdout
    assert "the bank was asked 1 times to pay and paid 1 times" in again.stdout


# -- another provider: the program knows its address and a key, and nothing of what it will say -------------------------------------


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
def test_the_proof_holds_with_another_provider(mind: Callable[[Prompt], Any] | None, tmp_path: Path) -> None:
    with serve(mind=mind, keys=["a-real-key"]) as real:
        showing = play(tmp_path, OPENAI_API_KEY="a-real-key", OPENAI_BASE_URL=real.openai_url)
        assert showing.returncode == 0, showing.stdout + showing.stderr
        assert f"OPENAI_API_KEY is set, so {real.openai_url} answers" in showing.stderr
        assert real.log.requests > 3
        assert not real.log.refusals
    assert "killed 2 times, the bank was asked 1 times to pay and paid 1 times" in showing.stdout
    assert "Nothing was lost and nothing repeated." in showing.stdout


def test_a_busy_provider_changes_nothing(tmp_path: Path) -> None:
    with serve(mind=emulated_reply(), faults=["rate_limit retry_after=0.1@2", "cut event=6@6"]) as real:
        showing = play(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=real.openai_url)
        assert showing.returncode == 0, showing.stdout + showing.stderr
        assert set(real.log.faults) == {"rate_limit", "cut"}
    assert "8 requests over HTTP, 0 refused" in showing.stdout
    assert "Nothing was lost and nothing repeated." in showing.stdout


def test_a_refused_key_leaves_the_conversation(tmp_path: Path) -> None:
    with serve(keys=["another"]) as real:
        showing = play(tmp_path, OPENAI_API_KEY="wrong", OPENAI_BASE_URL=real.openai_url)
    assert showing.returncode == 1
    assert "The model did not answer: openai:gpt-5.1: 401" in showing.stderr
    assert "Traceback" not in showing.stdout + showing.stderr
    later = play(tmp_path)
    assert later.returncode == 0, later.stdout + later.stderr
    assert "ok             2 messages of the customer: each is in the last request once, in order" in later.stdout
    assert "Nothing was lost and nothing repeated." in later.stdout


# -- the proof can fail ---------------------------------------------------------------------------------------------------------------


def test_the_proof_notices_changed_bytes(tmp_path: Path) -> None:
    """What is missing, twice, out of order or changed in one request."""
    play(tmp_path)
    notes = tmp_path / "http.jsonl"
    lines = [json.loads(line) for line in notes.read_text().splitlines()]

    def play_with(change: Callable[[list[Any]], object]) -> subprocess.CompletedProcess[str]:
        spoiled = json.loads(json.dumps(lines))
        change(next(line["input"] for line in spoiled if line.get("turn") == 3))
        notes.write_text("".join(json.dumps(line) + "\n" for line in spoiled))
        return play(tmp_path)

    changes: list[Callable[[list[Any]], object]] = [
        lambda sent: sent.pop(),
        lambda sent: sent.append(sent[0]),
        lambda sent: sent.reverse(),
        lambda sent: sent[-1].update(output="?"),
    ]
    for change in changes:
        showing = play_with(change)
        assert showing.returncode == 1
        assert "WRONG          the bytes sent over HTTP say what the ledger says" in showing.stdout
        assert "Something is wrong: please report it." in showing.stdout
    assert play_with(lambda sent: None).returncode == 0


def test_the_proof_notices_an_unasked_refund(tmp_path: Path) -> None:
    play(tmp_path)
    with (tmp_path / "bank.txt").open("a") as book:
        book.write("R-002  order 7  24.00\n")
    showing = play(tmp_path)
    assert showing.returncode == 1
    assert "WRONG          killed 0 times, the bank was asked 1 times to pay and paid 2 times" in showing.stdout


# -- interrupted ----------------------------------------------------------------------------------------------------------------------


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(PROGRAM), str(tmp_path)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "KILLED" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        left = process.stdout.read()
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 130
    assert f"support_desk.py {tmp_path}" in left
    back = play(tmp_path)
    assert back.returncode == 0, back.stdout + back.stderr
    assert "customer: Order 7" not in back.stdout, "it was said before"
    assert "Nothing was lost and nothing repeated." in back.stdout
