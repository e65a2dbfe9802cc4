"""Context providers under the framework's names.

A provider contributes instructions and messages to an agent's turn context. The ledger owns the history: a history provider is accepted
and never called; one with methods of its own is refused, because they would not be called.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from legato.compat.agent_framework.message_conversion import convert_message
from legato.compat.agent_framework.messages import AgentResponse, Message
from legato.compat.agent_framework.unsupported_errors import mirrors
from legato.compat.gaps import explain
from legato.core.facts import Call, OutputText, Refusal
from legato.core.messages import Message as NativeMessage
from legato.core.view import ModelRequest
from legato.core.workflow_graph import HANDOFF_PREFIX
from legato.errors import BuildError
from legato.models.model import ModelReply
from legato.runtime.clock import new_id
from legato.runtime.definition import Middleware, Provided, Turn

OWNS_NO_HISTORY = "the ledger owns the history, each message once, and gives it to every agent; remove it from context_providers"


class AgentSession:
    """The name of a conversation. What was said in it is in the agent's store."""

    def __init__(self, *, session_id: str | None = None, service_session_id: str | None = None) -> None:
        if service_session_id:
            explain("service_session_id", "the ledger keeps the conversation, not the provider")
        self.session_id = session_id or new_id()

    @property
    def service_session_id(self) -> None:
        """Nothing: no provider keeps the conversation."""

    @property
    def state(self) -> dict[str, Any]:
        """Empty: nothing is kept beside the ledger."""
        return _NotKept()

    def to_dict(self) -> dict[str, Any]:
        return {"type": "session", "session_id": self.session_id}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentSession:
        return cls(session_id=data["session_id"])


@mirrors("SessionContext")
class SessionContext:
    """The object that a provider adds instructions and messages to before a turn."""

    def __init__(self, *, session_id: str | None = None, input_messages: list[Message] | None = None, **_: Any) -> None:
        self.session_id = session_id
        self.input_messages = input_messages or []
        self.instructions: list[str] = []
        self.context_messages: dict[str, list[Message]] = {}
        self.response: AgentResponse | None = None

    def extend_instructions(self, source_id: str, instructions: str | Sequence[str]) -> None:
        self.instructions += [instructions] if isinstance(instructions, str) else instructions

    def extend_messages(self, source: str | object, messages: Sequence[Message], **_: Any) -> None:
        name = source if isinstance(source, str) else str(getattr(source, "source_id", type(source).__name__))
        self.context_messages.setdefault(name, []).extend(messages)

    def extend_tools(self, source_id: str, tools: Sequence[Any]) -> None:
        explain("SessionContext.extend_tools", "tools belong to an agent, so that the ledger can say who could do what; give them to Agent")

    def get_messages(self, *, include_input: bool = False, **_: Any) -> list[Message]:
        added = [message for messages in self.context_messages.values() for message in messages]
        return added + (self.input_messages if include_input else [])


@mirrors("ContextProvider")
class ContextProvider:
    """Contributes to an agent's turn: override `before_run`, and `after_run` to look at what was answered.

    `before_run` is called when control or a user's message arrives, and what it adds holds for the whole tool loop.
    """

    def __init__(self, source_id: str) -> None:
        self.source_id = source_id

    async def before_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        """Add instructions or messages to `context`."""

    async def after_run(self, *, agent: Any, session: Any, context: SessionContext, state: dict[str, Any]) -> None:
        """Look at `context.response`."""


@mirrors("HistoryProvider")
class HistoryProvider(ContextProvider):
    """Accepted, and not asked: the ledger owns the history."""

    def __init__(self, source_id: str = "history", **_: Any) -> None:
        super().__init__(source_id)


class InMemoryHistoryProvider(HistoryProvider):
    """Accepted, and not asked."""


class FileHistoryProvider(HistoryProvider):
    """Accepted, and not asked."""


