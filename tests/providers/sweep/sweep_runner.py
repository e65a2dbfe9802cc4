"""Random conversations in every provider format: encoded, checked against the provider's real storage, answered, stored, decoded.

The simulator plays, and the replies of its model go through a format variant and the emulator's code. Nothing may be refused, and the
contents of each request must be exactly the agent's view, in order. Agents of one workflow share a variant, or each has its own.

The provider receives a request when it is made. So it may have answered and stored what a process that died never received.
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

from legato.core.facts import HostedToolUse, Reasoning, Refusal
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator.fake_models.base import FakeReply, ReplyText
from legato.emulator.request_types import ApiReply, EmulatorRequest
from legato.errors import ModelFailed
from legato.models.model import Emit, Model
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.group_cache import clear_group_caches, get_group_cache
from legato.testing.failing_store import Died
from legato.testing.simulated_workflow import current_schedule
from tests.providers.sweep.format_variants import OTHER_MODEL_VARIANTS, VARIANTS, FormatVariant, InProcessProvider
from tests.providers.sweep.odd_replies import add_server_oddities, make_message, make_odd_reply, make_workflow
from tests.providers.sweep.request_contents import (
    RequestContents,
    describe_first_difference,
    expected_lines,
    find_misread,
    find_reasoning,
    read_blocks,
    read_items,
    read_messages,
)
from tests.sim.administered_simulator import simulate_administered
from tests.sim.random_workflows import SEEDS_PER_WORKFLOW

LEGATO_CALL_ID = re.compile(rb'"call_[0-9]+_[0-9]+"')
MAX_PROBLEMS = 20
"""The number of problems after which the sweep records no more."""


class SweepFindings(Struct):
    """The results of a sweep. `digest` covers every encoded body, in order."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    occurrences: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    digest: str = ""

    def add(self, other: SweepFindings) -> None:
        """Add the findings of another part of the sweep."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.occurrences += other.occurrences
        self.problems += other.problems
        self.digest = blake2b((self.digest + other.digest).encode(), digest_size=16).hexdigest()


class SweptModel:
    """The simulator's model, with replies that go through format variants."""

    def __init__(self, model: Model, number: int, findings: SweepFindings) -> None:
        self.name = model.name
        self._model = model
        self._findings = findings
        self._provider = InProcessProvider(f"sweep {number}")
        self._number = number
        self._is_mixed = number % 3 == 2
        self._variants: dict[str, FormatVariant] = {}
        self._stored_contents: dict[str, list[dict[str, Any]]] = {}  # all inputs and outputs, by response and conversation
        self._made_reasoning: dict[str, set[str]] = {}  # reasoning by origin
        self._bodies = blake2b(digest_size=16)

    def pick_variant(self, agent: str) -> FormatVariant:
        """Return the variant of an agent: shared by all agents, or its own. The seed's text fixes the choice."""
        if agent not in self._variants:
            dice = Random(f"line of {agent if self._is_mixed else 'all'} in {self._number}")
            self._variants[agent] = dice.choice((*VARIANTS, *OTHER_MODEL_VARIANTS) if self._is_mixed else VARIANTS)
        return self._variants[agent]

    async def conversation_for(self, request: ModelRequest) -> str:
        return self._provider.conversation_for(self.pick_variant(request.agent), request)

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        schedule = current_schedule.get()
        variant, dice = self.pick_variant(request.agent), Random(f"{schedule.seed} {len(schedule.requests)}")
        stream, fate = dice.random() < 0.5, dice.random()
        pieces: list[str] = []
        with _Exchange(self, variant, request, dice, stream) as exchange:
            try:
                inner = await self._model.reply(request, pieces.append)
            except (Exception, asyncio.CancelledError, Died):
                for piece in pieces:
                    emit(piece)
                if fate < 0.5:
                    exchange.answer(FakeReply((ReplyText("said to nobody"),)))
                raise
            fake_reply = make_odd_reply(inner, dice, request, variant)
            answer = exchange.answer(fake_reply)
            if answer is None:
                return inner
            if fate < 0.03 and not schedule.is_settling:
                self._findings.occurrences["answers lost on their way"] += 1
                raise ModelFailed("simulated: the answer was lost on its way", retryable=True, retry_after=0.01)
        deltas: list[str] = []
        decoded = variant.decode(answer, exchange.encoded, deltas.append, stream=stream)
        self._findings.problems += find_misread(decoded, fake_reply, deltas, variant)
        self._count_items(decoded, variant)
        for piece in deltas:
            emit(piece)
        reply = replace(decoded, usage=inner.usage)
        schedule.record_request(request, reply)  # the simulator checks the decoded reply
        return reply

    # -- checks --------------------------------------------------------------------------------------------------------

    def add_problem(self, variant: FormatVariant, problem: str, encoded: EncodedRequest) -> None:
        if len(self._findings.problems) < MAX_PROBLEMS:
            seed = current_schedule.get().seed
            self._findings.problems.append(f"seed {seed}, {self.name_variant(variant)}: {problem} for {encoded.body[-700:]!r}")

    def name_variant(self, variant: FormatVariant) -> str:
        return f"{variant.name}, mixed" if self._is_mixed else variant.name

    def check_encoded(self, variant: FormatVariant, encoded: EncodedRequest, body: dict[str, Any], request: ModelRequest) -> None:
        """Count an encoded request, and check what can be checked without the provider's storage."""
        findings, kind = self._findings, self.name_variant(variant)
        findings.requests[kind] += 1
        findings.bytes[kind] += len(encoded.body)
        findings.occurrences["pictures and files"] += any(not isinstance(group.content, str) for group in request.groups)
        self._bodies.update(encoded.body)
        findings.digest = self._bodies.hexdigest()
        for thought in find_reasoning(body, variant):
            findings.occurrences[f"replayed reasoning, {variant.name}"] += 1
            if thought not in self._made_reasoning.get(variant.origin, ()):
                self.add_problem(variant, f"reasoning that {variant.origin!r} did not make", encoded)
        item_ids = {item.item_id for group in request.groups if group.fact for item in group.fact.items}
        for item in body.get("input", ()):
            # Hosted items are replayed with an id that the provider never gave; no other item has an id.
            if "id" in item and (item["id"] in item_ids or item.get("type") not in ("web_search_call", "mcp_call", "mcp_list_tools")):
                self.add_problem(variant, "an item id was sent", encoded)
        if b'"call_' in encoded.body and LEGATO_CALL_ID.search(encoded.body):
            findings.occurrences[f"ids made by Legato, {variant.name}"] += 1
        if variant.api == "responses" and variant.options.memory != "inline":
            findings.occurrences[f"{variant.name}, {_name_continuation(encoded, body, request)}"] += 1
            if not all(text in body["instructions"] for text in request.turn_context.messages):
                self.add_problem(variant, "the instructions lack a message of the turn context", encoded)

    def read_contents(self, variant: FormatVariant, body: dict[str, Any]) -> RequestContents:
        """Return the contents of a request with the stored history that it continues."""
        if variant.api == "responses":
            before = self._stored_contents.get(body.get("previous_response_id") or body.get("conversation") or "", [])
            return read_items([*before, *body["input"]])
        return read_messages(body["messages"]) if variant.api == "chat" else read_blocks(body["messages"])

    def store_answer(self, variant: FormatVariant, body: dict[str, Any], answer: ApiReply) -> None:
        """Record an answer of the provider, whether or not the client receives it."""
        if variant.api == "responses" and body["store"]:
            before = self._stored_contents.get(body.get("previous_response_id") or body.get("conversation") or "", [])
            contents = [*before, *body["input"], *answer.body["output"]]
            self._stored_contents[answer.body["id"]] = contents
            if body.get("conversation"):
                self._stored_contents[body["conversation"]] = contents
        reasoning = self._made_reasoning.setdefault(variant.origin, set())
        if variant.api == "responses":
            reasoning |= {item["encrypted_content"] for item in answer.body["output"] if "encrypted_content" in item}
        elif variant.api == "anthropic":
            reasoning |= {block["signature"] for block in answer.body["content"] if block["type"] == "thinking"}
        else:
            reasoning.add(answer.body["choices"][0]["message"].get("reasoning_content", ""))

    def _count_items(self, reply: ModelReply, variant: FormatVariant) -> None:
        kinds = {Refusal: "refusal", HostedToolUse: "hosted", Reasoning: "reasoning"}
        for item in reply.items:
            if (kind := kinds.get(type(item))) is not None:
                self._findings.occurrences[f"{kind}, {variant.api}"] += 1
        self._findings.occurrences[f"finish {reply.finish}"] += 1


