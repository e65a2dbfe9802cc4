"""The demo of `make demo`: it dies twice, continues, checks itself with any provider, and notices errors."""

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
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText, ReplyThought

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "demo" / "support_desk.py"
TIMEOUT_S = 60.0


def make_environment() -> dict[str, str]:
    """Return the environment of this process without OpenAI's variables."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**variables, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}


def run_demo(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env={**make_environment(), **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def load_emulated_reply() -> Any:
    """Return the program's reply function for the emulator."""
    spec = importlib.util.spec_from_file_location("support_desk", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_emulated_reply


def test_demo_confirms_that_nothing_was_lost(tmp_path: Path) -> None:
    result = run_demo(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    out = result.stdout
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
    assert "the emulator was asked for 6 replies and refused none" in result.stderr
    assert (tmp_path / "bank.txt").read_text().splitlines() == ["R-001  order 7  24.00"]


def test_each_process_sends_the_whole_conversation(tmp_path: Path) -> None:
    rows = re.findall(r"^\d (?:triage|refunds) +[\d,]+ bytes  (.*)$", run_demo(tmp_path).stdout, re.MULTILINE)
    assert rows == ["u", "u a c o", "u a c o c o", "u a c o c o a c c o o", "u a c o c o a c c o o a u", "u a c o c o a c c o o a u c o"]


def test_finished_conversation_is_only_checked_again(tmp_path: Path) -> None:
    run_demo(tmp_path)
    repeated = run_demo(tmp_path)
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    assert "kill -9" not in repeated.stdout
    assert "the bank was asked 1 times to pay and paid 1 times" in repeated.stdout


# -- another provider, whose replies the program does not know ----------------------------------------------------------------------


def reply_hesitantly(prompt: ModelPrompt) -> Any:
    """Reply with a question first, and with text between calls."""
    user_texts = [each.text for each in prompt.messages if each.role == "user"]
    if not any(tool.name == "refund" for tool in prompt.tools):
        return ReplyCall("handoff_to_refunds", "{}") if len(user_texts) < 3 else [ReplyText("Gern geschehen."), ReplyText("R-001.")]
    if len(user_texts) == 1:
        return "Are you sure?"
    if any(each.tool == "refund" for each in prompt.messages):
        return ReplyCall("handoff_to_triage", '{"reason": "done"}') if len(user_texts) > 2 else "All paid."
    order = '{"order_id":"7"}'
    return [
        ReplyThought("hm"),
        ReplyText("Well."),
        ReplyCall("refund", '{"order_id":"7","cents":100}'),
        ReplyText("Wait."),
        ReplyCall("book_pickup", order),
    ]


FAKE_MODELS: dict[str, Callable[[ModelPrompt], Any] | None] = {"the emulator's own desk": None, "a hesitant model": reply_hesitantly}


@pytest.mark.parametrize("fake_model", FAKE_MODELS.values(), ids=FAKE_MODELS)
def test_check_passes_with_another_provider(fake_model: Callable[[ModelPrompt], Any] | None, tmp_path: Path) -> None:
    with serve(fake_model=fake_model, keys=["a-real-key"]) as provider:
        result = run_demo(tmp_path, OPENAI_API_KEY="a-real-key", OPENAI_BASE_URL=provider.openai_url)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"OPENAI_API_KEY is set, so {provider.openai_url} answers" in result.stderr
        assert provider.log.requests > 3
        assert not provider.log.refusals
    assert "killed 2 times, the bank was asked 1 times to pay and paid 1 times" in result.stdout
    assert "Nothing was lost and nothing repeated." in result.stdout


def test_busy_provider_changes_no_result(tmp_path: Path) -> None:
    with serve(fake_model=load_emulated_reply(), faults=["rate_limit retry_after=0.1@2", "cut event=6@6"]) as provider:
        result = run_demo(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=provider.openai_url)
        assert result.returncode == 0, result.stdout + result.stderr
        assert set(provider.log.faults) == {"rate_limit", "cut"}
    assert "8 requests over HTTP, 0 refused" in result.stdout
    assert "Nothing was lost and nothing repeated." in result.stdout


def test_refused_key_keeps_the_conversation(tmp_path: Path) -> None:
    with serve(keys=["another"]) as provider:
        result = run_demo(tmp_path, OPENAI_API_KEY="wrong", OPENAI_BASE_URL=provider.openai_url)
    assert result.returncode == 1
    assert "The model did not answer: openai:gpt-5.1: 401" in result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    resumed = run_demo(tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "ok             2 messages of the customer: each is in the last request once, in order" in resumed.stdout
    assert "Nothing was lost and nothing repeated." in resumed.stdout


# -- the check can fail ---------------------------------------------------------------------------------------------------------------


def test_check_notices_changed_request_bytes(tmp_path: Path) -> None:
    """One request lacks an element, has one twice, in another order, or changed."""
    run_demo(tmp_path)
    log_file = tmp_path / "http.jsonl"
    lines = [json.loads(line) for line in log_file.read_text().splitlines()]

    def play_with(change: Callable[[list[Any]], object]) -> subprocess.CompletedProcess[str]:
        changed = json.loads(json.dumps(lines))
        change(next(line["input"] for line in changed if line.get("turn") == 3))
        log_file.write_text("".join(json.dumps(line) + "\n" for line in changed))
        return run_demo(tmp_path)

    changes: list[Callable[[list[Any]], object]] = [
        lambda sent: sent.pop(),
        lambda sent: sent.append(sent[0]),
        lambda sent: sent.reverse(),
        lambda sent: sent[-1].update(output="?"),
    ]
    for change in changes:
        result = play_with(change)
        assert result.returncode == 1
        assert "WRONG          the bytes sent over HTTP say what the ledger says" in result.stdout
        assert "Something is wrong: please report it." in result.stdout
    assert play_with(lambda sent: None).returncode == 0


def test_check_notices_an_unrequested_refund(tmp_path: Path) -> None:
    run_demo(tmp_path)
    with (tmp_path / "bank.txt").open("a") as book:
        book.write("R-002  order 7  24.00\n")
    result = run_demo(tmp_path)
    assert result.returncode == 1
    assert "WRONG          killed 0 times, the bank was asked 1 times to pay and paid 2 times" in result.stdout


# -- interrupted ----------------------------------------------------------------------------------------------------------------------


def test_ctrl_c_prints_how_to_continue(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(PROGRAM), str(tmp_path)]
    with subprocess.Popen(command, env=make_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "KILLED" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 130
    assert f"support_desk.py {tmp_path}" in output
    resumed = run_demo(tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "customer: Order 7" not in resumed.stdout, "the message was recorded before"
    assert "Nothing was lost and nothing repeated." in resumed.stdout
