"""Chat clients under the framework's names.

A client holds what is needed to make a model, and nothing of any conversation.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import GenericAlias, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.compat.gaps import explain
from legato.errors import BadInput
from legato.models import AzureOpenAIResponses, OpenAIChat, OpenAIResponses
from legato.models.model import Model

if TYPE_CHECKING:
    from legato.compat.agent_framework.agents import Agent

PROJECT_SCOPE = "https://ai.azure.com/.default"
"""What a token for a project's endpoint is asked for; an Azure OpenAI resource has another, which the model knows."""

_NAMES = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "allow_multiple_tool_calls": "parallel_calls",
    "parallel_tool_calls": "parallel_calls",
    "reasoning_effort": "effort",
}
_KNOWN = {"temperature", "top_p", "max_tokens", "effort", "parallel_calls", "service_tier", "verbosity", "stop", "seed", "hosted"}
_KEPT_HERE = {
    "store": "the ledger keeps the conversation, and the provider is asked to store nothing",
    "conversation_id": "the ledger keeps the conversation; memory='conversation' of a native model uses the provider's",
    "previous_response_id": "what to send follows from the ledger; memory='chained' of a native model names replies",
}


def model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """`default_options` as the options of a Legato model. What has no name there goes to the provider as it is."""
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        if name in _KEPT_HERE:
            explain(f"default_options[{name!r}]", _KEPT_HERE[name])
        elif name == "tool_choice":
            given["tool_choice"] = value if isinstance(value, str) else value.get("required_function_name") or value.get("mode")
        elif name == "reasoning" and isinstance(value, Mapping):
            given |= {{"effort": "effort", "summary": "reasoning_summary"}[part]: said for part, said in value.items()}
        elif _NAMES.get(name, name) in _KNOWN:
            given[_NAMES.get(name, name)] = tuple([value] if isinstance(value, str) else value) if name == "stop" else value
        else:
            extra[name] = value
    return {**given, **({"extra": extra} if extra else {})}


@mirrors("ChatClient")
class _ChatClient:
    """The common part of all clients: they make models, and agents that use them."""

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)  # `OpenAIChatClient[OpenAIChatOptions]`, as programs annotate it

    def __init__(
        self, model: str | None, variables: tuple[str, ...], make: Callable[..., Model], middleware: Sequence[Any] | None = None
    ) -> None:
        chosen = model or next((os.environ[name] for name in variables if os.environ.get(name)), "")
        if not chosen:
            raise BadInput(f"{type(self).__name__} needs the name of a model", do=f"pass it, or set {variables[0]}")
        self.model = chosen
        self.middleware = list(middleware or ())
        self._make = make

    @property
    def model_id(self) -> str:
        return self.model

    def native(self, options: Mapping[str, Any] | None = None) -> Model:
        """The Legato model that this client is, asked in this way."""
        options = dict(options or {})
        model = options.pop("model", None) or options.pop("model_id", None) or self.model
        return self._make(model, **model_options(options))

    def as_agent(self, *, name: str | None = None, instructions: str | None = None, **more: Any) -> Agent:
        """An agent that uses this client."""
        from legato.compat.agent_framework.agents import Agent

        return Agent(client=self, name=name, instructions=instructions, **more)

    create_agent = as_agent  # what it was called before

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}>"


class _RunsTools:
    """Tools that the provider runs by itself, as the provider writes them: give them to an agent among its tools."""

    @staticmethod
    def get_web_search_tool(
        *,
        user_location: Mapping[str, str] | None = None,
        search_context_size: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        near = {"type": "approximate", **user_location} if user_location else None
        return _tool("web_search", user_location=near, search_context_size=search_context_size, filters=filters)

    @staticmethod
    def get_code_interpreter_tool(*, file_ids: Sequence[str] | None = None, container: Any = "auto") -> dict[str, Any]:
        files = {"file_ids": list(file_ids)} if file_ids else {}
        return _tool("code_interpreter", container={"type": "auto", **files} if container == "auto" else container)

    @staticmethod
    def get_file_search_tool(*, vector_store_ids: Sequence[str], max_num_results: int | None = None) -> dict[str, Any]:
        return _tool("file_search", vector_store_ids=list(vector_store_ids), max_num_results=max_num_results)

    @staticmethod
    def get_image_generation_tool(**options: Any) -> dict[str, Any]:
        return _tool("image_generation", **options)


def _tool(type: str, **options: Any) -> dict[str, Any]:
    return {"type": type, **{name: value for name, value in options.items() if value is not None}}


class _OpenAIClient(_ChatClient):
    """A client of OpenAI, or of any server that speaks its API. What it speaks is the model that it makes."""

    _makes: ClassVar[type[OpenAIChat] | type[OpenAIResponses]]
    _variables: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        model: str | None = None,
        *,
        model_id: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        org_id: str | None = None,
        async_client: Any = None,
        middleware: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        _refuse_unknown(self, more)
        make = partial(self._makes, api_key=api_key, base_url=base_url, organization=org_id, client=async_client)
        super().__init__(model or model_id, self._variables, make, middleware)


class OpenAIChatClient(_OpenAIClient):
    """OpenAI's Chat Completions, or any server that speaks them."""

    _makes = OpenAIChat
    _variables = ("OPENAI_CHAT_MODEL", "OPENAI_CHAT_MODEL_ID", "OPENAI_MODEL")


class OpenAIChatCompletionClient(OpenAIChatClient):
    """The same: the name it has where `OpenAIChatClient` speaks the Responses API."""


class OpenAIResponsesClient(_RunsTools, _OpenAIClient):
    """OpenAI's Responses API, or any server that speaks it."""

    _makes = OpenAIResponses
    _variables = ("OPENAI_RESPONSES_MODEL", "OPENAI_RESPONSES_MODEL_ID", "OPENAI_MODEL")


class AzureOpenAIResponsesClient(_RunsTools, _ChatClient):
    """A deployment on Azure: of a project (`project_endpoint`), or of an Azure OpenAI resource (`endpoint`)."""

    def __init__(
        self,
        *,
        deployment_name: str | None = None,
        project_endpoint: str | None = None,
        endpoint: str | None = None,
        api_key: str | None = None,
        credential: Any = None,
        middleware: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        _refuse_unknown(self, more)
        if credential is not None and project_endpoint:
            credential = _TokenFor(credential, PROJECT_SCOPE)
        make = partial(AzureOpenAIResponses, endpoint=project_endpoint or endpoint, api_key=api_key, credential=credential)
        super().__init__(deployment_name, ("AZURE_OPENAI_RESPONSES_DEPLOYMENT_NAME",), make, middleware)


class _TokenFor:
    """A credential that is asked for one scope, whatever the model would ask for."""

    def __init__(self, credential: Any, scope: str) -> None:
        self._credential = credential
        self._scope = scope

    async def get_token(self, *_: str) -> Any:
        if not hasattr(self._credential, "get_token"):  # a function that gives tokens
            token = self._credential()
            return SimpleNamespace(token=await token if inspect.isawaitable(token) else token)
        found = self._credential.get_token(self._scope)
        return await found if inspect.isawaitable(found) else found


_SETTINGS = ("env_file_path", "env_file_encoding", "api_version", "default_headers", "instruction_role")


def _refuse_unknown(client: _ChatClient, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _SETTINGS:
            raise BadInput(f"{type(client).__name__} takes no {name!r} here", do="make a native model and give it to Agent(client=model)")
        if value is not None:
            explain(f"{type(client).__name__}({name}=...)", "the provider's own SDK is used as it comes, and reads the environment")