class _Exchange:
    """One request, from its encoding until its answer."""

    def __init__(self, model: SweptModel, variant: FormatVariant, request: ModelRequest, dice: Random, stream: bool) -> None:
        self._model = model
        self._variant = variant
        self._dice = dice
        self._stream = stream
        self._adapter = model._provider.get_adapter(variant)
        by_value, reasoning = False, True
        while True:
            self.encoded = variant.encode(request, stream=stream, by_value=by_value, with_reasoning=reasoning)
            self._body = msgspec.json.decode(self.encoded.body)
            model.check_encoded(variant, self.encoded, self._body, request)
            if (by_value and self.encoded.base_id) or (not reasoning and find_reasoning(self._body, variant)):
                model.add_problem(variant, "content that the provider refused is sent again", self.encoded)
            if dice.random() < 0.1 and _encode_uncached(variant, request, stream, by_value, reasoning) != self.encoded:
                model.add_problem(variant, "without caches the request differs", self.encoded)
            # If the provider refuses a part for reasons of its own, the request is sent again without it, as the models do.
            if self.encoded.base_id and not by_value and variant.options.memory == "chained" and dice.random() < 0.1:
                by_value = True
                model._findings.occurrences["chains that the provider forgot"] += 1
            elif self.encoded.has_reasoning and reasoning and dice.random() < 0.06:
                reasoning = False
                model._findings.occurrences["reasoning that the provider refused"] += 1
            else:
                break
        self._request: EmulatorRequest = model._provider.make_request(variant, self._body, len(self.encoded.body))
        self._is_legal = self._check_request(request)
        if self._is_legal:
            self._adapter.acquire_locks(self._request)

    def _check_request(self, request: ModelRequest) -> bool:
        violations = [*self.encoded.violations, *self._adapter.find_violations(self._request)]
        if violations:
            self._model.add_problem(self._variant, f"refused: {violations[0]}", self.encoded)
        contents, expected = self._model.read_contents(self._variant, self._body), expected_lines(request, self._variant)
        problems = [*contents.find_problems()]
        if contents.lines != expected:
            problems.append(describe_first_difference(contents.lines, expected))
        for each in problems:
            self._model.add_problem(self._variant, each, self.encoded)
        return not violations

    def answer(self, fake_reply: FakeReply) -> ApiReply | None:
        """Return the provider's answer, and store it; None if the request is illegal."""
        if not self._is_legal:
            return None
        answer = add_server_oddities(self._adapter.make_reply(self._request, fake_reply), self._dice, self._variant, stream=self._stream)
        self._adapter.store_reply(self._request, answer)
        self._model.store_answer(self._variant, self._body, answer)
        return answer

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *error: object) -> None:
        self._adapter.release_locks(self._request)


