"""The contexts that the framework's middleware and tools are called with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from legato.compat.agent_framework.messages import AgentResponse, ChatResponse, Message
from legato.compat.agent_framework.providers import AgentSession
from legato.compat.agent_framework.unsupported_errors import mirrors


@mirrors("FunctionInvocationContext")
class FunctionInvocationContext:
    """A call that is about to run. A tool that asks for it gets `kwargs`, what the run was given as `function_invocation_kwargs`;
    middleware gets `function`, the tool, and may set `result`."""

    def __init__(
        self,
        function: Any = None,
        arguments: Mapping[str, Any] | None = None,
        session: AgentSession | None = None,
        metadata: Mapping[str, Any] | None = None,
        result: Any = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.arguments = arguments if arguments is not None else {}
        self.metadata = dict(metadata or {})
        self.result = result
        self._session = session
        self._kwargs = kwargs

    @property
    def kwargs(self) -> Mapping[str, Any]:
        if self._kwargs is None:
            raise AttributeError(
                "middleware does not know what a run was given as function_invocation_kwargs: "
                "let the tool look, by a parameter annotated FunctionInvocationContext"
            )
        return self._kwargs

    @property
    def session(self) -> AgentSession:
        if self._session is None:
            raise AttributeError(
                "middleware does not know the conversation of a call: let the tool look, by a parameter annotated FunctionInvocationContext"
            )
        return self._session

    def __repr__(self) -> str:
        return f"<FunctionInvocationContext {getattr(self.function, 'name', '')}>"  # what tools are given may be secret


@mirrors("ChatContext")
@dataclass
class ChatContext:
    """A request to a model. `messages` and `options` can be looked at; `result` is the reply, and may be set."""

    client: Any
    messages: list[Message]
    options: dict[str, Any]
    session: AgentSession | None = None
    stream: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    result: ChatResponse | None = None

    @property
    def chat_client(self) -> Any:
        """The earlier name of `client`."""
        return self.client


@mirrors("AgentContext")
@dataclass
class AgentContext:
    """A run of an agent. `messages` are what is about to be said, and may be changed; `result` is the answer, and may be set."""

    agent: Any
    messages: list[Message]
    session: AgentSession | None = None
    stream: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    result: AgentResponse | Any = None
    function_invocation_kwargs: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_streaming(self) -> bool:
        """The earlier name of `stream`."""
        return self.stream

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return self.function_invocation_kwargs
