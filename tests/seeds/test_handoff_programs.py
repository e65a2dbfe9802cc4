"""The programs of seeds 000 and 001, as their authors wrote them: only `agent_framework` in their import lines is replaced.

Each runs in its own process, streaming as written, through OpenAI's SDK against the emulator, whose models reason. (The document of 000
had lost its indentation, which is restored.) `standins/` has two other packages that they import: a credential, and `load_dotenv`.
"""

from __future__ import annotations

import asyncio
import copy
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from legato.emulator import serve
from legato.emulator.fake_models import ModelPrompt, ReplyCall, ReplyText, ReplyThought
from tests.seeds.request_checks import find_violations

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUESTS = {
    "000": "Perform a comprehensive research on Microsoft Agent Framework.",
    "001": "Research Microsoft Agent Framework.",
}

REQUEST_SIZES = {"000": [1, 5, 8, 12, 16, 20, 23, 26], "001": [1, 5, 8, 12]}


def reply_as_team(prompt: ModelPrompt) -> list[Any]:
    """Reply as a research team: two rounds of research, a summary, and a coordinator that writes text each time."""
    called_tools = [call.tool for message in prompt.messages for call in message.calls]
    reply_count = sum(message.role == "assistant" for message in prompt.messages)
    thought = ReplyThought(f"Thought number {reply_count}.")
    if prompt.instructions.startswith("You are a coordinator"):
        if "handoff_to_research_agent" not in called_tools:
            return [thought, ReplyText("Coordinator: first the research."), ReplyCall("handoff_to_research_agent", "{}")]
        if "handoff_to_summary_agent" not in called_tools:
            return [thought, ReplyText("Coordinator: now the summary."), ReplyCall("handoff_to_summary_agent", "{}")]
        return [thought, ReplyText(f"Coordinator: closing remark {reply_count}.")]
    if prompt.instructions.startswith("You are a research specialist"):
        if prompt.messages[-1].role == "tool":
            return [thought, ReplyText("Research: aspect one.")]
        return [thought, ReplyText("Research: aspect two."), ReplyCall("handoff_to_coordinator", "{}")]
    return [thought, ReplyText("Summary: it hands over."), ReplyCall("handoff_to_coordinator", "{}")]


@dataclass
class ProgramRun:
    printed: str
    bodies: list[dict[str, Any]]
    answers: list[str]


def change_imports(program: str) -> str:
    """Return the program with its import lines changed."""
    return re.sub(r"^from agent_framework", "from legato.compat.agent_framework", program, flags=re.MULTILINE)


@pytest.fixture(scope="module", params=REQUESTS)
def program_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ProgramRun]:
    seed: str = request.param
    path = tmp_path_factory.mktemp("seeds") / "program.py"
    path.write_text(change_imports((HERE / "programs" / f"{seed}.txt").read_text(encoding="utf-8")), encoding="utf-8")
    with serve(fake_model=reply_as_team) as emulator:
        printed = asyncio.run(run_program(path, emulator.url))
        assert [exchange.status for exchange in emulator.exchanges if exchange.status != 200] == []
        bodies: list[dict[str, Any]] = [exchange.request_body for exchange in emulator.exchanges]
        answers = [item.text for exchange in emulator.exchanges for item in exchange.fake_reply.items if isinstance(item, ReplyText)]
    return seed, ProgramRun(printed, bodies, answers)


async def run_program(program: Path, url: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "standins")]),
        "AZURE_AI_PROJECT_ENDPOINT": url,
        "AZURE_AI_MODEL_DEPLOYMENT_NAME": "gpt-5.5",
        "AZURE_OPENAI_RESPONSES_DEPLOYMENT_NAME": "gpt-5.5",
    }
    # Warnings are errors: the program must run as it is.
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(program), env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(child.communicate(), 120)
    assert child.returncode == 0, err.decode()
    assert err == b""
    return out.decode()


def test_only_import_lines_are_changed() -> None:
    for seed in REQUESTS:
        before = (HERE / "programs" / f"{seed}.txt").read_text(encoding="utf-8")
        changed = [line for line, new in zip(before.splitlines(), change_imports(before).splitlines(), strict=True) if line != new]
        assert changed, seed
        assert all(line.startswith("from agent_framework") for line in changed)


def test_every_agent_is_requested_and_control_returns(program_run: tuple[str, ProgramRun]) -> None:
    seed, run = program_run
    handoffs = re.findall(r"Handoff: (\w+) -> (\w+)", run.printed)
    expected = [("coordinator", "research_agent"), ("research_agent", "coordinator"), ("coordinator", "summary_agent")]
    assert handoffs == ([*expected, ("summary_agent", "coordinator")] if seed == "000" else expected)


def test_each_answer_is_streamed_once(program_run: tuple[str, ProgramRun]) -> None:
    seed, run = program_run
    streamed, _, transcript = run.printed.partition("Final Transcript:")
    assert len(run.answers) == len(set(run.answers)) >= 4
    assert {answer: streamed.count(answer) for answer in run.answers} == dict.fromkeys(run.answers, 1)
    if seed == "001":  # this program also prints the transcript: the question, and each answer with its author's name
        assert f"user: {REQUESTS[seed]}" in transcript
        assert all(transcript.count(answer) == 1 for answer in run.answers)
        assert "coordinator: Coordinator: first the research." in transcript


def test_the_raw_requests_keep_what_the_seed_lost(program_run: tuple[str, ProgramRun]) -> None:
    seed, run = program_run
    assert any(item.get("type") == "reasoning" for item in run.bodies[-1]["input"])  # reasoning is sent back by value
    assert find_violations(run.bodies, REQUESTS[seed]) == []
    # A reply is its reasoning and text, and with a handoff its call and output; a prompt is one item.
    assert [len(body["input"]) for body in run.bodies] == REQUEST_SIZES[seed]


def test_request_checks_find_each_failure_of_the_seeds(program_run: tuple[str, ProgramRun]) -> None:
    seed, run = program_run

    def find_in_spoiled(change: Any) -> list[str]:
        bodies = copy.deepcopy(run.bodies)
        change(bodies[-1])
        return find_violations(bodies, REQUESTS[seed])

    call = next(item for item in run.bodies[-1]["input"] if item.get("type") == "function_call")
    assert "stored" in find_in_spoiled(lambda body: body["input"][1].update(id="rs_1"))[0]
    assert "chained" in find_in_spoiled(lambda body: body.update(previous_response_id="resp_1"))[0]
    assert "outputs" in find_in_spoiled(lambda body: body["input"].append({**call, "call_id": "call_unanswered"}))[0]
    assert "0 times" in find_in_spoiled(lambda body: body["input"].pop(0))[0]
    assert "2 times" in find_in_spoiled(lambda body: body["input"].append(body["input"][0]))[0]
    assert "does not continue" in find_in_spoiled(lambda body: body["input"].pop(1))[-1]
