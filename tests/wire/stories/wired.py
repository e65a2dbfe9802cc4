"""Stories over a wire: what a script says is said by the emulator, and comes back through a provider's own SDK.

`over_wire(workflow, ...)` gives every agent a model that asks its script what to say, has the emulator say it, and asks the emulator.
So a story is told as it was written, but every request goes through a compiler, HTTP, the law book, and a reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from legato.core.facts import Call, Item, Reasoning, Refusal, Words
from legato.core.reply import Reply
from legato.core.view import Request
from legato.emulator import Emulator
from legato.emulator.minds.base import Item as Spoken
from legato.emulator.minds.base import Prompt, Refused, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.models.base import Emit, KeepsConversations, Model
from legato.wire.names import wire_name
from legato.workflow import Workflow


class Mouth:
    """The emulator's mind: it says what it was last told to."""

    def __init__(self) -> None:
        self.next = Say(())

    def reply(self, prompt: Prompt) -> Say:
        return self.next


@dataclass
class Wire:
    """One emulator, the models that speak to it, and what each was asked, beside the number of the exchange."""

    emulator: Emulator
    mouth: Mouth
    make: Callable[[Emulator], Model]
    thinks: bool = False
    asked: list[tuple[Request, int]] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    models: list[Any] = field(default_factory=list)

    async def close(self) -> None:
        for model in self.models:
            await model.close()

    def over(self, workflow: Workflow) -> Workflow:
        """The same workflow, whose models speak over this wire."""
        agents = {name: replace(agent, model=_wired(agent.model, self)) for name, agent in workflow.definition.agents.items()}
        return Workflow(replace(workflow.definition, agents=agents), workflow._given_store, workflow.description, workflow._dead_ends_meant)


class Wired:
    """A script whose words travel."""

    def __init__(self, script: Model, wire: Wire) -> None:
        self.script = script
        self.wire = wire
        self.model = wire.make(wire.emulator)
        wire.models.append(self.model)
        self.options_text: str = getattr(self.model, "options_text", "")

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request, emit: Emit) -> Reply:
        scripted = await self.script.reply(request, lambda text: None)
        if not scripted.items:
            return scripted  # no provider says nothing at all
        async with self.wire.lock:
            self.wire.mouth.next = _say(scripted, self.wire.thinks)
            before = self.wire.emulator.log.requests
            reply = await self.model.reply(request, emit)
            self.wire.asked.append((request, self.wire.emulator.log.requests))
            assert self.wire.emulator.log.requests == before + 1, "it took more than one request: something was refused"
        assert _spoken(reply.items) == _spoken(scripted.items), "what came back is not what was said"
        return reply


class WiredKeeping(Wired):
    """The same, for models whose provider keeps the conversation."""

    async def conversation_for(self, request: Request) -> str:
        assert isinstance(self.model, KeepsConversations)
        return await self.model.conversation_for(request)


def _wired(script: Model, wire: Wire) -> Model:
    made = Wired(script, wire)
    return WiredKeeping(script, wire) if isinstance(made.model, KeepsConversations) else made


def _say(reply: Reply, thinks: bool) -> Say:
    items: list[Spoken] = [Thought("Let me think about this.")] if thinks else []
    for item in reply.items:
        match item:
            case Words(text=text):
                items.append(Told(text))
            case Call():
                items.append(Use(wire_name(item.tool), item.arguments, item.call_id))
            case Refusal(text=text):
                items.append(Refused(text))
            case Reasoning(text=text):
                items.append(Thought(text or "Hm."))
    finish: Any = {"stop": "stop", "length": "length", "filter": "content_filter"}[reply.finish]
    return Say(tuple(items), finish)


def _spoken(items: tuple[Item, ...]) -> list[tuple[str, str]]:
    """What was said, without ids and reasoning; neighbouring words are one."""
    said: list[tuple[str, str]] = []
    for item in items:
        match item:
            case Words(text=text) | Refusal(text=text):
                said.append(("words", text))
            case Call():
                said.append((wire_name(item.tool), item.arguments))
    return said
