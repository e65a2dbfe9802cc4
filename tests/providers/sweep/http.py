"""The same over real HTTP: random conversations through the providers' own SDKs, against a running emulator.

The dice say what the model says; the emulator says it. What went over HTTP is then read from the emulator's log, and compared with what
each agent should have seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from legato.core.facts import Call, Item, Refusal, Words
from legato.core.model_reply import Reply
from legato.core.pending_requests import Pending
from legato.core.view import Request
from legato.emulator import Emulator, serve
from legato.emulator.exchanges import Exchange
from legato.emulator.minds.base import Prompt, Say
from legato.models.anthropic import Anthropic
from legato.models.base import Emit
from legato.models.chat import OpenAIChat
from legato.models.openai import OpenAIResponses
from legato.runtime.session import Session
from legato.stores import MemoryStore
from legato.testing.sampling import sample
from legato.testing.scripted import ScriptedModel
from legato.workflow.agent_as_tool import with_workflow
from legato.workflow.workflow import Workflow
from tests.providers.sweep.lines import LINES, Line
from tests.providers.sweep.nasty import message, spoken, workflow
from tests.providers.sweep.told import due, first_difference, heard_blocks, heard_items, heard_messages, misread
from tests.sim.workflows import SEEDS_EACH

STRICT = {
    "responses.unique_call_ids": True,
    "responses.reasoning_pairing_unstored": True,
    "responses.single_outputs": True,
    "responses.same_model_blobs": True,
    "chat.duplicate_answers": True,
}


class Mouth:
    """The emulator's mind: it says what it was last told to."""

    def __init__(self) -> None:
        self.next = Say(())

    def reply(self, prompt: Prompt) -> Say:
        return self.next


def running(mouth: Mouth) -> Emulator:
    """An emulator with this mind that keeps all that it is sent."""
    return serve(mind=mouth, keep=100_000, longest=None, switches=STRICT)


class Client:
    """One agent's model: what it says is by dice, what it is asked goes over HTTP."""

    def __init__(self, line: Line, emulator: Emulator, mouth: Mouth, dice: Random, asked: list[tuple[Request, Line, int]]) -> None:
        if line.options.compatible:
            line = replace(line, options=replace(line.options, model="gpt-5"))  # the emulator knows its models
        self.line = line
        self.wrong: list[str] = []
        self.model = _client(line, emulator, stream=dice.random() < 0.5)
        self.name: str = self.model.name
        self.options_text: str = self.model.options_text
        self._emulator = emulator
        self._mouth = mouth
        self._dice = dice
        self._asked = asked

    async def conversation_for(self, request: Request) -> str:
        return await self.model.conversation_for(request) if isinstance(self.model, OpenAIResponses) else ""

    async def reply(self, request: Request, emit: Emit) -> Reply:
        said = self._mouth.next = spoken(Reply(items=_items(request, self._dice)), self._dice, request, self.line)
        shown: list[str] = []
        before = self._emulator.log.requests
        reply = await self.model.reply(request, shown.append)
        self._asked.append((request, self.line, self._emulator.log.requests))
        if self._emulator.log.requests != before + 1:
            self.wrong.append(f"{self.line.name}: it took {self._emulator.log.requests - before} requests: something was refused")
        self.wrong += misread(reply, said, shown, self.line)
        for piece in shown:
            emit(piece)
        return reply


def _client(line: Line, emulator: Emulator, *, stream: bool) -> Any:
    options = {name: getattr(line.options, name) for name in ("effort", "thinking_tokens") if getattr(line.options, name)}
    given: dict[str, Any] = {"api_key": "sk-sweep", "stream": stream, **options}
    if line.api == "responses":
        return OpenAIResponses(line.options.model, base_url=emulator.openai_url, memory=line.options.memory, **given)
    if line.api == "chat":
        return OpenAIChat(line.options.model, base_url=emulator.openai_url, compatible=line.options.compatible, **given)
    return Anthropic(line.options.model, base_url=emulator.url, **given)


def _items(request: Request, dice: Random) -> tuple[Item, ...]:
    items: list[Item] = [Words(f"words {dice.randrange(1000)}")] if dice.random() < 0.7 else []
    tools = request.frame.tools
    if tools and (dice.random() < 0.5 or not items):
        for _ in range(dice.choice((1, 1, 2, 3))):
            spec = dice.choice(tools)
            items.append(Call(spec.name, json.dumps(sample(spec.parameters, dice)) if dice.random() < 0.95 else "{"))
    return tuple(items) or (Refusal("no"),)


