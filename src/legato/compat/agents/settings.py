"""Model settings and clients.

A Responses model stores its replies and goes on from them ("chained"), as OpenAI's API does unless it is told otherwise; with
`ModelSettings(store=False)` everything goes by value and the provider keeps nothing ("inline").
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal

import openai

from legato.compat.agents.exceptions import UserError
from legato.compat.agents.unsupported_errors import check_arguments, mirrors
from legato.core.argument_checks import implements_protocol
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.errors import BadInput
from legato.models import Model, OpenAIChat, OpenAIResponses
from legato.models.model import Emit
from legato.models.sdk_client import LoopClients, make_missing_key_hint, translate_sdk_errors
from legato.providers.formats.request_options import MemoryMode

DEFAULT_MODEL = "gpt-5.6-luna"
"""What the SDK (0.24) asks where a program names no model; `OPENAI_DEFAULT_MODEL` names another."""


@mirrors("ModelSettings")
@dataclass
class ModelSettings:
    """The options of model requests. `None` leaves an option to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    max_tokens: int | None = None
    reasoning: Any = None
    verbosity: Literal["low", "medium", "high"] | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: str | None = None
    include_usage: bool | None = None
    response_include: list[str] | None = None
    top_logprobs: int | None = None
    extra_query: Any = None
    extra_body: Any = None
    extra_headers: Any = None
    extra_args: dict[str, Any] | None = None
    retry: Any = None
    timeout: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        told = ("extra_headers", "extra_query", "response_include", "retry", "timeout", "include_usage")
        check_arguments("ModelSettings", {name: getattr(self, name) for name in told})

    def to_json_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def resolve(self, override: ModelSettings | dict[str, Any] | None) -> ModelSettings:
        """These settings with what another says instead."""
        if override is None:
            return self
        if isinstance(override, dict):
            return self.resolve(ModelSettings(**override))
        given = {each.name: getattr(override, each.name) for each in fields(override)}
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def options(self) -> dict[str, Any]:
        """The same as options of a Legato model."""
        reasoning = self.reasoning
        effort, summary = (
            (reasoning.get("effort"), reasoning.get("summary"))
            if isinstance(reasoning, dict)
            else (getattr(reasoning, "effort", None), getattr(reasoning, "summary", None))
        )
        extra = {
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "truncation": self.truncation,
            "metadata": self.metadata,
            "prompt_cache_retention": self.prompt_cache_retention,
            "top_logprobs": self.top_logprobs,
            **(self.extra_args or {}),
            **(self.extra_body or {}),
        }
        options = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "tool_choice": self.tool_choice,
            "parallel_calls": self.parallel_tool_calls,
            "verbosity": self.verbosity,
            "effort": effort,
            "reasoning_summary": summary,
            "extra": {name: value for name, value in extra.items() if value is not None},
        }
        return {name: value for name, value in options.items() if value is not None}


# -- clients -----------------------------------------------------------------------------------------------------------


@dataclass
class _Defaults:
    client: Any = None
    key: str | None = None
    api: Literal["responses", "chat_completions"] = "responses"


_defaults = _Defaults()


def _make(given: Mapping[str, Any], timeout: float) -> Any:
    try:
        return openai.AsyncOpenAI(max_retries=0, timeout=timeout, **given)
    except openai.OpenAIError as error:
        raise BadInput(f"OpenAI's client cannot be made: {error}", do=make_missing_key_hint("OPENAI_API_KEY")) from None


@cache
def _connections(key: str | None, *environment: str | None) -> LoopClients:
    """The connections to where the key and the environment lead."""
    return LoopClients(_make, {"api_key": key})


