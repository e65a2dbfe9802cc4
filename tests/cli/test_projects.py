"""`legato new` and `legato check` of workflows: where a newcomer begins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from legato.emulator import serve
from tests.cli.conftest import Shell

ASKED = "Order 7 arrived broken. Please refund the 24.50 that I paid."


def test_a_new_project_runs_at_once_without_a_key_and_passes_its_own_test(shell: Shell) -> None:
    made = shell("new", "tea")
    assert made.code == 0, made.err
    tea = shell.folder / "tea"
    talk = shell("chat", "desk:desk", cwd=tea, stdin=f"Where is order 8?\n{ASKED}\ny\n")
    assert talk.code == 0, talk.err
    assert "no key is set, so the emulator at http://127.0.0.1:" in talk.err
    assert "✓ look_up_order: order 8 is six cups for 36.00, delivered on Monday" in talk.out
    assert "refunds wants to run refund" in talk.out
    assert "✓ refund: 24.50 for order 7 is on its way" in talk.out
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tea, env=shell.environment, capture_output=True, text=True
    )
    assert "2 passed" in tested.stdout, tested.stdout


def test_a_new_project_with_a_key_talks_to_the_provider_and_its_session_replays_byte_for_byte(shell: Shell) -> None:
    assert shell("new", "tea").code == 0
    tea = shell.folder / "tea"
    with serve(keys=["a-real-key"]) as provider:
        key = {"OPENAI_API_KEY": "a-real-key", "OPENAI_BASE_URL": provider.openai_url}
        talk = shell("chat", "desk:desk", "-s", "one", cwd=tea, env=key, stdin=f"{ASKED}\ny\n")
        assert talk.code == 0, talk.err
        assert "OPENAI_API_KEY is set" in talk.err
        sent = [exchange.request for exchange in provider.exchanges if exchange.asks]
        assert len(sent) == 3
    for number, body in enumerate(sent):
        seen = shell("seen", "one", str(number), "--body", "-w", "desk:desk", cwd=tea)
        assert json.loads(seen.out) == body, "what the ledger says was sent is what the provider got"
    same = shell("replay", "one", "-w", "desk:desk", cwd=tea)
    assert (same.code, "the workflow would send the same bytes" in same.out) == (0, True)


def test_new_overwrites_nothing(shell: Shell) -> None:
    (shell.folder / "tea").mkdir()
    (shell.folder / "tea" / "notes.txt").write_text("mine")
    refused = shell("new", "tea")
    assert (refused.code, "tea is there already" in refused.err) == (2, True)
    assert [each.name for each in (shell.folder / "tea").iterdir()] == ["notes.txt"]
    assert shell("new", "a\nb").code == 2


def test_check_draws_a_workflow_and_finds_nothing_wrong_with_it(shell: Shell) -> None:
    drawn = shell("check", "desk.py:desk")
    assert drawn.code == 0, drawn.err
    assert drawn.out == (
        "desk: 2 agents, 2 handoffs\n"
        "user ──▶ triage\n"
        "triage  clerk-1\n"
        "  ⚙ ask_stock(item)  deferred\n"
        "  ⚙ pay(cents)\n"
        "  └─▶ refunds\n"
        "refunds  clerk-1\n"
        "  ⚙ refund(order_id, amount, pin)  asks first, secret: pin\n"
        "  └─▶ triage\n"
        "✓ no problem found\n"
    )
    assert shell("check", "desk:desk", "--mermaid").out.startswith("flowchart LR\n")
    told = shell("check", "desk:desk", "--json").json
    assert (told["start"], told["problems"]) == ("triage", [])
    by_default = {"tool_rounds": 50, "calls_per_reply": 128, "argument_bytes": 1_048_576, "output_bytes": 10_485_760}
    assert told["limits"] == {"handoffs": 4, **by_default}


def test_check_says_what_cannot_work_in_a_definition(shell: Shell) -> None:
    (shell.folder / "wrong.py").write_text(
        "from legato import HandoffBuilder\nfrom desk import triage, refunds\n"
        "desk = HandoffBuilder(name='desk', participants=[triage, refunds]).add_handoff(triage, [refunds]).build()\n"
    )
    told = shell("check", "wrong:desk")
    assert told.code == 1
    assert "✗ 'refunds' is a dead end" in told.out


def test_check_says_what_a_provider_would_refuse_before_anything_is_sent(shell: Shell) -> None:
    (shell.folder / "odd.py").write_text(
        "from legato import Agent, HandoffBuilder\nfrom legato.models import OpenAIResponses\n"
        "model = OpenAIResponses('gpt-5.1', check='warn', extra={'temprature': 3})\n"
        "desk = HandoffBuilder(name='odd', participants=[Agent('clerk', model=model)]).build()\n"
    )
    told = shell("check", "odd:desk")
    assert told.code == 1, told.err
    assert "clerk: openai:gpt-5.1 would refuse its request" in told.out


def test_check_still_judges_requests_and_a_file_that_is_there_is_one(shell: Shell) -> None:
    body = {"model": "gpt-5.1", "input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}]}
    Path(shell.folder / "request.json").write_text(json.dumps(body))
    Path(shell.folder / "desk:desk").write_text(json.dumps({"model": "gpt-5.1", "input": "Hello"}))
    assert shell("check", "request.json", "--api", "responses").code == 1
    assert shell("check", "desk:desk").out == "legal\n"
    assert shell("check", "request.json", "--mermaid").code == 2
    assert shell("check", "desk.py:desk", "--api", "chat").code == 2