def _encode_uncached(variant: FormatVariant, request: ModelRequest, stream: bool, by_value: bool, with_reasoning: bool) -> EncodedRequest:
    """Encode a request without any cached groups."""
    caches = [dict(get_group_cache(group)) for group in request.groups]
    clear_group_caches(request.groups)
    try:
        return variant.encode(request, stream=stream, by_value=by_value, with_reasoning=with_reasoning)
    finally:
        clear_group_caches(request.groups)
        for group, cache in zip(request.groups, caches, strict=True):
            get_group_cache(group).update(cache)


def _name_continuation(encoded: EncodedRequest, body: dict[str, Any], request: ModelRequest) -> str:
    if body.get("previous_response_id"):
        return "chained"
    if body.get("conversation"):
        return "continued" if request.conversation_ends.get(body["conversation"]) is not None else "started"
    return "by value"


def run_sweep(numbers: Iterable[int]) -> SweepFindings:
    """Play all seeds of the workflows of these numbers."""
    total = SweepFindings()
    for number in numbers:
        findings = SweepFindings()

        def wrap_model(model: Model, number: int = number, findings: SweepFindings = findings) -> Model:
            return SweptModel(model, number, findings)

        seeds = range(number * SEEDS_PER_WORKFLOW, (number + 1) * SEEDS_PER_WORKFLOW)
        report = simulate_administered(make_workflow, seeds, wrap_model=wrap_model, make_message=partial(make_message, number))
        findings.problems += [f"seed {seed}: {violation}" for seed, violation in report.violations]
        total.add(findings)
    return total
