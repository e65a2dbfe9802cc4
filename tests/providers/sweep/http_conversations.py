"""The sweep over real HTTP: random conversations through the providers' own SDKs, against a running emulator.

Replies are random, and the emulator sends them. The requests are then read from the emulator's log, and compared with the agents' views.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from legato.core.facts import Call, OutputText, Refusal, ReplyItem
from legato.core.model_reply import ModelReply
from legato.core.pending_requests import Pending
from legato.core.view import ModelRequest
from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.models.anthropic import Anthropic
from legato.models.chat import OpenAIChat
from legato.models.model import Emit
from legato.models.openai import OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing.schema_samples import sample_schema
from legato.testing.scripted_models import ScriptedModel
from legato.workflow.agent_as_tool import replace_workflow_of_tool
from legato.workflow.workflow import Workflow
from tests.providers.next_reply_model import NextReplyModel
from tests.providers.sweep.format_variants import VARIANTS, FormatVariant
from tests.providers.sweep.odd_replies import make_message, make_odd_reply, make_workflow
from tests.providers.sweep.request_contents import (
    describe_first_difference,
    expected_lines,
    find_misread,
    read_blocks,
    read_items,
    read_messages,
)
from tests.sim.random_workflows import SEEDS_PER_WORKFLOW

STRICT_SWITCHES = {
    "responses.unique_call_ids": True,
    "responses.reasoning_pairing_unstored": True,
    "responses.single_outputs": True,
    "responses.same_model_blobs": True,
    "chat.duplicate_answers": True,
}


def serve_strictly(fake_model: NextReplyModel) -> Emulator:
    """Run an emulator with this fake model, which records all requests."""
    return serve(fake_model=fake_model, max_exchanges=100_000, max_text_chars=None, switches=STRICT_SWITCHES)


class RandomClient:
    """The model of one agent: its replies are random, and its requests go over HTTP."""

    def __init__(
        self,
        variant: FormatVariant,
        emulator: Emulator,
        fake_model: NextReplyModel,
        dice: Random,
        requests: list[tuple[ModelRequest, FormatVariant, int]],
    ) -> None:
        if variant.options.compatible:
            variant = replace(variant, options=replace(variant.options, model="gpt-5"))  # the emulator knows its models
        self.variant = variant
        self.problems: list[str] = []
        self.model = _make_model(variant, emulator, stream=dice.random() < 0.5)
        self.name: str = self.model.name
        self.options_text: str = self.model.options_text
        self._emulator = emulator
        self._fake_model = fake_model
        self._dice = dice
        self._requests = requests

    async def conversation_for(self, request: ModelRequest) -> str:
        return await self.model.conversation_for(request) if isinstance(self.model, OpenAIResponses) else ""

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        fake_reply = self._fake_model.next_reply = make_odd_reply(
            ModelReply(items=_make_random_items(request, self._dice)), self._dice, request, self.variant
        )
        deltas: list[str] = []
        before = self._emulator.log.requests
        reply = await self.model.reply(request, deltas.append)
        self._requests.append((request, self.variant, self._emulator.log.requests))
        if self._emulator.log.requests != before + 1:
            self.problems.append(
                f"{self.variant.name}: the reply took {self._emulator.log.requests - before} requests: a request was refused"
            )
        self.problems += find_misread(reply, fake_reply, deltas, self.variant)
        for piece in deltas:
            emit(piece)
        return reply


def _make_model(variant: FormatVariant, emulator: Emulator, *, stream: bool) -> Any:
    options = {name: getattr(variant.options, name) for name in ("effort", "thinking_tokens") if getattr(variant.options, name)}
    arguments: dict[str, Any] = {"api_key": "sk-sweep", "stream": stream, **options}
    if variant.api == "responses":
        return OpenAIResponses(variant.options.model, base_url=emulator.openai_url, memory=variant.options.memory, **arguments)
    if variant.api == "chat":
        return OpenAIChat(variant.options.model, base_url=emulator.openai_url, compatible=variant.options.compatible, **arguments)
    return Anthropic(variant.options.model, base_url=emulator.url, **arguments)


def _make_random_items(request: ModelRequest, dice: Random) -> tuple[ReplyItem, ...]:
    items: list[ReplyItem] = [OutputText(f"words {dice.randrange(1000)}")] if dice.random() < 0.7 else []
    tools = request.turn_context.tools
    if tools and (dice.random() < 0.5 or not items):
        for _ in range(dice.choice((1, 1, 2, 3))):
            spec = dice.choice(tools)
            items.append(Call(spec.name, json.dumps(sample_schema(spec.parameters, dice)) if dice.random() < 0.95 else "{"))
    return tuple(items) or (Refusal("no"),)


async def play_conversation(
    seed: int, emulator: Emulator, fake_model: NextReplyModel
) -> tuple[list[str], list[tuple[ModelRequest, FormatVariant, int]]]:
    """Play one random conversation. Returns its problems, and its requests with their numbers."""
    dice = Random(f"conversation {seed} over http")
    requests: list[tuple[ModelRequest, FormatVariant, int]] = []
    shared = VARIANTS[seed % len(VARIANTS)]
    mixed = seed % 3 == 2
    workflow_of_seed = make_workflow(seed * SEEDS_PER_WORKFLOW)
    clients = {
        name: RandomClient(dice.choice(VARIANTS) if mixed else shared, emulator, fake_model, dice, requests)
        for name in workflow_of_seed.definition.agents
    }
    session = _with_models(workflow_of_seed, clients).session("s")
    problems: list[str] = []
    try:
        for number in range(dice.randrange(2, 6)):
            await session.run(make_message(seed, f"message {number}"))
            await _answer_requests(session, dice)
            if session.status == "failed":
                problems.append(
                    f"conversation {seed} over {[client.variant.name for client in clients.values()]} failed: {session.facts[-1]}"
                )
                break
    finally:
        for client in clients.values():
            await client.model.close()
    return [*problems, *(each for client in clients.values() for each in client.problems)], requests


def _with_models(workflow: Workflow, models: Mapping[str, Any]) -> Workflow:
    """Return the workflow with these models. Child sessions run in parallel, so their models use no HTTP."""
    helper = ScriptedModel(lambda seen: "Helped.")
    agents = {
        name: replace(
            agent,
            model=models.get(name, helper),
            tools={each.name: replace_workflow_of_tool(each, lambda child: _with_models(child, {})) for each in agent.tools.values()},
        )
        for name, agent in workflow.definition.agents.items()
    }
    return Workflow(replace(workflow.definition, agents=agents), MemoryStore(), workflow.description, ())


async def _answer_requests(session: Session, dice: Random) -> None:
    for _ in range(6):
        if session.status != "pending":
            return
        for request in session.pending:
            await _answer_one_request(session, request, dice)
        await session.resume()


async def _answer_one_request(session: Session, request: Pending, dice: Random) -> None:
    if request.kind == "limit":
        await session.reject(request)
    elif request.kind in ("result", "outcome"):
        await session.answer(request, "a person says: done")
    elif dice.random() < 0.6:
        await session.approve(request)
    else:
        await session.reject(request, "declined")


# -- requests over HTTP ------------------------------------------------------------------------------------------------


async def read_exchanges(emulator: Emulator) -> dict[int, Exchange]:
    """Return the model requests by number, once the server recorded all of them: a client may read the end of an answer earlier."""
    for _ in range(2000):
        exchanges = sorted((exchange for exchange in emulator.exchanges if exchange.is_model_request), key=lambda exchange: exchange.number)
        if len(exchanges) == emulator.log.requests:
            return dict(enumerate(exchanges, 1))
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator did not record every exchange")


def find_differences(exchanges: dict[int, Exchange], requests: Iterable[tuple[ModelRequest, FormatVariant, int]]) -> list[str]:
    """Return the differences between the contents of the requests and the views."""
    stored_items: dict[str, list[dict[str, Any]]] = {}
    contents_by_number: dict[int, list[dict[str, Any]]] = {}
    for number, exchange in exchanges.items():
        if exchange.api == "responses" and exchange.status == 200:
            body, reply = exchange.request_body, exchange.reply_body or {}
            contents_by_number[number] = [
                *stored_items.get(body.get("previous_response_id") or body.get("conversation") or "", []),
                *body["input"],
            ]
            for id in (reply["id"], body.get("conversation")):
                if id:
                    stored_items[id] = [*contents_by_number[number], *reply["output"]]
    problems = [f"{exchange}" for exchange in exchanges.values() if exchange.status != 200]
    for request, line, number in requests:
        body = exchanges[number].request_body
        if line.api == "responses":
            contents = read_items(contents_by_number[number])
        else:
            contents = read_messages(body["messages"]) if line.api == "chat" else read_blocks(body["messages"])
        expected = expected_lines(request, line)
        problems += [f"{line.name}: {each} in request {number}" for each in contents.find_problems()]
        if contents.lines != expected:
            problems.append(f"{line.name}: {describe_first_difference(contents.lines, expected)} in request {number}")
    return problems
