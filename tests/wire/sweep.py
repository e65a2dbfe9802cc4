"""`make wires`: random conversations under random faults, compiled for every wire, judged by the law books, answered and read.

The simulator plays; its model's words go through a wire to the emulator's own code, in this process and without HTTP: compiled,
judged against what the provider really holds, answered, stored, read. Nothing may be refused but what a fault asked for, and what
the model was told must be what the agent should have seen.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from legato.core.reply import Reply
from legato.core.view import Request
from legato.emulator.asks import Ask
from legato.emulator.ids import Ids
from legato.emulator.minds.base import Prompt
from legato.emulator.models import Catalogue
from legato.emulator.responses.dialect import ResponsesDialect
from legato.emulator.seal import Seal
from legato.emulator.shelf import Shelf
from legato.models.base import Emit, Model
from legato.testing import random_workflow, simulate
from legato.wire.law import Complaint
from legato.wire.options import Options
from legato.wire.responses.compile import compile_request
from legato.wire.responses.laws import OPENAI
from legato.wire.responses.past import usable_conversation
from legato.wire.responses.read import read_reply
from tests.wire.stories.raw import seen
from tests.wire.stories.wired import _say

ORIGIN = "responses in process gpt-5"
MODES = ("inline", "chained", "conversation")


@dataclass
class Findings:
    """What the sweep saw."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class InProcess:
    """The simulator's model, speaking over a wire to the emulator's code."""

    def __init__(self, model: Model, findings: Findings) -> None:
        self.name = model.name
        self._model = model
        self._findings = findings
        self._dialect = ResponsesDialect(Shelf(), Ids("sweep"), Seal(b"k" * 32), OPENAI, Catalogue())
        self._count = 0

    def _mode(self, request: Request) -> str:
        return MODES[sum(map(ord, request.frame_digest[:6])) % len(MODES)]

    async def conversation_for(self, request: Request) -> str:
        if self._mode(request) != "conversation":
            return ""
        known = usable_conversation(request, ORIGIN)
        if known:
            return known
        status, made = self._dialect.conversations.create(self._ask({}), {})
        assert status == 200
        return str(made["id"])

    def _ask(self, body: dict[str, Any]) -> Ask:
        self._count += 1
        return Ask(api="responses", number=self._count, body=body, headers={}, account="org", now=1_800_000_000.0)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        reply = await self._model.reply(request, emit)
        if not reply.items:
            return reply
        mode = self._mode(request)
        options = Options(model="gpt-5", memory=mode)  # type: ignore[arg-type]
        compiled = compile_request(request, options, ORIGIN, stream=False)
        self._findings.requests[mode] += 1
        self._findings.bytes[mode] += len(compiled.body)
        ask = self._ask(msgspec.json.decode(compiled.body))
        complaints: list[Complaint] = [*compiled.complaints, *self._dialect.judge(ask)]
        if complaints:
            self._findings.wrong.append(f"{mode}: {complaints[0]} for {compiled.body[-600:]!r}")
            return reply
        self._dialect.begin(ask)
        try:
            told = _told(self._dialect.prompt(ask))
            due = seen(request, mode == "inline")
            if told != _merged(due):
                self._findings.wrong.append(f"{mode}: told {told} instead of {_merged(due)}")
            answer = self._dialect.answer(ask, _say(reply, thinks=True))
            self._dialect.keep(ask, answer)
        finally:
            self._dialect.end(ask)
        read = read_reply(answer.body, compiled, ORIGIN)
        return replace(read, usage=reply.usage, finish=reply.finish)


def _told(prompt: Prompt) -> list[tuple[str, str]]:
    """What the model was given, as lines."""
    lines: list[tuple[str, str]] = []
    for heard in prompt.heard:
        if heard.who == "tool":
            lines.append(("output", heard.text))
        elif heard.who in ("user", "assistant"):
            lines += [(heard.who, heard.text)] if heard.text else []
            lines += [("call", use.arguments) for use in heard.uses]
    return _merged(lines)


def _merged(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without empty lines, and with arguments in one spelling."""
    from tests.wire.stories.raw import _arguments

    return [(kind, _arguments(text) if kind == "call" else text) for kind, text in lines if text]


def sweep(seeds: range) -> Findings:
    """Play these seeds."""
    findings = Findings()
    simulate(random_workflow, seeds, model=lambda model: InProcess(model, findings))
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="make wires", description=__doc__)
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begun, total, seed = time.monotonic(), Findings(), given.seed
    while total.requests.total() < given.requests and len(total.wrong) < 20:
        found = sweep(range(seed, seed + 50))
        seed += 50
        total.requests += found.requests
        total.bytes += found.bytes
        total.wrong += found.wrong
        print(f"\r{total.requests.total():,} requests, {len(total.wrong)} wrong", end="", flush=True, file=sys.stderr)
    told = ", ".join(f"{mode} x{times:,}" for mode, times in sorted(total.requests.items()))
    print(f"\n{total.requests.total():,} requests: {told}; {len(total.wrong)} wrong; {time.monotonic() - begun:.0f} s")
    for each in total.wrong[:8]:
        print("   ", each[:1500])
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
