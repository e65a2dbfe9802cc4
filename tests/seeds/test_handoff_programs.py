"""The programs of 000 and 001, as their authors wrote them, with `agent_framework` replaced in their import lines and nothing else changed.

Each runs in a process of its own, streaming as written, through OpenAI's SDK against the emulator, whose models reason. (000 lost its
indentation in the document; it has it back.) `standins/` has the two packages they import besides: a credential, and `load_dotenv`.
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
from legato.emulator.minds import Prompt, Thought, Use, Words
from tests.seeds.reading import complaints

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUESTS = {
    "000": "Perform a comprehensive research on Microsoft Agent Framework.",
    "001": "Research Microsoft Agent Framework.",
}

SIZES = {"000": [1, 5, 8, 12, 16, 20, 23, 26], "001": [1, 5, 8, 12]}


def team(prompt: Prompt) -> list[Any]:
    """A research team: two rounds of research, a summary, and a coordinator who has something to say each time."""
    handed = [use.tool for heard in prompt.heard for use in heard.uses]
    spoken = sum(heard.who == "assistant" for heard in prompt.heard)
    thought = Thought(f"Thought number {spoken}.")
    if prompt.instructions.startswith("You are a coordinator"):
        if "handoff_to_research_agent" not in handed:
            return [thought, Words("Coordinator: first the research."), Use("handoff_to_research_agent", "{}")]
        if "handoff_to_summary_agent" not in handed:
            return [thought, Words("Coordinator: now the summary."), Use("handoff_to_summary_agent", "{}")]
        return [thought, Words(f"Coordinator: closing remark {spoken}.")]
    if prompt.instructions.startswith("You are a research specialist"):
        if prompt.heard[-1].who == "tool":
            return [thought, Words("Research: aspect one.")]
        return [thought, Words("Research: aspect two."), Use("handoff_to_coordinator", "{}")]
    return [thought, Words("Summary: it hands over."), Use("handoff_to_coordinator", "{}")]


@dataclass
class Told:
    printed: str
    bodies: list[dict[str, Any]]
    answers: list[str]


def moved(program: str) -> str:
    """The program with its import lines changed."""
    return re.sub(r"^from agent_framework", "from legato.compat.agent_framework", program, flags=re.MULTILINE)


@pytest.fixture(scope="module", params=REQUESTS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Told]:
    seed: str = request.param
    path = tmp_path_factory.mktemp("seeds") / "program.py"
    path.write_text(moved((HERE / "programs" / f"{seed}.txt").read_text(encoding="utf-8")), encoding="utf-8")
    with serve(mind=team) as emulator:
        printed = asyncio.run(_printed(path, emulator.url))
        assert [exchange.status for exchange in emulator.exchanges if exchange.status != 200] == []
        bodies: list[dict[str, Any]] = [exchange.request for exchange in emulator.exchanges]
        answers = [item.text for exchange in emulator.exchanges for item in exchange.say.items if isinstance(item, Words)]
    return seed, Told(printed, bodies, answers)


async def _printed(program: Path, url: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HERE / "standins")]),
        "AZURE_AI_PROJECT_ENDPOINT": url,
        "AZURE_AI_MODEL_DEPLOYMENT_NAME": "gpt-5.5",
        "AZURE_OPENAI_RESPONSES_DEPLOYMENT_NAME": "gpt-5.5",
    }
    # Whatever it warns of is an error: it is to run as it stands.
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
        changed = [line for line, new in zip(before.splitlines(), moved(before).splitlines(), strict=True) if line != new]
        assert changed, seed
        assert all(line.startswith("from agent_framework") for line in changed)


def test_every_agent_is_asked_and_control_comes_back(told: tuple[str, Told]) -> None:
    seed, run = told
    handoffs = re.findall(r"Handoff: (\w+) -> (\w+)", run.printed)
    expected = [("coordinator", "research_agent"), ("research_agent", "coordinator"), ("coordinator", "summary_agent")]
    assert handoffs == ([*expected, ("summary_agent", "coordinator")] if seed == "000" else expected)


def test_each_answer_is_streamed_once(told: tuple[str, Told]) -> None:
    seed, run = told
    streamed, _, transcript = run.printed.partition("Final Transcript:")
    assert len(run.answers) == len(set(run.answers)) >= 4
    assert {answer: streamed.count(answer) for answer in run.answers} == dict.fromkeys(run.answers, 1)
    if seed == "001":  # which prints the transcript as well: what was asked, and each answer under its author's name
        assert f"user: {REQUESTS[seed]}" in transcript
        assert all(transcript.count(answer) == 1 for answer in run.answers)
        assert "coordinator: Coordinator: first the research." in transcript


def test_the_raw_requests_keep_what_the_seed_lost(told: tuple[str, Told]) -> None:
    seed, run = told
    assert any(item.get("type") == "reasoning" for item in run.bodies[-1]["input"])  # reasoning goes back, by value
    assert complaints(run.bodies, REQUESTS[seed]) == []
    # What was said, and no more: a reply is its reasoning and words, with a handoff its call and output too; a prompt is one item.
    assert [len(body["input"]) for body in run.bodies] == SIZES[seed]


def test_the_reader_of_raw_requests_notices_each_failure_of_the_seeds(told: tuple[str, Told]) -> None:
    seed, run = told

    def spoiled(change: Any) -> list[str]:
        bodies = copy.deepcopy(run.bodies)
        change(bodies[-1])
        return complaints(bodies, REQUESTS[seed])

    call = next(item for item in run.bodies[-1]["input"] if item.get("type") == "function_call")
    assert "stored" in spoiled(lambda body: body["input"][1].update(id="rs_1"))[0]
    assert "chained" in spoiled(lambda body: body.update(previous_response_id="resp_1"))[0]
    assert "outputs" in spoiled(lambda body: body["input"].append({**call, "call_id": "call_unanswered"}))[0]
    assert "0 times" in spoiled(lambda body: body["input"].pop(0))[0]
    assert "2 times" in spoiled(lambda body: body["input"].append(body["input"][0]))[0]
    assert "does not go on" in spoiled(lambda body: body["input"].pop(1))[-1]
