"""The models that conversations are recorded over: every API, every way to keep the conversation, with reasoning where it has any."""

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
from tests.recordings.answers import Speech
from tests.recordings.provider import speech

KEY = "sk-recording"
HOST = "https://provider.test"


@dataclass(frozen=True)
class Kind:
    """One way to a model. `thinks`: every reply of the model begins with a thought. `keeps`: the provider keeps what was said."""

    make: Callable[[bool], Any]
    thinks: bool = False
    keeps: bool = False

    @property
    def leans(self) -> bool:
        """Whether requests need that the provider knows something still."""
        return self.thinks or self.keeps


def _responses(memory: Any, stream: bool) -> OpenAIResponses:
    return OpenAIResponses("gpt-5", base_url=f"{HOST}/v1", api_key=KEY, memory=memory, stream=stream)


def _azure(memory: Any, stream: bool) -> AzureOpenAIResponses:
    return AzureOpenAIResponses("our-gpt-5", endpoint=HOST, api_key=KEY, memory=memory, stream=stream)


def _chat(compatible: bool, stream: bool) -> OpenAIChat:
    return OpenAIChat("gpt-5", base_url=f"{HOST}/v1", api_key=KEY, compatible=compatible, stream=stream)


def _anthropic(model: str, options: dict[str, Any], stream: bool) -> Anthropic:
    return Anthropic(model, base_url=HOST, api_key=KEY, stream=stream, **options)


KINDS: dict[str, Kind] = {
    "responses-inline": Kind(partial(_responses, "inline")),
    "responses-chained": Kind(partial(_responses, "chained"), keeps=True),
    "responses-conversation": Kind(partial(_responses, "conversation"), keeps=True),
    "responses-inline-thinking": Kind(partial(_responses, "inline"), thinks=True),
    "responses-chained-thinking": Kind(partial(_responses, "chained"), thinks=True, keeps=True),
    "responses-conversation-thinking": Kind(partial(_responses, "conversation"), thinks=True, keeps=True),
    "azure-inline": Kind(partial(_azure, "inline")),
    "azure-chained": Kind(partial(_azure, "chained"), keeps=True),
    "chat": Kind(partial(_chat, False)),
    "chat-compatible": Kind(partial(_chat, True)),
    "chat-compatible-thinking": Kind(partial(_chat, True), thinks=True),
    "anthropic": Kind(partial(_anthropic, "claude-sonnet-5-5", {})),
    "anthropic-thinking-bound": Kind(partial(_anthropic, "claude-opus-5-5", {"effort": "low"}), thinks=True),
    "anthropic-thinking": Kind(partial(_anthropic, "claude-sonnet-4-5", {"thinking_tokens": 2048}), thinks=True),
}


class Speaker:
    """A model that says over HTTP what a script says: its provider answers with the words of the script."""

    def __init__(self, script: Callable[[ModelRequest], Any], model: Any, thinks: bool) -> None:
        self._script = script
        self._model = model
        self._thinks = thinks
        self._count = 0
        self.name: str = model.name
        self.options_text: str = model.options_text

    async def reply(self, request: ModelRequest, emit: Any) -> ModelReply:
        scripted = self._script(request)
        return await self.say(await scripted if isawaitable(scripted) else scripted, request, emit)

    async def say(self, scripted: ModelReply, request: ModelRequest, emit: Any) -> ModelReply:
        """Ask the real model, and let its provider say this."""
        if not scripted.items:
            return scripted  # no provider says nothing at all
        self._count += 1
        speech.set(Speech(scripted.items, scripted.finish, f"This is thought {self._count}." if self._thinks else ""))
        spoken: ModelReply = await self._model.reply(request, emit)
        return spoken


class KeepingSpeaker(Speaker):
    """A speaker whose provider keeps the conversation."""

    async def conversation_for(self, request: ModelRequest) -> str:
        id: str = await self._model.conversation_for(request)
        return id


def speaker_of(script: Callable[[ModelRequest], Any], model: Any, thinks: bool) -> Speaker:
    """A speaker for a real model."""
    keeps = getattr(model.options, "memory", "") == "conversation"
    return (KeepingSpeaker if keeps else Speaker)(script, model, thinks)


@contextmanager
def scripts_spoken_by(model: Any, thinks: bool) -> Iterator[None]:
    """Let a real model say what every `ScriptedModel` says."""
    own = dict(vars(ScriptedModel))
    script = ScriptedModel.reply
    speaker = speaker_of(lambda request: None, model, thinks)

    async def reply(self: ScriptedModel, request: ModelRequest, emit: Any) -> ModelReply:
        return await speaker.say(await script(self, request, lambda text: None), request, emit)

    async def conversation_for(self: ScriptedModel, request: ModelRequest) -> str:
        id: str = await model.conversation_for(request)
        return id

    changes: dict[str, Any] = {"reply": reply, "name": property(lambda self: model.name), "options_text": model.options_text}
    if isinstance(speaker, KeepingSpeaker):
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
