"""Three parallel calls, two of them gated, written down and decided in another process, in every mixture, on every wire (story 5; C3)."""

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
from legato.emulator.minds.base import Thought, Use, Words
from tests.providers.crossing.cleanup import desk
from tests.providers.failures.wires import KEY, WIRES, Line, line

ROOT = Path(__file__).parents[3]
MIND: list[Any] = [
    [
        Thought("Clean, look, clean."),
        Words("I clean up."),
        Use("cleanup", '{"folder": "attic"}'),
        Use("diagnose"),
        Use("cleanup", '{"folder": "cellar"}'),
    ],
    [Thought("So."), Words("That was it.")],
]
MIXTURES = [dict(zip(("attic", "cellar"), each, strict=True)) for each in itertools.product(("approve", "reject", "edit"), repeat=2)]
RAN = {"approve": "cleanup {}", "edit": "cleanup {}/cache"}
TOLD = {"approve": "{} is clean", "reject": "leave {} alone", "edit": "{}/cache is clean"}


async def elsewhere(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Another process decides them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("cleanup.py")),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaints = await asyncio.wait_for(process.communicate(json.dumps(cases).encode()), 60)
    assert process.returncode == 0, complaints.decode()
    results: list[dict[str, Any]] = json.loads(out)
    return results


async def saved(wire: Line, name: str) -> str:
    """A session that waits for two decisions, as text. The call that is not gated has run."""
    ran: list[str] = []
    session = desk(wire.model(name), ran).session(f"on {name}")
    result = await session.run("Clean up")
    assert (result.status, [request.arguments["folder"] for request in result.pending]) == ("pending", ["attic", "cellar"])
    assert ran == ["diagnose"]
    assert [fact.output for fact in session.facts if isinstance(fact, CallReturned)] == ["all is well"]
    return await session.to_string()


async def test_all_three_outputs_are_in_the_next_request_once_each_in_call_order(stream: bool) -> None:
    async with line(stream, MIND) as wire:
        cases = []
        for name in WIRES:
            text = await saved(wire, name)
            for verdicts in MIXTURES:
                more = {"url": wire.emulator.url, "key": KEY, "stream": stream}
                cases.append({"wire": name, "text": text, "verdicts": verdicts, **more})
        results = await elsewhere(cases)
        assert await wire.refused() == []
        raw, numbers = await wire.raw()
        for case, result in zip(cases, results, strict=True):
            about = (case["wire"], case["verdicts"])
            assert (about, result["error"], result["text"]) == (about, "", "That was it.")
            verdicts = case["verdicts"]
            ran = [RAN[verdict].format(folder) for folder, verdict in verdicts.items() if verdict in RAN]
            assert (about, sorted(result["ran"])) == (about, sorted(ran))  # the diagnosis does not run again
            number = numbers[result["response"]]
            heard = raw.heard(number)
            assert (about, heard) == (about, [tuple(each) for each in result["seen"]])
            assert [role for role, _ in heard] == ["user", "assistant", "call 0", "call 1", "call 2", "output 0", "output 1", "output 2"]
            first, second, third = (text for _, text in heard[-3:])
            assert TOLD[verdicts["attic"]].format("attic") in first
            assert second == "all is well"
            assert TOLD[verdicts["cellar"]].format("cellar") in third
            assert raw.unpaired(number) == []
            assert raw.unproven(number) == []
            if case["wire"] in ("responses chained", "azure"):
                check_only_outputs(await wire.exchanges(), result["response"])


def check_only_outputs(exchanges: list[Exchange], response: str) -> None:
    """The provider holds the reply that made the calls: a copy in another process goes on from it, and sends their outputs only."""
    replies = {exchange.reply["id"]: exchange for exchange in exchanges if exchange.reply}
    request = replies[response].request
    before = replies[request["previous_response_id"]].reply
    assert before is not None
    calls = [item["call_id"] for item in before["output"] if item["type"] == "function_call"]
    assert [(item["type"], item["call_id"]) for item in request["input"]] == [("function_call_output", call) for call in calls]
