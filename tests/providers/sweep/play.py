"""Random conversations over every wire: compiled, judged against what the provider really holds, answered, stored, read.

The simulator plays; whatever its model says goes over a line, by way of the emulator's own code. Nothing may be refused, and what the
model was told must be what the agent should have seen: no more, no less, in order. Agents of one workflow share a line, or each has
its own.

The provider sees a request when it is made. So it may have answered, and stored, what a process that died never heard of.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from legato.core.facts import Hosted, Reasoning, Refusal
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator.asks import Answer, Ask
from legato.emulator.minds.base import Say, Words
from legato.errors import ModelFailed
from legato.models.base import Emit, Model
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.group_cache import cache_of, clear_cache
from legato.testing.faults import Died
from legato.testing.stage import current_schedule
from tests.providers.sweep.lines import LINES, OTHERS, Line, Provider
from tests.providers.sweep.nasty import message, spoiled, spoken, workflow
from tests.providers.sweep.told import Hearing, due, first_difference, heard_blocks, heard_items, heard_messages, misread, thoughts
from tests.sim.administration import simulate
from tests.sim.workflows import SEEDS_EACH

OURS = re.compile(rb'"call_[0-9]+_[0-9]+"')
ENOUGH = 20
"""So many things that are wrong are enough to look at."""


class Findings(Struct):
    """What the sweep saw. `digest` is of every body that was compiled, in order."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    saw: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    digest: str = ""

    def add(self, other: Findings) -> None:
        """Take in what was found elsewhere."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.saw += other.saw
        self.wrong += other.wrong
        self.digest = blake2b((self.digest + other.digest).encode(), digest_size=16).hexdigest()


class OverWires:
    """The simulator's model, speaking over lines."""

    def __init__(self, model: Model, number: int, findings: Findings) -> None:
        self.name = model.name
        self._model = model
        self._findings = findings
        self._provider = Provider(f"sweep {number}")
        self._number = number
        self._mixed = number % 3 == 2
        self._lines: dict[str, Line] = {}
        self._held: dict[str, list[dict[str, Any]]] = {}  # all that was told and answered, by response and conversation
        self._made: dict[str, set[str]] = {}  # reasoning, by who made it
        self._bodies = blake2b(digest_size=16)

    def line(self, agent: str) -> Line:
        """The line of an agent: that of all, or one of its own."""
        if agent not in self._lines:
            dice = Random(f"line of {agent if self._mixed else 'all'} in {self._number}")
            self._lines[agent] = dice.choice((*LINES, *OTHERS) if self._mixed else LINES)
        return self._lines[agent]

    async def conversation_for(self, request: Request) -> str:
        return self._provider.conversation_for(self.line(request.agent), request)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        schedule = current_schedule.get()
        line, dice = self.line(request.agent), Random(f"{schedule.seed} {len(schedule.requests)}")
        stream, lost = dice.random() < 0.5, dice.random()
        pieces: list[str] = []
        with _Exchange(self, line, request, dice, stream) as exchange:
            try:
                inner = await self._model.reply(request, pieces.append)
            except (Exception, asyncio.CancelledError, Died):
                for piece in pieces:
                    emit(piece)
                if lost < 0.5:
                    exchange.answer(Say((Words("said to nobody"),)))
                raise
            said = spoken(inner, dice, request, line)
            answer = exchange.answer(said)
            if answer is None:
                return inner
            if lost < 0.03 and not schedule.calm:
                self._findings.saw["answers lost on their way"] += 1
                raise ModelFailed("simulated: the answer was lost on its way", retryable=True, retry_after=0.01)
        shown: list[str] = []
        read = line.read(answer, exchange.compiled, shown.append, stream=stream)
        self._findings.wrong += misread(read, said, shown, line)
        self._count(read, line)
        for piece in shown:
            emit(piece)
        reply = replace(read, usage=inner.usage)
        schedule.record_request(request, reply)  # the simulator is to check what came over the wire
        return reply

    # -- what is checked -----------------------------------------------------------------------------------------------

    def wrong(self, line: Line, what: str, compiled: Compiled) -> None:
        if len(self._findings.wrong) < ENOUGH:
            seed = current_schedule.get().seed
            self._findings.wrong.append(f"seed {seed}, {self.kind(line)}: {what} for {compiled.body[-700:]!r}")

    def kind(self, line: Line) -> str:
        return f"{line.name}, mixed" if self._mixed else line.name

    def compiled(self, line: Line, compiled: Compiled, body: dict[str, Any], request: Request) -> None:
        """A request was compiled: count it, and look at what can be seen without what the provider holds."""
        findings, kind = self._findings, self.kind(line)
        findings.requests[kind] += 1
        findings.bytes[kind] += len(compiled.body)
        findings.saw["pictures and files"] += any(not isinstance(group.content, str) for group in request.groups)
        self._bodies.update(compiled.body)
        findings.digest = self._bodies.hexdigest()
        for thought in thoughts(body, line):
            findings.saw[f"reasoning back, {line.name}"] += 1
            if thought not in self._made.get(line.origin, ()):
                self.wrong(line, f"reasoning that {line.origin!r} did not make", compiled)
        given = {item.item_id for group in request.groups if group.fact for item in group.fact.items}
        for item in body.get("input", ()):
            # What the provider did by itself goes back under an id that it never gave; nothing else has one.
            if "id" in item and (item["id"] in given or item.get("type") not in ("web_search_call", "mcp_call", "mcp_list_tools")):
                self.wrong(line, "an item id was sent", compiled)
        if b'"call_' in compiled.body and OURS.search(compiled.body):
            findings.saw[f"ids of ours, {line.name}"] += 1
        if line.api == "responses" and line.options.memory != "inline":
            findings.saw[f"{line.name}, {_went(compiled, body, request)}"] += 1
            if not all(text in body["instructions"] for text in request.frame.messages):
                self.wrong(line, "the instructions lack a message of the frame", compiled)

    def hearing(self, line: Line, body: dict[str, Any]) -> Hearing:
        """What the model was told, whole."""
        if line.api == "responses":
            before = self._held.get(body.get("previous_response_id") or body.get("conversation") or "", [])
            return heard_items([*before, *body["input"]])
        return heard_messages(body["messages"]) if line.api == "chat" else heard_blocks(body["messages"])

    def answered(self, line: Line, body: dict[str, Any], answer: Answer) -> None:
        """The provider has answered, whoever hears it."""
        if line.api == "responses" and body["store"]:
            before = self._held.get(body.get("previous_response_id") or body.get("conversation") or "", [])
            held = [*before, *body["input"], *answer.body["output"]]
            self._held[answer.body["id"]] = held
            if body.get("conversation"):
                self._held[body["conversation"]] = held
        made = self._made.setdefault(line.origin, set())
        if line.api == "responses":
            made |= {item["encrypted_content"] for item in answer.body["output"] if "encrypted_content" in item}
        elif line.api == "anthropic":
            made |= {block["signature"] for block in answer.body["content"] if block["type"] == "thinking"}
        else:
            made.add(answer.body["choices"][0]["message"].get("reasoning_content", ""))

    def _count(self, read: Reply, line: Line) -> None:
        for item in read.items:
            if isinstance(item, (Refusal, Hosted, Reasoning)):
                self._findings.saw[f"{type(item).__name__.lower()}, {line.api}"] += 1
        self._findings.saw[f"finish {read.finish}"] += 1


