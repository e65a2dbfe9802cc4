"""Three parallel calls, two of them gated, decided in another process in every combination and every format (story 5; C3)."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

from legato.core.facts import CallReturned
from legato.emulator.exchanges import Exchange
from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from tests.providers.cross_provider.decision_process import make_desk
from tests.providers.failures.emulator_harness import FORMATS, KEY, EmulatorHarness, run_emulator

ROOT = Path(__file__).parents[3]
SCRIPT: list[Any] = [
    [
        ReplyThought("Clean, look, clean."),
        ReplyText("I clean up."),
        ReplyCall("cleanup", '{"folder": "attic"}'),
        ReplyCall("diagnose"),
        ReplyCall("cleanup", '{"folder": "cellar"}'),
    ],
    [ReplyThought("So."), ReplyText("That was it.")],
]
MIXTURES = [dict(zip(("attic", "cellar"), each, strict=True)) for each in itertools.product(("approve", "reject", "edit"), repeat=2)]
RUN_TEXTS = {"approve": "cleanup {}", "edit": "cleanup {}/cache"}
OUTPUT_TEXTS = {"approve": "{} is clean", "reject": "leave {} alone", "edit": "{}/cache is clean"}


async def decide_in_process(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Decide these cases in another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("decision_process.py")),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(json.dumps(cases).encode()), 60)
    assert process.returncode == 0, errors.decode()
    results: list[dict[str, Any]] = json.loads(out)
    return results


async def save_session(harness: EmulatorHarness, name: str) -> str:
    """Return a session that waits for two decisions, as text. The open tool has run."""
    ran: list[str] = []
    session = make_desk(harness.make_model(name), ran).session(f"on {name}")
    result = await session.run("Clean up")
    assert (result.status, [request.arguments["folder"] for request in result.pending]) == ("pending", ["attic", "cellar"])
    assert ran == ["diagnose"]
    assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["all is well"]
    return await session.to_string()


async def test_outputs_are_sent_once_in_call_order(stream: bool) -> None:
    async with run_emulator(stream, SCRIPT) as harness:
        cases = []
        for name in FORMATS:
            text = await save_session(harness, name)
            for decisions in MIXTURES:
                more = {"url": harness.emulator.url, "key": KEY, "stream": stream}
                cases.append({"wire": name, "text": text, "verdicts": decisions, **more})
        results = await decide_in_process(cases)
        assert await harness.find_refusals() == []
        raw, numbers = await harness.read_traffic()
        for case, result in zip(cases, results, strict=True):
            about = (case["wire"], case["verdicts"])
            assert (about, result["error"], result["text"]) == (about, "", "That was it.")
            decisions = case["verdicts"]
            ran = [RUN_TEXTS[verdict].format(folder) for folder, verdict in decisions.items() if verdict in RUN_TEXTS]
            assert (about, sorted(result["ran"])) == (about, sorted(ran))  # the open tool does not run again
            number = numbers[result["response"]]
            contents = raw.read_contents(number)
            assert (about, contents) == (about, [tuple(each) for each in result["seen"]])
            assert [role for role, _ in contents] == ["user", "assistant", "call 0", "call 1", "call 2", "output 0", "output 1", "output 2"]
            first, second, third = (text for _, text in contents[-3:])
            assert OUTPUT_TEXTS[decisions["attic"]].format("attic") in first
            assert second == "all is well"
            assert OUTPUT_TEXTS[decisions["cellar"]].format("cellar") in third
            assert raw.find_unpaired_calls(number) == []
            assert raw.find_unconfirmed_ids(number) == []
            if case["wire"] in ("responses chained", "azure"):
                check_only_outputs(await harness.read_exchanges(), result["response"])


def check_only_outputs(exchanges: list[Exchange], response: str) -> None:
    """Check that the request sends only the outputs of the calls: the provider stores the reply with the calls."""
    replies = {exchange.reply_body["id"]: exchange for exchange in exchanges if exchange.reply_body}
    request = replies[response].request_body
    before = replies[request["previous_response_id"]].reply_body
    assert before is not None
    calls = [item["call_id"] for item in before["output"] if item["type"] == "function_call"]
    assert [(item["type"], item["call_id"]) for item in request["input"]] == [("function_call_output", call) for call in calls]
