"""Stories over a wire: what a script says is said by the emulator, and comes back through a provider's own SDK.

`Wire.over(workflow)` gives every agent a model that asks its script what to say, has the emulator say it, and asks the emulator.
So a story is told as it was written, but every request goes through a compiler, HTTP, the law book, and a reader.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace as changed

from legato.core.facts import Call, Item, Reasoning, Refusal, Words
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator.minds.base import Item as Spoken
from legato.emulator.minds.base import Refused, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.errors import ModelFailed
from legato.models.base import Emit, KeepsConversations, Model
from legato.providers.rules.names import wire_name
from legato.workflow.agent_as_tool import with_workflow
from legato.workflow.workflow import Workflow
from tests.providers.stories.raw import plain_arguments
from tests.providers.stories.seen import is_object
from tests.providers.stories.traffic import Provider
from tests.providers.stories.wires import Kind


@dataclass
class Wire:
    """A provider, the model that speaks to it for every agent of a story, what that was asked, with the number of the request, and how it
    failed: a provider that refuses nothing fails nobody, so that is the connection's fault, and the story is another one."""

    provider: Provider
    kind: Kind
    model: Any
    stream: bool
    asked: list[tuple[Request, int]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def over(self, workflow: Workflow) -> Workflow:
        """The same workflow, whose models speak over this wire."""
        wired = WiredKeeping if isinstance(self.model, KeepsConversations) else Wired
        agents = {}
        for name, agent in workflow.definition.agents.items():
            tools = {key: with_workflow(each, self.over) for key, each in agent.tools.items()}
            agents[name] = changed(agent, model=wired(agent.model, self), tools=tools)
        return Workflow(changed(workflow.definition, agents=agents), workflow._given_store, workflow.description, workflow._dead_ends_meant)


class Wired:
    """A script whose words travel."""

    def __init__(self, script: Model, wire: Wire) -> None:
        self.script = script
        self.wire = wire
        self.options_text: str = wire.model.options_text

    @property
    def name(self) -> str:
        return str(self.wire.model.name)

    async def reply(self, request: Request, emit: Emit) -> Reply:
        scripted = await self.script.reply(request, lambda text: None)
        if not scripted.items:
            return scripted  # no provider says nothing at all
        wire, provider = self.wire, self.wire.provider
        async with wire.lock:  # one at a time, so that the emulator says to each what was meant for it
            provider.mouth.next = _say(scripted, f"This is thought {len(wire.asked)}." if wire.kind.thinks else "")
            number = provider.received
            try:
                reply: Reply = await wire.model.reply(request, emit)
            except ModelFailed as failure:
                wire.failed.append(f"{request.agent} in turn {request.turn}: {failure.summary}")
                raise
            assert provider.received == number + 1, "it took more than one request: something was refused"
            wire.asked.append((request, number))
        thoughts = [item for item in reply.items if isinstance(item, Reasoning)]
        assert len(thoughts) == wire.kind.thinks, f"{len(thoughts)} thoughts came back"
        assert is_carried(reply.items, carried(scripted.items, wire)), f"what came back is not what was said: {reply.items}"
        assert reply.finish == ends(scripted, wire), f"it ended otherwise: {reply.finish}"
        return changed(reply, items=as_written(reply.items, scripted.items))


class WiredKeeping(Wired):
    """The same, for models whose provider may keep the conversation."""

    async def conversation_for(self, request: Request) -> str:
        async with self.wire.lock:
            id: str = await self.wire.model.conversation_for(request)
            return id


def _say(reply: Reply, thought: str) -> Say:
    items: list[Spoken] = [Thought(thought)] if thought else []
    for item in reply.items:
        match item:
            case Words(text=text):
                items.append(Told(text))
            case Call():
                items.append(Use(wire_name(item.tool), item.arguments, item.call_id))
            case Refusal(text=text):
                items.append(Refused(text))
    finish: Any = {"stop": "stop", "length": "length", "filter": "content_filter"}[reply.finish]
    return Say(tuple(items), finish)


# -- what comes back ---------------------------------------------------------------------------------------------------

PARTLY_READ = "(an object)"
"""What is known of arguments that are no JSON object where an API reads them before it sends them."""


def carried(items: tuple[Item, ...], wire: Wire) -> tuple[Item, ...]:
    """What arrives of a reply. Not every API can carry everything that a script may say:

    - Chat Completions has one text for all words, and calls stand behind it;
    - Anthropic sends a call's input as an object, unless it is streamed: of other arguments, what can be read.
    """
    if wire.kind.api == "chat":
        words = "\n\n".join(item.text for item in items if isinstance(item, Words))
        rest = [item for kind in (Refusal, Call) for item in items if isinstance(item, kind)]
        return (Words(words), *rest) if words else tuple(rest)
    if wire.kind.api == "anthropic" and not wire.stream:
        return tuple(changed(item, arguments=PARTLY_READ) if _is_odd(item) else item for item in items)
    return items


def ends(scripted: Reply, wire: Wire) -> str:
    """Why a reply ends. To Anthropic a model that declines was stopped."""
    refused = any(isinstance(item, Refusal) for item in scripted.items)
    return "filter" if refused and wire.kind.api == "anthropic" else scripted.finish


def is_carried(items: tuple[Item, ...], due: tuple[Item, ...]) -> bool:
    """Whether what came back is what was to arrive."""
    came, expected = _told(items), _told(due)
    for place, (_, what) in enumerate(expected):
        if what == PARTLY_READ and place < len(came) and is_object(came[place][1]):
            came[place] = (came[place][0], PARTLY_READ)
    return came == expected


def as_written(items: tuple[Item, ...], scripted: tuple[Item, ...]) -> tuple[Item, ...]:
    """The reply as it is recorded: as it came, unless the API could not carry what the script says. Then as the script has it, with the
    thoughts and the ids that came, as if the agent had said it through another API: how that is sent on is what is to be shown."""
    if _told(items) == _told(scripted) and _odd(items) == _odd(scripted):
        return items
    ids = [item.call_id for item in items if isinstance(item, Call)]
    thoughts = [item for item in items if isinstance(item, Reasoning)]
    return (*thoughts, *(changed(item, call_id=ids.pop(0)) if isinstance(item, Call) else item for item in scripted))


def _told(items: tuple[Item, ...]) -> list[tuple[str, str]]:
    """What is said, in one spelling: without ids and reasoning."""
    said: list[tuple[str, str]] = []
    for item in items:
        match item:
            case Words(text=text):
                said.append(("words", text))
            case Refusal(text=text):
                said.append(("refusal", text))
            case Call():
                said.append((wire_name(item.tool), plain_arguments(item.arguments.strip() or "{}")))
    return said


def _odd(items: tuple[Item, ...]) -> list[str]:
    """Arguments that are no object, letter by letter: that is how the model is told what it wrote."""
    return [item.arguments for item in items if isinstance(item, Call) and _is_odd(item)]


def _is_odd(item: Item) -> bool:
    return isinstance(item, Call) and not is_object(item.arguments.strip() or "{}")