class _Exchange:
    """One request, from its compilation until it is answered."""

    def __init__(self, wires: OverWires, line: Line, request: Request, dice: Random, stream: bool) -> None:
        self._wires = wires
        self._line = line
        self._dice = dice
        self._stream = stream
        self._dialect = wires._provider.dialect(line)
        by_value, reasoning = False, True
        while True:
            self.compiled = line.compile(request, stream=stream, by_value=by_value, reasoning=reasoning)
            self._body = msgspec.json.decode(self.compiled.body)
            wires.compiled(line, self.compiled, self._body, request)
            if (by_value and self.compiled.base) or (not reasoning and thoughts(self._body, line)):
                wires.wrong(line, "what the provider would not have is sent again", self.compiled)
            if dice.random() < 0.1 and _from_nothing(line, request, stream, by_value, reasoning) != self.compiled:
                wires.wrong(line, "from nothing it is another request", self.compiled)
            # What the provider refuses for reasons of its own is sent again without it, as the clients do.
            if self.compiled.base and not by_value and line.options.memory == "chained" and dice.random() < 0.1:
                by_value = True
                wires._findings.saw["chains that the provider forgot"] += 1
            elif self.compiled.reasoning and reasoning and dice.random() < 0.06:
                reasoning = False
                wires._findings.saw["reasoning that the provider would not have"] += 1
            else:
                break
        self._ask: Ask = wires._provider.ask(line, self._body, len(self.compiled.body))
        self._legal = self._judge(request)
        if self._legal:
            self._dialect.begin(self._ask)

    def _judge(self, request: Request) -> bool:
        complaints = [*self.compiled.complaints, *self._dialect.judge(self._ask)]
        if complaints:
            self._wires.wrong(self._line, f"refused: {complaints[0]}", self.compiled)
        hearing, wanted = self._wires.hearing(self._line, self._body), due(request, self._line)
        wrong = [*hearing.done()]
        if hearing.lines != wanted:
            wrong.append(first_difference(hearing.lines, wanted))
        for each in wrong:
            self._wires.wrong(self._line, each, self.compiled)
        return not complaints

    def answer(self, say: Say) -> Answer | None:
        """What the provider answers and stores, if it takes the request."""
        if not self._legal:
            return None
        answer = spoiled(self._dialect.answer(self._ask, say), self._dice, self._line, stream=self._stream)
        self._dialect.keep(self._ask, answer)
        self._wires.answered(self._line, self._body, answer)
        return answer

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *error: object) -> None:
        self._dialect.end(self._ask)


def _from_nothing(line: Line, request: Request, stream: bool, by_value: bool, reasoning: bool) -> Compiled:
    """The same request, without anything that was kept."""
    kept = [dict(cache_of(group)) for group in request.groups]
    clear_cache(request.groups)
    try:
        return line.compile(request, stream=stream, by_value=by_value, reasoning=reasoning)
    finally:
        clear_cache(request.groups)
        for group, cache in zip(request.groups, kept, strict=True):
            cache_of(group).update(cache)


def _went(compiled: Compiled, body: dict[str, Any], request: Request) -> str:
    if body.get("previous_response_id"):
        return "chained"
    if body.get("conversation"):
        return "gone on with" if request.conversations.get(body["conversation"]) is not None else "begun"
    return "by value"


def sweep(numbers: Iterable[int]) -> Findings:
    """Play the seeds of these workflows."""
    total = Findings()
    for number in numbers:
        findings = Findings()

        def over(model: Model, number: int = number, findings: Findings = findings) -> Model:
            return OverWires(model, number, findings)

        seeds = range(number * SEEDS_EACH, (number + 1) * SEEDS_EACH)
        report = simulate(workflow, seeds, model=over, message=partial(message, number))
        findings.wrong += [f"seed {seed}: {violation}" for seed, violation in report.violations]
        total.add(findings)
    return total
