"""The models that conversations are recorded over: every API, every memory mode, with reasoning where the API has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any

from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.models import Anthropic, AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from legato.testing import ScriptedModel
from tests.recordings.fake_provider import next_content
from tests.recordings.reply_bodies import AnswerContent

KEY = "sk-recording"
HOST = "https://provider.test"


@dataclass(frozen=True)
class ModelKind:
    """An API in a memory mode. `has_reasoning`: replies begin with reasoning. `has_stored_conversation`: the provider has the messages."""

    make_model: Callable[[bool], Any]
    has_reasoning: bool = False
    has_stored_conversation: bool = False

    @property
    def needs_provider_state(self) -> bool:
        """True if requests depend on state that the provider may have lost."""
        return self.has_reasoning or self.has_stored_conversation


def _make_responses_model(memory: Any, stream: bool) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=f"{HOST}/v1", api_key=KEY, memory=memory, stream=stream)


def _make_azure_model(memory: Any, stream: bool) -> AzureOpenAIResponses:
    return AzureOpenAIResponses("our-gpt-5", endpoint=HOST, api_key=KEY, memory=memory, stream=stream)


def _make_chat_model(compatible: bool, stream: bool) -> OpenAIChat:
    return OpenAIChat("gpt-5", base_url=f"{HOST}/v1", api_key=KEY, compatible=compatible, stream=stream)


def _make_anthropic_model(model: str, options: dict[str, Any], stream: bool) -> Anthropic:
    return Anthropic(model, base_url=HOST, api_key=KEY, stream=stream, **options)


MODEL_KINDS: dict[str, ModelKind] = {
    "responses-inline": ModelKind(partial(_make_responses_model, "inline")),
    "responses-chained": ModelKind(partial(_make_responses_model, "chained"), has_stored_conversation=True),
    "responses-conversation": ModelKind(partial(_make_responses_model, "conversation"), has_stored_conversation=True),
    "responses-inline-thinking": ModelKind(partial(_make_responses_model, "inline"), has_reasoning=True),
    "responses-chained-thinking": ModelKind(partial(_make_responses_model, "chained"), has_reasoning=True, has_stored_conversation=True),
    "responses-conversation-thinking": ModelKind(
        partial(_make_responses_model, "conversation"), has_reasoning=True, has_stored_conversation=True
    ),
    "azure-inline": ModelKind(partial(_make_azure_model, "inline")),
    "azure-chained": ModelKind(partial(_make_azure_model, "chained"), has_stored_conversation=True),
    "chat": ModelKind(partial(_make_chat_model, False)),
    "chat-compatible": ModelKind(partial(_make_chat_model, True)),
    "chat-compatible-thinking": ModelKind(partial(_make_chat_model, True), has_reasoning=True),
    "anthropic": ModelKind(partial(_make_anthropic_model, "claude-sonnet-5-5", {})),
    "anthropic-thinking-bound": ModelKind(partial(_make_anthropic_model, "claude-opus-5-5", {"effort": "low"}), has_reasoning=True),
    "anthropic-thinking": ModelKind(partial(_make_anthropic_model, "claude-sonnet-4-5", {"thinking_tokens": 2048}), has_reasoning=True),
}


class HttpScriptedModel:
    """A model that sends each scripted reply through a real model: the fake provider answers with the content of the script."""

    def __init__(self, script: Callable[[ModelRequest], Any], model: Any, has_reasoning: bool) -> None:
        self._script = script
        self._model = model
        self._has_reasoning = has_reasoning
        self._count = 0
        self.name: str = model.name
        self.options_text: str = model.options_text

    async def reply(self, request: ModelRequest, emit: Any) -> ModelReply:
        scripted = self._script(request)
        return await self.send_scripted_reply(await scripted if isawaitable(scripted) else scripted, request, emit)

    async def send_scripted_reply(self, scripted: ModelReply, request: ModelRequest, emit: Any) -> ModelReply:
        """Request the real model, whose provider answers with this reply."""
        if not scripted.items:
            return scripted  # no provider sends an empty answer
        self._count += 1
        next_content.set(AnswerContent(scripted.items, scripted.finish, f"This is thought {self._count}." if self._has_reasoning else ""))
        reply: ModelReply = await self._model.reply(request, emit)
        return reply


class ConversationScriptedModel(HttpScriptedModel):
    """A scripted model whose provider stores the conversation."""

    async def conversation_for(self, request: ModelRequest) -> str:
        id: str = await self._model.conversation_for(request)
        return id


def make_http_scripted_model(script: Callable[[ModelRequest], Any], model: Any, has_reasoning: bool) -> HttpScriptedModel:
    """Return the scripted model that goes with the memory mode of a real model."""
    has_conversation = getattr(model.options, "memory", "") == "conversation"
    return (ConversationScriptedModel if has_conversation else HttpScriptedModel)(script, model, has_reasoning)


@contextmanager
def replace_scripted_models(model: Any, has_reasoning: bool) -> Iterator[None]:
    """Send the replies of every `ScriptedModel` through a real model until the block ends."""
    own = dict(vars(ScriptedModel))
    script = ScriptedModel.reply
    http_model = make_http_scripted_model(lambda request: None, model, has_reasoning)

    async def reply(self: ScriptedModel, request: ModelRequest, emit: Any) -> ModelReply:
        return await http_model.send_scripted_reply(await script(self, request, lambda text: None), request, emit)

    async def conversation_for(self: ScriptedModel, request: ModelRequest) -> str:
        id: str = await model.conversation_for(request)
        return id

    changes: dict[str, Any] = {"reply": reply, "name": property(lambda self: model.name), "options_text": model.options_text}
    if isinstance(http_model, ConversationScriptedModel):
        changes["conversation_for"] = conversation_for
    for name, value in changes.items():
        setattr(ScriptedModel, name, value)
    try:
        yield
    finally:
        for name in changes:
            if name in own:
                setattr(ScriptedModel, name, own[name])
            else:
                delattr(ScriptedModel, name)
