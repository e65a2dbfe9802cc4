"""What a running tool may know of its call. May know: nothing else of Legato. Decides: what a `repr` gives away.

The caller's context may hold credentials and arguments may be `Secret`, so neither is ever part of a `repr`: that is what
ends up in logs and tracebacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from msgspec import Struct

from legato.core.facts import NO_USAGE, Usage

if TYPE_CHECKING:
    # With a default a plain `ToolContext` means "of whatever context". Only checkers need it, and they bring this module themselves.
    from typing_extensions import TypeVar as DefaultTypeVar

    C = DefaultTypeVar("C", default=Any)
else:
    C = TypeVar("C")
T = TypeVar("T")


class SecretMark:
    """What `Secret[...]` leaves in an annotation."""

    def __repr__(self) -> str:
        return "secret"


Secret = Annotated[T, SecretMark()]
"""Marks an argument that only the ledger and the model's requests may show; everywhere else its digest stands for it.

The function receives the plain value, and type checkers see the plain type.

>>> from legato.tools import tool
>>> @tool
... def log_in(user: str, password: Secret[str]) -> str:
...     return f"welcome {user}"
>>> sorted(log_in.secrets)
['password']
"""


class ChildPaused(BaseException):
    """Raised by a tool that works in a child session, when that cannot go on now: no outcome, and no error of the tool either.

    `session` is the child, `length` how much of it the tool has seen. It waits for people, or failed with `error`, or stopped before a
    model request of the size `needed`, for which a budget of its callers has no room, or waits until `retry_at`. A `BaseException`, so
    that code that catches a tool's errors does not catch it.
    """

    def __init__(self, session: str, length: int, error: str = "", needed: Usage = NO_USAGE, retry_at: int = 0) -> None:
        super().__init__(f"session {session!r} cannot go on now")
        self.session = session
        self.length = length
        self.error = error
        self.needed = needed
        self.retry_at = retry_at


class ChildMissing(BaseException):
    """Raised by a tool that worked in a child session before, and finds no such session: the task may have been done already."""


class CallerStopped(BaseException):
    """Raised by a tool that works in a conversation of its own, when that was stopped because its caller is being stopped.

    `holders`: how many facts the caller had then, and the caller's caller, and so on. A `BaseException`, as the others here.
    """

    def __init__(self, words: str, holders: tuple[int, ...]) -> None:
        super().__init__("the conversation that called it is being stopped")
        self.words = words
        self.holders = holders


class OutcomeUnknown(BaseException):
    """Raised by a tool that cannot know whether it did what it was called for: a connection broke after the order was sent.

    The session then says so and asks (rerun, supply the outcome, or fail it), as it does after a crash; an idempotent tool is started
    again. A `BaseException`, so that what catches a tool's errors does not take it for one.

    >>> from legato.tools import OutcomeUnknown, tool
    >>> @tool
    ... async def pay(cents: int) -> str:
    ...     raise OutcomeUnknown("the bank hung up before it answered")
    """


class ToolCall(Struct, frozen=True, eq=False):
    """The recorded call that is being run: its id in the session, the tool's name, and the arguments as they run."""

    id: str
    tool: str
    arguments: dict[str, object]

    def __repr__(self) -> str:
        return f"ToolCall(id={self.id!r}, tool={self.tool!r})"


class ToolContext(Struct, Generic[C], frozen=True, eq=False, kw_only=True):
    """What a parameter annotated `ToolContext` (or `ToolContext[MyContext]`) receives. The model never sees it.

    `idempotency_key` names the recorded call: it is the same for every attempt and in every fork, so passing it on to
    a service that knows such keys makes a repeated attempt harmless. `attempt` counts from 1.

    >>> from legato.tools import ToolCall, ToolContext, tool
    >>> @tool
    ... def whoami(ctx: ToolContext[dict[str, str]]) -> str:
    ...     return ctx.context["user"]
    >>> ctx = ToolContext(context={"user": "ada", "api_key": "hidden"}, call=ToolCall("3.0", "whoami", {}))
    >>> whoami(ctx)
    'ada'
    >>> ctx
    ToolContext(session_id='', agent='', call=ToolCall(id='3.0', tool='whoami'), idempotency_key='', attempt=1)
    """

    context: C
    session_id: str = ""
    agent: str = ""
    call: ToolCall
    idempotency_key: str = ""
    attempt: int = 1

    def __repr__(self) -> str:
        shown = ("session_id", "agent", "call", "idempotency_key", "attempt")
        return f"ToolContext({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