async def converse(seed: int, emulator: Emulator, mouth: Mouth) -> tuple[list[str], list[tuple[Request, Line, int]]]:
    """One random conversation. What is wrong with it, and what was asked in it, with the numbers of the requests."""
    dice = Random(f"conversation {seed} over http")
    asked: list[tuple[Request, Line, int]] = []
    shared = LINES[seed % len(LINES)]
    mixed = seed % 3 == 2
    played = workflow(seed * SEEDS_EACH)
    clients = {name: Client(dice.choice(LINES) if mixed else shared, emulator, mouth, dice, asked) for name in played.definition.agents}
    session = _with_models(played, clients).session("s")
    wrong: list[str] = []
    try:
        for number in range(dice.randrange(2, 6)):
            await session.run(message(seed, f"message {number}"))
            await _settle(session, dice)
            if session.status == "failed":
                wrong.append(f"conversation {seed} over {[client.line.name for client in clients.values()]} failed: {session.facts[-1]}")
                break
    finally:
        for client in clients.values():
            await client.model.close()
    return [*wrong, *(each for client in clients.values() for each in client.wrong)], asked


def _with_models(workflow: Workflow, models: Mapping[str, Any]) -> Workflow:
    """The workflow with these models. Child sessions run in parallel, and the emulator says one thing at a time, so they need no HTTP."""
    helper = ScriptedModel(lambda seen: "Helped.")
    agents = {
        name: replace(
            agent,
            model=models.get(name, helper),
            tools={each.name: with_workflow(each, lambda child: _with_models(child, {})) for each in agent.tools.values()},
        )
        for name, agent in workflow.definition.agents.items()
    }
    return Workflow(replace(workflow.definition, agents=agents), MemoryStore(), workflow.description, ())


async def _settle(session: Session, dice: Random) -> None:
    for _ in range(6):
        if session.status != "pending":
            return
        for request in session.pending:
            await _answer(session, request, dice)
        await session.resume()


async def _answer(session: Session, request: Pending, dice: Random) -> None:
    if request.kind == "limit":
        await session.reject(request)
    elif request.kind in ("result", "outcome"):
        await session.answer(request, "a person says: done")
    elif dice.random() < 0.6:
        await session.approve(request)
    else:
        await session.reject(request, "declined")


# -- what went over HTTP -----------------------------------------------------------------------------------------------


async def noted(emulator: Emulator) -> dict[int, Exchange]:
    """The requests for replies, by their numbers, once the server has noted them all: who reads the last byte may be faster."""
    for _ in range(2000):
        exchanges = sorted((exchange for exchange in emulator.exchanges if exchange.asks), key=lambda exchange: exchange.number)
        if len(exchanges) == emulator.log.requests:
            return dict(enumerate(exchanges, 1))
        await asyncio.sleep(0.005)
    raise AssertionError("the emulator has not noted every exchange")


def differences(exchanges: dict[int, Exchange], asked: Iterable[tuple[Request, Line, int]]) -> list[str]:
    """What the bodies say otherwise than the views."""
    held: dict[str, list[dict[str, Any]]] = {}
    told: dict[int, list[dict[str, Any]]] = {}
    for number, exchange in exchanges.items():
        if exchange.api == "responses" and exchange.status == 200:
            body, reply = exchange.request, exchange.reply or {}
            told[number] = [*held.get(body.get("previous_response_id") or body.get("conversation") or "", []), *body["input"]]
            for id in (reply["id"], body.get("conversation")):
                if id:
                    held[id] = [*told[number], *reply["output"]]
    wrong = [f"{exchange}" for exchange in exchanges.values() if exchange.status != 200]
    for request, line, number in asked:
        body = exchanges[number].request
        if line.api == "responses":
            hearing = heard_items(told[number])
        else:
            hearing = heard_messages(body["messages"]) if line.api == "chat" else heard_blocks(body["messages"])
        wanted = due(request, line)
        wrong += [f"{line.name}: {each} in request {number}" for each in hearing.done()]
        if hearing.lines != wanted:
            wrong.append(f"{line.name}: {first_difference(hearing.lines, wanted)} in request {number}")
    return wrong
