"""`legato new` and `legato check` of workflows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from legato.emulator import serve
from tests.cli.conftest import Shell

REFUND_REQUEST = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def test_new_project_runs_and_passes_its_tests(shell: Shell) -> None:
    created = shell("new", "tea")
    assert created.code == 0, created.err
    tea = shell.folder / "tea"
    chat = shell("chat", "desk:desk", cwd=tea, stdin=f"Where is order 8?\n{REFUND_REQUEST}\ny\n")
    assert chat.code == 0, chat.err
    assert "no key is set, so the emulator at http://127.0.0.1:" in chat.err
    assert "✓ look_up_order: order 8 is six cups for 36.00, delivered on Monday" in chat.out
    assert "refunds wants to run refund" in chat.out
    assert "✓ refund: 24.50 for order 7 is on its way" in chat.out
    pytest_run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tea, env=shell.environment, capture_output=True, text=True
    )
    assert "2 passed" in pytest_run.stdout, pytest_run.stdout


def test_new_project_uses_the_provider_and_replays(shell: Shell) -> None:
    """With a key, a new project uses the provider, and its session replays byte for byte."""
    assert shell("new", "tea").code == 0
    tea = shell.folder / "tea"
    with serve(keys=["a-real-key"]) as provider:
        key = {"OPENAI_API_KEY": "a-real-key", "OPENAI_BASE_URL": provider.openai_url}
        chat = shell("chat", "desk:desk", "-s", "one", cwd=tea, env=key, stdin=f"{REFUND_REQUEST}\ny\n")
        assert chat.code == 0, chat.err
        assert "OPENAI_API_KEY is set" in chat.err
        sent = [exchange.request_body for exchange in provider.exchanges if exchange.is_model_request]
        assert len(sent) == 3
    for number, body in enumerate(sent):
        model_input = shell("seen", "one", str(number), "--body", "-w", "desk:desk", cwd=tea)
        assert json.loads(model_input.out) == body, "what the ledger says was sent is what the provider got"
    same = shell("replay", "one", "-w", "desk:desk", cwd=tea)
    assert (same.code, "the workflow would send the same bytes" in same.out) == (0, True)


def test_new_does_not_overwrite_a_folder(shell: Shell) -> None:
    (shell.folder / "tea").mkdir()
    (shell.folder / "tea" / "notes.txt").write_text("mine")
    result = shell("new", "tea")
    assert (result.code, "tea exists already" in result.err) == (2, True)
    assert [each.name for each in (shell.folder / "tea").iterdir()] == ["notes.txt"]
    assert shell("new", "a\nb").code == 2


def test_check_draws_a_valid_workflow(shell: Shell) -> None:
    printed = shell("check", "desk.py:desk")
    assert printed.code == 0, printed.err
    assert printed.out == (
        "desk: 2 agents, 2 handoffs\n"
        "user ──▶ triage\n"
        "triage  clerk-1\n"
        "  ⚙ ask_stock(item)  deferred\n"
        "  ⚙ pay(cents)\n"
        "  └─▶ refunds\n"
        "refunds  clerk-1\n"
        "  ⚙ refund(order_id, amount, pin)  needs approval, secret: pin\n"
        "  └─▶ triage\n"
        "✓ no problem found\n"
    )
    assert shell("check", "desk:desk", "--mermaid").out.startswith("flowchart LR\n")
    result = shell("check", "desk:desk", "--json").json
    assert (result["start"], result["problems"]) == ("triage", [])
    by_default = {"tool_rounds": 50, "calls_per_reply": 128, "argument_bytes": 1_048_576, "output_bytes": 10_485_760}
    assert result["limits"] == {"handoffs": 4, **by_default}


def test_check_reports_a_dead_end(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text(
        "from legato import HandoffBuilder\nfrom desk import triage, refunds\n"
        "desk = HandoffBuilder(name='desk', participants=[triage, refunds]).add_handoff(triage, [refunds]).build()\n"
    )
    result = shell("check", "wrong:desk")
    assert result.code == 1
    assert "✗ 'refunds' is a dead end" in result.out


def test_check_reports_requests_a_provider_would_refuse(shell: Shell) -> None:
    (shell.folder / "odd.py").write_text(
        "from legato import Agent, HandoffBuilder\nfrom legato.models import OpenAIResponses\n"
        "model = OpenAIResponses('gpt-5.1', check='warn', extra={'temprature': 3})\n"
        "desk = HandoffBuilder(name='odd', participants=[Agent('clerk', model=model)]).build()\n"
    )
    result = shell("check", "odd:desk")
    assert result.code == 1, result.err
    assert "clerk: openai:gpt-5.1 would refuse its request" in result.out


def test_check_prefers_a_file_to_a_workflow(shell: Shell) -> None:
    body = {"model": "gpt-5.1", "input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}]}
    Path(shell.folder / "request.json").write_text(json.dumps(body))
    Path(shell.folder / "desk:desk").write_text(json.dumps({"model": "gpt-5.1", "input": "Hello"}))
    assert shell("check", "request.json", "--api", "responses").code == 1
    assert shell("check", "desk:desk").out == "legal\n"
    assert shell("check", "request.json", "--mermaid").code == 2
    assert shell("check", "desk.py:desk", "--api", "chat").code == 2
