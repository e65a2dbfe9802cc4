"""A workflow's definition with its functions. May know: user code. Decides: how user code is called.

`Graph` (core) is the part of the definition that decides what is owed; this is the part that is called when something is owed.
Immutable, shared by all sessions, and holds no conversation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from legato.core.argument_checks import provides
from legato.core.facts import Call, Item
from legato.core.groups import Group
from legato.core.handoff_arguments import Arrival
from legato.core.history_policies import Everything, HistorySpec
from legato.core.messages import Message
from legato.core.state import State
from legato.core.turn_context import Frame
from legato.core.view import Request
from legato.core.workflow_graph import Graph
from legato.models.base import KeepsConversations, Model, Reply
from legato.tools import Tool, ToolCall

if TYPE_CHECKING:
    from legato.runtime.instrumentation import Observer
    from legato.runtime.session import Session
    from legato.stores.contract import Store

T = TypeVar("T")
EncodedFrame: TypeAlias = tuple[str, Frame, bytes]
"""A frame's digest, itself, its bytes."""


class Turn(Struct, frozen=True):
    """What surrounds a frame being made: given to context providers."""

    context: Any
    session_id: str
    agent: str
    messages: Sequence[Message]
    handoff: Arrival | None = None

    def __repr__(self) -> str:  # without the context, which may hold credentials
        shown = ("session_id", "agent", "messages", "handoff")
        return f"Turn({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class Provided(Struct, frozen=True):
    """What a context provider contributes to a frame: instructions and messages, never history."""

    instructions: str = ""
    messages: tuple[str, ...] = ()


class ContextProvider(Protocol):
    """Contributes to the frame each time control or a user's message arrives. May be async, may be a plain function."""

    def __call__(self, turn: Turn, /) -> str | Provided | Awaitable[str | Provided | None] | None: ...


class Middleware:
    """Wraps models and tools. Override what you need; call `proceed` once (or not at all, or again).

    >>> class Timed(Middleware):
    ...     async def around_tool(self, call, proceed):
    ...         print("running", call.tool)
    ...         return await proceed()
    """

    async def around_model(self, request: Request, proceed: Callable[[Request], Awaitable[Reply]]) -> Reply:
        """Called in place of the model; `await proceed(request)` calls it."""
        return await proceed(request)

    async def around_tool(self, call: ToolCall, proceed: Callable[[], Awaitable[object]]) -> object:
        """Called in place of the tool; `await proceed()` runs it."""
        return await proceed()


class Guardrail(Struct, frozen=True):
    """User code that judges a message ("input"), a reply ("output") or a call ("tool"). Made by `legato.guardrail`."""

    on: str
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    async def judge(self, context: Any, what: Any) -> str | None:
        """The words of its objection, or None."""
        verdict = await called(self.function, context, what)
        if verdict is None or verdict is True:
            return None
        return verdict if isinstance(verdict, str) and verdict else f"refused by {self.name}"


class History(Struct, frozen=True):
    """A history policy: its data, and the user's function where it has one. Made by `legato.history`."""

    spec: HistorySpec = Everything()
    choose: Callable[[list[Group]], Sequence[Group]] | None = None
    summarise: Callable[[str], Any] | None = None


class OutputType(Struct, frozen=True):
    """A typed output: its schema for the model and its check for the reply."""

    schema: str
    parse: Callable[[str], Any]


class AgentDefinition(Struct, frozen=True, dict=True):
    """One agent, as the driver needs it."""

    name: str
    instructions: str | Callable[[Any], Any]
    model: Model
    tools: Mapping[str, Tool]
    history: History = History()
    output: OutputType | None = None
    providers: tuple[ContextProvider, ...] = ()
    middleware: tuple[Middleware, ...] = ()
    guardrails: tuple[Guardrail, ...] = ()
    description: str = ""

    @cached_property
    def keeper(self) -> KeepsConversations | None:
        """The model, if its provider may keep conversations. Asked once: looking at a protocol costs more than a step does."""
        return self.model if provides(self.model, KeepsConversations) else None

    def guards(self, on: str) -> list[Guardrail]:
        return [guardrail for guardrail in self.guardrails if guardrail.on == on]

    def withholds(self, items: Iterable[Item], asked: bool = False) -> bool:
        """Tell whether nobody is to see the words of this reply before they are judged. An output type is for replies without calls only.

        `asked`: its client asked for a format, or for calls.
        """
        calls = any(isinstance(item, Call) for item in items)
        return bool(self.guards("output")) or ((self.output is not None or asked) and not calls)


class EdgeDefinition(Struct, frozen=True):
    """A handoff's own parts: its schema as a tool, the type of its input, and the target's history policy."""

    schema: str
    parse_input: Callable[[str], Any] | None = None
    history: History | None = None


class Definition(Struct, frozen=True, dict=True):
    """Everything a driver needs to drive any session of a workflow."""

    graph: Graph
    agents: Mapping[str, AgentDefinition]
    edges: Mapping[tuple[str, str], EdgeDefinition]
    termination: Callable[[list[Message]], Any] | None = None
    attempts: int = 4
    """How often a model is called before the session pauses as failed."""
    answer_of: Callable[[State], Any] | None = None
    """What a run answers that ends at a reply with calls, for the output guardrails; None: the words of that reply."""
    observer: Observer | None = None
    """Who measures what drivers do; None: nobody, and it costs nothing."""

    @cached_property
    def constant_frames(self) -> dict[tuple[str, HistorySpec, str], EncodedFrame]:
        """Frames that nothing but this definition decides, made once: a cache. One that is made from it (`replace`) begins with none."""
        return {}


class WorkflowInterface(Protocol):
    """What a session needs of its workflow. `legato.Workflow` has it."""

    @property
    def name(self) -> str:
        """The workflow's name."""
        ...

    @property
    def agents(self) -> list[str]:
        """The names of its agents."""
        ...

    @property
    def definition(self) -> Definition:
        """Its definition."""
        ...

    def session(self, id: str | None = None, store: Store | None = None, context: Any = None) -> Session:
        """A handle on a session, as for `Workflow.session`."""
        ...


async def called(function: Callable[..., Any], *given: Any) -> Any:
    """Call user code, sync or async."""

    async def call() -> Any:
        value = function(*given)
        return await value if inspect.isawaitable(value) else value

    return await unless_cancelled(call())


async def unless_cancelled(doing: Awaitable[T]) -> T:
    """Await user code. If it says it was cancelled and nobody cancelled us, that is its failure and not our end."""
    try:
        return await doing
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it was cancelled from within: something that it awaited had been cancelled") from None
