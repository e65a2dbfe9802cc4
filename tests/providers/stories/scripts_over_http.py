"""Stories over HTTP: the emulator gives a script's replies, which come back through a provider's own SDK.

`StoryConnection.connect_workflow` gives each agent a model that takes a reply from its script, sets it as the emulator's next reply, and
requests it from the emulator. So stories are played as written, but every request goes through an encoder, HTTP, the rules and a decoder.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace as changed

from legato.core.facts import Call, OutputText, Reasoning, Refusal, ReplyItem
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyThought
from legato.emulator.fake_models.base import FakeReplyItem as Spoken
from legato.emulator.fake_models.base import ReplyText as Told
from legato.errors import ModelFailed
from legato.models.model import Emit, KeepsConversations, Model
from legato.providers.rules.identifiers import sanitize_tool_name
from legato.workflow.agent_as_tool import replace_workflow_of_tool
from legato.workflow.workflow import Workflow
from tests.providers.stories.expected_contents import is_object
from tests.providers.stories.recording_provider import RecordingProvider
from tests.providers.stories.story_formats import StoryFormat
from tests.providers.stories.traffic_reader import normalize_arguments


@dataclass
class StoryConnection:
    """A provider, the model that sends it the requests of all agents, those requests with their numbers, and their failures.

    The provider refuses nothing, so a failure is the connection's, and changes the story.
    """

    provider: RecordingProvider
    format: StoryFormat
    model: Any
    stream: bool
    requests: list[tuple[ModelRequest, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def connect_workflow(self, workflow: Workflow) -> Workflow:
        """Return the workflow with models that use this connection."""
        wrap = StoringScriptOverHTTP if isinstance(self.model, KeepsConversations) else ScriptOverHTTP
        agents = {}
        for name, agent in workflow.definition.agents.items():
            tools = {key: replace_workflow_of_tool(each, self.connect_workflow) for key, each in agent.tools.items()}
            agents[name] = changed(agent, model=wrap(agent.model, self), tools=tools)
        return Workflow(
            changed(workflow.definition, agents=agents), workflow._configured_store, workflow.description, workflow._allowed_dead_ends
        )


class ScriptOverHTTP:
    """A model whose scripted replies go over HTTP."""

    def __init__(self, script: Model, connection: StoryConnection) -> None:
        self.script = script
        self.connection = connection
        self.options_text: str = connection.model.options_text

    @property
    def name(self) -> str:
        return str(self.connection.model.name)

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        scripted = await self.script.reply(request, lambda text: None)
        if not scripted.items:
            return scripted  # no provider gives an empty reply
        connection, provider = self.connection, self.connection.provider
        async with connection.lock:  # one at a time, so that each request gets its own scripted reply
            provider.fake_model.next_reply = make_fake_reply(
                scripted, f"This is thought {len(connection.requests)}." if connection.format.thinks else ""
            )
            number = provider.request_count
            try:
                reply: ModelReply = await connection.model.reply(request, emit)
            except ModelFailed as failure:
                connection.failures.append(f"{request.agent} in turn {request.reply_count}: {failure.summary}")
                raise
            assert provider.request_count == number + 1, "it took more than one request: something was refused"
            connection.requests.append((request, number))
        thoughts = [item for item in reply.items if isinstance(item, Reasoning)]
        assert len(thoughts) == connection.format.thinks, f"{len(thoughts)} thoughts came back"
        assert has_expected_items(reply.items, expected_items(scripted.items, connection)), (
            f"what came back is not what was said: {reply.items}"
        )
        assert reply.finish == expected_finish(scripted, connection), f"it ended otherwise: {reply.finish}"
        return changed(reply, items=recorded_items(reply.items, scripted.items))


class StoringScriptOverHTTP(ScriptOverHTTP):
    """The same for a model whose provider may store the conversation."""

    async def conversation_for(self, request: ModelRequest) -> str:
        async with self.connection.lock:
            id: str = await self.connection.model.conversation_for(request)
            return id


def make_fake_reply(reply: ModelReply, thought: str) -> FakeReply:
    items: list[Spoken] = [ReplyThought(thought)] if thought else []
    for item in reply.items:
        match item:
            case OutputText(text=text):
                items.append(Told(text))
            case Call():
                items.append(ReplyCall(sanitize_tool_name(item.tool), item.arguments, item.call_id))
            case Refusal(text=text):
                items.append(ReplyRefusal(text))
    finish: Any = {"stop": "stop", "length": "length", "filter": "content_filter"}[reply.finish]
    return FakeReply(tuple(items), finish)


# -- replies from the provider -----------------------------------------------------------------------------------------

OBJECT_PLACEHOLDER = "(an object)"
"""A placeholder for arguments that are no JSON object if an API parses them before it sends them."""


def expected_items(items: tuple[ReplyItem, ...], connection: StoryConnection) -> tuple[ReplyItem, ...]:
    """Return the items that arrive. Some APIs cannot express all replies of a script:

    - Chat Completions has one text, followed by the calls;
    - Anthropic sends a call's input as an object unless it is streamed: other arguments arrive in part.
    """
    if connection.format.api == "chat":
        words = "\n\n".join(item.text for item in items if isinstance(item, OutputText))
        rest = [item for kind in (Refusal, Call) for item in items if isinstance(item, kind)]
        return (OutputText(words), *rest) if words else tuple(rest)
    if connection.format.api == "anthropic" and not connection.stream:
        return tuple(changed(item, arguments=OBJECT_PLACEHOLDER) if _has_odd_arguments(item) else item for item in items)
    return items


def expected_finish(scripted: ModelReply, connection: StoryConnection) -> str:
    """Return the expected finish of a reply. For Anthropic, a refusal is a stop by a filter."""
    refused = any(isinstance(item, Refusal) for item in scripted.items)
    return "filter" if refused and connection.format.api == "anthropic" else scripted.finish


def has_expected_items(items: tuple[ReplyItem, ...], expected: tuple[ReplyItem, ...]) -> bool:
    """Return True if the items that came back are the expected ones."""
    actual_items, expected = _normalize_items(items), _normalize_items(expected)
    for place, (_, what) in enumerate(expected):
        if what == OBJECT_PLACEHOLDER and place < len(actual_items) and is_object(actual_items[place][1]):
            actual_items[place] = (actual_items[place][0], OBJECT_PLACEHOLDER)
    return actual_items == expected


def recorded_items(items: tuple[ReplyItem, ...], scripted: tuple[ReplyItem, ...]) -> tuple[ReplyItem, ...]:
    """Return the items to be recorded: as they came, unless the API could not express the script's reply.

    Then they are the script's items with the reasoning and the ids that came, as if the reply came through another API: the test shows how
    such a reply is encoded.
    """
    if _normalize_items(items) == _normalize_items(scripted) and _list_odd_arguments(items) == _list_odd_arguments(scripted):
        return items
    ids = [item.call_id for item in items if isinstance(item, Call)]
    thoughts = [item for item in items if isinstance(item, Reasoning)]
    return (*thoughts, *(changed(item, call_id=ids.pop(0)) if isinstance(item, Call) else item for item in scripted))


def _normalize_items(items: tuple[ReplyItem, ...]) -> list[tuple[str, str]]:
    """Return the contents in a normal form, without ids and reasoning."""
    contents: list[tuple[str, str]] = []
    for item in items:
        match item:
            case OutputText(text=text):
                contents.append(("words", text))
            case Refusal(text=text):
                contents.append(("refusal", text))
            case Call():
                contents.append((sanitize_tool_name(item.tool), normalize_arguments(item.arguments.strip() or "{}")))
    return contents


def _list_odd_arguments(items: tuple[ReplyItem, ...]) -> list[str]:
    """Return the arguments that are no object, unchanged: the model is sent exactly what it wrote."""
    return [item.arguments for item in items if isinstance(item, Call) and _has_odd_arguments(item)]


def _has_odd_arguments(item: ReplyItem) -> bool:
    return isinstance(item, Call) and not is_object(item.arguments.strip() or "{}")
