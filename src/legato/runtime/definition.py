"""The definition of a workflow with its models, tools and functions, and the way in which user code is called.

`WorkflowGraph` (core) is the part of a definition that the plan depends on. This module has the part that drivers call. A definition is
immutable, has no conversation, and is shared by all sessions.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from legato.core.argument_checks import implements_protocol
from legato.core.facts import Call, ReplyItem
from legato.core.groups import Group
from legato.core.handoff_arguments import IncomingHandoff
from legato.core.history_policies import Everything, HistoryPolicy
from legato.core.messages import Message
from legato.core.state import State
from legato.core.turn_context import TurnContext
from legato.core.view import ModelRequest
from legato.core.workflow_graph import WorkflowGraph
from legato.models.model import KeepsConversations, Model, ModelReply
from legato.tools import Tool, ToolCall

if TYPE_CHECKING:
    from legato.runtime.instrumentation import Instrumentation
    from legato.runtime.session import Session
    from legato.stores.contract import Store

T = TypeVar("T")
EncodedTurnContext: TypeAlias = tuple[str, TurnContext, bytes]
"""A turn context with its digest before it and its encoded bytes behind it."""


class Turn(Struct, frozen=True):
    """The situation in which a turn context is made, for context providers."""

    context: Any
    session_id: str
    agent: str
    messages: Sequence[Message]
    handoff: IncomingHandoff | None = None

    def __repr__(self) -> str:  # without the context, which may hold credentials
        fields = ("session_id", "agent", "messages", "handoff")
        return f"Turn({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


class Provided(Struct, frozen=True):
    """The contribution of a context provider to a turn context: instructions and messages, never history."""

    instructions: str = ""
    messages: tuple[str, ...] = ()


class ContextProvider(Protocol):
    """A function, sync or async, that contributes to the turn context each time control or a user's message comes to the agent."""

    def __call__(self, turn: Turn, /) -> str | Provided | Awaitable[str | Provided | None] | None: ...


class Middleware:
    """A wrapper around models and tools. Override what you need, and call `proceed` once, or not at all, or again.

    >>> class Timed(Middleware):
    ...     async def around_tool(self, call, proceed):
    ...         print("running", call.tool)
    ...         return await proceed()
    """

    async def around_model(self, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]) -> ModelReply:
        """Run in place of the model's `reply`, which `await proceed(request)` runs."""
        return await proceed(request)

    async def around_tool(self, call: ToolCall, proceed: Callable[[], Awaitable[object]]) -> object:
        """Run in place of the tool, which `await proceed()` runs."""
        return await proceed()


class Guardrail(Struct, frozen=True):
    """User code that checks a message ("input"), a reply ("output") or a call ("tool"). Made by `legato.guardrail`."""

    on: str
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    async def judge(self, context: Any, subject: Any) -> str | None:
        """Return the guardrail's objection to the message, reply or call; None if it has none."""
        verdict = await call_user_code(self.function, context, subject)
        if verdict is None or verdict is True:
            return None
        return verdict if isinstance(verdict, str) and verdict else f"refused by {self.name}"


class History(Struct, frozen=True):
    """A history policy, with the user's function that it may need. Made by `legato.history`."""

    policy: HistoryPolicy = Everything()
    choose: Callable[[list[Group]], Sequence[Group]] | None = None
    summarise: Callable[[str], Any] | None = None


class OutputType(Struct, frozen=True):
    """An output type: the schema for the model, and the function that parses and validates a reply."""

    schema: str
    parse: Callable[[str], Any]


class AgentDefinition(Struct, frozen=True, dict=True):
    """The definition of one agent, as the driver needs it."""

    name: str
    instructions: str | Callable[[Any], Any]
    model: Model
    tools: Mapping[str, Tool]
    history: History = History()
    output_type: OutputType | None = None
    context_providers: tuple[ContextProvider, ...] = ()
    middleware: tuple[Middleware, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    description: str = ""

    @cached_property
    def conversation_keeper(self) -> KeepsConversations | None:
        """The model, if its provider may store conversations. Cached, because the check of a protocol takes longer than a step."""
        return self.model if implements_protocol(self.model, KeepsConversations) else None

    def guardrails_on(self, on: str) -> list[Guardrail]:
        """Return the guardrails on "input", "output" or "tool"."""
        return [guardrail for guardrail in self.guardrails if guardrail.on == on]

    def is_withheld(self, items: Iterable[ReplyItem], needs_check: bool = False) -> bool:
        """Return True if the text of a reply is hidden until it was checked. Output types apply to replies without calls only.

        `needs_check`: its client's options ask for a format, or for a call.
        """
        has_calls = any(isinstance(item, Call) for item in items)
        return bool(self.guardrails_on("output")) or ((self.output_type is not None or needs_check) and not has_calls)


class HandoffDefinition(Struct, frozen=True):
    """The definition of one handoff: its schema as a tool, the parser of its input, and the history policy of the target."""

    schema: str
    parse_input: Callable[[str], Any] | None = None
    history: History | None = None


class WorkflowDefinition(Struct, frozen=True, dict=True):
    """The definition of a workflow: all that a driver needs to drive any of its sessions."""

    graph: WorkflowGraph
    agents: Mapping[str, AgentDefinition]
    edges: Mapping[tuple[str, str], HandoffDefinition]
    termination_condition: Callable[[list[Message]], Any] | None = None
    max_model_attempts: int = 4
    """The number of attempts at a model request before the session pauses as failed."""
    answer_from_state: Callable[[State], Any] | None = None
    """A function that returns the output of a run that ends at a reply with calls, for output guardrails. None: the text of that reply."""
    instrumentation: Instrumentation | None = None
    """The instrumentation that observes drivers. None costs nothing."""

    @cached_property
    def constant_contexts(self) -> dict[tuple[str, HistoryPolicy, str], EncodedTurnContext]:
        """A cache of the turn contexts that depend on this definition alone. A definition that `replace` makes has an empty one."""
        return {}


class WorkflowInterface(Protocol):
    """The part of a workflow that sessions need. `legato.Workflow` has it."""

    @property
    def name(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def agents(self) -> list[str]:
        """The names of its agents."""
        ...

    @property
    def definition(self) -> WorkflowDefinition:
        """The definition of the workflow."""
        ...

    def session(self, id: str | None = None, store: Store | None = None, context: Any = None) -> Session:
        """Return a handle on a session; see `Workflow.session`."""
        ...


async def call_user_code(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user, sync or async, and return its result."""

    async def call() -> Any:
        value = function(*arguments)
        return await value if inspect.isawaitable(value) else value

    return await contain_cancellation(call())


async def contain_cancellation(user_code: Awaitable[T]) -> T:
    """Await user code. If it raises `CancelledError` although this task was not cancelled, raise `RuntimeError` instead."""
    try:
        return await user_code
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it was cancelled from within: something that it awaited had been cancelled") from None