def _clients() -> LoopClients:
    return _connections(_defaults.key, *(os.environ.get(name) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL")))


def default_client() -> Any:
    """The client of agents that were given none, in the running event loop."""
    return _defaults.client if _defaults.client is not None else _clients()()


def set_default_openai_client(client: Any, use_for_tracing: bool = True) -> None:
    """The client of all agents that were given none. It stays yours to close."""
    _defaults.client = client


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:
    """The key of the client that is made where none was given."""
    _defaults.key, _defaults.client = key, None


def set_default_openai_api(api: Literal["chat_completions", "responses"]) -> None:
    """Choose the API for models that are given as names."""
    if api not in ("chat_completions", "responses"):
        raise UserError(f'set_default_openai_api takes "chat_completions" or "responses", not {api!r}')
    _defaults.api = api


def _client_or_default(client: Any) -> Any:
    return client if client is not None else _defaults.client


def _share_connections(model: OpenAIResponses | OpenAIChat) -> Model:
    """Use the default connections for a model without a client of its own. They open when first needed."""
    if model._clients._caller_client is None:
        model._clients = _clients()
    return model


# -- models ------------------------------------------------------------------------------------------------------------


@mirrors("OpenAIResponsesModel")
@dataclass
class OpenAIResponsesModel:
    """A model of the Responses API, with its client."""

    model: str
    openai_client: Any = field(default=None, repr=False)

    def native(self, settings: ModelSettings, conversation: str | None = None) -> Model:
        """As Legato knows it."""
        options = {"client": _client_or_default(self.openai_client), **settings.options()}
        if conversation is not None:
            return _share_connections(InConversation(self.model, conversation, **options))
        memory: MemoryMode = "inline" if settings.store is False else "chained"
        return _share_connections(OpenAIResponses(self.model, memory=memory, **options))


@mirrors("OpenAIChatCompletionsModel")
@dataclass
class OpenAIChatCompletionsModel:
    """A model of Chat Completions, OpenAI's or anybody's, with its client."""

    model: str
    openai_client: Any = field(default=None, repr=False)

    def native(self, settings: ModelSettings, conversation: str | None = None) -> Model:
        """As Legato knows it."""
        options = {"client": _client_or_default(self.openai_client), **settings.options()}
        if settings.store is not None:
            options["extra"] = {"store": settings.store, **options["extra"]}
        return _share_connections(OpenAIChat(self.model, **options))


class InConversation(OpenAIResponses):
    """A Responses model whose first request goes to a conversation that the program made. What follows is proved like any other."""

    def __init__(self, model: str, conversation: str, **options: Any) -> None:
        super().__init__(model, memory="conversation", **options)
        self._given = conversation

    async def _conversation_for(self, request: ModelRequest) -> str:
        """Return the given conversation while it is empty, else the one that is confirmed to hold this history."""
        if request.reply_count == 0 and self._given not in request.conversation_ends:
            page = await translate_sdk_errors(self._clients().conversations.items.list(self._given, limit=1), openai)
            if not page.data:
                return self._given
        return await super()._conversation_for(request)


class ToolOnce:
    """A model that is told to call a tool, and once it has, is left to choose: told again, it would never come to an end."""

    def __init__(self, told: Model, free: Model) -> None:
        self._told = told
        self._free = free
        self.name = told.name
        self.options_text = getattr(told, "options_text", "")

    async def conversation_for(self, request: ModelRequest) -> str:
        """As the model itself has it."""
        find = getattr(self._told, "conversation_for", None)
        conversation: str = await find(request) if find is not None else ""
        return conversation

    async def reply(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Reply by the one or the other."""
        last = request.groups[-1] if request.groups else None
        called = last is not None and last.agent == request.agent and bool(last.calls)
        return await (self._free if called else self._told).reply(request, emit)


def openai_model(model: Any) -> OpenAIResponsesModel | OpenAIChatCompletionsModel | None:
    """Return the program's model if it is one of OpenAI's."""
    if isinstance(model, (OpenAIResponsesModel, OpenAIChatCompletionsModel)):
        return model
    if model is None:
        model = os.environ.get("OPENAI_DEFAULT_MODEL", DEFAULT_MODEL)
    if not isinstance(model, str):
        return None
    name = model.removeprefix("openai/")
    if "/" in name:
        raise UserError(
            f"the model {model!r} needs a provider that is not here: pass a model of Legato's, for example model=Anthropic(...) or "
            "model=OpenAIChat(name, base_url=...), to the agent"
        )
    return OpenAIResponsesModel(name) if _defaults.api == "responses" else OpenAIChatCompletionsModel(name)


def model_for(model: Any, settings: ModelSettings, reset_tool_choice: bool, conversation: str | None) -> Model:
    """The Legato model of an agent."""
    asked = openai_model(model)
    if asked is None:
        if not implements_protocol(model, Model):
            raise UserError(f"{model!r} is no model: give a name, OpenAIResponsesModel(...), or any model of legato.models")
        if settings.options() != {"extra": {}}:
            raise UserError(f"{model!r} has options of its own: give them to it, and leave model_settings out")
        return model
    made = asked.native(settings, conversation)
    if settings.tool_choice in (None, "auto", "none") or not reset_tool_choice:
        return made
    return ToolOnce(made, asked.native(replace(settings, tool_choice=None), conversation))