class _NotKept(dict[str, Any]):
    """The `state` of a provider: what is put there is gone with the turn, and that is told."""

    def __setitem__(self, key: str, value: Any) -> None:
        explain("a context provider's state", "nothing is kept beside the ledger; keep it in a place of your own, by session.session_id")
        super().__setitem__(key, value)


def contributes(agent: Any, providers: Sequence[ContextProvider]) -> list[Callable[[Turn], Awaitable[Provided]]]:
    """Each provider as Legato calls it."""
    return [_contributor(agent, each) for each in providers if not isinstance(each, HistoryProvider)]


def _contributor(agent: Any, provider: ContextProvider) -> Callable[[Turn], Awaitable[Provided]]:
    async def provide(turn: Turn) -> Provided:
        context = _context(turn.session_id, turn.messages)
        await provider.before_run(agent=agent, session=AgentSession(session_id=turn.session_id), context=context, state=_NotKept())
        return Provided("\n".join(context.instructions), tuple(message.text for message in context.get_messages()))

    return provide


def _context(session_id: str, messages: Sequence[NativeMessage]) -> SessionContext:
    """A context whose input is what the user said last; what came before is the ledger's."""
    users = [message for message in messages if message.role == "user" and not message.synthetic]
    return SessionContext(session_id=session_id, input_messages=[convert_message(message) for message in users[-1:]])


class AfterRun(Middleware):
    """Shows providers what their agent answered: once its turn is over, not in the middle of a tool loop."""

    def __init__(self, agent: Any, providers: Sequence[ContextProvider]) -> None:
        self._agent = agent
        self._providers = [each for each in providers if type(each).after_run is not ContextProvider.after_run]

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        reply = await proceed(request)
        calls = [item.tool for item in reply.items if isinstance(item, Call)]
        if not calls or any(tool.startswith(HANDOFF_PREFIX) for tool in calls):
            text = "\n".join(item.text for item in reply.items if isinstance(item, (OutputText, Refusal)))
            for provider in self._providers:
                context = _context(request.session_id, request.messages)
                context.response = AgentResponse(messages=[Message("assistant", [text], author_name=request.agent)] if text else [])
                session = AgentSession(session_id=request.session_id)
                await provider.after_run(agent=self._agent, session=session, context=context, state=_NotKept())
        return reply


def after_run(agent: Any, providers: Sequence[ContextProvider]) -> list[Middleware]:
    """The middleware that calls `after_run`, where a provider has one."""
    asked = [each for each in providers if not isinstance(each, HistoryProvider)]
    return [AfterRun(agent, asked)] if any(type(each).after_run is not ContextProvider.after_run for each in asked) else []


def warn_about_history_providers(providers: Sequence[ContextProvider]) -> None:
    """Warn that history providers own no history here. `BuildError` for one with methods of its own: they would never be called."""
    for each in providers:
        name, known = type(each).__name__, isinstance(each, HistoryProvider)
        ignored = [method for method in (_OF_HISTORY if known else _BEFORE_1_0) if _has_its_own(each, method)]
        if ignored and known:
            raise BuildError(f"{name} has its own {' and '.join(ignored)}, which would not be called: {OWNS_NO_HISTORY}", do=_INSTEAD)
        if ignored:
            raise BuildError(f"{name} has {' and '.join(ignored)}, which would not be called", do="write before_run and after_run")
        if known:
            explain(name, OWNS_NO_HISTORY)


_OF_HISTORY = ("get_messages", "save_messages", "before_run", "after_run")
_BEFORE_1_0 = ("invoking", "invoked", "thread_created")
_INSTEAD = (
    "to keep something out of the history, change it before agent.run (agent middleware), and what tools return before they return it; to "
    "choose what an agent sees, give a native agent a policy of legato.history; to erase what was said, use session.redact(...)"
)


def _has_its_own(provider: ContextProvider, method: str) -> bool:
    missing = object()
    theirs = inspect.getattr_static(HistoryProvider, method, missing)
    return inspect.getattr_static(provider, method, missing) is not theirs
